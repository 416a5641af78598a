//! What bounds an attempt, from its dispatch; and what stands in its way, looked at from outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope_flow::law::{Dispatch, Plan, State};
use lope_limits::{AttemptRef, BlockingLimit, LimitRequest, blocking_limit};
use lope_model::{Timestamp, Value};
use lope_store::runs::RunRecord;
use lope_store::{Store, StoreResult};

use crate::executor::Limits;

/// Most attempts of a run that are looked at.
const DISPATCHES_MAX: usize = 100;

impl Limits {
    /// What bounds an attempt. Keys count per action.
    pub(crate) fn of(dispatch: &Dispatch) -> Self {
        let (handling, action) = (&dispatch.handling, &dispatch.action);
        let keyed = dispatch.concurrency.as_ref();
        let once = dispatch.idempotency_key.as_ref().map(Value::key_text);
        Self {
            priority: handling.priority,
            timeout: handling.timeout,
            heartbeat: handling.heartbeat,
            keyed: keyed
                .map(|(limit, key)| (format!("{action}/{}", key.key_text()).into(), *limit)),
            circuit_breaker: handling.circuit_breaker.clone().map(Arc::new),
            rate_limit: handling.rate_limit.clone().map(Arc::new),
            secrets: (!handling.secrets.is_empty()).then(|| Arc::clone(&handling.secrets)),
            announced: dispatch.announced,
            session: None,
            once: once.map(|key| format!("{}/{action}/{key}", dispatch.executor).into()),
        }
    }

    /// Do limits that all runners share decide when it begins?
    pub(crate) fn is_shared(&self) -> bool {
        self.keyed.is_some()
            || self.circuit_breaker.is_some()
            || self.rate_limit.is_some()
            || self.once.is_some()
    }

    /// What an attempt asks of them.
    pub(crate) fn request(&self, attempt: AttemptRef) -> LimitRequest {
        LimitRequest {
            attempt,
            idempotency_key: self.once.clone(),
            permit: self.keyed.clone(),
            circuit: self.circuit_breaker.clone(),
            rate: self.rate_limit.clone(),
        }
    }
}

/// What stands in the way of a run's attempts, by execution.
pub async fn in_the_way(
    store: &Store,
    record: &RunRecord,
    plan: &Plan,
    state: &State,
    now: Timestamp,
) -> StoreResult<BTreeMap<Arc<str>, BlockingLimit>> {
    let mut found = BTreeMap::new();
    for dispatch in state.asked_for(plan).iter().take(DISPATCHES_MAX) {
        let limits = Limits::of(dispatch);
        if !limits.is_shared() {
            continue;
        }
        let request = limits.request(AttemptRef {
            run: record.run,
            execution: Arc::clone(&dispatch.execution),
            attempt: dispatch.attempt,
            epoch: record.epoch,
        });
        if let Some(blocking) = blocking_limit(store, &request, now).await? {
            found.insert(Arc::clone(&dispatch.execution), blocking);
        }
    }
    Ok(found)
}
