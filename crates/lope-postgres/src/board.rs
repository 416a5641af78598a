//! The door *Board*: rows of the board's tables, written over the revisions that were read.
//!
//! A commit is one transaction: its changes go out in one trip, and if one of them found nothing to
//! change, all are rolled back. Who inserts what somebody else is inserting waits for the other.

use std::time::{Duration, Instant};

use lope_model::{Moment, Timestamp, limit};
use lope_store::board::{
    BoardChange, BoardClock, BoardConflict, BoardRead, BoardReply, BoardSelect, BoardTable,
    BoardVerbs, RowOrder, validate,
};
use lope_store::transfer::{ColumnType, TransferRow, TransferValue};
use lope_store::watch::Hint;
use lope_store::{StoreError, StoreResult, Watch};
use tokio_postgres::types::ToSql;

use crate::connection::{DbConnection, Pipeline, ReadStatement, View};
use crate::failure::{FaultResponse, Worked};
use crate::inner::{Handle, PostgresInner};
use crate::transfer::{BoxedParam, cells, names, params, single, word};

const CLOCK: &str = "select {now}";
/// The longest lease of a task or a runner that a step of the clock is held back for: whoever lives
/// has renewed it by then.
const BOARD_LEASE: Duration = Duration::from_hours(1);
/// How often a commit that was rolled back because others stood in its way is tried again.
const TRIES_MAX: u32 = 10;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(2);

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
        if reply.is_ok() {
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
        let statements: Vec<BoardStatement> = selects.iter().map(selection).collect();
        let mut asked = vec![(
            ReadStatement::Repeated {
                text: CLOCK,
                types: "",
            },
            Vec::new(),
        )];
        for BoardStatement {
            text,
            types,
            values,
        } in &statements
        {
            asked.push((ReadStatement::Repeated { text, types }, params(values)));
        }
        let sent = Instant::now();
        let mut answers = self.reads.read_together(View::Rows, &asked).await?;
        let now: i64 = answers
            .remove(0)
            .first()
            .map(|row| row.get(0))
            .ok_or_else(|| StoreError::corrupt("the clock did not answer"))?;
        self.board_clock.observe(sent, now, BOARD_LEASE);
        let rows = answers.iter().zip(selects);
        let rows = rows.map(|(rows, select)| {
            let columns = select.table.rows.columns;
            rows.iter().map(|row| cells(row, columns)).collect()
        });
        Ok(BoardRead {
            rows: rows.collect(),
            clock: BoardClock {
                now: Timestamp::from_millis(now),
                moment: Moment(now),
                lease_moment: Moment(now.min(self.board_clock.latest())),
                boot_id: String::new(),
            },
        })
    }

    async fn commit_board(&self, changes: &[BoardChange]) -> Worked<BoardReply> {
        let statements = changes.iter().map(statement);
        let statements = statements.collect::<Worked<Vec<BoardStatement>>>()?;
        let db = self.reads.get().await?;
        for tries in 1..=TRIES_MAX {
            match attempt(&db, &statements).await {
                Err(fault) if fault.response == FaultResponse::Again => {}
                answered => return answered,
            }
            tokio::time::sleep(TRY_AGAIN_AFTER * tries).await;
        }
        Err(StoreError::unavailable("others kept writing the same rows of the board").into())
    }
}

/// One transaction.
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

fn selection(select: &BoardSelect) -> BoardStatement {
    let table = select.table.rows;
    let mut conditions = Vec::new();
    let mut types = Vec::new();
    let mut values: Vec<BoxedParam> = Vec::new();
    for (column, texts) in &select.among {
        values.push(Box::new(texts.clone()));
        types.push("texts");
        conditions.push(format!("{column} = any(${})", values.len()));
    }
    if let Some((column, beginning)) = &select.prefix {
        values.push(Box::new(beginning.clone()));
        types.push("text");
        conditions.push(format!("starts_with({column}, ${})", values.len()));
    }
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
    let text = format!(
        "select {} from {{schema}}.{} {condition} order by {} limit {}",
        names(table.columns),
        table.name,
        order.join(", "),
        select.limit.min(limit::BOARD_ROWS_MAX)
    );
    BoardStatement {
        text,
        types: types.join(" "),
        values,
    }
}

/// A statement that answers with a row if the change was made.
fn statement(change: &BoardChange) -> Worked<BoardStatement> {
    let table = change.table();
    let mut given = Given::default();
    let text = match change {
        BoardChange::Insert { row, .. } => {
            let placeholders = given.all(table, row)?;
            format!(
                "insert into {{schema}}.{} ({}) values ({}) on conflict do nothing returning 1",
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
                "update {{schema}}.{} set {} where {} returning 1",
                table.rows.name,
                set.join(", "),
                given.keyed(table, change.key(), *over)?
            )
        }
        BoardChange::Delete { over, .. } => format!(
            "delete from {{schema}}.{} where {} returning 1",
            table.rows.name,
            given.keyed(table, change.key(), *over)?
        ),
        BoardChange::Require { values, .. } => {
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
            format!(
                "select 1 from {{schema}}.{} where {} for share",
                table.rows.name,
                same.join(" and ")
            )
        }
    };
    Ok(BoardStatement {
        text,
        types: given.types.join(" "),
        values: given.values,
    })
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
