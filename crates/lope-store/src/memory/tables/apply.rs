//! Applying one batch: every guard first, then every `Create` against what the writes before it
//! leave, then the writes.

use std::collections::HashMap;
use std::convert::Infallible;

use super::TableState;
use super::key::{TableKey, find, remove};
use crate::tables::{
    Append, Applied, At, Batch, BatchReply, Conflict, TableId, Write, timer_worker,
};
use crate::verdict::{self, RowFacts, TableFacts};

impl TableState {
    pub(super) fn apply(&mut self, batch: Batch) -> BatchReply {
        let Ok(held) = verdict::guards(&batch, &self.manifest, &mut MemoryFacts(self));
        held?;
        if batch
            .writes
            .iter()
            .any(|write| matches!(write, Write::Create(..)))
        {
            self.validate_creates(&batch)?;
        }
        let mut applied = Applied::default();
        for write in batch.writes {
            applied.appended.extend(self.write(write));
        }
        Ok(applied)
    }

    fn value(&self, at: &At) -> Option<&Vec<u8>> {
        find(&self.tables[usize::from(at.table.0)], &at.key)
    }

    /// Walk through the writes without writing: does a `Create` meet a key, stored or made by a
    /// write before it?
    fn validate_creates(&self, batch: &Batch) -> Result<(), Conflict> {
        let mut made: HashMap<At, bool> = HashMap::new();
        let mut numbers: HashMap<&[u8], u64> = HashMap::new();
        for (index, write) in batch.writes.iter().enumerate() {
            let is_there = |made: &HashMap<At, bool>, at: &At| {
                made.get(at).copied().unwrap_or(self.value(at).is_some())
            };
            match write {
                Write::Delete(at) => drop(made.insert(at.clone(), false)),
                Write::Create(at, _) => {
                    verdict::create(batch, index, at, is_there(&made, at))?;
                    made.insert(at.clone(), true);
                }
                Write::Put(at, _) => drop(made.insert(at.clone(), true)),
                Write::Append {
                    table,
                    prefix,
                    sequence,
                    ..
                } => {
                    let last = self.sequences.get(sequence).copied().unwrap_or(0);
                    let number = numbers.entry(sequence).or_insert(last);
                    let at = next_free(*table, prefix, number, |at| is_there(&made, at));
                    made.insert(at, true);
                }
            }
        }
        Ok(())
    }

    /// A message of a run's commit.
    pub(in crate::memory) fn append(&mut self, append: Append) {
        let Append {
            table,
            prefix,
            sequence,
            value,
        } = append;
        self.write(Write::Append {
            table,
            prefix,
            sequence,
            value,
        });
    }

    fn write(&mut self, write: Write) -> Option<u64> {
        match write {
            Write::Put(at, value) | Write::Create(at, value) => {
                self.touch(&at);
                self.insert(&at, value);
                None
            }
            Write::Delete(at) => {
                self.touch(&at);
                self.forget_timer(&at);
                remove(&mut self.tables[usize::from(at.table.0)], &at.key);
                None
            }
            Write::Append {
                table,
                prefix,
                sequence,
                value,
            } => {
                let mut number = self.sequences.get(&sequence).copied().unwrap_or(0);
                let at = next_free(table, &prefix, &mut number, |at| self.value(at).is_some());
                self.sequences.insert(sequence, number);
                self.touch(&at);
                self.insert(&at, value);
                Some(number)
            }
        }
    }

    fn insert(&mut self, at: &At, value: Vec<u8>) {
        self.forget_timer(at);
        if at.table == TableId::TIMERS {
            let worker = timer_worker(&value).to_vec();
            self.timers.insert((worker, at.key.clone()));
        }
        self.tables[usize::from(at.table.0)].insert(TableKey::of(&at.key), value);
    }

    /// A timer at this key is about to go, or to be another.
    fn forget_timer(&mut self, at: &At) {
        if at.table != TableId::TIMERS {
            return;
        }
        let worker = self.value(at).map(|value| timer_worker(value).to_vec());
        if let Some(worker) = worker {
            self.timers.remove(&(worker, at.key.clone()));
        }
    }

    /// The scope of a written key has a new version.
    fn touch(&mut self, at: &At) {
        if let Some(scope) = self.manifest.scope_of(at) {
            *self.scopes.entry(scope).or_default() += 1;
        }
    }
}

/// What the memory knows, asked for by guards.
struct MemoryFacts<'a>(&'a TableState);

impl TableFacts for MemoryFacts<'_> {
    type Fault = Infallible;

    fn is_there(&mut self, at: &At) -> Result<bool, Infallible> {
        Ok(self.0.value(at).is_some())
    }

    fn row(&mut self, at: &At) -> Result<RowFacts<'_>, Infallible> {
        let value = self.0.value(at);
        Ok(value.map_or(RowFacts::Absent, |value| RowFacts::Value(value.into())))
    }

    fn scope_version(&mut self, scope: &At) -> Result<u64, Infallible> {
        Ok(self.0.scopes.get(scope).copied().unwrap_or(0))
    }
}

/// The key of the next number whose key is not there; the number moves on with it.
fn next_free(
    table: TableId,
    prefix: &[u8],
    number: &mut u64,
    is_there: impl Fn(&At) -> bool,
) -> At {
    loop {
        *number += 1;
        let at = At::new(table, [prefix, &number.to_be_bytes()].concat());
        if !is_there(&at) {
            return at;
        }
    }
}
