//! The byte tables in memory: one ordered map a table; reading them here, applying batches in
//! `apply`.

mod apply;
mod key;

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map};
use std::ops::Bound;

use lope_model::limit;

use self::key::TableKey;
use crate::error::{StoreError, StoreResult};
use crate::tables::{At, Batch, BatchReply, Direction, Manifest, Range, Row, TableId};

type Rows = BTreeMap<TableKey, Vec<u8>>;

#[derive(Debug)]
pub(super) struct TableState {
    pub(super) manifest: Manifest,
    /// By the tables' indexes.
    tables: Vec<Rows>,
    /// The timers in the order of their workers: worker, key.
    timers: BTreeSet<(Vec<u8>, Vec<u8>)>,
    /// How often each scope was written.
    scopes: HashMap<At, u64>,
    /// The last number that each sequence gave.
    sequences: HashMap<Vec<u8>, u64>,
}

impl Default for TableState {
    fn default() -> Self {
        let manifest = Manifest::standard();
        let tables = manifest.specs().iter().map(|_| Rows::new()).collect();
        Self {
            manifest,
            tables,
            timers: BTreeSet::new(),
            scopes: HashMap::new(),
            sequences: HashMap::new(),
        }
    }
}

impl TableState {
    pub(super) fn open(&mut self, wanted: &Manifest) -> StoreResult<()> {
        let missing = self.manifest.missing_from(wanted)?;
        if !missing.is_empty() {
            self.manifest = wanted.clone();
            self.tables.resize_with(wanted.specs().len(), Rows::new);
        }
        Ok(())
    }

    pub(super) fn rows(&self, table: TableId) -> StoreResult<&Rows> {
        self.manifest.table(table)?;
        Ok(&self.tables[usize::from(table.0)])
    }

    pub(super) fn get(&self, keys: &[At]) -> StoreResult<Vec<Option<Vec<u8>>>> {
        keys.iter()
            .map(|at| Ok(key::find(self.rows(at.table)?, &at.key).cloned()))
            .collect()
    }

    pub(super) fn range(&self, range: &Range) -> StoreResult<Vec<Row>> {
        let Some(found) = self.within(range)? else {
            return Ok(Vec::new());
        };
        let row = |(key, value): (&TableKey, &Vec<u8>)| Row {
            key: key.bytes().to_vec(),
            value: value.clone(),
        };
        let limit = range.limit.min(limit::PAGE_MAX);
        Ok(match range.direction {
            Direction::Forward => found.take(limit).map(row).collect(),
            Direction::Backward => found.rev().take(limit).map(row).collect(),
        })
    }

    /// The rows of a range whose values name this worker.
    pub(super) fn timers_of(&self, worker: &[u8], range: &Range) -> StoreResult<Vec<Row>> {
        range.of_timers()?;
        let rows = self.rows(range.table)?;
        if range.to.as_ref().is_some_and(|to| *to <= range.from) {
            return Ok(Vec::new());
        }
        let from = (worker.to_vec(), range.from.clone());
        let to = range.to.clone();
        let its = self
            .timers
            .range(from..)
            .take_while(|(its, key)| its == worker && to.as_ref().is_none_or(|to| key < to));
        let mut keys: Vec<&[u8]> = its.map(|(_, key)| key.as_slice()).collect();
        if range.direction == Direction::Backward {
            keys.reverse();
        }
        keys.truncate(range.limit.min(limit::PAGE_MAX));
        let row = |key: &[u8]| {
            let value = key::find(rows, key)?.clone();
            let key = key.to_vec();
            Some(Row { key, value })
        };
        Ok(keys.into_iter().filter_map(row).collect())
    }

    pub(super) fn count(&self, range: &Range) -> StoreResult<u64> {
        if range.from.is_empty() && range.to.is_none() {
            return Ok(self.rows(range.table)?.len().min(range.limit) as u64);
        }
        let found = self.within(range)?;
        Ok(found.map_or(0, |found| found.take(range.limit).count() as u64))
    }

    /// The rows of a range in the order of their keys, however many; none if it ends before it
    /// begins.
    fn within(
        &self,
        range: &Range,
    ) -> StoreResult<Option<btree_map::Range<'_, TableKey, Vec<u8>>>> {
        let rows = self.rows(range.table)?;
        if range.to.as_ref().is_some_and(|to| *to <= range.from) {
            return Ok(None);
        }
        let to = range
            .to
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        Ok(Some(rows.range::<[u8], _>((
            Bound::Included(range.from.as_slice()),
            to,
        ))))
    }

    /// Refused batches stop the call before anything is written.
    pub(super) fn commit(&mut self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        batches
            .iter()
            .try_for_each(|batch| batch.validate(&self.manifest))?;
        Ok(batches.into_iter().map(|batch| self.apply(batch)).collect())
    }

    pub(super) fn scope_version(&self, scope: &At) -> StoreResult<u64> {
        let spec = self.manifest.table(scope.table)?;
        let undeclared = || StoreError::refused(format!("table '{}' declares no scope", spec.name));
        let scope = self.manifest.scope_of(scope).ok_or_else(undeclared)?;
        Ok(self.scopes.get(&scope).copied().unwrap_or(0))
    }
}
