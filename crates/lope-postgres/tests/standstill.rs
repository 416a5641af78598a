//! Runners that stand still, and transactions that meet: what one of two connections sees of the
//! other.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use fixture::commands::{admission, born, claim, deploy, hold, register, run_id};
use fixture::proxy::Proxy;
use fixture::{Schema, connect, server, until};
use lope_model::{RunId, RunnerId};
use lope_postgres::{PostgresOptions, PostgresStore};
use lope_store::Store;
use lope_store::runs::{Claim, CommitReply, Deliver, FinalStatus, Finish, Reach, RunCommit, Then};
use tokio_postgres::Client;

async fn owned(store: &Store, runner: RunnerId) -> usize {
    store.runs.owned(runner, None, 10).await.unwrap().len()
}

/// "A frozen runner behind a pooler (stopped between two flights of one transaction) blocks claims of
/// every queue": a bounded claim is one flight, so that a runner that hears no answer has no
/// transaction open.
#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_stands_still_in_a_bounded_claim_holds_up_nobody() {
    let Some(url) = server() else { return };
    let schema = Schema::new(&url);
    let sound = schema.open().await;
    deploy(&sound).await;
    let admits = (0..6).map(|_| admission(run_id())).collect();
    sound.runs.admit(admits).await.unwrap();
    let proxy = Proxy::start(&url);
    let stopped = PostgresOptions::new(&proxy.url(&url))
        .unwrap()
        .in_schema(&schema.name)
        .unwrap();
    let stopped = PostgresStore::open(stopped).await.unwrap();
    let (frozen, other) = (
        register(&stopped).await.unwrap(),
        register(&sound).await.unwrap(),
    );
    let bounded = |runner| Claim {
        limit: 1,
        most: Some(4),
        ..claim(runner)
    };
    let first = stopped.runs.claim(bounded(frozen)).await.unwrap().unwrap();
    assert_eq!(first.runs.len(), 1);
    proxy.deafen();
    let unheard = tokio::spawn(async move { stopped.runs.claim(bounded(frozen)).await });
    until("the server has carried the claim out", async || {
        owned(&sound, frozen).await == 2
    })
    .await;
    for _ in 0..4 {
        sound.runs.claim(bounded(other)).await.unwrap().unwrap();
    }
    assert_eq!(
        owned(&sound, other).await,
        2,
        "four at most, two are another's"
    );
    unheard.abort();
}

async fn waiting_mail(by_hand: &Client, schema: &str, run: RunId) -> i64 {
    let text = format!("select count(*) from {schema}.mail where run_id = '{run}' and taken = 0");
    by_hand.query_one(&text, &[]).await.unwrap().get(0)
}

/// "A finish that races a delivery leaves mail counted wrongly": the finish has looked at the
/// mail when the delivery, which has the row, is committed.
#[tokio::test(flavor = "multi_thread")]
async fn mail_that_arrives_while_a_finish_waits_is_dropped_with_the_rest() {
    let Some(url) = server() else { return };
    let schema = Schema::new(&url);
    let store = schema.open().await;
    deploy(&store).await;
    let owner = register(&store).await.unwrap();
    let run = born(&store, owner).await.unwrap();
    let (sender, watcher) = (connect(&url).await, connect(&url).await);
    let name = &schema.name;
    let deliver = format!(
        "begin; update {name}.queue set mail = mail + 1 where run_id = '{run}'; \
         insert into {name}.mail (run_id, number, at, taken, id, kind, body) \
         values ('{run}', 1, 0, 0, 'late', 'signal', 'late')"
    );
    sender.batch_execute(&deliver).await.unwrap();
    let finish = Finish {
        status: FinalStatus::Failed,
        result: None,
        error: None,
        seen: None,
    };
    let commit = RunCommit {
        then: Then::Finish(finish),
        ..hold(run, owner, 2)
    };
    let finishing = {
        let store = store.clone();
        tokio::spawn(async move { store.runs.commit(vec![commit]).await })
    };
    until("the finish waits for the row", async || {
        let waits = format!(
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%{name}.queue%'"
        );
        watcher.query_one(&waits, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    sender.batch_execute("commit").await.unwrap();
    let replies = finishing.await.unwrap().unwrap();
    assert!(
        matches!(replies[..], [CommitReply::Done { mail: 1, .. }]),
        "{replies:?}"
    );
    assert_eq!(waiting_mail(&watcher, name, run).await, 0);
    let retry = Deliver {
        run,
        id: "retry".to_owned(),
        kind: "retry".to_owned(),
        body: Vec::new(),
        reach: Reach::Reopen,
        reserved: true,
    };
    store.runs.deliver(vec![retry]).await.unwrap();
    assert_eq!(waiting_mail(&watcher, name, run).await, 1);
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
}

fn signal(run: RunId, id: &str) -> Deliver {
    Deliver {
        run,
        id: id.to_owned(),
        kind: "signal".to_owned(),
        body: Vec::new(),
        reach: Reach::Live,
        reserved: false,
    }
}

/// "A frozen runner behind a pooler (stopped between two flights of one transaction)": the server ends its
/// transaction by itself, so that what it had begun to write is free again, and nothing of it was written.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_runner_holds_that_stands_still_between_two_flights_is_free_again() {
    let Some(url) = server() else { return };
    let schema = Schema::new(&url);
    let sound = schema.open().await;
    deploy(&sound).await;
    let proxy = Proxy::start(&url);
    let frozen = proxy.url(&url);
    let mark = if frozen.contains('?') { '&' } else { '?' };
    let frozen = PostgresOptions::new(&format!("{frozen}{mark}pooler=transaction")).unwrap();
    let frozen = PostgresStore::open(frozen.in_schema(&schema.name).unwrap()).await;
    let frozen = frozen.unwrap();
    let owner = register(&frozen).await.unwrap();
    let run = born(&frozen, owner).await.unwrap();
    let other = born(&frozen, owner).await.unwrap();
    let by_hand = connect(&url).await;
    let open = format!(
        "select count(*) from pg_stat_activity where state = 'idle in transaction' and query like '%{}.%'",
        schema.name
    );
    proxy.deafen();
    let commit = RunCommit {
        deliveries: vec![signal(other, "unheard")],
        ..hold(run, owner, 2)
    };
    let unheard = tokio::spawn(async move { frozen.runs.commit(vec![commit]).await });
    until("its transaction is open", async || {
        by_hand
            .query_one(&open, &[])
            .await
            .unwrap()
            .get::<_, i64>(0)
            == 1
    })
    .await;
    let kept = hold(run, owner, 2);
    let replies = sound.runs.commit(vec![kept]).await.unwrap();
    assert!(
        matches!(replies[..], [CommitReply::Done { .. }]),
        "what it had begun is undone, and the head is as it was: {replies:?}"
    );
    sound
        .runs
        .deliver(vec![signal(other, "heard")])
        .await
        .unwrap();
    assert_eq!(waiting_mail(&by_hand, &schema.name, other).await, 1);
    assert_eq!(
        by_hand
            .query_one(&open, &[])
            .await
            .unwrap()
            .get::<_, i64>(0),
        0
    );
    unheard.abort();
}

/// "Bound it in the transaction": a runner that stands still between two flights of a commit holds its
/// rows for ten seconds and no longer, also behind a pooler, where nothing of a connection outlives a
/// transaction. What the server goes by is written down by the transaction itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_two_flights_is_bounded_behind_a_pooler_too() {
    let Some(url) = server() else { return };
    let mark = if url.contains('?') { '&' } else { '?' };
    for pooler in ["none", "transaction"] {
        let schema = Schema::new(&url);
        let name = &schema.name;
        let options = PostgresOptions::new(&format!("{url}{mark}pooler={pooler}")).unwrap();
        let store = PostgresStore::open(options.in_schema(name).unwrap())
            .await
            .unwrap();
        deploy(&store).await;
        let owner = register(&store).await.unwrap();
        let [run, other] = [
            born(&store, owner).await.unwrap(),
            born(&store, owner).await.unwrap(),
        ];
        let by_hand = connect(&url).await;
        let noted = format!(
            "create table {name}.noted (bound text);
             create function {name}.note() returns trigger language plpgsql as $$ begin
                 insert into {name}.noted values (current_setting('idle_in_transaction_session_timeout'));
                 return new; end $$;
             create trigger note before insert on {name}.mail for each row execute function {name}.note()"
        );
        by_hand.batch_execute(&noted).await.unwrap();
        let commit = RunCommit {
            deliveries: vec![signal(other, "signal")],
            ..hold(run, owner, 2)
        };
        let replies = store.runs.commit(vec![commit]).await.unwrap();
        assert!(
            matches!(replies[..], [CommitReply::Done { .. }]),
            "{replies:?}"
        );
        let noted = format!("select bound from {name}.noted");
        let rows = by_hand.query(&noted, &[]).await.unwrap();
        let bounds: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(bounds, ["10s"], "pooler={pooler}");
        store.upkeep.close().await.unwrap();
    }
}
