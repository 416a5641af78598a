//! The rows of a group while it is decided: read when first needed, written at the end where they
//! changed.

use std::collections::BTreeMap;

use foldhash::HashMap;
use lope_store::tables::{Batch, Guard, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::LimitFacts;
use crate::circuit_row::CircuitRow;
use crate::codec::{self, UnreadableRow};
use crate::key::{self, LimitKey};
use crate::outcome_row::OutcomeRow;
use crate::permits::Permits;
use crate::rate_line::{LineDraft, RateLine};
use crate::rate_row::RateRow;

/// Rows as they would be.
pub(super) struct RowDrafts<'a> {
    facts: &'a LimitFacts<'a>,
    outcomes: BTreeMap<LimitKey, Option<OutcomeRow>>,
    permits: BTreeMap<LimitKey, Permits>,
    circuits: BTreeMap<LimitKey, Option<CircuitRow>>,
    rates: BTreeMap<LimitKey, RateRow>,
    lines: HashMap<LimitKey, LineDraft>,
}

impl<'a> RowDrafts<'a> {
    pub(super) fn new(facts: &'a LimitFacts<'a>) -> Self {
        Self {
            facts,
            outcomes: BTreeMap::new(),
            permits: BTreeMap::new(),
            circuits: BTreeMap::new(),
            rates: BTreeMap::new(),
            lines: HashMap::default(),
        }
    }

    fn found(&self, key: &LimitKey) -> Option<&'a [u8]> {
        self.facts.found.get(key).and_then(|row| row.as_deref())
    }

    pub(super) fn outcome(&mut self, key: &LimitKey) -> Result<Option<&OutcomeRow>, UnreadableRow> {
        if !self.outcomes.contains_key(key) {
            let row = self.found(key).map(OutcomeRow::decode).transpose()?;
            self.outcomes.insert(key.clone(), row);
        }
        Ok(self.outcomes.get(key).and_then(Option::as_ref))
    }

    pub(super) fn permits(&mut self, key: &LimitKey) -> Result<&Permits, UnreadableRow> {
        if !self.permits.contains_key(key) {
            let row = decoded(self.found(key))?.unwrap_or_default();
            self.permits.insert(key.clone(), row);
        }
        Ok(&self.permits[key])
    }

    pub(super) fn circuit(&mut self, key: &LimitKey) -> Result<Option<&CircuitRow>, UnreadableRow> {
        if !self.circuits.contains_key(key) {
            let row = decoded(self.found(key))?;
            self.circuits.insert(key.clone(), row);
        }
        Ok(self.circuits.get(key).and_then(Option::as_ref))
    }

    pub(super) fn rate(
        &mut self,
        key: &LimitKey,
        line: &RateLine,
    ) -> Result<(&mut RateRow, &mut LineDraft), UnreadableRow> {
        if !self.rates.contains_key(key) {
            let row = decoded(self.found(key))?.unwrap_or_default();
            self.rates.insert(key.clone(), row);
        }
        let draft = self
            .lines
            .entry(key.clone())
            .or_insert_with(|| line.draft());
        let row = self.rates.get_mut(key).expect("it was put there above");
        Ok((row, draft))
    }

    pub(super) fn put_outcome(&mut self, key: LimitKey, row: Option<OutcomeRow>) {
        self.outcomes.insert(key, row);
    }

    pub(super) fn put_permits(&mut self, key: LimitKey, row: Permits) {
        self.permits.insert(key, row);
    }

    pub(super) fn put_circuit(&mut self, key: LimitKey, row: Option<CircuitRow>) {
        self.circuits.insert(key, row);
    }

    /// What changed, guarded by what was read; whether it must outlive the machine; and what changes
    /// at the runner.
    pub(super) fn into_batch(self) -> (Batch, bool, HashMap<LimitKey, LineDraft>) {
        let facts = self.facts;
        let mut batch = Batch::default();
        let mut durable = false;
        for (key, row) in &self.outcomes {
            let after = row.as_ref().map(OutcomeRow::encode);
            let changed = change(facts, &mut batch, key, after);
            if let (true, Some(OutcomeRow::Done { at, .. })) = (changed, row) {
                let list = key::by_time(facts.table, *at, &key.at(facts.table));
                batch.writes.push(Write::Put(list, Vec::new()));
                durable = true;
            }
        }
        for (key, row) in &self.permits {
            change(facts, &mut batch, key, encoded(row));
        }
        for (key, row) in &self.circuits {
            change(facts, &mut batch, key, row.as_ref().map(codec::encode));
        }
        for (key, row) in &self.rates {
            change(facts, &mut batch, key, encoded(row));
        }
        (batch, durable, self.lines)
    }
}

fn decoded<T: DeserializeOwned>(bytes: Option<&[u8]>) -> Result<Option<T>, UnreadableRow> {
    bytes
        .map(|bytes| codec::decode(bytes).map(|(row, _)| row))
        .transpose()
}

/// A row that says nothing is none.
fn encoded<T: Serialize + Default + PartialEq>(row: &T) -> Option<Vec<u8>> {
    (*row != T::default()).then(|| codec::encode(row))
}

/// Write a row if it is not as it was read. Was it?
fn change(
    facts: &LimitFacts<'_>,
    batch: &mut Batch,
    key: &LimitKey,
    after: Option<Vec<u8>>,
) -> bool {
    let before = facts.found.get(key).cloned().flatten();
    if before == after {
        return false;
    }
    let at = key.at(facts.table);
    batch.guards.push(match before {
        Some(before) => Guard::Equals(at.clone(), before),
        None => Guard::Absent(at.clone()),
    });
    batch.writes.push(match after {
        Some(after) => Write::Put(at, after),
        None => Write::Delete(at),
    });
    true
}
