//! Versions that are known to be deployed: they never go, so asking once is enough.

use std::collections::HashSet;
use std::sync::Mutex;

use lope_model::VersionId;

/// Most versions remembered; beyond, the server is asked.
const REMEMBERED_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Versions(Mutex<HashSet<VersionId>>);

impl Versions {
    pub(crate) fn knows(&self, version: VersionId) -> bool {
        self.0
            .lock()
            .expect("nobody panics while holding it")
            .contains(&version)
    }

    pub(crate) fn learn(&self, versions: impl Iterator<Item = VersionId>) {
        let mut known = self.0.lock().expect("nobody panics while holding it");
        for version in versions {
            if known.len() < REMEMBERED_MAX {
                known.insert(version);
            }
        }
    }
}
