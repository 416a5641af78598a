//! The store as rows of cells, for moving it as a whole.

use async_trait::async_trait;
use lope_store::moving::{Cell, Kind, MovedRow, MovedTable};
use lope_store::{Moving, StoreError, StoreResult};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension, Row, ToSql, params_from_iter};

use crate::desk::Desk;
use crate::doors::Doors;
use crate::failure::Worked;

const TAGS: &str = "INSERT OR IGNORE INTO run_tags (tag, value, created_at, run_id)
     SELECT t.key, t.value, r.created_at, r.run_id FROM runs AS r, json_each(r.tags) AS t";
const NOTE: &str = "SELECT value FROM meta WHERE key = ?1";
const SET_NOTE: &str =
    "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const DROP_NOTE: &str = "DELETE FROM meta WHERE key = ?1";

#[async_trait]
impl Moving for Doors {
    async fn rows(&self, table: MovedTable, after: Option<Vec<Cell>>, limit: usize) -> StoreResult<Vec<MovedRow>> {
        self.read(move |desk| rows(desk, table, after.as_deref(), limit)).await
    }

    async fn last(&self, table: MovedTable) -> StoreResult<Option<Vec<Cell>>> {
        self.read(move |desk| last(desk, table)).await
    }

    async fn fill(&self, table: MovedTable, rows: Vec<MovedRow>) -> StoreResult<()> {
        self.write(rows.len(), move |desk| fill(desk, table, &rows)).await
    }

    async fn settle(&self) -> StoreResult<()> {
        let made = |desk: &Desk<'_>| {
            desk.statement(TAGS)?.execute([])?;
            desk.made_work();
            Ok(())
        };
        self.write(1, made).await
    }

    async fn note(&self, name: &str) -> StoreResult<Option<String>> {
        let name = name.to_owned();
        self.read(move |desk| Ok(desk.statement(NOTE)?.query_row([&name], |row| row.get(0)).optional()?)).await
    }

    async fn set_note(&self, name: &str, text: Option<String>) -> StoreResult<()> {
        let name = name.to_owned();
        let set = move |desk: &Desk<'_>| {
            match &text {
                Some(text) => desk.statement(SET_NOTE)?.execute([&name, text])?,
                None => desk.statement(DROP_NOTE)?.execute([&name])?,
            };
            Ok(())
        };
        self.write(1, set).await
    }
}

fn names(columns: &[(&'static str, Kind)]) -> String {
    columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// `?1, ?2, …`
fn places(count: usize) -> String {
    (1..=count).map(|place| format!("?{place}")).collect::<Vec<_>>().join(", ")
}

fn rows(desk: &Desk<'_>, table: MovedTable, after: Option<&[Cell]>, limit: usize) -> Worked<Vec<MovedRow>> {
    let (columns, key) = (names(table.columns), names(&table.columns[..table.key]));
    let behind = after.map_or_else(String::new, |_| format!("WHERE ({key}) > ({})", places(table.key)));
    let text = format!("SELECT {columns} FROM {} {behind} ORDER BY {key} LIMIT {limit}", table.name);
    let mut statement = desk.statement(&text)?;
    let mut found = statement.query(params_from_iter(after.unwrap_or_default().iter().map(Bound)))?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(cells(row, table.columns.len())?);
    }
    Ok(rows)
}

fn last(desk: &Desk<'_>, table: MovedTable) -> Worked<Option<Vec<Cell>>> {
    let key = &table.columns[..table.key];
    let order: Vec<String> = key.iter().map(|(name, _)| format!("{name} DESC")).collect();
    let text = format!("SELECT {} FROM {} ORDER BY {} LIMIT 1", names(key), table.name, order.join(", "));
    let mut statement = desk.statement(&text)?;
    let mut found = statement.query([])?;
    found.next()?.map(|row| cells(row, table.key)).transpose()
}

fn fill(desk: &Desk<'_>, table: MovedTable, rows: &[MovedRow]) -> Worked<()> {
    let (columns, places) = (names(table.columns), places(table.columns.len()));
    let text = format!("INSERT INTO {} ({columns}) VALUES ({places}) ON CONFLICT DO NOTHING", table.name);
    let mut statement = desk.statement(&text)?;
    for row in rows {
        statement.execute(params_from_iter(row.iter().map(Bound)))?;
    }
    Ok(())
}

fn cells(row: &Row<'_>, count: usize) -> Worked<MovedRow> {
    (0..count).map(|place| cell(row.get_ref(place)?)).collect()
}

fn cell(value: ValueRef<'_>) -> Worked<Cell> {
    Ok(match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Int(number),
        ValueRef::Real(_) => return Err(StoreError::corrupt("a column holds a number with a fraction").into()),
        ValueRef::Text(text) => Cell::Text(std::str::from_utf8(text).map_err(StoreError::corrupt)?.to_owned()),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
    })
}

struct Bound<'a>(&'a Cell);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Cell::Null => ValueRef::Null,
            Cell::Int(number) => ValueRef::Integer(*number),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
