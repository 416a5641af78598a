//! What a handler read and wants, as guards and writes.

use std::collections::BTreeMap;

use lope_model::Digest;
use lope_store::tables::{At, Guard, TableId, Write};

use super::layer::{Intents, Layer};
use crate::group::StateWrites;
use crate::key::append_timer;
use crate::limit;

/// A step's part of its commit.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) guards: Vec<Guard>,
    pub(crate) writes: Vec<Write>,
    pub(crate) state: StateWrites,
    /// Frames for the outbox.
    pub(crate) emitted: Vec<Vec<u8>>,
    pub(crate) reply: Option<Vec<u8>>,
}

impl Effects {
    pub(super) fn of(
        reads: BTreeMap<At, Option<Vec<u8>>>,
        scopes: BTreeMap<At, u64>,
        layer: Layer,
    ) -> Self {
        let Layer {
            writes,
            staged,
            cancelled,
            reply,
        } = layer;
        let Intents { emitted, armed } = Layer::intents(staged);
        let mut effects = Self {
            emitted,
            reply,
            ..Self::default()
        };
        effects
            .guards
            .extend(reads.into_iter().map(|(at, value)| read_guard(at, value)));
        effects.guards.extend(
            scopes
                .into_iter()
                .map(|(scope, version)| Guard::ScopeUnchanged(scope, version)),
        );
        for (key, frame) in cancelled {
            let at = At::new(TableId::TIMERS, key.to_bytes());
            effects.guards.push(value_guard(at.clone(), frame));
            effects.writes.push(Write::Delete(at));
        }
        for (at, value) in writes {
            effects.writes.push(match &value {
                Some(value) => Write::Put(at.clone(), value.clone()),
                None => Write::Delete(at.clone()),
            });
            effects.state.insert(at, value);
        }
        let timers = armed
            .into_iter()
            .filter_map(|(due, frame)| append_timer(due, frame).ok());
        effects.writes.extend(timers);
        effects
    }
}

fn read_guard(at: At, value: Option<Vec<u8>>) -> Guard {
    match value {
        Some(value) => value_guard(at, value),
        None => Guard::Absent(at),
    }
}

/// Guards a value by itself if it is small, by its digest if it is not.
pub(crate) fn value_guard(at: At, value: Vec<u8>) -> Guard {
    if value.len() <= limit::GUARD_INLINE_MAX {
        Guard::Equals(at, value)
    } else {
        Guard::Unchanged(at, Digest::of(&value))
    }
}

/// Guards the row of a message: it is what was claimed.
pub(crate) fn row_guard(row: At, frame: &[u8]) -> Guard {
    if frame.len() <= limit::GUARD_INLINE_MAX {
        Guard::Equals(row, frame.to_vec())
    } else {
        Guard::Unchanged(row, Digest::of(frame))
    }
}
