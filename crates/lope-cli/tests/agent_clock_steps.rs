//! The wall clock of a Postgres server is set, forward and back, under locks of tasks whose holders
//! are on other machines. A function before the server's own in the search path of a database of its
//! own stands for the clock.

use std::time::{Duration, Instant};

use lope::Client;
use lope::agents::law::lock::{LockStanding, is_stale};
use lope::agents::law::select::TaskQuery;
use lope::agents::law::wakeup::{WakeAction, wakeup};
use lope::agents::settings::RunnerSettings;
use lope::agents::{AgentBoard, ClaimOutcome, HeldTask, RunnerEntry, RunnerPlace, TaskDraft};
use lope::stores::CreateStore;
use lope_model::{RunnerId, Span};

use crate::fixture::server;

const PROJECT: &str = "/elsewhere/shop";
const CLOCK: &str = "
    create schema clock;
    create table clock.step (shift interval not null);
    insert into clock.step values ('0');
    create function clock.clock_timestamp() returns timestamptz language sql volatile as
        'select pg_catalog.clock_timestamp() + (select shift from clock.step)';
";

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

/// A database of its own, whose clock can be set.
async fn database(server: &str) -> (String, tokio_postgres::Client) {
    let name = format!("lope_agent_clock_{}", std::process::id());
    let all = connect(server).await;
    let sql = format!("create database {name}");
    all.batch_execute(&sql).await.unwrap();
    let (place, _) = server.rsplit_once('/').unwrap();
    let url = format!("{place}/{name}");
    let by_hand = connect(&url).await;
    by_hand.batch_execute(CLOCK).await.unwrap();
    let path = format!("alter database {name} set search_path = clock, pg_catalog, public");
    by_hand.batch_execute(&path).await.unwrap();
    (url, by_hand)
}

async fn set(by_hand: &tokio_postgres::Client, shift: &str) {
    let text = format!("update clock.step set shift = '{shift}'");
    by_hand.batch_execute(&text).await.unwrap();
}

async fn board(url: &str) -> AgentBoard {
    watching(url, RunnerSettings::default().stale_timeout).await
}

/// A board on which runners are held to be dead after so long.
async fn watching(url: &str, stale_timeout: Span) -> AgentBoard {
    let url = url.parse().unwrap();
    let client = Client::open_store(&url, CreateStore::IfMissing).await;
    client.unwrap().agents(&RunnerSettings {
        stale_timeout,
        ..RunnerSettings::default()
    })
}

/// A runner of another machine: nothing can be proven about its process.
async fn runner(board: &AgentBoard) -> RunnerId {
    let entry = RunnerEntry {
        id: RunnerId::from_uuid(uuid::Uuid::now_v7()),
        pid: 1,
        pid_started: "1".to_owned(),
        boot_id: "another machine".to_owned(),
        host: "elsewhere".to_owned(),
        project: PROJECT.to_owned(),
        section: None,
        places: 9,
    };
    let place = board.enter_runner(&entry).await.unwrap();
    assert!(matches!(place, RunnerPlace::Taken(_)), "{place:?}");
    entry.id
}

async fn claim(board: &AgentBoard, me: RunnerId) -> Option<HeldTask> {
    let query = TaskQuery {
        project: Some(PROJECT),
        ..TaskQuery::default()
    };
    match board.claim(&query, me, Span::from_secs(60)).await.unwrap() {
        ClaimOutcome::Claimed(held) => Some(*held),
        ClaimOutcome::Nothing | ClaimOutcome::Early(_) => None,
        other => panic!("{other:?}"),
    }
}

/// The lock is its holder's, and the holder lives, whoever looks.
async fn is_held(other: &AgentBoard, held: &HeldTask, me: RunnerId) {
    assert_eq!(claim(other, me).await, None, "another took the task");
    let shown = other.task_detail(&held.task.id.to_string()).await.unwrap();
    assert_eq!(shown.lock.unwrap().1, LockStanding::Held);
    let view = other.view(Some(PROJECT)).await.unwrap();
    let holder = view.runner(held.lock.runner_id).unwrap();
    assert!(!is_stale(&view, holder, &other.rules), "{view:?}");
    let steps = wakeup(&view, &other.rules);
    assert!(
        matches!(steps[0].action, WakeAction::Healthy { .. }),
        "{steps:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_of_the_server_s_clock_free_no_lock_and_keep_none_alive() {
    let Some(server) = server() else { return };
    let (url, by_hand) = database(&server).await;
    let (own, other) = (board(&url).await, board(&url).await);
    own.add_project(PROJECT, None).await.unwrap();
    let draft = TaskDraft::new(PROJECT, "a task");
    own.add_tasks(vec![draft]).await.unwrap();
    let (holder, rival) = (runner(&own).await, runner(&other).await);
    let mut held = claim(&own, holder).await.unwrap();
    is_held(&other, &held, rival).await;

    set(&by_hand, "2 hours").await;
    is_held(&other, &held, rival).await;
    // Whoever looks for the first time has not seen the step.
    is_held(&board(&url).await, &held, rival).await;
    let lease = Span::from_secs(60);
    own.renew(&mut held, lease).await.unwrap().unwrap();
    let status = lope::agents::records::RunnerStatus::Running;
    let task = Some(held.task.id);
    own.beat(holder, status, task).await.unwrap().unwrap();
    is_held(&other, &held, rival).await;
    // Whoever begins only now goes by the new time, and so does what was renewed.
    is_held(&board(&url).await, &held, rival).await;

    // It is renewed for the last time, for two seconds, and the clock is set back behind that.
    let lease = Span::from_secs(2);
    own.renew(&mut held, lease).await.unwrap().unwrap();
    own.beat(holder, status, task).await.unwrap().unwrap();
    set(&by_hand, "-1 hour").await;
    assert_eq!(claim(&other, rival).await, None, "its lease is not over");
    let other = watching(&url, Span::from_secs(2)).await;
    let began = Instant::now();
    let taken = loop {
        assert!(began.elapsed() < Duration::from_secs(60), "it lives on");
        tokio::time::sleep(Duration::from_millis(50)).await;
        if let Some(taken) = claim(&other, rival).await {
            break taken;
        }
    };
    assert_eq!((taken.task.id, taken.lock.epoch), (held.task.id, 2));
    assert!(own.renew(&mut held, lease).await.unwrap().is_err());
}
