//! Definitions by version, and the latest of each name.

use std::ops::Bound;

use lope_model::{Timestamp, limit};

use super::state::RunState;
use crate::runs::{Deploy, StoredDefinition};

impl RunState {
    pub(super) fn deploy(&mut self, deploy: Deploy, now: Timestamp) {
        let Deploy {
            version,
            name,
            body,
        } = deploy;
        let stored = self
            .definitions
            .entry(version)
            .or_insert_with(|| StoredDefinition {
                version,
                name,
                body: Vec::new(),
                deployed_at: now,
            });
        stored.body = body;
        if self.latest.get(&stored.name) != Some(&version) {
            stored.deployed_at = now;
            self.latest.insert(stored.name.clone(), version);
        }
    }

    pub(super) fn latest(&self, name: &str) -> Option<StoredDefinition> {
        self.latest
            .get(name)
            .and_then(|version| self.definitions.get(version))
            .cloned()
    }

    pub(super) fn definitions(&self, after: Option<&str>, limit: usize) -> Vec<StoredDefinition> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.latest.range::<str, _>((from, Bound::Unbounded));
        let stored = names.filter_map(|(_, version)| self.definitions.get(version));
        stored.take(limit.min(limit::PAGE_MAX)).cloned().collect()
    }
}
