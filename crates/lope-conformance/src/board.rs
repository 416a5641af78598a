//! Promises of the board: rows are written over the revisions that were read, all or nothing, and
//! what may be there only once is there only once.

use lope_model::limit;
use lope_store::board::{
    self, BoardChange, BoardConflict, BoardReply, BoardSelect, BoardTable, PROJECTS, RUNNERS,
    TASK_EVENTS, TASK_LOCKS, TASKS,
};
use lope_store::error::StoreResult;
use lope_store::transfer::{ColumnType, TransferRow, TransferValue};

use super::ground::{Ground, assert_refused};
use super::promise::{Kept, promises};

promises![
    a_row_of_every_table_is_read_back,
    a_key_is_given_once,
    a_stale_revision_of_a_row_is_refused,
    a_commit_that_conflicts_leaves_no_trace,
    a_condition_must_hold,
    rows_are_selected_by_values_and_beginnings,
    rows_come_in_the_order_of_keys_and_are_bounded,
    a_place_in_a_project_has_one_active_runner,
    a_section_has_one_lock,
    of_many_who_claim_one_task_one_wins,
    an_unsound_row_is_refused,
    the_board_tells_the_time,
    another_handle_sees_and_hears_of_the_board,
];

fn text(text: &str) -> TransferValue {
    TransferValue::Text(text.to_owned())
}

/// A row with some values; every other is an empty text or zero.
fn row(table: BoardTable, values: &[(&str, TransferValue)]) -> TransferRow {
    let blank = |kind: &ColumnType| match kind {
        ColumnType::Int => TransferValue::Int(0),
        _ => text(""),
    };
    let columns = table.rows.columns.iter();
    let mut row: TransferRow = columns.map(|(_, kind)| blank(kind)).collect();
    row[table.revision()] = TransferValue::Int(1);
    for (column, value) in values {
        row[table.column_index(column)] = value.clone();
    }
    row
}

fn insert(table: BoardTable, values: &[(&str, TransferValue)]) -> BoardChange {
    let row = row(table, values);
    BoardChange::Insert { table, row }
}

fn task(id: &str, status: &str) -> BoardChange {
    insert(TASKS, &[("id", text(id)), ("status", text(status))])
}

fn lock(task: &str, section: TransferValue) -> BoardChange {
    let values = [
        ("task_id", text(task)),
        ("project_path", text("/p")),
        ("section_id", section),
    ];
    insert(TASK_LOCKS, &values)
}

fn runner(id: &str, status: &str, place: i64, section: TransferValue) -> BoardChange {
    let values = [
        ("id", text(id)),
        ("status", text(status)),
        ("project_path", text("/p")),
        ("place", TransferValue::Int(place)),
        ("section_id", section),
    ];
    insert(RUNNERS, &values)
}

fn rewritten(change: &BoardChange, over: i64) -> BoardChange {
    let BoardChange::Insert { table, row } = change else {
        unreachable!("rows are made by inserts here");
    };
    let mut row = row.clone();
    row[table.revision()] = TransferValue::Int(over + 1);
    BoardChange::Update {
        table: *table,
        row,
        over,
        wakes: true,
    }
}

async fn commit(ground: &Ground, changes: &[BoardChange]) -> StoreResult<BoardReply> {
    ground.store.board.commit(changes.to_vec()).await
}

async fn made(ground: &Ground, changes: &[BoardChange]) -> Kept {
    assert_eq!(commit(ground, changes).await?, Ok(()));
    Ok(())
}

async fn rows(ground: &Ground, select: BoardSelect) -> StoreResult<Vec<TransferRow>> {
    let mut read = ground.store.board.read(vec![select]).await?;
    Ok(read.rows.remove(0))
}

async fn keys(ground: &Ground, select: BoardSelect) -> StoreResult<Vec<String>> {
    let rows = rows(ground, select).await?;
    let key = |row: TransferRow| match row.into_iter().next() {
        Some(TransferValue::Text(key)) => key,
        other => unreachable!("a key is a text: {other:?}"),
    };
    Ok(rows.into_iter().map(key).collect())
}

async fn a_row_of_every_table_is_read_back(ground: Ground) -> Kept {
    for table in board::ALL {
        let full = row(table, &[]);
        let change = BoardChange::Insert {
            table,
            row: full.clone(),
        };
        made(&ground, &[change]).await?;
        let found = rows(&ground.again().await, BoardSelect::all(table)).await?;
        assert_eq!(found, [full], "{}", table.rows.name);
    }
    let event = [
        ("task_id", text("ä\u{1f600}")),
        ("number", TransferValue::Int(i64::MAX)),
        ("message", text("two\nlines ' \" \\ %")),
    ];
    made(&ground, &[insert(TASK_EVENTS, &event)]).await?;
    let found = rows(&ground, BoardSelect::all(TASK_EVENTS)).await?;
    assert_eq!(found[1], row(TASK_EVENTS, &event));
    Ok(())
}

async fn a_key_is_given_once(ground: Ground) -> Kept {
    made(&ground, &[task("a", "pending")]).await?;
    let second = commit(&ground, &[task("a", "failed")]).await?;
    assert_eq!(second, Err(BoardConflict { change: 0 }));
    let found = rows(&ground, BoardSelect::all(TASKS)).await?;
    assert_eq!(found[0][TASKS.column_index("status")], text("pending"));
    Ok(())
}

async fn a_stale_revision_of_a_row_is_refused(ground: Ground) -> Kept {
    made(&ground, &[task("a", "pending")]).await?;
    let done = task("a", "completed");
    made(&ground, &[rewritten(&done, 1)]).await?;
    let late = task("a", "failed");
    for over in [1, 3] {
        let refused = commit(&ground, &[rewritten(&late, over)]).await?;
        assert_eq!(refused, Err(BoardConflict { change: 0 }), "over {over}");
    }
    let delete = |over| BoardChange::Delete {
        table: TASKS,
        key: vec![text("a")],
        over,
    };
    assert!(commit(&ground, &[delete(1)]).await?.is_err());
    let found = rows(&ground, BoardSelect::all(TASKS)).await?;
    assert_eq!(found[0][TASKS.column_index("status")], text("completed"));
    made(&ground, &[delete(2)]).await?;
    assert!(commit(&ground, &[delete(2)]).await?.is_err());
    assert!(rows(&ground, BoardSelect::all(TASKS)).await?.is_empty());
    Ok(())
}

async fn a_commit_that_conflicts_leaves_no_trace(ground: Ground) -> Kept {
    made(&ground, &[task("a", "pending")]).await?;
    let changes = [
        task("b", "pending"),
        rewritten(&task("a", "failed"), 1),
        task("a", "again"),
        task("c", "pending"),
    ];
    let refused = commit(&ground, &changes).await?;
    assert_eq!(refused, Err(BoardConflict { change: 2 }));
    let found = rows(&ground, BoardSelect::all(TASKS)).await?;
    assert_eq!(
        found,
        [row(
            TASKS,
            &[("id", text("a")), ("status", text("pending"))]
        )]
    );
    Ok(())
}

async fn a_condition_must_hold(ground: Ground) -> Kept {
    made(&ground, &[lock("a", TransferValue::Null)]).await?;
    let require = |task: &str, values: &[(&'static str, TransferValue)]| BoardChange::Require {
        table: TASK_LOCKS,
        key: vec![text(task)],
        values: values.to_vec(),
    };
    let epoch = |epoch| ("epoch", TransferValue::Int(epoch));
    let free = ("section_id", TransferValue::Null);
    made(&ground, &[require("a", &[epoch(0), free.clone()])]).await?;
    made(&ground, &[require("a", &[])]).await?;
    for stands_against in [
        require("a", &[epoch(1)]),
        require("b", &[epoch(0)]),
        require("a", &[epoch(0), ("section_id", text(""))]),
    ] {
        let changes = [task("t", "pending"), stands_against];
        let refused = commit(&ground, &changes).await?;
        assert_eq!(refused, Err(BoardConflict { change: 1 }));
    }
    assert!(rows(&ground, BoardSelect::all(TASKS)).await?.is_empty());
    Ok(())
}

async fn rows_are_selected_by_values_and_beginnings(ground: Ground) -> Kept {
    let tasks = [
        task("a1", "pending"),
        task("a2", "review"),
        task("b1", "completed"),
        task("a%_", "pending"),
    ];
    made(&ground, &tasks).await?;
    let all = || BoardSelect::all(TASKS);
    let by_status = all().among("status", ["pending", "review"]);
    assert_eq!(keys(&ground, by_status.clone()).await?, ["a%_", "a1", "a2"]);
    let both = by_status.among("id", ["a1", "b1"]);
    assert_eq!(keys(&ground, both).await?, ["a1"]);
    assert_eq!(keys(&ground, all().prefix("id", "a")).await?.len(), 3);
    assert_eq!(keys(&ground, all().prefix("id", "a%")).await?, ["a%_"]);
    let nothing: [&str; 0] = [];
    assert!(keys(&ground, all().among("id", nothing)).await?.is_empty());
    let null = lock("l", TransferValue::Null);
    made(&ground, &[null]).await?;
    let by_section = BoardSelect::all(TASK_LOCKS).among("section_id", [""]);
    assert!(
        keys(&ground, by_section).await?.is_empty(),
        "null is no text"
    );
    Ok(())
}

async fn rows_come_in_the_order_of_keys_and_are_bounded(ground: Ground) -> Kept {
    let names = ["b", "B", "ä", "a", "_"];
    made(&ground, &names.map(|name| task(name, "pending"))).await?;
    let sorted = ["B", "_", "a", "b", "ä"];
    assert_eq!(keys(&ground, BoardSelect::all(TASKS)).await?, sorted);
    let last = BoardSelect::all(TASKS).last(2);
    assert_eq!(keys(&ground, last).await?, ["ä", "b"]);
    let first = BoardSelect {
        limit: 2,
        ..BoardSelect::all(TASKS)
    };
    assert_eq!(keys(&ground, first).await?, ["B", "_"]);
    Ok(())
}

/// "One active runner per project is a constraint in the store (`maxConcurrent` is per project)"
async fn a_place_in_a_project_has_one_active_runner(ground: Ground) -> Kept {
    let null = || TransferValue::Null;
    made(&ground, &[runner("a", "running", 1, null())]).await?;
    for status in ["idle", "running"] {
        let second = commit(&ground, &[runner("b", status, 1, null())]).await?;
        assert!(second.is_err(), "{status}");
    }
    made(&ground, &[runner("c", "running", 2, null())]).await?;
    made(&ground, &[runner("d", "failed", 1, null())]).await?;
    made(
        &ground,
        &[rewritten(&runner("a", "completed", 1, null()), 1)],
    )
    .await?;
    made(&ground, &[runner("b", "running", 1, text("s"))]).await?;
    let same_section = commit(&ground, &[runner("e", "idle", 3, text("s"))]).await?;
    assert!(same_section.is_err(), "one runner is focused on a section");
    made(&ground, &[runner("e", "idle", 3, text("other"))]).await?;
    let elsewhere = insert(
        RUNNERS,
        &[("id", text("f")), ("place", TransferValue::Int(1))],
    );
    made(&ground, &[elsewhere]).await?;
    assert_eq!(rows(&ground, BoardSelect::all(RUNNERS)).await?.len(), 6);
    Ok(())
}

/// "Two runners never work in the same section of a project at the same time."
async fn a_section_has_one_lock(ground: Ground) -> Kept {
    made(&ground, &[lock("a", text("s"))]).await?;
    assert!(commit(&ground, &[lock("b", text("s"))]).await?.is_err());
    made(&ground, &[task("b", "pending")]).await?;
    let claim = [
        rewritten(&task("b", "in_progress"), 1),
        lock("b", text("s")),
    ];
    let refused = commit(&ground, &claim).await?;
    assert_eq!(refused, Err(BoardConflict { change: 1 }));
    let found = rows(&ground, BoardSelect::all(TASKS)).await?;
    assert_eq!(found[0][TASKS.column_index("status")], text("pending"));
    made(&ground, &[lock("b", text("t"))]).await?;
    made(&ground, &[lock("c", TransferValue::Null)]).await?;
    made(&ground, &[lock("d", TransferValue::Null)]).await?;
    let free = BoardChange::Delete {
        table: TASK_LOCKS,
        key: vec![text("a")],
        over: 1,
    };
    made(&ground, &[free, lock("e", text("s"))]).await
}

async fn of_many_who_claim_one_task_one_wins(ground: Ground) -> Kept {
    const CLAIMERS: usize = 16;
    const ROUNDS: usize = 5;
    let other = ground.again().await;
    for round in 0..ROUNDS {
        let id = format!("task-{round}");
        made(&ground, &[task(&id, "pending")]).await?;
        let claimers: Vec<_> = (0..CLAIMERS)
            .map(|claimer| {
                let ground = if claimer % 2 == 0 { &ground } else { &other };
                let (ground, id) = (ground.clone(), id.clone());
                tokio::spawn(async move {
                    let claim = [
                        rewritten(&task(&id, "in_progress"), 1),
                        lock(&id, TransferValue::Null),
                    ];
                    commit(&ground, &claim).await
                })
            })
            .collect();
        let mut won = 0;
        for claimer in claimers {
            won += usize::from(claimer.await.expect("no task panics")?.is_ok());
        }
        assert_eq!(won, 1, "round {round}");
    }
    Ok(())
}

async fn an_unsound_row_is_refused(ground: Ground) -> Kept {
    let mut short = row(PROJECTS, &[]);
    short.pop();
    let unsound = [
        short,
        row(PROJECTS, &[("name", TransferValue::Int(1))]),
        row(PROJECTS, &[("enabled", text("yes"))]),
        row(PROJECTS, &[("name", text("zero\0byte"))]),
        row(
            PROJECTS,
            &[("name", text(&"n".repeat(limit::BOARD_TEXT_MAX + 1)))],
        ),
    ];
    for row in unsound {
        let change = BoardChange::Insert {
            table: PROJECTS,
            row,
        };
        assert_refused(ground.store.board.commit(vec![change]).await);
    }
    let many = vec![task("a", "pending"); limit::BOARD_CHANGES_MAX + 1];
    assert_refused(ground.store.board.commit(many).await);
    assert!(rows(&ground, BoardSelect::all(PROJECTS)).await?.is_empty());
    Ok(())
}

async fn the_board_tells_the_time(ground: Ground) -> Kept {
    let before = ground.store.board.read(Vec::new()).await?.clock;
    ground.pass(lope_model::Span::from_millis(20)).await;
    let after = ground
        .again()
        .await
        .store
        .board
        .read(Vec::new())
        .await?
        .clock;
    assert!(after.moment > before.moment && after.now > before.now);
    assert_eq!(after.boot_id, before.boot_id);
    Ok(())
}

async fn another_handle_sees_and_hears_of_the_board(ground: Ground) -> Kept {
    let other = ground.again().await;
    let (mut here, mut there) = (ground.store.board.watch(), other.store.board.watch());
    made(&ground, &[task("a", "pending")]).await?;
    for watch in [&mut here, &mut there] {
        let woken =
            tokio::time::timeout(std::time::Duration::from_secs(120), watch.changed()).await;
        assert!(woken.is_ok(), "nobody was woken by a new task");
    }
    assert_eq!(keys(&other, BoardSelect::all(TASKS)).await?, ["a"]);
    Ok(())
}
