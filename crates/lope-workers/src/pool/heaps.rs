//! Which worker still has which heap: code in Python works on the heap of its run, and whoever ran
//! the last of it needs only be told which version it is.

use std::collections::HashMap;
use std::sync::Arc;

use lope_model::{Map, Value};

use super::roster::PoolWorkerId;

/// Versions whose holders are known; beyond that the knowledge goes, and heaps travel once more.
const KNOWN_MAX: usize = 10_000;
const ENTRY: &str = "heap";

#[derive(Debug, Default)]
pub(super) struct RememberedHeaps {
    holders: HashMap<Arc<str>, PoolWorkerId>,
}

impl RememberedHeaps {
    pub(super) fn holder(&self, version: &str) -> Option<PoolWorkerId> {
        self.holders.get(version).copied()
    }

    /// A worker has left a heap behind, if its answer names one.
    pub(super) fn answered(&mut self, answer: &Value, worker: PoolWorkerId) {
        let Some([Value::Str(version), ..]) = answer.get(ENTRY).and_then(Value::as_list) else {
            return;
        };
        if self.holders.len() >= KNOWN_MAX {
            self.holders.clear();
        }
        self.holders.insert(Arc::clone(version), worker);
    }
}

/// The version of the heap that a task works on.
pub(super) fn version(arguments: &Value) -> Option<&str> {
    arguments.get(ENTRY)?.get("version")?.as_str()
}

/// The arguments for a worker that has the heap.
pub(super) fn without_pages(arguments: &Value) -> Value {
    let (Value::Map(entries), Some(version)) = (arguments, version(arguments)) else {
        return arguments.clone();
    };
    let mut entries = Map::clone(entries);
    let known = Value::map([("version", Value::str(version))]);
    entries.insert(ENTRY.into(), known);
    Value::Map(Arc::new(entries))
}
