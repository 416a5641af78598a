//! The server's wall clock is set, forward and back, under sessions that live and one that is dead.
//! A function before the server's own in the search path of a database of its own stands for the
//! clock.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::time::{Duration, Instant};

use fixture::commands::{admission, claim, deploy, register, run_id};
use fixture::{connect, database, server};
use lope_model::{RunnerId, Span, Timestamp};
use lope_postgres::{PostgresOptions, PostgresStore};
use lope_store::Store;
use lope_store::runs::{Register, Takeover};
use tokio_postgres::Client;

const ALL: Takeover = Takeover { limit: 1_000 };
const CLOCK: &str = "
    create schema clock;
    create table clock.step (shift interval not null);
    insert into clock.step values ('0');
    create function clock.clock_timestamp() returns timestamptz language sql volatile as
        'select pg_catalog.clock_timestamp() + (select shift from clock.step)';
";

async fn set(by_hand: &Client, shift: &str) {
    let text = format!("update clock.step set shift = '{shift}'");
    by_hand.batch_execute(&text).await.unwrap();
}

/// A runner of which nobody hears again.
async fn dead(store: &Store) -> RunnerId {
    let runner = RunnerId::from_parts(Timestamp::EPOCH, [7; 10]);
    let register = Register {
        runner,
        name: "dead".to_owned(),
        host: "here".to_owned(),
        pid: 1,
        process: String::new(),
        program: "test".to_owned(),
        serves: lope_store::runs::Serves::default(),
        lease: Span::from_secs(2),
    };
    store.runs.register(register).await.unwrap();
    runner
}

/// The session lives, whoever is asked.
async fn lives(stores: [&Store; 2], runner: RunnerId) {
    let [own, other] = stores;
    assert_eq!(other.runs.takeover(ALL).await.unwrap().ended, []);
    assert_eq!(other.runs.live(&[runner]).await.unwrap(), [true]);
    own.runs.claim(claim(runner)).await.unwrap().unwrap();
    own.runs.heartbeat(runner).await.unwrap().unwrap();
    assert_eq!(other.runs.takeover(ALL).await.unwrap().ended, []);
}

/// "leases on Postgres do not follow steps of the server's wall clock"
#[tokio::test]
async fn steps_of_the_server_s_clock_end_no_session_and_keep_none_alive() {
    let Some(url) = server() else { return };
    let url = database(&url).await;
    let by_hand = connect(&url).await;
    by_hand.batch_execute(CLOCK).await.unwrap();
    let name = url.rsplit('/').next().unwrap();
    let path = format!("alter database {name} set search_path = clock, pg_catalog, public");
    by_hand.batch_execute(&path).await.unwrap();
    let open = || PostgresStore::open(PostgresOptions::new(&url).unwrap());
    let (own, other) = (open().await.unwrap(), open().await.unwrap());
    deploy(&own).await;
    own.runs.admit(vec![admission(run_id())]).await.unwrap();
    let runner = register(&own).await.unwrap();
    lives([&own, &other], runner).await;
    set(&by_hand, "1 hour").await;
    lives([&own, &other], runner).await;
    let dead = dead(&other).await;
    set(&by_hand, "-1 hour").await;
    lives([&own, &other], runner).await;
    let began = Instant::now();
    let mut ended = Vec::new();
    while ended.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "it lives on");
        tokio::time::sleep(Duration::from_millis(50)).await;
        ended = other.runs.takeover(ALL).await.unwrap().ended;
    }
    assert_eq!(ended, [dead], "two hours before its session would end");
    own.runs.heartbeat(runner).await.unwrap().unwrap();
}
