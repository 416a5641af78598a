//! What goes wrong with a server, each as an error of its kind; what was acknowledged stays, and
//! the process goes on where it can.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::time::Duration;

use fixture::commands::{admission, born, claim, deploy, hold, register, run_id, steady};
use fixture::pooler::TransactionPooler;
use fixture::{Schema, connect, database, server};
use lope_model::Timestamp;
use lope_postgres::{PostgresOptions, PostgresStore, SCHEMA_VERSION, migrate, schema_version};
use lope_store::runs::{CommitReply, Prune};
use lope_store::{Store, StoreError};

async fn open(options: PostgresOptions) -> Result<Store, StoreError> {
    PostgresStore::open(options).await
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    if server().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().to_str().unwrap().replace('/', "%2F");
    for url in [
        format!("postgres://me:secret@{host}/x"),
        "postgres://me:secret@127.0.0.1:1/x".to_owned(),
    ] {
        let error = open(PostgresOptions::new(&url).unwrap()).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Unavailable { .. }) && error.is_passing(),
            "{error:?}"
        );
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_missing_and_is_not_made() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let existing = PostgresOptions::existing(&url)
        .unwrap()
        .in_schema(&place.name)
        .unwrap();
    assert!(matches!(
        open(existing.clone()).await,
        Err(StoreError::Missing { .. })
    ));
    assert!(matches!(
        schema_version(&existing).await,
        Err(StoreError::Missing { .. })
    ));
    assert!(matches!(
        migrate(&existing).await,
        Err(StoreError::Missing { .. })
    ));
    let (there, _) = url.rsplit_once('/').unwrap();
    let nowhere = PostgresOptions::new(&format!("{there}/no_such_database")).unwrap();
    assert!(matches!(
        open(nowhere).await,
        Err(StoreError::Unavailable { .. })
    ));
    place.open().await;
    assert_eq!(schema_version(&existing).await.unwrap(), SCHEMA_VERSION);
    open(existing).await.unwrap();
}

#[tokio::test]
async fn tables_of_another_program_are_left_alone() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let by_hand = format!(
        "create schema {0}; create table {0}.theirs (x int)",
        place.name
    );
    connect(&url).await.batch_execute(&by_hand).await.unwrap();
    assert!(matches!(
        open(place.options()).await,
        Err(StoreError::Refused { .. })
    ));
    connect(&url)
        .await
        .batch_execute(&format!("drop table {0}.theirs", place.name))
        .await
        .unwrap();
    place.open().await;
}

#[tokio::test]
async fn another_version_is_refused_with_the_command_that_mends_it() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    let by_hand = connect(&url).await;
    let set = async |number: i64| {
        let text = format!(
            "update {}.meta set value = '{number}' where key = 'schema_version'",
            place.name
        );
        by_hand.batch_execute(&text).await.unwrap();
    };
    for (found, word) in [
        (SCHEMA_VERSION + 1, "newer"),
        (SCHEMA_VERSION - 1, "lope store migrate"),
    ] {
        set(found).await;
        match open(place.options()).await {
            Err(StoreError::Version {
                found: told,
                needed,
                hint,
            }) => {
                assert_eq!((told, needed), (found, SCHEMA_VERSION));
                assert!(hint.contains(word), "{hint}");
            }
            other => panic!("{other:?}"),
        }
    }
    set(SCHEMA_VERSION + 1).await;
    assert!(matches!(
        migrate(&place.options()).await,
        Err(StoreError::Version { .. })
    ));
    set(0).await;
    register(&store).await.unwrap();
    let refused = migrate(&place.options()).await;
    assert!(
        matches!(&refused, Err(StoreError::Refused { message }) if message.contains("runners")),
        "{refused:?}"
    );
    set(SCHEMA_VERSION).await;
    let migrated = migrate(&place.options()).await.unwrap();
    assert_eq!(
        (migrated.from, migrated.to),
        (SCHEMA_VERSION, SCHEMA_VERSION)
    );
}

#[tokio::test]
async fn a_store_that_may_not_be_written_is_read_only() {
    let Some(url) = server() else { return };
    let url = database(&url).await;
    let writer = open(PostgresOptions::new(&url).unwrap()).await.unwrap();
    deploy(&writer).await;
    let run = run_id();
    writer.runs.admit(vec![admission(run)]).await.unwrap();
    let looking = open(PostgresOptions::read_only(&url).unwrap())
        .await
        .unwrap();
    assert_eq!(looking.runs.run(run).await.unwrap().unwrap().head, 1);
    assert_read_only(&looking).await;

    let name = url.rsplit_once('/').unwrap().1;
    let text = format!("alter database {name} set default_transaction_read_only = on");
    connect(&url).await.batch_execute(&text).await.unwrap();
    let barred = open(PostgresOptions::new(&url).unwrap()).await.unwrap();
    assert_eq!(barred.runs.run(run).await.unwrap().unwrap().head, 1);
    assert_read_only(&barred).await;
}

async fn assert_read_only(store: &Store) {
    let answers = [
        store.runs.admit(vec![admission(run_id())]).await.map(drop),
        register(store).await.map(drop),
        store.runs.prune(everything()).await.map(drop),
        store.tables.commit(vec![fixture_batch()]).await.map(drop),
    ];
    for answer in answers {
        assert!(
            matches!(answer, Err(StoreError::ReadOnly { .. })),
            "{answer:?}"
        );
    }
}

fn everything() -> Prune {
    Prune {
        before: Timestamp::NEVER,
        statuses: vec![],
        workflow: None,
        limit: 1,
    }
}

fn fixture_batch() -> lope_store::tables::Batch {
    use lope_store::tables::{At, Batch, TableId, Write};
    Batch {
        guards: vec![],
        writes: vec![Write::Put(At::new(TableId::INBOX, *b"k"), vec![1])],
    }
}

#[tokio::test]
async fn a_login_without_rights_is_read_only_or_refused() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    place.open().await;
    let role = fixture::unique("guest");
    let by_hand = connect(&url).await;
    by_hand
        .batch_execute(&format!(
            "create role {role} login; grant usage on schema {} to {role}",
            place.name
        ))
        .await
        .unwrap();
    by_hand
        .batch_execute(&format!(
            "grant select on all tables in schema {} to {role}",
            place.name
        ))
        .await
        .unwrap();
    let (_, rest) = url.split_once('@').unwrap();
    let guest = PostgresOptions::new(&format!("postgres://{role}@{rest}"))
        .unwrap()
        .in_schema(&place.name)
        .unwrap();
    let store = open(guest).await.unwrap();
    assert!(store.runs.counts().await.unwrap().queues.is_empty());
    assert!(matches!(
        register(&store).await,
        Err(StoreError::ReadOnly { .. })
    ));
    let mut stranger = PostgresOptions::new(&format!("postgres://no_such_role@{rest}")).unwrap();
    stranger.connect_timeout = Duration::from_secs(2);
    assert!(matches!(
        open(stranger).await,
        Err(StoreError::Refused { .. })
    ));
}

/// Somebody holds a lock for longer than a statement may take: the caller is told, nothing is
/// written, and work goes on.
#[tokio::test]
async fn a_statement_that_takes_too_long_is_unavailable() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let mut options = place.options();
    options.statement_timeout = Duration::from_millis(200);
    let store = open(options).await.unwrap();
    deploy(&store).await;
    let owner = register(&store).await.unwrap();
    let run = born(&store, owner).await.unwrap();
    let mut locker = connect(&url).await;
    let lock = locker.transaction().await.unwrap();
    lock.batch_execute(&format!(
        "lock table {0}.queue, {0}.table_rows in access exclusive mode",
        place.name
    ))
    .await
    .unwrap();
    let commit = store.runs.commit(vec![hold(run, owner, 2)]).await;
    assert!(
        matches!(commit, Err(StoreError::Unavailable { .. })),
        "{commit:?}"
    );
    let read = store.runs.run(run).await;
    assert!(
        matches!(read, Err(StoreError::Unavailable { .. })),
        "{read:?}"
    );
    let batch = store.tables.commit(vec![fixture_batch()]).await;
    assert!(
        matches!(batch, Err(StoreError::Unavailable { .. })),
        "{batch:?}"
    );
    lock.rollback().await.unwrap();
    assert_eq!(store.runs.run(run).await.unwrap().unwrap().head, 1);
    let replies = store.runs.commit(vec![hold(run, owner, 2)]).await.unwrap();
    assert!(
        matches!(replies[0], CommitReply::Done { .. }),
        "{replies:?}"
    );
}

/// Every connection of the store is ended by the server, again and again, while it works: each
/// answer is true, and the store goes on by itself.
#[tokio::test]
async fn connections_that_the_server_ends_are_replaced() {
    let Some(url) = server() else { return };
    let url = database(&url).await;
    let store = open(PostgresOptions::new(&url).unwrap()).await.unwrap();
    deploy(&store).await;
    let owner = register(&store).await.unwrap();
    let run = born(&store, owner).await.unwrap();
    let killer = connect(&url).await;
    let end_all = "select pg_terminate_backend(pid) from pg_stat_activity
                   where datname = current_database() and application_name = 'lope'";
    let mut head = 1;
    for _ in 0..20 {
        let (killed, commit) = tokio::join!(
            killer.execute(end_all, &[]),
            store.runs.commit(vec![hold(run, owner, head + 1)])
        );
        killed.unwrap();
        let found = steady(&store, run).await;
        match commit {
            Ok(replies) => {
                assert!(
                    matches!(replies[0], CommitReply::Done { .. }) && found == head + 1,
                    "{replies:?} {found}"
                );
            }
            Err(StoreError::Unavailable { .. }) => assert_eq!(found, head, "nothing was written"),
            Err(StoreError::Unknown { .. }) => {
                assert!(found == head || found == head + 1, "{found} after {head}");
            }
            Err(other) => panic!("{other:?}"),
        }
        head = found;
        // A heartbeat and a claim find connections of their own again.
        assert!(store.runs.heartbeat(owner).await.is_ok());
    }
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
}

#[tokio::test]
async fn two_schemas_in_one_database_do_not_meet() {
    let Some(url) = server() else { return };
    let (one, other) = (Schema::new(&url), Schema::new(&url));
    let (here, there) = (one.open().await, other.open().await);
    deploy(&here).await;
    let mut watch = there.runs.watch();
    let run = run_id();
    here.runs.admit(vec![admission(run)]).await.unwrap();
    let claimer = register(&there).await.unwrap();
    assert!(
        there
            .runs
            .claim(claim(claimer))
            .await
            .unwrap()
            .unwrap()
            .runs
            .is_empty()
    );
    assert_eq!(there.runs.run(run).await.unwrap(), None);
    assert_eq!(there.runs.latest("flow").await.unwrap(), None);
    there.upkeep.close().await.unwrap();
    let owner = register(&here).await.unwrap();
    assert_eq!(
        here.runs
            .claim(claim(owner))
            .await
            .unwrap()
            .unwrap()
            .runs
            .len(),
        1
    );
    watch.take();
}

#[tokio::test]
async fn a_backup_names_the_tool_that_makes_it() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    match store.upkeep.backup("backup".into()).await {
        Err(StoreError::Refused { message }) => {
            assert!(
                message.contains("pg_dump") && message.contains(&place.name),
                "{message}"
            );
        }
        other => panic!("{other:?}"),
    }
    store.upkeep.close().await.unwrap();
}

/// Behind a pooler the next transaction has another connection: nothing that is kept in one may be
/// relied on.
#[tokio::test]
async fn a_store_works_through_a_transaction_pooler_when_told_so() {
    let Some(url) = server() else { return };
    let url = database(&url).await;
    let pooler = TransactionPooler::start(&url);
    let behind = format!("{}&pooler=transaction", pooler.url(&url));
    let store = open(PostgresOptions::new(&behind).unwrap()).await.unwrap();
    deploy(&store).await;
    let runner = register(&store).await.unwrap();
    for _ in 0..3 {
        let run = run_id();
        store.runs.admit(vec![admission(run)]).await.unwrap();
        let claimed = store.runs.claim(claim(runner)).await.unwrap().unwrap().runs;
        assert_eq!(
            claimed
                .iter()
                .map(|claimed| claimed.run)
                .collect::<Vec<_>>(),
            [run]
        );
        let replies = store.runs.commit(vec![hold(run, runner, 2)]).await.unwrap();
        assert!(
            matches!(replies[0], CommitReply::Done { .. }),
            "{replies:?}"
        );
        assert_eq!(
            store.runs.load(&[run]).await.unwrap()[0]
                .as_ref()
                .unwrap()
                .rows
                .len(),
            2
        );
        assert_eq!(
            store
                .tables
                .commit(vec![fixture_batch()])
                .await
                .unwrap()
                .len(),
            1
        );
    }
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
    assert!(store.runs.prune(everything()).await.is_ok());
    changes_elsewhere_are_found_by_looking(&store, &url).await;

    // Who is not told so keeps statements in connections, and misses them: the pooler is a real
    // one.
    let untold = open(PostgresOptions::new(&pooler.url(&url)).unwrap()).await;
    let trouble = match untold {
        Ok(store) => store.runs.admit(vec![admission(run_id())]).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(trouble.is_err());
}

async fn changes_elsewhere_are_found_by_looking(store: &Store, url: &str) {
    let elsewhere = open(PostgresOptions::new(url).unwrap()).await.unwrap();
    let mut watch = store.runs.watch();
    elsewhere
        .runs
        .admit(vec![admission(run_id())])
        .await
        .unwrap();
    tokio::time::timeout(Duration::from_secs(120), watch.changed())
        .await
        .unwrap();
}

/// A command admits a run and ends. The runner that listens looks for itself only once an hour
/// here, so that nothing but the command's own word can wake it.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_closes_right_after_a_commit_has_woken_the_others() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    place.open().await.upkeep.close().await.unwrap();
    let mut options = place.options();
    options.poll = Duration::from_hours(1);
    let runner = open(options).await.unwrap();
    let mut watch = runner.runs.watch();
    for round in 1..=20 {
        // The first rounds may find the listener still on its way to the server.
        while tokio::time::timeout(Duration::from_millis(300), watch.changed())
            .await
            .is_ok()
        {}
        let command = place.open().await;
        deploy(&command).await;
        command.runs.admit(vec![admission(run_id())]).await.unwrap();
        command.upkeep.close().await.unwrap();
        let woken = tokio::time::timeout(Duration::from_secs(120), watch.changed()).await;
        assert!(woken.is_ok(), "round {round}: the runner was not woken");
    }
    runner.upkeep.close().await.unwrap();
}
