//! The door *Tables* on the memory: one ordered map a table, one lock for all of them.

mod apply;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use async_trait::async_trait;
use lope_model::limit;

use super::Handle;
use crate::error::{StoreError, StoreResult};
use crate::tables::{At, Batch, BatchReply, Direction, Manifest, Range, Row, TableId, Tables};
use crate::watch::Watch;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug)]
pub(super) struct TableState {
    manifest: Manifest,
    /// By the tables' indexes.
    tables: Vec<Rows>,
    /// How often each scope was written.
    scopes: HashMap<At, u64>,
    /// The last number that each sequence gave.
    sequences: HashMap<Vec<u8>, u64>,
}

impl Default for TableState {
    fn default() -> Self {
        let manifest = Manifest::standard();
        let tables = manifest.specs().iter().map(|_| Rows::new()).collect();
        Self { manifest, tables, scopes: HashMap::new(), sequences: HashMap::new() }
    }
}

impl TableState {
    fn open(&mut self, wanted: &Manifest) -> StoreResult<()> {
        let missing = self.manifest.missing_from(wanted)?;
        if !missing.is_empty() {
            self.manifest = wanted.clone();
            self.tables.resize_with(wanted.specs().len(), Rows::new);
        }
        Ok(())
    }

    fn rows(&self, table: TableId) -> StoreResult<&Rows> {
        self.manifest.table(table)?;
        Ok(&self.tables[usize::from(table.0)])
    }

    fn get(&self, keys: &[At]) -> StoreResult<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|at| Ok(self.rows(at.table)?.get(&at.key).cloned())).collect()
    }

    fn range(&self, range: &Range) -> StoreResult<Vec<Row>> {
        let rows = self.rows(range.table)?;
        if range.to.as_ref().is_some_and(|to| *to <= range.from) {
            return Ok(Vec::new());
        }
        let to = range.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let found = rows.range::<[u8], _>((Bound::Included(range.from.as_slice()), to));
        let row = |(key, value): (&Vec<u8>, &Vec<u8>)| Row { key: key.clone(), value: value.clone() };
        let limit = range.limit.min(limit::PAGE_MAX);
        Ok(match range.direction {
            Direction::Forward => found.take(limit).map(row).collect(),
            Direction::Backward => found.rev().take(limit).map(row).collect(),
        })
    }

    fn scope_version(&self, scope: &At) -> StoreResult<u64> {
        let spec = self.manifest.table(scope.table)?;
        let undeclared = || StoreError::refused(format!("table '{}' declares no scope", spec.name));
        let scope = self.manifest.scope_of(scope).ok_or_else(undeclared)?;
        Ok(self.scopes.get(&scope).copied().unwrap_or(0))
    }
}

#[async_trait]
impl Tables for Handle {
    async fn open(&self, manifest: &Manifest) -> StoreResult<()> {
        self.tables()?.open(manifest)
    }

    async fn manifest(&self) -> StoreResult<Manifest> {
        Ok(self.tables()?.manifest.clone())
    }

    async fn get(&self, keys: &[At]) -> StoreResult<Vec<Option<Vec<u8>>>> {
        self.tables()?.get(keys)
    }

    async fn range(&self, range: Range) -> StoreResult<Vec<Row>> {
        self.tables()?.range(&range)
    }

    async fn count(&self, table: TableId) -> StoreResult<u64> {
        Ok(self.tables()?.rows(table)?.len() as u64)
    }

    async fn scope_version(&self, scope: &At) -> StoreResult<u64> {
        self.tables()?.scope_version(scope)
    }

    async fn commit(&self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        let mut tables = self.tables()?;
        batches.iter().try_for_each(|batch| batch.check(&tables.manifest))?;
        let replies: Vec<BatchReply> = batches.into_iter().map(|batch| tables.apply(batch)).collect();
        drop(tables);
        if replies.iter().any(Result::is_ok) {
            self.home.tables_bell.ring();
        }
        Ok(replies)
    }

    fn watch(&self) -> Watch {
        self.home.tables_bell.watch()
    }
}
