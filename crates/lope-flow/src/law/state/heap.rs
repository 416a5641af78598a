//! The heap of a run: a log of bytes that only its workers understand, and who has them.

use std::sync::Arc;

use lope_model::Value;
use serde::{Deserialize, Serialize};

use crate::law::arena::Key;

/// A page of so many bytes is full: it stays as it is, and is stored once.
const FULL: usize = 32 * 1024;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Heap {
    /// What regions wrote, one after the other, in pages; each page is more than twice as long as
    /// the next, or full, so that there are few and little is copied.
    #[serde(rename = "o")]
    pub(crate) pages: Value,
    /// The name that the worker gave to what it left; whoever still has that needs no pages.
    #[serde(rename = "v", default)]
    pub(crate) version: Value,
    /// The region that was given it last.
    #[serde(rename = "u")]
    pub(crate) user: Key,
    /// The `each` whose elements are the tasks that regions started.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub(crate) tasks: Option<Key>,
}

impl Heap {
    pub(crate) const fn new(user: Key) -> Self {
        Self {
            pages: Value::Null,
            version: Value::Null,
            user,
            tasks: None,
        }
    }

    /// As regions get it.
    pub(crate) fn to_value(&self) -> Value {
        if self.version == Value::Null {
            return Value::Null;
        }
        Value::map([
            ("version", self.version.clone()),
            ("pages", self.pages.clone()),
        ])
    }

    /// What a region wrote: `[version, is it added to what is there?, bytes]`. Something else
    /// leaves the heap as it was.
    pub(crate) fn change(&mut self, change: &Value) {
        let Some([version, Value::Bool(adds), Value::Bytes(new)]) = change.as_list() else {
            return;
        };
        self.version = version.clone();
        let mut pages: Vec<Arc<[u8]>> = Vec::new();
        if *adds {
            let kept = self.pages.as_list().unwrap_or_default();
            pages.extend(kept.iter().filter_map(|page| match page {
                Value::Bytes(bytes) => Some(Arc::clone(bytes)),
                _ => None,
            }));
        }
        pages.push(Arc::clone(new));
        while let [.., before, last] = &pages[..]
            && before.len() <= last.len() * 2
            && before.len() < FULL
        {
            let both = [&before[..], &last[..]].concat();
            pages.truncate(pages.len() - 2);
            pages.push(both.into());
        }
        self.pages = Value::list(pages.into_iter().map(Value::Bytes).collect());
    }
}
