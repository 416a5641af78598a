//! The store as rows of values, for the transfer of a whole store.

use async_trait::async_trait;
use lope_store::transfer::{ColumnType, TransferRow, TransferTable, TransferValue};
use lope_store::{StoreError, StoreResult, Transfer};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::connection::Pipeline;
use crate::failure::Worked;
use crate::inner::{Handle, PostgresInner};
use crate::statement::Params;

/// Tags of runs, and the mark of those that did not complete.
const TAGS: &str = "begin isolation level read committed; set local statement_timeout = 0;
    insert into {schema}.run_tags (tag, value, created_at, run_id)
    select t.key, t.value, r.created_at, r.run_id from {schema}.runs r, jsonb_each_text(r.tags) t
    union all
    select '', r.status, r.created_at, r.run_id from {schema}.runs r where r.status in ('failed', 'cancelled')
    on conflict do nothing";
const NOTE: &str = "select value from {schema}.meta where key = $1";
const SET_NOTE: &str = "insert into {schema}.meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value";
const DROP_NOTE: &str = "delete from {schema}.meta where key = $1";

pub(crate) type BoxedParam = Box<dyn ToSql + Send + Sync>;

#[async_trait]
impl Transfer for Handle {
    async fn rows(
        &self,
        table: TransferTable,
        after: Option<Vec<TransferValue>>,
        limit: usize,
    ) -> StoreResult<Vec<TransferRow>> {
        Ok(self.0.moved_rows(table, after.as_deref(), limit).await?)
    }

    async fn last(&self, table: TransferTable) -> StoreResult<Option<Vec<TransferValue>>> {
        Ok(self.0.last_moved(table).await?)
    }

    async fn fill(&self, table: TransferTable, rows: Vec<TransferRow>) -> StoreResult<()> {
        let columns = table.columns.iter().enumerate();
        let arrays =
            columns.map(|(index, (_, kind))| array(*kind, rows.iter().map(|row| &row[index])));
        let arrays = arrays.collect::<Worked<Vec<BoxedParam>>>()?;
        let types: Vec<&str> = table.columns.iter().map(|(_, kind)| words(*kind)).collect();
        Ok(self
            .0
            .change(&insertion(table), &types.join(" "), &arrays)
            .await?)
    }

    async fn settle(&self) -> StoreResult<()> {
        let db = self.0.control.get().await?;
        db.begin_script(TAGS).await?;
        Ok(db.end_script("commit").await?)
    }

    async fn note(&self, name: &str) -> StoreResult<Option<String>> {
        let rows = self
            .0
            .control
            .get()
            .await?
            .read_once(NOTE, "text", vec![&name])
            .await?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    async fn set_note(&self, name: &str, text: Option<String>) -> StoreResult<()> {
        let name: BoxedParam = Box::new(name.to_owned());
        match text {
            Some(text) => {
                self.0
                    .change(SET_NOTE, "text text", &[name, Box::new(text)])
                    .await?;
            }
            None => self.0.change(DROP_NOTE, "text", &[name]).await?,
        }
        Ok(())
    }
}

impl PostgresInner {
    async fn moved_rows(
        &self,
        table: TransferTable,
        after: Option<&[TransferValue]>,
        limit: usize,
    ) -> Worked<Vec<TransferRow>> {
        let key = names(&table.columns[..table.key]);
        let wanted: Vec<String> = table
            .columns
            .iter()
            .map(|(name, kind)| read_as(name, *kind))
            .collect();
        let placeholders: Vec<String> = table.columns[..table.key]
            .iter()
            .enumerate()
            .map(|(index, (_, kind))| bound(index, *kind))
            .collect();
        let behind = after.map_or_else(String::new, |_| {
            format!("where ({key}) > ({})", placeholders.join(", "))
        });
        let wanted = wanted.join(", ");
        let text = format!(
            "select {wanted} from {{schema}}.{} {behind} order by {key} limit {limit}",
            table.name
        );
        let keyed = table.columns.iter().zip(after.unwrap_or_default());
        let keys = keyed
            .map(|((_, kind), cell)| single(*kind, cell))
            .collect::<Worked<Vec<BoxedParam>>>()?;
        let types: Vec<&str> = table
            .columns
            .iter()
            .take(keys.len())
            .map(|(_, kind)| word(*kind))
            .collect();
        let rows = self
            .control
            .get()
            .await?
            .read_once(&text, &types.join(" "), params(&keys))
            .await?;
        Ok(rows.iter().map(|row| cells(row, table.columns)).collect())
    }

    async fn last_moved(&self, table: TransferTable) -> Worked<Option<Vec<TransferValue>>> {
        let key = &table.columns[..table.key];
        let wanted: Vec<String> = key
            .iter()
            .map(|(name, kind)| read_as(name, *kind))
            .collect();
        let order: Vec<String> = key.iter().map(|(name, _)| format!("{name} desc")).collect();
        let (wanted, order) = (wanted.join(", "), order.join(", "));
        let text = format!(
            "select {wanted} from {{schema}}.{} order by {order} limit 1",
            table.name
        );
        let rows = self
            .control
            .get()
            .await?
            .read_once(&text, "", vec![])
            .await?;
        Ok(rows.first().map(|row| cells(row, key)))
    }

    /// One statement of its own text that writes, in a transaction of its own.
    async fn change(&self, text: &str, types: &str, values: &[BoxedParam]) -> Worked<()> {
        let db = self.control.get().await?;
        let ready = db.text(text, types);
        let mut pipeline = Pipeline::begin(&db);
        pipeline.query(ready, params(values));
        pipeline.commit();
        pipeline.run().await.map(drop)
    }
}

pub(crate) fn names(columns: &[(&'static str, ColumnType)]) -> String {
    columns
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ")
}

pub(crate) fn params(values: &[BoxedParam]) -> Params<'_> {
    values
        .iter()
        .map(|value| -> &(dyn ToSql + Sync) { &**value })
        .collect()
}

/// A column as it is read.
fn read_as(name: &str, kind: ColumnType) -> String {
    match kind {
        ColumnType::Short => format!("{name}::bigint"),
        ColumnType::Json => format!("{name}::text"),
        ColumnType::Id | ColumnType::Int | ColumnType::Text | ColumnType::Bytes => name.to_owned(),
    }
}

/// A parameter where a column is compared with it.
fn bound(index: usize, kind: ColumnType) -> String {
    match kind {
        ColumnType::Short => format!("${}::smallint", index + 1),
        ColumnType::Id
        | ColumnType::Int
        | ColumnType::Text
        | ColumnType::Json
        | ColumnType::Bytes => format!("${}", index + 1),
    }
}

fn insertion(table: TransferTable) -> String {
    let placeholders: Vec<String> = (1..=table.columns.len())
        .map(|index| format!("${index}"))
        .collect();
    let wanted: Vec<String> = table
        .columns
        .iter()
        .map(|(name, kind)| match kind {
            ColumnType::Short => format!("v.{name}::smallint"),
            ColumnType::Json => format!("v.{name}::jsonb"),
            ColumnType::Id | ColumnType::Int | ColumnType::Text | ColumnType::Bytes => {
                format!("v.{name}")
            }
        })
        .collect();
    let columns = names(table.columns);
    let placeholders = placeholders.join(", ");
    let wanted = wanted.join(", ");
    format!(
        "insert into {{schema}}.{} ({columns}) select {wanted} from unnest({placeholders}) as v ({columns}) on conflict do nothing",
        table.name
    )
}

pub(crate) const fn word(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Id => "uuid",
        ColumnType::Int | ColumnType::Short => "int",
        ColumnType::Text | ColumnType::Json => "text",
        ColumnType::Bytes => "byte",
    }
}

const fn words(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Id => "uuids",
        ColumnType::Int | ColumnType::Short => "ints",
        ColumnType::Text | ColumnType::Json => "texts",
        ColumnType::Bytes => "bytes",
    }
}

pub(crate) fn cells(row: &Row, columns: &[(&'static str, ColumnType)]) -> TransferRow {
    let cell = |(index, (_, kind)): (usize, &(&str, ColumnType))| match kind {
        ColumnType::Id => row
            .get::<_, Option<Uuid>>(index)
            .map(|id| TransferValue::Bytes(id.as_bytes().to_vec())),
        ColumnType::Int | ColumnType::Short => {
            row.get::<_, Option<i64>>(index).map(TransferValue::Int)
        }
        ColumnType::Text | ColumnType::Json => {
            row.get::<_, Option<String>>(index).map(TransferValue::Text)
        }
        ColumnType::Bytes => row
            .get::<_, Option<Vec<u8>>>(index)
            .map(TransferValue::Bytes),
    };
    columns
        .iter()
        .enumerate()
        .map(|column| cell(column).unwrap_or(TransferValue::Null))
        .collect()
}

pub(crate) fn single(kind: ColumnType, cell: &TransferValue) -> Worked<BoxedParam> {
    Ok(match kind {
        ColumnType::Id => Box::new(id(cell)?),
        ColumnType::Int | ColumnType::Short => Box::new(number(cell)?),
        ColumnType::Text | ColumnType::Json => Box::new(text(cell)?),
        ColumnType::Bytes => Box::new(bytes(cell)?),
    })
}

fn array<'a>(
    kind: ColumnType,
    mut cells: impl Iterator<Item = &'a TransferValue>,
) -> Worked<BoxedParam> {
    Ok(match kind {
        ColumnType::Id => Box::new(cells.map(id).collect::<Worked<Vec<_>>>()?),
        ColumnType::Int | ColumnType::Short => {
            Box::new(cells.map(number).collect::<Worked<Vec<_>>>()?)
        }
        ColumnType::Text | ColumnType::Json => {
            Box::new(cells.map(text).collect::<Worked<Vec<_>>>()?)
        }
        ColumnType::Bytes => Box::new(cells.by_ref().map(bytes).collect::<Worked<Vec<_>>>()?),
    })
}

fn odd<T>() -> Worked<T> {
    Err(StoreError::corrupt("a cell is not of its column's kind").into())
}

fn id(cell: &TransferValue) -> Worked<Option<Uuid>> {
    match cell {
        TransferValue::Null => Ok(None),
        TransferValue::Bytes(bytes) => Uuid::from_slice(bytes).map(Some).or_else(|_| odd()),
        TransferValue::Int(_) | TransferValue::Text(_) => odd(),
    }
}

fn number(cell: &TransferValue) -> Worked<Option<i64>> {
    match cell {
        TransferValue::Null => Ok(None),
        TransferValue::Int(number) => Ok(Some(*number)),
        TransferValue::Text(_) | TransferValue::Bytes(_) => odd(),
    }
}

fn text(cell: &TransferValue) -> Worked<Option<String>> {
    match cell {
        TransferValue::Null => Ok(None),
        TransferValue::Text(text) => Ok(Some(text.clone())),
        TransferValue::Int(_) | TransferValue::Bytes(_) => odd(),
    }
}

fn bytes(cell: &TransferValue) -> Worked<Option<Vec<u8>>> {
    match cell {
        TransferValue::Null => Ok(None),
        TransferValue::Bytes(bytes) => Ok(Some(bytes.clone())),
        TransferValue::Int(_) | TransferValue::Text(_) => odd(),
    }
}
