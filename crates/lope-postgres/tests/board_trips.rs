//! A claim costs two trips, won or lost: one to read the board, one to write. While a trip is under
//! way nobody who wants the same task waits for a process that has yet to say `commit`.

use lope_postgres::{PostgresOptions, PostgresStore};
use lope_store::Store;
use lope_store::board::{
    BoardChange, BoardConflict, BoardReply, BoardSelect, BoardTable, PROJECTS, RUNNERS, SECTIONS,
    TASK_LOCKS, TASKS,
};
use lope_store::transfer::{ColumnType, TransferRow, TransferValue};

use crate::fixture::proxy::Proxy;
use crate::fixture::{database, server};

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
