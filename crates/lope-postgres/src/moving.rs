//! The store as rows of cells, for moving it as a whole.

use async_trait::async_trait;
use lope_store::moving::{Cell, Kind, MovedRow, MovedTable};
use lope_store::{Moving, StoreError, StoreResult};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::failure::Worked;
use crate::inner::{Handle, Inner};
use crate::link::Flight;
use crate::statement::Params;

/// Tags of runs, and the mark of those that did not complete.
const TAGS: &str = "begin isolation level read committed; set local statement_timeout = 0;
    insert into {schema}.run_tags (tag, value, created_at, run_id)
    select t.key, t.value, r.created_at, r.run_id from {schema}.runs r, jsonb_each_text(r.tags) t
    union all
    select '', r.status, r.created_at, r.run_id from {schema}.runs r where r.status in ('failed', 'cancelled')
    on conflict do nothing";
const NOTE: &str = "select value from {schema}.meta where key = $1";
const SET_NOTE: &str =
    "insert into {schema}.meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value";
const DROP_NOTE: &str = "delete from {schema}.meta where key = $1";

type Array = Box<dyn ToSql + Send + Sync>;

#[async_trait]
impl Moving for Handle {
    async fn rows(&self, table: MovedTable, after: Option<Vec<Cell>>, limit: usize) -> StoreResult<Vec<MovedRow>> {
        Ok(self.0.moved_rows(table, after.as_deref(), limit).await?)
    }

    async fn last(&self, table: MovedTable) -> StoreResult<Option<Vec<Cell>>> {
        Ok(self.0.last_moved(table).await?)
    }

    async fn fill(&self, table: MovedTable, rows: Vec<MovedRow>) -> StoreResult<()> {
        let columns = table.columns.iter().enumerate();
        let arrays = columns.map(|(place, (_, kind))| array(*kind, rows.iter().map(|row| &row[place])));
        let arrays = arrays.collect::<Worked<Vec<Array>>>()?;
        let types: Vec<&str> = table.columns.iter().map(|(_, kind)| words(*kind)).collect();
        Ok(self.0.change(&insertion(table), &types.join(" "), &arrays).await?)
    }

    async fn settle(&self) -> StoreResult<()> {
        let link = self.0.control.get().await?;
        link.begin_script(TAGS).await?;
        Ok(link.end_script("commit").await?)
    }

    async fn note(&self, name: &str) -> StoreResult<Option<String>> {
        let rows = self.0.control.get().await?.read_once(NOTE, "text", vec![&name]).await?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    async fn set_note(&self, name: &str, text: Option<String>) -> StoreResult<()> {
        let name: Array = Box::new(name.to_owned());
        match text {
            Some(text) => self.0.change(SET_NOTE, "text text", &[name, Box::new(text)]).await?,
            None => self.0.change(DROP_NOTE, "text", &[name]).await?,
        }
        Ok(())
    }
}

impl Inner {
    async fn moved_rows(&self, table: MovedTable, after: Option<&[Cell]>, limit: usize) -> Worked<Vec<MovedRow>> {
        let key = names(&table.columns[..table.key]);
        let wanted: Vec<String> = table.columns.iter().map(|(name, kind)| read_as(name, *kind)).collect();
        let places: Vec<String> =
            table.columns[..table.key].iter().enumerate().map(|(place, (_, kind))| bound(place, *kind)).collect();
        let behind = after.map_or_else(String::new, |_| format!("where ({key}) > ({})", places.join(", ")));
        let wanted = wanted.join(", ");
        let text = format!("select {wanted} from {{schema}}.{} {behind} order by {key} limit {limit}", table.name);
        let keyed = table.columns.iter().zip(after.unwrap_or_default());
        let keys = keyed.map(|((_, kind), cell)| single(*kind, cell)).collect::<Worked<Vec<Array>>>()?;
        let types: Vec<&str> = table.columns.iter().take(keys.len()).map(|(_, kind)| word(*kind)).collect();
        let rows = self.control.get().await?.read_once(&text, &types.join(" "), params(&keys)).await?;
        Ok(rows.iter().map(|row| cells(row, table.columns)).collect())
    }

    async fn last_moved(&self, table: MovedTable) -> Worked<Option<Vec<Cell>>> {
        let key = &table.columns[..table.key];
        let wanted: Vec<String> = key.iter().map(|(name, kind)| read_as(name, *kind)).collect();
        let order: Vec<String> = key.iter().map(|(name, _)| format!("{name} desc")).collect();
        let (wanted, order) = (wanted.join(", "), order.join(", "));
        let text = format!("select {wanted} from {{schema}}.{} order by {order} limit 1", table.name);
        let rows = self.control.get().await?.read_once(&text, "", vec![]).await?;
        Ok(rows.first().map(|row| cells(row, key)))
    }

    /// One statement of its own text that writes, in a transaction of its own.
    async fn change(&self, text: &str, types: &str, values: &[Array]) -> Worked<()> {
        let link = self.control.get().await?;
        let ready = link.text(text, types);
        let mut flight = Flight::begin(&link);
        flight.query(ready, params(values));
        flight.commit();
        flight.land().await.map(drop)
    }
}

fn names(columns: &[(&'static str, Kind)]) -> String {
    columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn params(values: &[Array]) -> Params<'_> {
    values.iter().map(|value| -> &(dyn ToSql + Sync) { &**value }).collect()
}

/// A column as it is read.
fn read_as(name: &str, kind: Kind) -> String {
    match kind {
        Kind::Short => format!("{name}::bigint"),
        Kind::Json => format!("{name}::text"),
        Kind::Id | Kind::Int | Kind::Text | Kind::Bytes => name.to_owned(),
    }
}

/// A parameter where a column is compared with it.
fn bound(place: usize, kind: Kind) -> String {
    match kind {
        Kind::Short => format!("${}::smallint", place + 1),
        Kind::Id | Kind::Int | Kind::Text | Kind::Json | Kind::Bytes => format!("${}", place + 1),
    }
}

fn insertion(table: MovedTable) -> String {
    let places: Vec<String> = (1..=table.columns.len()).map(|place| format!("${place}")).collect();
    let wanted: Vec<String> = table
        .columns
        .iter()
        .map(|(name, kind)| match kind {
            Kind::Short => format!("v.{name}::smallint"),
            Kind::Json => format!("v.{name}::jsonb"),
            Kind::Id | Kind::Int | Kind::Text | Kind::Bytes => format!("v.{name}"),
        })
        .collect();
    let (columns, places, wanted) = (names(table.columns), places.join(", "), wanted.join(", "));
    format!(
        "insert into {{schema}}.{} ({columns}) select {wanted} from unnest({places}) as v ({columns}) on conflict do nothing",
        table.name
    )
}

const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Id => "uuid",
        Kind::Int | Kind::Short => "int",
        Kind::Text | Kind::Json => "text",
        Kind::Bytes => "byte",
    }
}

const fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Id => "uuids",
        Kind::Int | Kind::Short => "ints",
        Kind::Text | Kind::Json => "texts",
        Kind::Bytes => "bytes",
    }
}

fn cells(row: &Row, columns: &[(&'static str, Kind)]) -> MovedRow {
    let cell = |(place, (_, kind)): (usize, &(&str, Kind))| match kind {
        Kind::Id => row.get::<_, Option<Uuid>>(place).map(|id| Cell::Bytes(id.as_bytes().to_vec())),
        Kind::Int | Kind::Short => row.get::<_, Option<i64>>(place).map(Cell::Int),
        Kind::Text | Kind::Json => row.get::<_, Option<String>>(place).map(Cell::Text),
        Kind::Bytes => row.get::<_, Option<Vec<u8>>>(place).map(Cell::Bytes),
    };
    columns.iter().enumerate().map(|column| cell(column).unwrap_or(Cell::Null)).collect()
}

fn single(kind: Kind, cell: &Cell) -> Worked<Array> {
    Ok(match kind {
        Kind::Id => Box::new(id(cell)?),
        Kind::Int | Kind::Short => Box::new(number(cell)?),
        Kind::Text | Kind::Json => Box::new(text(cell)?),
        Kind::Bytes => Box::new(bytes(cell)?),
    })
}

fn array<'a>(kind: Kind, mut cells: impl Iterator<Item = &'a Cell>) -> Worked<Array> {
    Ok(match kind {
        Kind::Id => Box::new(cells.map(id).collect::<Worked<Vec<_>>>()?),
        Kind::Int | Kind::Short => Box::new(cells.map(number).collect::<Worked<Vec<_>>>()?),
        Kind::Text | Kind::Json => Box::new(cells.map(text).collect::<Worked<Vec<_>>>()?),
        Kind::Bytes => Box::new(cells.by_ref().map(bytes).collect::<Worked<Vec<_>>>()?),
    })
}

fn odd<T>() -> Worked<T> {
    Err(StoreError::corrupt("a cell is not of its column's kind").into())
}

fn id(cell: &Cell) -> Worked<Option<Uuid>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Bytes(bytes) => Uuid::from_slice(bytes).map(Some).or_else(|_| odd()),
        Cell::Int(_) | Cell::Text(_) => odd(),
    }
}

fn number(cell: &Cell) -> Worked<Option<i64>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Int(number) => Ok(Some(*number)),
        Cell::Text(_) | Cell::Bytes(_) => odd(),
    }
}

fn text(cell: &Cell) -> Worked<Option<String>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Text(text) => Ok(Some(text.clone())),
        Cell::Int(_) | Cell::Bytes(_) => odd(),
    }
}

fn bytes(cell: &Cell) -> Worked<Option<Vec<u8>>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Bytes(bytes) => Ok(Some(bytes.clone())),
        Cell::Int(_) | Cell::Text(_) => odd(),
    }
}
