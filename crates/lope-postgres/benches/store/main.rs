//! The figures of the Postgres store, each beside its raw limit from the same run: the disk's
//! flush, and the CPU time of both ends a row.
//!
//! `cargo xtask bench store`, or `LOPE_TEST_POSTGRES=URL cargo bench -p lope-postgres --bench
//! store`. Timings swing with the disk, so nothing here fails; the figures are for reading. Names
//! of figures as arguments choose among them.

mod commands;
mod server;

use std::time::{Duration, Instant};

use lope_model::{RunId, RunnerId};
use lope_postgres::{PostgresOptions, PostgresStore};
use lope_store::Store;
use lope_store::runs::{ClaimedRun, CommitReply, Prune};

use commands::{admission, born, claim, commit, deploy, finish, id, register};
use server::{Figure, Server};

/// How long each figure is taken.
const TAKE: Duration = Duration::from_secs(4);
const BATCH: usize = 1_000;
const RUNS: usize = 100;
const CLAIMED: usize = 500;
const SHORT_QUEUE: i64 = 10_000;
const LONG_QUEUE: i64 = 1_000_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    let server = Server::given().await;
    println!(
        "{}; figures: rows, committers, claims, runs, born, prune",
        server.version().await
    );
    if is_asked("rows") {
        let bare = bare_rows(&server).await;
        let ours = journal_rows(&server).await;
        println!(
            "journal rows against the bare insert: {:.0} % (wanted: 60 %)\n",
            100.0 * ours.rate() / bare.rate()
        );
    }
    if is_asked("committers") {
        let one = committers(&server, 1).await;
        let many = committers(&server, 64).await;
        println!(
            "64 committers against one: {:.1}×\n",
            many.rate() / one.rate()
        );
    }
    if is_asked("claims") {
        let short = claims(&server, SHORT_QUEUE).await;
        let long = claims(&server, LONG_QUEUE).await;
        println!(
            "claiming from the long queue takes {:.2}× as long (wanted: 3×)\n",
            short.rate() / long.rate()
        );
    }
    if is_asked("runs") {
        one_step_runs(&server, 1).await;
        one_step_runs(&server, 4).await;
    }
    if is_asked("born") {
        born_claimed(&server, 1).await;
        born_claimed(&server, 4).await;
    }
    if is_asked("prune") {
        prune(&server).await;
    }
}

async fn open(server: &Server, name: &str) -> (Store, RunnerId) {
    let url = server.database(name).await;
    let store = PostgresStore::open(PostgresOptions::new(&url).expect("a URL"))
        .await
        .expect("a store");
    store.runs.deploy(deploy()).await.expect("deployed");
    let register = register();
    store
        .runs
        .register(register.clone())
        .await
        .expect("registered");
    (store, register.runner)
}

/// A thousand rows a batch, over a hundred runs, through the door.
async fn journal_rows(server: &Server) -> Figure {
    let (store, runner) = open(server, "rows").await;
    let runs: Vec<RunId> = (0..RUNS as u64).map(id).collect();
    store
        .runs
        .admit(runs.iter().map(|run| born(*run, runner)).collect())
        .await
        .expect("admitted");
    let each = (BATCH / RUNS) as u64;
    let figure = server.measure(async {
        let (mut seq, mut rows, until) = (2, 0, Instant::now() + TAKE);
        while Instant::now() < until {
            let commits = runs
                .iter()
                .map(|run| commit(*run, runner, seq, each))
                .collect();
            store.runs.commit(commits).await.expect("a commit");
            seq += each;
            rows += BATCH as u64;
        }
        rows
    });
    let figure = figure.await;
    figure.show("journal rows, 1,000 a batch over 100 runs");
    store.upkeep.close().await.expect("closed");
    figure
}

/// The same rows by one bare `insert … select from unnest` a transaction.
async fn bare_rows(server: &Server) -> Figure {
    let client = server.connect(&server.database("bare").await).await;
    let make =
        "create table journal (run_id uuid not null, seq bigint not null, at bigint not null,
        event text collate \"C\" not null, body bytea not null, primary key (run_id, seq))";
    client.batch_execute(make).await.expect("a table");
    let insert = "insert into journal select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::bytea[])";
    let insert = client.prepare(insert).await.expect("a statement");
    let runs: Vec<RunId> = (0..RUNS as u64).map(id).collect();
    let each = (BATCH / RUNS) as i64;
    let figure = server.measure(async {
        let until = Instant::now() + TAKE;
        let (mut seq, mut rows) = (2_i64, 0);
        while Instant::now() < until {
            let ids: Vec<_> = runs
                .iter()
                .flat_map(|run| (0..each).map(|_| run.uuid()))
                .collect();
            let seqs: Vec<i64> = runs.iter().flat_map(|_| seq..seq + each).collect();
            let times = vec![0_i64; BATCH];
            let events = vec!["settled"; BATCH];
            let bodies = vec![&commands::BODY[..]; BATCH];
            client
                .execute(&insert, &[&ids, &seqs, &times, &events, &bodies])
                .await
                .expect("rows");
            seq += each;
            rows += BATCH as u64;
        }
        rows
    });
    let figure = figure.await;
    figure.show("bare insert from unnest, 1,000 rows a time");
    figure
}

/// Each committer writes one row at a time into a run of its own.
async fn committers(server: &Server, number: usize) -> Figure {
    let (store, runner) = open(server, "committers").await;
    let runs: Vec<RunId> = (0..number as u64).map(id).collect();
    store
        .runs
        .admit(runs.iter().map(|run| born(*run, runner)).collect())
        .await
        .expect("admitted");
    let figure = server.measure(async {
        let until = Instant::now() + TAKE;
        let each = runs
            .iter()
            .map(|run| tokio::spawn(commit_rows(store.clone(), *run, runner, until)));
        let tasks: Vec<_> = each.collect();
        let mut rows = 0;
        for task in tasks {
            rows += task.await.expect("a committer");
        }
        rows
    });
    let figure = figure.await;
    figure.show(&format!("{number} committers, one row a commit"));
    store.upkeep.close().await.expect("closed");
    figure
}

async fn commit_rows(store: Store, run: RunId, runner: RunnerId, until: Instant) -> u64 {
    let mut seq = 1;
    while Instant::now() < until {
        seq += 1;
        let replies = store
            .runs
            .commit(vec![commit(run, runner, seq, 1)])
            .await
            .expect("a commit");
        assert!(matches!(replies[0], CommitReply::Done { .. }));
    }
    seq - 1
}

/// Claims of five hundred out of a queue of some length, which is filled up by the server itself.
async fn claims(server: &Server, length: i64) -> Figure {
    let (store, runner) = open(server, "claims").await;
    server.fill_queue(&store.upkeep.describe(), length).await;
    store
        .runs
        .claim(claim(runner, CLAIMED))
        .await
        .expect("a first claim")
        .expect("a session");
    let figure = server.measure(async {
        let mut claimed = 0;
        for _ in 0..10 {
            let claim = store
                .runs
                .claim(claim(runner, CLAIMED))
                .await
                .expect("a claim")
                .expect("a session");
            assert_eq!(claim.runs.len(), CLAIMED);
            claimed += CLAIMED as u64;
        }
        claimed
    });
    let figure = figure.await;
    figure.show(&format!("claims of {CLAIMED} out of {length}"));
    store.upkeep.close().await.expect("closed");
    figure
}

/// Runs of one step through all verbs, in batches of five hundred, by several callers at once.
async fn one_step_runs(server: &Server, callers: u64) {
    let (store, runner) = open(server, "runs").await;
    let figure = server.measure(async {
        let until = Instant::now() + TAKE;
        let tasks: Vec<_> = (0..callers)
            .map(|caller| tokio::spawn(claimed_runs(store.clone(), runner, caller, until)))
            .collect();
        let mut runs = 0;
        for task in tasks {
            runs += task.await.expect("a caller");
        }
        runs
    });
    figure.await.show(&format!(
        "one-step runs: admit, claim, load, finish ×{callers}"
    ));
    store.upkeep.close().await.expect("closed");
}

async fn claimed_runs(store: Store, runner: RunnerId, caller: u64, until: Instant) -> u64 {
    let mut done = 0;
    while Instant::now() < until {
        let ids = (0..CLAIMED as u64).map(|number| id(caller << 32 | (done + number)));
        store
            .runs
            .admit(ids.map(admission).collect())
            .await
            .expect("admitted");
        let claimed = store
            .runs
            .claim(claim(runner, CLAIMED))
            .await
            .expect("a claim")
            .expect("a session")
            .runs;
        let ids: Vec<RunId> = claimed.iter().map(|run| run.run).collect();
        assert_eq!(
            store.runs.load(&ids).await.expect("loaded").len(),
            ids.len()
        );
        store
            .runs
            .commit(claimed.iter().map(|run| finish(run, runner)).collect())
            .await
            .expect("a commit");
        done += CLAIMED as u64;
    }
    done
}

/// Runs of one step that are born claimed, as by a runner that starts them itself.
async fn born_claimed(server: &Server, callers: u64) {
    let (store, runner) = open(server, "born").await;
    let figure = server.measure(async {
        let until = Instant::now() + TAKE;
        let tasks: Vec<_> = (0..callers)
            .map(|caller| tokio::spawn(born_runs(store.clone(), runner, caller, until)))
            .collect();
        let mut runs = 0;
        for task in tasks {
            runs += task.await.expect("a caller");
        }
        runs
    });
    figure.await.show(&format!(
        "one-step runs, born claimed: admit, finish ×{callers}"
    ));
    store.upkeep.close().await.expect("closed");
}

async fn born_runs(store: Store, runner: RunnerId, caller: u64, until: Instant) -> u64 {
    let mut done = 0;
    while Instant::now() < until {
        let ids: Vec<RunId> = (0..CLAIMED as u64)
            .map(|number| id(caller << 32 | (done + number)))
            .collect();
        store
            .runs
            .admit(ids.iter().map(|run| born(*run, runner)).collect())
            .await
            .expect("admitted");
        let born = ids.iter().map(|run| ClaimedRun {
            run: *run,
            ..commands::claimed()
        });
        store
            .runs
            .commit(born.map(|run| finish(&run, runner)).collect())
            .await
            .expect("a commit");
        done += CLAIMED as u64;
    }
    done
}

/// Deleting ended runs, and what the tables weigh before and after.
async fn prune(server: &Server) {
    let (store, runner) = open(server, "prune").await;
    let database = store.upkeep.describe();
    server.make_past_week(&database).await;
    for part in 0..100_u64 {
        let ids: Vec<RunId> = (0..1_000)
            .map(|number| commands::old_id(part * 1_000 + number))
            .collect();
        store
            .runs
            .admit(ids.iter().map(|run| born(*run, runner)).collect())
            .await
            .expect("admitted");
        let born = ids.iter().map(|run| ClaimedRun {
            run: *run,
            ..commands::claimed()
        });
        store
            .runs
            .commit(born.map(|run| finish(&run, runner)).collect())
            .await
            .expect("a commit");
    }
    let before = server.weight(&database).await;
    let everything = Prune {
        before: lope_model::Timestamp::NEVER,
        statuses: vec![],
        workflow: None,
        limit: 1_000,
    };
    let figure = server.measure(async {
        let mut pruned = 0;
        loop {
            let part = store.runs.prune(everything.clone()).await.expect("a prune");
            pruned += part.runs.len() as u64;
            if !part.more {
                return pruned;
            }
        }
    });
    figure.await.show("runs pruned, 1,000 a time");
    println!(
        "weight of journal, snapshots, blobs: {before} kB before, {} kB after\n",
        server.weight(&database).await
    );
    store.upkeep.close().await.expect("closed");
}
