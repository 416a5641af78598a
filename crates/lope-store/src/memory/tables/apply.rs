//! Applying one batch: every guard first, then every `Create` against what the writes before it leave, then the writes.

use std::collections::HashMap;

use lope_model::Digest;

use super::TableState;
use super::key::{Key, find, remove};
use crate::tables::{Append, Applied, At, Batch, BatchReply, Conflict, Guard, TableId, Write};

impl TableState {
    pub(super) fn apply(&mut self, batch: Batch) -> BatchReply {
        for (index, guard) in batch.guards.iter().enumerate() {
            if !self.holds(guard) {
                return Err(Conflict { index, at: guard.at().clone() });
            }
        }
        if batch.writes.iter().any(|write| matches!(write, Write::Create(..))) {
            self.check_creates(&batch)?;
        }
        let mut applied = Applied::default();
        for write in batch.writes {
            applied.appended.extend(self.write(write));
        }
        Ok(applied)
    }

    fn holds(&self, guard: &Guard) -> bool {
        match guard {
            Guard::Absent(at) => self.value(at).is_none(),
            Guard::Equals(at, value) => self.value(at) == Some(value),
            Guard::Unchanged(at, digest) => self.value(at).is_some_and(|value| Digest::of(value) == *digest),
            Guard::ScopeUnchanged(scope, version) => {
                let scope = self.manifest.scope_of(scope);
                scope.and_then(|scope| self.scopes.get(&scope).copied()).unwrap_or(0) == *version
            }
        }
    }

    fn value(&self, at: &At) -> Option<&Vec<u8>> {
        find(&self.tables[usize::from(at.table.0)], &at.key)
    }

    /// Walk through the writes without writing: does a `Create` meet a key, stored or made by a write before it?
    fn check_creates(&self, batch: &Batch) -> Result<(), Conflict> {
        let mut made: HashMap<At, bool> = HashMap::new();
        let mut numbers: HashMap<&[u8], u64> = HashMap::new();
        for (index, write) in batch.writes.iter().enumerate() {
            let is_there =
                |made: &HashMap<At, bool>, at: &At| made.get(at).copied().unwrap_or(self.value(at).is_some());
            match write {
                Write::Delete(at) => drop(made.insert(at.clone(), false)),
                Write::Create(at, _) if is_there(&made, at) => {
                    return Err(Conflict { index: batch.guards.len() + index, at: at.clone() });
                }
                Write::Put(at, _) | Write::Create(at, _) => drop(made.insert(at.clone(), true)),
                Write::Append { table, prefix, sequence, .. } => {
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
    pub(in crate::memory) fn append(&mut self, post: Append) {
        let Append { table, prefix, sequence, value } = post;
        self.write(Write::Append { table, prefix, sequence, value });
    }

    fn write(&mut self, write: Write) -> Option<u64> {
        match write {
            Write::Put(at, value) | Write::Create(at, value) => {
                self.touch(&at);
                self.tables[usize::from(at.table.0)].insert(Key::of(&at.key), value);
                None
            }
            Write::Delete(at) => {
                self.touch(&at);
                remove(&mut self.tables[usize::from(at.table.0)], &at.key);
                None
            }
            Write::Append { table, prefix, sequence, value } => {
                let mut number = self.sequences.get(&sequence).copied().unwrap_or(0);
                let at = next_free(table, &prefix, &mut number, |at| self.value(at).is_some());
                self.sequences.insert(sequence, number);
                self.touch(&at);
                self.tables[usize::from(at.table.0)].insert(Key::of(&at.key), value);
                Some(number)
            }
        }
    }

    /// The scope of a written key has a new version.
    fn touch(&mut self, at: &At) {
        if let Some(scope) = self.manifest.scope_of(at) {
            *self.scopes.entry(scope).or_default() += 1;
        }
    }
}

/// The key of the next number whose key is not there; the number moves on with it.
fn next_free(table: TableId, prefix: &[u8], number: &mut u64, is_there: impl Fn(&At) -> bool) -> At {
    loop {
        *number += 1;
        let at = At::new(table, [prefix, &number.to_be_bytes()].concat());
        if !is_there(&at) {
            return at;
        }
    }
}
