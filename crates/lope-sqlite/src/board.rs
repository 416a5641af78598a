//! The door *Board*: rows of the board's tables, written over the revisions that were read.

use lope_model::limit;
use lope_store::board::{
    BoardChange, BoardClock, BoardConflict, BoardRead, BoardReply, BoardSelect, BoardTable,
    BoardVerbs, RowOrder, validate,
};
use lope_store::transfer::{TransferRow, TransferValue};
use lope_store::{StoreResult, Watch};
use rusqlite::{ErrorCode, params_from_iter};

use crate::doors::Doors;
use crate::failure::{SqliteFault, Worked};
use crate::transfer::{Bound, cells, names, placeholders};
use crate::tx::Tx;

impl BoardVerbs for Doors {
    async fn read(&self, selects: Vec<BoardSelect>) -> StoreResult<BoardRead> {
        validate::selects(&selects)?;
        self.read(move |tx| {
            let rows = selects.iter().map(|select| rows(tx, select));
            Ok(BoardRead {
                rows: rows.collect::<Worked<_>>()?,
                clock: BoardClock {
                    now: tx.now,
                    moment: tx.moment,
                    lease_moment: tx.moment,
                    boot_id: tx.inner.options.boot_id.clone(),
                },
            })
        })
        .await
    }

    async fn commit(&self, changes: Vec<BoardChange>) -> StoreResult<BoardReply> {
        validate::changes(&changes)?;
        self.write(changes.len(), move |tx| commit(tx, &changes))
            .await
    }

    fn watch(&self) -> Watch {
        self.listen();
        self.inner.notifiers.runs.watch()
    }
}

fn rows(tx: &Tx<'_>, select: &BoardSelect) -> Worked<Vec<TransferRow>> {
    let table = select.table.rows;
    let mut conditions = Vec::new();
    let mut values: Vec<TransferValue> = Vec::new();
    for (column, texts) in &select.among {
        let marks = vec!["?"; texts.len()].join(", ");
        conditions.push(format!("{column} IN ({marks})"));
        values.extend(texts.iter().cloned().map(TransferValue::Text));
    }
    if let Some((column, beginning)) = &select.prefix {
        conditions.push(format!("substr({column}, 1, ?) = ?"));
        let length = i64::try_from(beginning.chars().count()).unwrap_or(i64::MAX);
        values.push(TransferValue::Int(length));
        values.push(TransferValue::Text(beginning.clone()));
    }
    let condition = if conditions.is_empty() {
        String::new()
    } else {
        format!("WHERE {}", conditions.join(" AND "))
    };
    let direction = match select.order {
        RowOrder::ByKey => "",
        RowOrder::ByKeyBackwards => " DESC",
    };
    let key = table.columns[..table.key].iter();
    let order: Vec<String> = key.map(|(name, _)| format!("{name}{direction}")).collect();
    let text = format!(
        "SELECT {} FROM {} {condition} ORDER BY {} LIMIT {}",
        names(table.columns),
        table.name,
        order.join(", "),
        select.limit.min(limit::BOARD_ROWS_MAX)
    );
    let mut statement = tx.statement(&text)?;
    let mut found = statement.query(params_from_iter(values.iter().map(Bound)))?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(cells(row, table.columns.len())?);
    }
    Ok(rows)
}

/// Other commits may share the transaction: what this one wrote before its conflict is taken back
/// alone.
fn commit(tx: &Tx<'_>, changes: &[BoardChange]) -> Worked<BoardReply> {
    tx.db.execute_batch("SAVEPOINT board")?;
    for (index, change) in changes.iter().enumerate() {
        if !applied(tx, change)? {
            tx.db.execute_batch("ROLLBACK TO board; RELEASE board")?;
            return Ok(Err(BoardConflict { change: index }));
        }
    }
    tx.db.execute_batch("RELEASE board")?;
    if changes.iter().any(BoardChange::wakes) {
        tx.made_work();
    }
    Ok(Ok(()))
}

/// False: it cannot be made.
fn applied(tx: &Tx<'_>, change: &BoardChange) -> Worked<bool> {
    let table = change.table();
    let key = change.key();
    match change {
        BoardChange::Insert { row, .. } => {
            let columns = names(table.rows.columns);
            let placeholders = placeholders(row.len());
            let text = format!(
                "INSERT INTO {} ({columns}) VALUES ({placeholders})",
                table.rows.name
            );
            changed(tx, &text, row.iter())
        }
        BoardChange::Update { row, over, .. } => {
            let columns = table.rows.columns.iter();
            let set: Vec<String> = columns.map(|(name, _)| format!("{name} = ?")).collect();
            let text = format!(
                "UPDATE {} SET {} WHERE {}",
                table.rows.name,
                set.join(", "),
                keyed(table)
            );
            let over = TransferValue::Int(*over);
            changed(tx, &text, row.iter().chain(key).chain([&over]))
        }
        BoardChange::Delete { over, .. } => {
            let text = format!("DELETE FROM {} WHERE {}", table.rows.name, keyed(table));
            let over = TransferValue::Int(*over);
            changed(tx, &text, key.iter().chain([&over]))
        }
        BoardChange::Require { values, .. } => {
            let named = table.rows.columns[..table.rows.key].iter();
            let named = named.map(|(name, _)| *name);
            let named = named.chain(values.iter().map(|(name, _)| *name));
            let same: Vec<String> = named.map(|name| format!("{name} IS ?")).collect();
            let text = format!(
                "SELECT 1 FROM {} WHERE {}",
                table.rows.name,
                same.join(" AND ")
            );
            let given = key.iter().chain(values.iter().map(|(_, value)| value));
            Ok(tx
                .statement(&text)?
                .exists(params_from_iter(given.map(Bound)))?)
        }
    }
}

/// `id = ? AND revision = ?`
fn keyed(table: &BoardTable) -> String {
    let columns = table.rows.columns[..=table.revision()].iter();
    let same: Vec<String> = columns.map(|(name, _)| format!("{name} = ?")).collect();
    same.join(" AND ")
}

fn changed<'a>(
    tx: &Tx<'_>,
    text: &str,
    values: impl Iterator<Item = &'a TransferValue>,
) -> Worked<bool> {
    let given = params_from_iter(values.map(Bound));
    match tx.statement(text)?.execute(given) {
        Ok(rows) => Ok(rows > 0),
        Err(error) if is_taken(&error) => Ok(false),
        Err(error) => Err(SqliteFault::Sqlite(error)),
    }
}

/// Is the key, or a value that must be unique, there already?
fn is_taken(error: &rusqlite::Error) -> bool {
    let failure = error.sqlite_error();
    failure.is_some_and(|failure| {
        failure.code == ErrorCode::ConstraintViolation
            && matches!(
                failure.extended_code,
                rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE
                    | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY
            )
    })
}
