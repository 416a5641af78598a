//! A batch: guards that must hold and writes that then happen, together.

use std::collections::HashSet;

use lope_model::{Digest, limit};

use super::{At, Manifest, TableId};
use crate::error::{StoreError, StoreResult};

/// What must hold when the batch is applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Guard {
    /// The key is not there. If the batch does not also write the key, its table must declare a
    /// scope.
    Absent(At),
    /// The key holds exactly this value.
    Equals(At, Vec<u8>),
    /// The key holds a value with this digest: what was read is still there.
    Unchanged(At, Digest),
    /// Nothing in the scope was written since its version was read: guards ranges and absences.
    ScopeUnchanged(At, u64),
}

/// What then happens. Writes apply in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// Put the value, whatever was there.
    Put(At, Vec<u8>),
    /// Put the value at a key that must not exist; an existing one is a conflict, never
    /// overwritten.
    Create(At, Vec<u8>),
    /// Put the value at `prefix` + the next number of the sequence `sequence` as u64 big-endian.
    /// Numbers are unique and rise in commit order per prefix's single sender; gaps are allowed. A
    /// key that is there already is never overwritten: its number is passed over. Sequences belong
    /// to the store, not to a table.
    Append {
        table: TableId,
        prefix: Vec<u8>,
        sequence: Vec<u8>,
        value: Vec<u8>,
    },
    Delete(At),
}

/// A row for the next number of a sequence, as [`Write::Append`] has it, in the commit of something
/// else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Append {
    pub table: TableId,
    pub prefix: Vec<u8>,
    pub sequence: Vec<u8>,
    pub value: Vec<u8>,
}

/// Guards and writes, applied together or not at all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    pub guards: Vec<Guard>,
    pub writes: Vec<Write>,
}

/// The answer to one batch.
pub type BatchReply = Result<Applied, Conflict>;

/// What an applied batch gave: the numbers its appends got, in the order of its writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Applied {
    pub appended: Vec<u64>,
}

/// The guard or the `Create` that did not hold; nothing of the batch was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// Its index among the guards; for a `Create` that met an existing key, the number of guards
    /// plus the index of the write.
    pub index: usize,
    pub at: At,
}

impl Guard {
    pub fn at(&self) -> &At {
        match self {
            Self::Absent(at)
            | Self::Equals(at, _)
            | Self::Unchanged(at, _)
            | Self::ScopeUnchanged(at, _) => at,
        }
    }
}

impl Write {
    /// The key written, if it is known before the commit.
    pub fn at(&self) -> Option<&At> {
        match self {
            Self::Put(at, _) | Self::Create(at, _) | Self::Delete(at) => Some(at),
            Self::Append { .. } => None,
        }
    }

    pub fn table(&self) -> TableId {
        match self {
            Self::Put(at, _) | Self::Create(at, _) | Self::Delete(at) => at.table,
            Self::Append { table, .. } => *table,
        }
    }
}

impl Batch {
    /// Is the batch one that every store can apply under `manifest`? Each store calls this first,
    /// so that all refuse alike.
    pub fn validate(&self, manifest: &Manifest) -> StoreResult<()> {
        if self.guards.len() + self.writes.len() > limit::COMMIT_ROWS_MAX {
            let message = format!(
                "a batch holds at most {} guards and writes",
                limit::COMMIT_ROWS_MAX
            );
            return Err(StoreError::refused(message));
        }
        self.writes
            .iter()
            .try_for_each(|write| validate_write(write, manifest))?;
        let guards_absence = self
            .guards
            .iter()
            .any(|guard| matches!(guard, Guard::Absent(_)));
        let written: HashSet<&At> = if guards_absence {
            self.writes.iter().filter_map(Write::at).collect()
        } else {
            HashSet::new()
        };
        self.guards
            .iter()
            .try_for_each(|guard| validate_guard(guard, &written, manifest))
    }
}

impl Append {
    /// Is it one that every store can apply in a run's commit? Only inboxes and timers are written
    /// by runs: both have no scope.
    pub fn validate(&self) -> StoreResult<()> {
        if !matches!(self.table, TableId::INBOX | TableId::TIMERS) {
            return Err(StoreError::refused(
                "a run's commit appends to inboxes and timers only",
            ));
        }
        validate_key(&self.prefix)?;
        validate_key(&self.sequence)?;
        if self.value.len() > limit::PAYLOAD_MAX {
            return Err(StoreError::refused(format!(
                "a value is larger than {} bytes",
                limit::PAYLOAD_MAX
            )));
        }
        Ok(())
    }
}

fn validate_guard(guard: &Guard, written: &HashSet<&At>, manifest: &Manifest) -> StoreResult<()> {
    let at = guard.at();
    let spec = manifest.table(at.table)?;
    validate_key(&at.key)?;
    let needs_scope = match guard {
        Guard::Absent(at) => !written.contains(at),
        Guard::ScopeUnchanged(..) => true,
        Guard::Equals(..) | Guard::Unchanged(..) => false,
    };
    if needs_scope && spec.scope.is_none() {
        let message = format!(
            "table '{}' declares no scope: a guard on a range or on the absence of a key that is not written has \
                 nothing to hold",
            spec.name
        );
        return Err(StoreError::refused(message));
    }
    Ok(())
}

fn validate_write(write: &Write, manifest: &Manifest) -> StoreResult<()> {
    manifest.table(write.table())?;
    let (key, value) = match write {
        Write::Put(at, value) | Write::Create(at, value) => (&at.key, Some(value)),
        Write::Delete(at) => (&at.key, None),
        Write::Append {
            prefix,
            sequence,
            value,
            ..
        } => {
            validate_key(sequence)?;
            (prefix, Some(value))
        }
    };
    validate_key(key)?;
    if value.is_some_and(|value| value.len() > limit::PAYLOAD_MAX) {
        return Err(StoreError::refused(format!(
            "a value is larger than {} bytes",
            limit::PAYLOAD_MAX
        )));
    }
    Ok(())
}

/// Keys leave room for the eight bytes that an append adds.
fn validate_key(key: &[u8]) -> StoreResult<()> {
    if key.len() + 8 > limit::KEY_MAX {
        return Err(StoreError::refused(format!(
            "a key is longer than {} bytes",
            limit::KEY_MAX - 8
        )));
    }
    Ok(())
}
