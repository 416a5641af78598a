//! The store as rows of values, for the transfer of a whole store.

use async_trait::async_trait;
use lope_store::transfer::{ColumnType, TransferRow, TransferTable, TransferValue};
use lope_store::{StoreError, StoreResult, Transfer};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension, Row, ToSql, params_from_iter};

use crate::doors::Doors;
use crate::failure::Worked;
use crate::tx::Tx;

const TAGS: &str = "INSERT OR IGNORE INTO run_tags (tag, value, created_at, run_id)
     SELECT t.key, t.value, r.created_at, r.run_id FROM runs AS r, json_each(r.tags) AS t";
const NOTE: &str = "SELECT value FROM meta WHERE key = ?1";
const SET_NOTE: &str = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const DROP_NOTE: &str = "DELETE FROM meta WHERE key = ?1";

#[async_trait]
impl Transfer for Doors {
    async fn rows(
        &self,
        table: TransferTable,
        after: Option<Vec<TransferValue>>,
        limit: usize,
    ) -> StoreResult<Vec<TransferRow>> {
        self.read(move |tx| rows(tx, table, after.as_deref(), limit))
            .await
    }

    async fn last(&self, table: TransferTable) -> StoreResult<Option<Vec<TransferValue>>> {
        self.read(move |tx| last(tx, table)).await
    }

    async fn fill(&self, table: TransferTable, rows: Vec<TransferRow>) -> StoreResult<()> {
        self.write(rows.len(), move |tx| fill(tx, table, &rows))
            .await
    }

    async fn settle(&self) -> StoreResult<()> {
        let made = |tx: &Tx<'_>| {
            tx.statement(TAGS)?.execute([])?;
            tx.made_work();
            Ok(())
        };
        self.write(1, made).await
    }

    async fn note(&self, name: &str) -> StoreResult<Option<String>> {
        let name = name.to_owned();
        self.read(move |tx| {
            Ok(tx
                .statement(NOTE)?
                .query_row([&name], |row| row.get(0))
                .optional()?)
        })
        .await
    }

    async fn set_note(&self, name: &str, text: Option<String>) -> StoreResult<()> {
        let name = name.to_owned();
        let set = move |tx: &Tx<'_>| {
            match &text {
                Some(text) => tx.statement(SET_NOTE)?.execute([&name, text])?,
                None => tx.statement(DROP_NOTE)?.execute([&name])?,
            };
            Ok(())
        };
        self.write(1, set).await
    }
}

pub(crate) fn names(columns: &[(&'static str, ColumnType)]) -> String {
    columns
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// `?1, ?2, …`
pub(crate) fn placeholders(count: usize) -> String {
    (1..=count)
        .map(|index| format!("?{index}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn rows(
    tx: &Tx<'_>,
    table: TransferTable,
    after: Option<&[TransferValue]>,
    limit: usize,
) -> Worked<Vec<TransferRow>> {
    let (columns, key) = (names(table.columns), names(&table.columns[..table.key]));
    let behind = after.map_or_else(String::new, |_| {
        format!("WHERE ({key}) > ({})", placeholders(table.key))
    });
    let text = format!(
        "SELECT {columns} FROM {} {behind} ORDER BY {key} LIMIT {limit}",
        table.name
    );
    let mut statement = tx.statement(&text)?;
    let mut found = statement.query(params_from_iter(
        after.unwrap_or_default().iter().map(Bound),
    ))?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(cells(row, table.columns.len())?);
    }
    Ok(rows)
}

fn last(tx: &Tx<'_>, table: TransferTable) -> Worked<Option<Vec<TransferValue>>> {
    let key = &table.columns[..table.key];
    let order: Vec<String> = key.iter().map(|(name, _)| format!("{name} DESC")).collect();
    let text = format!(
        "SELECT {} FROM {} ORDER BY {} LIMIT 1",
        names(key),
        table.name,
        order.join(", ")
    );
    let mut statement = tx.statement(&text)?;
    let mut found = statement.query([])?;
    found.next()?.map(|row| cells(row, table.key)).transpose()
}

fn fill(tx: &Tx<'_>, table: TransferTable, rows: &[TransferRow]) -> Worked<()> {
    let columns = names(table.columns);
    let placeholders = placeholders(table.columns.len());
    let text = format!(
        "INSERT INTO {} ({columns}) VALUES ({placeholders}) ON CONFLICT DO NOTHING",
        table.name
    );
    let mut statement = tx.statement(&text)?;
    for row in rows {
        statement.execute(params_from_iter(row.iter().map(Bound)))?;
    }
    Ok(())
}

pub(crate) fn cells(row: &Row<'_>, count: usize) -> Worked<TransferRow> {
    (0..count).map(|index| cell(row.get_ref(index)?)).collect()
}

fn cell(value: ValueRef<'_>) -> Worked<TransferValue> {
    Ok(match value {
        ValueRef::Null => TransferValue::Null,
        ValueRef::Integer(number) => TransferValue::Int(number),
        ValueRef::Real(_) => {
            return Err(StoreError::corrupt("a column holds a number with a fraction").into());
        }
        ValueRef::Text(text) => TransferValue::Text(
            std::str::from_utf8(text)
                .map_err(StoreError::corrupt)?
                .to_owned(),
        ),
        ValueRef::Blob(bytes) => TransferValue::Bytes(bytes.to_vec()),
    })
}

pub(crate) struct Bound<'a>(pub(crate) &'a TransferValue);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            TransferValue::Null => ValueRef::Null,
            TransferValue::Int(number) => ValueRef::Integer(*number),
            TransferValue::Text(text) => ValueRef::Text(text.as_bytes()),
            TransferValue::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
