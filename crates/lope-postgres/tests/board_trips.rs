//! A claim costs two trips, won or lost: one to read the board, one to write. While a trip is under
//! way nobody who wants the same task waits for a process that has yet to say `commit`, and who loses
//! has written nothing: otherwise each of them would flush the log, one after the other.

use std::sync::Arc;

use lope_agents::AgentBoard;
use lope_agents::board::{ClaimOutcome, RunnerEntry, RunnerPlace, TaskDraft};
use lope_agents::law::TaskRules;
use lope_agents::law::select::TaskQuery;
use lope_agents::machine::LocalMachine;
use lope_agents::records::{RunnerStatus, StopLevel};
use lope_model::RunnerId;
use lope_postgres::{PostgresOptions, PostgresStore};
use lope_store::Store;
use lope_store::board::{
    BoardChange, BoardConflict, BoardReply, BoardSelect, BoardTable, PROJECTS, RUNNERS, SECTIONS,
    TASK_LOCKS, TASKS,
};
use lope_store::transfer::{ColumnType, TransferRow, TransferValue};

use crate::fixture::proxy::Proxy;
use crate::fixture::{connect, database, server, until};

fn row(table: BoardTable, id: &str, revision: i64) -> TransferRow {
    let columns = table.rows.columns.iter();
    let blank = columns.map(|(name, kind)| match (*name, kind) {
        ("section_id", _) => TransferValue::Null,
        (_, ColumnType::Int) => TransferValue::Int(0),
        _ => TransferValue::Text(String::new()),
    });
    let mut row: TransferRow = blank.collect();
    row[0] = TransferValue::Text(id.to_owned());
    row[table.revision()] = TransferValue::Int(revision);
    row
}

/// What a runner reads before it decides.
async fn look(store: &Store, id: &str) -> usize {
    let selects = vec![
        BoardSelect::all(PROJECTS).among("path", ["/p"]),
        BoardSelect::all(SECTIONS).among("project_path", ["/p"]),
        BoardSelect::all(TASKS).among("id", [id]),
        BoardSelect::all(TASK_LOCKS).among("project_path", ["/p"]),
        BoardSelect::all(RUNNERS).among("status", ["idle"]),
    ];
    store.board.read(selects).await.unwrap().rows[2].len()
}

async fn claim(store: &Store, id: &str) -> BoardReply {
    let taken = BoardChange::Update {
        table: TASKS,
        row: row(TASKS, id, 2),
        over: 1,
        wakes: true,
    };
    let lock = BoardChange::Insert {
        table: TASK_LOCKS,
        row: row(TASK_LOCKS, id, 1),
    };
    store.board.commit(vec![taken, lock]).await.unwrap()
}

/// The most trips that any connection made meanwhile: what others are told has one of its own.
async fn trips(proxy: &Proxy, deed: impl Future<Output = ()>) -> u64 {
    let before = proxy.trips();
    deed.await;
    let after = proxy.trips().into_iter().enumerate();
    let more = after.map(|(index, count)| count - before.get(index).copied().unwrap_or(0));
    more.max().unwrap_or_default()
}

#[tokio::test]
async fn a_claim_costs_two_trips_won_or_lost() {
    let Some(url) = server() else { return };
    let url = database(&url).await;
    let proxy = Proxy::start(&url);
    let options = PostgresOptions::new(&proxy.url(&url)).unwrap();
    let store = PostgresStore::open(options).await.unwrap();
    let ids = ["a", "b", "c", "d"];
    for id in ids {
        let row = row(TASKS, id, 1);
        let insert = BoardChange::Insert { table: TASKS, row };
        assert_eq!(store.board.commit(vec![insert]).await.unwrap(), Ok(()));
    }
    // A connection learns its statements.
    for id in &ids[..3] {
        assert_eq!(look(&store, id).await, 1);
        assert_eq!(claim(&store, id).await, Ok(()));
    }
    for expected in [Ok(()), Err(BoardConflict { change: 0 })] {
        let deed = async {
            assert_eq!(look(&store, "d").await, 1);
            assert_eq!(claim(&store, "d").await, expected);
        };
        assert_eq!(trips(&proxy, deed).await, 2, "{expected:?}");
    }
    store.upkeep.close().await.unwrap();
}

fn agents(store: &Store) -> AgentBoard {
    let board = Arc::clone(&store.board);
    AgentBoard::new(board, Arc::new(LocalMachine), TaskRules::default())
}

/// The next task of the project.
async fn next(board: &AgentBoard) -> ClaimOutcome {
    let query = TaskQuery {
        project: Some("/p"),
        ..TaskQuery::default()
    };
    let me = RunnerId::from_uuid(uuid::Uuid::now_v7());
    let claimed = board.claim(&query, me, TaskRules::default().lock_expiry);
    claimed.await.unwrap()
}

#[tokio::test]
async fn a_runner_takes_a_new_task_in_two_trips() {
    let Some(url) = server() else { return };
    let url = database(&url).await;
    let proxy = Proxy::start(&url);
    let options = PostgresOptions::new(&proxy.url(&url)).unwrap();
    let store = PostgresStore::open(options).await.unwrap();
    let board = agents(&store);
    board.add_project("/p", None).await.unwrap();
    let tasks = ["a", "b", "c", "d"].map(|title| TaskDraft::new("/p", title));
    board.add_tasks(tasks.to_vec()).await.unwrap();
    let take = async || assert!(matches!(next(&board).await, ClaimOutcome::Claimed(_)));
    // A connection learns its statements.
    for _ in 0..3 {
        take().await;
    }
    assert_eq!(trips(&proxy, take()).await, 2);
    store.upkeep.close().await.unwrap();
}

#[tokio::test]
async fn whoever_loses_a_task_has_written_nothing() {
    const CONTENDERS: usize = 8;
    let Some(url) = server() else { return };
    let url = database(&url).await;
    let mut stores = Vec::new();
    for _ in 0..CONTENDERS {
        let options = PostgresOptions::new(&url).unwrap();
        stores.push(PostgresStore::open(options).await.unwrap());
    }
    let board = agents(&stores[0]);
    board.add_project("/p", None).await.unwrap();
    let task = TaskDraft::new("/p", "a task");
    board.add_tasks(vec![task]).await.unwrap();
    // Nobody can win while somebody looks at the task.
    let (watch, looks) = (connect(&url).await, connect(&url).await);
    looks
        .batch_execute("begin; select 1 from lope.tasks for share")
        .await
        .unwrap();
    let boards = stores.iter().map(agents);
    let claims = boards.map(|board| tokio::spawn(async move { next(&board).await }));
    let claims: Vec<_> = claims.collect();
    until("all of them wait", async || {
        backends(&watch, "wait_event_type = 'Lock'").await == CONTENDERS as i64
    })
    .await;
    looks.batch_execute("commit").await.unwrap();
    let mut won = 0;
    for claim in claims {
        match claim.await.unwrap() {
            ClaimOutcome::Claimed(_) => won += 1,
            outcome => assert_eq!(outcome, ClaimOutcome::Nothing),
        }
    }
    assert_eq!(won, 1);
    let locked = "select xmax::text from lope.tasks";
    let locked: String = watch.query_one(locked, &[]).await.unwrap().get(0);
    assert_eq!(locked, "0", "the winner's row was locked by who lost");
    // What they asked last was about that task alone.
    let whole = backends(&watch, "query like '%from lope.projects%'").await;
    assert_eq!(whole, 0, "looked at the whole project twice");
    for store in stores {
        store.upkeep.close().await.unwrap();
    }
}

#[tokio::test]
async fn the_tasks_of_a_project_are_found_without_those_of_others() {
    let Some(url) = server() else { return };
    let url = database(&url).await;
    let options = PostgresOptions::new(&url).unwrap();
    let store = PostgresStore::open(options).await.unwrap();
    let board = agents(&store);
    board.add_project("/p", None).await.unwrap();
    // Runners that have ended are listed for days; others are at work elsewhere.
    for other in 0..100 {
        let path = format!("/q{other}");
        board.add_project(&path, None).await.unwrap();
        let task = TaskDraft::new(&path, "of another");
        board.add_tasks(vec![task]).await.unwrap();
        let id = entered(&board, &path).await;
        let ended = board.end_runner(id, RunnerStatus::Completed, None).await;
        assert!(ended.unwrap().is_some());
        let query = TaskQuery {
            project: Some(&path),
            ..TaskQuery::default()
        };
        let claimed = board.claim(&query, id, TaskRules::default().lock_expiry);
        assert!(matches!(claimed.await.unwrap(), ClaimOutcome::Claimed(_)));
    }
    board
        .add_tasks(vec![TaskDraft::new("/p", "a task")])
        .await
        .unwrap();
    let watch = connect(&url).await;
    let before = rows_read(&watch, store).await;
    // The server reads a hundred rows whole once it knows how few they are; on a board that has
    // grown it looks for a way to those it needs.
    let grown = "analyze; do $$ begin
        execute format('alter database %I set enable_seqscan = off', current_database());
        end $$";
    watch.batch_execute(grown).await.unwrap();
    let options = PostgresOptions::new(&url).unwrap();
    let store = PostgresStore::open(options).await.unwrap();
    let view = agents(&store).view(Some("/p")).await.unwrap();
    assert_eq!(view.tasks.len(), 1);
    let more = rows_read(&watch, store).await - before;
    assert!((1..10).contains(&more), "{more} rows were read");
}

/// A runner that begins on a project.
async fn entered(board: &AgentBoard, project: &str) -> RunnerId {
    let process = LocalMachine::own_process();
    let entry = RunnerEntry {
        id: RunnerId::from_uuid(uuid::Uuid::now_v7()),
        pid: process.pid,
        pid_started: process.start_time.to_string(),
        boot_id: process.scope.clone(),
        host: LocalMachine::host(),
        project: project.to_owned(),
        section: None,
        places: 1,
    };
    let place = board.enter_runner(&entry).await.unwrap();
    assert!(matches!(place, RunnerPlace::Taken(_)), "{place:?}");
    entry.id
}

/// Every runner of a store hears what happens on the board; that one of them lives is no news.
#[tokio::test]
async fn signs_of_life_wake_nobody() {
    let Some(url) = server() else { return };
    let url = database(&url).await;
    let options = PostgresOptions::new(&url).unwrap();
    let store = PostgresStore::open(options).await.unwrap();
    let board = agents(&store);
    board.add_project("/p", None).await.unwrap();
    let task = TaskDraft::new("/p", "a task");
    board.add_tasks(vec![task]).await.unwrap();
    let id = entered(&board, "/p").await;
    let query = TaskQuery {
        project: Some("/p"),
        ..TaskQuery::default()
    };
    let expiry = TaskRules::default().lock_expiry;
    let ClaimOutcome::Claimed(mut held) = board.claim(&query, id, expiry).await.unwrap() else {
        panic!("there is a task");
    };
    let mut changes = board.watch();
    let task = held.task.id;
    let beat = async || {
        let beat = board.beat(id, RunnerStatus::Running, Some(task)).await;
        beat.unwrap().unwrap().heartbeat_at
    };
    let first = beat().await;
    assert!(changes.take(), "what it works on is news");
    assert!(beat().await >= first);
    assert!(!changes.take());
    board.renew(&mut held, expiry).await.unwrap().unwrap();
    assert!(!changes.take());
    board.ask_to_stop(id, StopLevel::Drain).await.unwrap();
    assert!(changes.take(), "a wish is news");
    store.upkeep.close().await.unwrap();
}

/// Connections of stores to this database of which something holds.
async fn backends(watch: &tokio_postgres::Client, condition: &str) -> i64 {
    let text = format!(
        "select count(*) from pg_stat_activity
         where datname = current_database() and application_name = 'lope' and {condition}"
    );
    watch.query_one(text.as_str(), &[]).await.unwrap().get(0)
}

/// Close a store; then its connections have told how many rows of tasks, locks and runners were ever
/// read.
async fn rows_read(watch: &tokio_postgres::Client, store: Store) -> i64 {
    store.upkeep.close().await.unwrap();
    drop(store);
    until("its connections have ended", async || {
        backends(watch, "true").await == 0
    })
    .await;
    let text = "select sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::bigint
         from pg_stat_user_tables where relname in ('tasks', 'task_locks', 'runners')";
    watch.query_one(text, &[]).await.unwrap().get(0)
}
