//! The door *Board*: rows of the board's tables, written over the revisions that were read.
//!
//! A read is one statement, and so is a commit of a few rows: when many want the same row, each of
//! them costs one trip, and nobody waits for a process that has to be scheduled first. A larger
//! commit is one transaction whose changes go out in one trip; if one of them found nothing to
//! change, all are rolled back. Who inserts what somebody else is inserting waits for the other.

use std::time::{Duration, Instant};

use lope_model::{Moment, Timestamp, limit};
use lope_store::board::{
    BoardChange, BoardClock, BoardConflict, BoardRead, BoardReply, BoardSelect, BoardTable,
    BoardVerbs, RowOrder, validate,
};
use lope_store::transfer::{ColumnType, TransferRow, TransferTable, TransferValue};
use lope_store::watch::Hint;
use lope_store::{StoreError, StoreResult, Watch};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::connection::{DbConnection, Pipeline};
use crate::failure::{FaultResponse, Worked};
use crate::inner::{Handle, PostgresInner};
use crate::transfer::{BoxedParam, names, params, single, word};

/// The first row of every read.
const CLOCK: &str = "select 0 as place, array[({now})::text] as cells";
/// The longest lease of a task or a runner that a step of the clock is held back for: whoever lives
/// has renewed it by then.
const BOARD_LEASE: Duration = Duration::from_hours(1);
/// How often a commit that was rolled back because others stood in its way is tried again.
const TRIES_MAX: u32 = 10;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(2);
/// The longest commit that is one statement.
const CHAIN_MAX: usize = 8;
/// What the server's log says when a later change of a statement finds nothing to change: the
/// statement has to fail, so that the earlier ones are undone.
const UNDONE: &str = "lope: somebody else was faster, nothing is written";

/// SQL text with the types of its parameters and the parameters.
struct BoardStatement {
    text: String,
    types: String,
    values: Vec<BoxedParam>,
}

impl BoardVerbs for Handle {
    async fn read(&self, selects: Vec<BoardSelect>) -> StoreResult<BoardRead> {
        validate::selects(&selects)?;
        Ok(self.0.read_board(&selects).await?)
    }

    async fn commit(&self, changes: Vec<BoardChange>) -> StoreResult<BoardReply> {
        validate::changes(&changes)?;
        let reply = self.0.commit_board(&changes).await?;
        if reply.is_ok() && changes.iter().any(BoardChange::wakes) {
            self.0.notifiers.runs_changed(Hint::Work);
        }
        Ok(reply)
    }

    fn watch(&self) -> Watch {
        self.0.notifiers.watch_runs()
    }
}

impl PostgresInner {
    async fn read_board(&self, selects: &[BoardSelect]) -> Worked<BoardRead> {
        let BoardStatement {
            text,
            types,
            values,
        } = selection(selects);
        let sent = Instant::now();
        let rows = self.reads.read_repeated(&text, &types, params(&values));
        let mut found = by_place(&rows.await?, selects)?;
        let now = match found.remove(0).pop().as_deref() {
            Some([TransferValue::Int(now)]) => *now,
            _ => return Err(StoreError::corrupt("the clock did not answer").into()),
        };
        self.board_clock.observe(sent, now, BOARD_LEASE);
        Ok(BoardRead {
            rows: found,
            clock: BoardClock {
                now: Timestamp::from_millis(now),
                moment: Moment(now),
                lease_moment: Moment(now.min(self.board_clock.latest())),
                boot_id: String::new(),
            },
        })
    }

    async fn commit_board(&self, changes: &[BoardChange]) -> Worked<BoardReply> {
        let mut chain = chain(changes)?;
        let statements = changes.iter().map(statement);
        let statements = statements.collect::<Worked<Vec<BoardStatement>>>()?;
        let db = self.reads.get().await?;
        for tries in 1..=TRIES_MAX {
            let answered = match &chain {
                Some(statement) => at_once(&db, statement).await,
                None => attempt(&db, &statements).await,
            };
            match answered {
                // A later change was refused: which one, they tell one by one.
                Err(fault) if chain.is_some() && fault.response == FaultResponse::Isolate => {
                    chain = None;
                    continue;
                }
                Err(fault) if fault.response == FaultResponse::Again => {}
                answered => return answered,
            }
            tokio::time::sleep(TRY_AGAIN_AFTER * tries).await;
        }
        Err(StoreError::unavailable("others kept writing the same rows of the board").into())
    }
}

/// One statement; only its first change can find that somebody was faster.
async fn at_once(db: &DbConnection, statement: &BoardStatement) -> Worked<BoardReply> {
    let ready = db.repeated(&statement.text, &statement.types).await?;
    let mut pipeline = Pipeline::begin(db);
    pipeline.query(ready, params(&statement.values));
    pipeline.commit();
    let answers = pipeline.run().await?;
    Ok(match answers.get(1) {
        Some(rows) if !rows.is_empty() => Ok(()),
        _ => Err(BoardConflict { change: 0 }),
    })
}

/// One transaction of several statements.
async fn attempt(db: &DbConnection, statements: &[BoardStatement]) -> Worked<BoardReply> {
    let mut ready = Vec::with_capacity(statements.len());
    for BoardStatement { text, types, .. } in statements {
        ready.push(db.repeated(text, types).await?);
    }
    let mut pipeline = Pipeline::begin(db);
    for (ready, statement) in ready.into_iter().zip(statements) {
        pipeline.query(ready, params(&statement.values));
    }
    let answers = pipeline.run().await?;
    let conflict = answers.iter().skip(1).position(Vec::is_empty);
    let mut pipeline = Pipeline::within(db);
    match conflict {
        Some(_) => pipeline.rollback(),
        None => pipeline.commit(),
    }
    pipeline.run().await?;
    Ok(match conflict {
        Some(change) => Err(BoardConflict { change }),
        None => Ok(()),
    })
}

/// All selections in one statement: rows of texts with the place of their selection.
fn selection(selects: &[BoardSelect]) -> BoardStatement {
    let mut types = Vec::new();
    let mut values: Vec<BoxedParam> = Vec::new();
    let mut parts = vec![CLOCK.to_owned()];
    for (index, select) in selects.iter().enumerate() {
        let mut conditions = Vec::new();
        for (column, texts) in &select.among {
            let number = values.len() + 1;
            // The server plans for many where any number may come: for one it knows the index.
            if let [text] = texts.as_slice() {
                values.push(Box::new(text.clone()));
                types.push("text");
                conditions.push(format!("{column} = ${number}"));
            } else {
                values.push(Box::new(texts.clone()));
                types.push("texts");
                conditions.push(format!("{column} = any(${number})"));
            }
        }
        if let Some((column, beginning)) = &select.prefix {
            values.push(Box::new(beginning.clone()));
            types.push("text");
            conditions.push(format!("starts_with({column}, ${})", values.len()));
        }
        parts.push(part(index + 1, select, &conditions));
    }
    BoardStatement {
        text: parts.join(" union all "),
        types: types.join(" "),
        values,
    }
}

fn part(place: usize, select: &BoardSelect, conditions: &[String]) -> String {
    let table = select.table.rows;
    let condition = if conditions.is_empty() {
        String::new()
    } else {
        format!("where {}", conditions.join(" and "))
    };
    let direction = match select.order {
        RowOrder::ByKey => "",
        RowOrder::ByKeyBackwards => " desc",
    };
    let key = table.columns[..table.key].iter();
    let order: Vec<String> = key.map(|(name, _)| format!("{name}{direction}")).collect();
    let cells = table.columns.iter().map(|(name, kind)| match kind {
        ColumnType::Text => (*name).to_owned(),
        ColumnType::Id
        | ColumnType::Int
        | ColumnType::Short
        | ColumnType::Json
        | ColumnType::Bytes => format!("{name}::text"),
    });
    format!(
        "(select {place}, array[{}] from {{schema}}.{} {condition} order by {} limit {})",
        cells.collect::<Vec<_>>().join(", "),
        table.name,
        order.join(", "),
        select.limit.min(limit::BOARD_ROWS_MAX)
    )
}

/// The clock's row and the rows of each selection, in their order: a union promises none. Texts are
/// compared byte by byte here and there.
fn by_place(rows: &[Row], selects: &[BoardSelect]) -> Worked<Vec<Vec<TransferRow>>> {
    let mut found: Vec<Vec<TransferRow>> = vec![Vec::new(); selects.len() + 1];
    for row in rows {
        let place = usize::try_from(row.get::<_, i32>(0)).unwrap_or_default();
        let columns = match place.checked_sub(1) {
            Some(index) => selects[index].table.rows.columns,
            None => CLOCK_ROW.columns,
        };
        found[place].push(cells(row.get(1), columns)?);
    }
    for (rows, select) in found[1..].iter_mut().zip(selects) {
        let table = select.table.rows;
        rows.sort_by(|one, other| {
            let order = table.key_of(one).cmp(table.key_of(other));
            match select.order {
                RowOrder::ByKey => order,
                RowOrder::ByKeyBackwards => order.reverse(),
            }
        });
    }
    Ok(found)
}

/// What the row of the clock looks like.
const CLOCK_ROW: TransferTable = TransferTable {
    name: "clock",
    columns: &[("now", ColumnType::Int)],
    key: 0,
};

fn cells(texts: Vec<Option<String>>, columns: &[(&str, ColumnType)]) -> Worked<TransferRow> {
    let cell = |(text, (name, kind)): (Option<String>, &(&str, ColumnType))| match (text, kind) {
        (None, _) => Ok(TransferValue::Null),
        (Some(text), ColumnType::Text) => Ok(TransferValue::Text(text)),
        (Some(text), _) => text.parse().map(TransferValue::Int).map_err(|_| {
            StoreError::corrupt(format!("'{text}' is no number for the column {name}")).into()
        }),
    };
    texts.into_iter().zip(columns).map(cell).collect()
}

/// A commit as one statement: each change is made if the one before it was, and the statement fails
/// if any but the first was not. Only for changes that do not get into each other's way: parts of a
/// statement do not see what the others write.
fn chain(changes: &[BoardChange]) -> Worked<Option<BoardStatement>> {
    let is_short = (1..=CHAIN_MAX).contains(&changes.len());
    if !is_short || !is_independent(changes) {
        return Ok(None);
    }
    let mut given = Given::default();
    let mut parts = Vec::new();
    let mut ends = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| format!("c{before}"));
        let after = before.map(|before| format!("exists (select 1 from {before})"));
        parts.push(format!(
            "c{index} as ({})",
            change_text(change, &mut given, after.as_deref())?
        ));
        if index > 0 {
            ends.push(format!(
                "when not exists (select 1 from c{index})
                 then ('{UNDONE}' || (select count(*) from c{index}))::bigint"
            ));
        }
    }
    let all_made = match ends.as_slice() {
        [] => "1".to_owned(),
        ends => format!("case {} else 1 end", ends.join(" ")),
    };
    Ok(Some(BoardStatement {
        text: format!("with {} select {all_made} from c0", parts.join(", ")),
        types: given.types.join(" "),
        values: given.values,
    }))
}

/// Inserts and updates only, and no row of a table that is updated is touched by another change.
fn is_independent(changes: &[BoardChange]) -> bool {
    let named = |table: &BoardTable| {
        let same = changes.iter().filter(|it| it.table() == table);
        same.count()
    };
    changes.iter().all(|change| match change {
        BoardChange::Insert { .. } => true,
        BoardChange::Update { table, .. } => named(table) == 1,
        BoardChange::Delete { .. } | BoardChange::Require { .. } => false,
    })
}

/// A statement that answers with a row if the change was made.
fn statement(change: &BoardChange) -> Worked<BoardStatement> {
    let mut given = Given::default();
    let text = change_text(change, &mut given, None)?;
    Ok(BoardStatement {
        text,
        types: given.types.join(" "),
        values: given.values,
    })
}

/// The text of a change that is made if the condition holds.
fn change_text(change: &BoardChange, given: &mut Given, after: Option<&str>) -> Worked<String> {
    let table = change.table();
    let and = after.map_or_else(String::new, |after| format!(" and {after}"));
    Ok(match change {
        BoardChange::Insert { row, .. } => {
            let placeholders = given.all(table, row)?;
            format!(
                "insert into {{schema}}.{} ({}) select {} where true{and}
                 on conflict do nothing returning 1",
                table.rows.name,
                names(table.rows.columns),
                placeholders.join(", ")
            )
        }
        BoardChange::Update { row, over, .. } => {
            let placeholders = given.all(table, row)?;
            let columns = table.rows.columns.iter().zip(&placeholders);
            let set: Vec<String> = columns
                .map(|((name, _), placeholder)| format!("{name} = {placeholder}"))
                .collect();
            format!(
                "update {{schema}}.{} set {} where {}{and} returning 1",
                table.rows.name,
                set.join(", "),
                given.keyed(table, change.key(), *over)?
            )
        }
        BoardChange::Delete { over, .. } => format!(
            "delete from {{schema}}.{} where {}{and} returning 1",
            table.rows.name,
            given.keyed(table, change.key(), *over)?
        ),
        BoardChange::Require { values, .. } => requirement(change, values, given)?,
    })
}

fn requirement(
    change: &BoardChange,
    values: &[(&'static str, TransferValue)],
    given: &mut Given,
) -> Worked<String> {
    let table = change.table();
    let key = table.rows.columns.iter().zip(change.key());
    let key = key.map(|((name, kind), value)| (*name, *kind, value));
    let values = values.iter().map(|(name, value)| {
        let kind = table.rows.columns[table.column_index(name)].1;
        (*name, kind, value)
    });
    let mut same = Vec::new();
    for (name, kind, value) in key.chain(values) {
        let placeholder = given.one(kind, value)?;
        same.push(format!("{name} is not distinct from {placeholder}"));
    }
    // The row stays as it is until the commit.
    Ok(format!(
        "select 1 from {{schema}}.{} where {} for share",
        table.rows.name,
        same.join(" and ")
    ))
}

/// Parameters as they are given to a statement.
#[derive(Default)]
struct Given {
    types: Vec<&'static str>,
    values: Vec<BoxedParam>,
}

impl Given {
    fn one(&mut self, kind: ColumnType, value: &TransferValue) -> Worked<String> {
        let value: Box<dyn ToSql + Send + Sync> = single(kind, value)?;
        self.values.push(value);
        self.types.push(word(kind));
        Ok(format!("${}", self.values.len()))
    }

    fn all(&mut self, table: &BoardTable, row: &TransferRow) -> Worked<Vec<String>> {
        let cells = row.iter().zip(table.rows.columns);
        cells
            .map(|(value, (_, kind))| self.one(*kind, value))
            .collect()
    }

    /// `id = $1 and revision = $2`
    fn keyed(&mut self, table: &BoardTable, key: &[TransferValue], over: i64) -> Worked<String> {
        let over = TransferValue::Int(over);
        let columns = &table.rows.columns[..=table.revision()];
        let mut same = Vec::new();
        for ((name, kind), value) in columns.iter().zip(key.iter().chain([&over])) {
            same.push(format!("{name} = {}", self.one(*kind, value)?));
        }
        Ok(same.join(" and "))
    }
}
