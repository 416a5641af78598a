//! A pipeline in a process of its own that is killed at random, again and again, while orders keep
//! coming: each message takes effect once, and no timer is lost or doubled.
//!
//! Five kills over 500 orders in the normal tests, a hundred over ten thousand when `LOPE_CHAOS` is
//! `full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::pipeline;

use std::io::BufRead;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lope_mailbox::time::TimeHooks;
use lope_mailbox::{ConsumerPool, Counting, Mailbox};
use lope_sqlite::BootClock;
use pipeline::{Pipeline, STAGES};

/// Leads a copy of this program to `child`; where its store is, is in the environment.
const CHILD: [&str; 3] = ["chaos_kill::child", "--exact", "--nocapture"];
const PLACE: &str = "LOPE_MAILBOX_CHILD";
/// Printed by a child whose workers run.
const READY: &str = "the workers run";
/// The kills come at random times after a child is up, or, so that most of them meet work also
/// where a store takes long to begin, after its first message was handled.
const FROM_THE_START: usize = 4;
const ORDERS_A_KILL: usize = 100;
/// Longest wait for the rest after the last kill.
const PATIENCE: Duration = Duration::from_mins(5);

fn pipeline(kills: usize) -> Pipeline {
    Pipeline {
        number: 1,
        orders: kills * ORDERS_A_KILL,
        batch: 16,
    }
}

/// Where copies of this program begin; in the parent there is nothing to do.
#[test]
fn child() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = pipeline::open(&place).await;
        let mut pool = ConsumerPool::default();
        for stage in STAGES {
            let time = TimeHooks::on(Arc::new(BootClock));
            pool.add(
                pipeline(0)
                    .worker(Arc::clone(&store.tables), stage, time)
                    .await
                    .unwrap(),
            );
        }
        pool.start().unwrap();
        println!("{READY}");
        // Until somebody kills us, or closes our input.
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        pool.request_stop();
        pool.join().unwrap();
        store.upkeep.close().await.unwrap();
    });
}

/// Start a copy of this program and wait until it says this.
fn start(place: &str, until: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(CHILD).env(PLACE, place);
    pipeline::child::start(&mut command, until)
}

async fn kill_again_and_again(place: &str) {
    let kills = if pipeline::full() { 100 } else { 5 };
    let pipeline = pipeline(kills);
    let store = pipeline::open(place).await;
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    let mut dice = 88_172_645_463_325_252_u64;
    let mut at_work = 0;
    for kill in 0..kills {
        pipeline
            .order(&mailbox, kill * ORDERS_A_KILL..(kill + 1) * ORDERS_A_KILL)
            .await;
        let mut child = start(
            place,
            if kill % FROM_THE_START == 0 {
                READY
            } else {
                pipeline::AT_WORK
            },
        );
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        // A kill at a random time is the point here, so this does sleep.
        tokio::time::sleep(Duration::from_millis(dice % 120)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        at_work += usize::from(
            mailbox
                .stats(0, Counting::Quick)
                .await
                .unwrap()
                .inbox
                .number()
                > 0,
        );
        if kill % 10 == 9 {
            println!(
                "after {} kills:\n{}",
                kill + 1,
                pipeline.describe(&store.tables).await
            );
        }
    }
    println!("{at_work} of {kills} kills met work in hand");
    assert!(at_work * 4 >= kills, "most kills came too late to hurt");

    let last = start(place, READY);
    let mut watch = store.tables.watch();
    let began = Instant::now();
    while !pipeline.is_done(&store.tables).await {
        let stuck = if began.elapsed() > PATIENCE {
            Some(pipeline.describe(&store.tables).await)
        } else {
            None
        };
        assert_eq!(stuck, None, "the pipeline does not end");
        pipeline::change(&mut watch).await;
    }
    pipeline::child::stop(last);
    pipeline.check(&store.tables).await;
    store.upkeep.close().await.unwrap();
}

/// "kill −9 at random 100 times over 10,000 messages, with emits and timers, on SQLite and
/// Postgres"
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_kills_lose_and_double_nothing() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(&pipeline::sqlite(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_kills_lose_and_double_nothing() {
    let Some(place) = pipeline::postgres() else {
        return;
    };
    kill_again_and_again(&place).await;
}
