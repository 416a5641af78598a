//! Plans by version: read from the store and made in one place, kept in a cache by whoever needs
//! them more than once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lope_definition::Definition;
use lope_flow::law::Plan;
use lope_model::VersionId;
use lope_store::{Store, StoreError, StoreResult};

/// Most plans kept; when there are more, all are made again.
const PLANS_MAX: usize = 1_000;

/// A cache of plans. They never change, so that any copy is the right one.
#[derive(Debug, Default)]
pub struct Plans {
    by_version: Mutex<HashMap<VersionId, Arc<Plan>>>,
}

impl Plans {
    /// Keep a plan at hand.
    pub fn keep(&self, plan: Arc<Plan>) {
        let mut plans = self
            .by_version
            .lock()
            .expect("no panic while the plans are held");
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        plans.insert(plan.version(), plan);
    }

    /// The plan of a version, from here or from the store.
    pub async fn get(&self, store: &Store, version: VersionId) -> StoreResult<Arc<Plan>> {
        let kept = self
            .by_version
            .lock()
            .expect("no panic while the plans are held")
            .get(&version)
            .cloned();
        if let Some(plan) = kept {
            return Ok(plan);
        }
        let plan = load(store, version).await?;
        self.keep(Arc::clone(&plan));
        Ok(plan)
    }

    /// The plan of the version that is deployed last under this name, if there is one.
    pub async fn latest(&self, store: &Store, name: &str) -> StoreResult<Option<Arc<Plan>>> {
        match store.runs.latest(name).await? {
            Some(stored) => self.get(store, stored.version).await.map(Some),
            None => Ok(None),
        }
    }
}

/// The plan of a version that is deployed in a store.
pub async fn load(store: &Store, version: VersionId) -> StoreResult<Arc<Plan>> {
    let stored = store.runs.definition(version).await?;
    let stored = stored
        .ok_or_else(|| StoreError::corrupt(format!("workflow version {version} is missing")))?;
    let bad = |reason: String| {
        StoreError::corrupt(format!("workflow '{}' {version}: {reason}", stored.name))
    };
    let definition = Definition::decode(&stored.body).map_err(|error| bad(error.to_string()))?;
    let plan = Plan::new(&definition).map_err(|problems| bad(problems[0].to_string()))?;
    Ok(Arc::new(plan))
}
