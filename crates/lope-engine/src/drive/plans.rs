//! Plans by version, made once per process and kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lope_flow::definition::Definition;
use lope_flow::law::Plan;
use lope_model::VersionId;
use lope_store::{Store, StoreError, StoreResult};

/// Most plans kept; when there are more, all are made again.
const PLANS_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Plans {
    by_version: Mutex<HashMap<VersionId, Arc<Plan>>>,
}

impl Plans {
    pub(crate) fn keep(&self, plan: Arc<Plan>) {
        let mut plans = self.by_version.lock().expect("no panic while the plans are held");
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        plans.insert(plan.version(), plan);
    }

    pub(crate) async fn get(&self, store: &Store, version: VersionId) -> StoreResult<Arc<Plan>> {
        let kept = self.by_version.lock().expect("no panic while the plans are held").get(&version).cloned();
        if let Some(plan) = kept {
            return Ok(plan);
        }
        let stored = store.runs.definition(version).await?;
        let stored = stored.ok_or_else(|| StoreError::corrupt(format!("workflow version {version} is missing")))?;
        let bad = |reason: String| StoreError::corrupt(format!("workflow '{}' {version}: {reason}", stored.name));
        let definition = Definition::decode(&stored.body).map_err(|error| bad(error.to_string()))?;
        let plan = Plan::new(&definition).map_err(|problems| bad(problems[0].to_string()))?;
        let plan = Arc::new(plan);
        self.keep(Arc::clone(&plan));
        Ok(plan)
    }
}
