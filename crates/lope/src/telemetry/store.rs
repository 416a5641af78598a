//! The door *Runs* with a watcher at it: how long each verb took, and whether the store answered.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use lope_model::RunId;
use lope_store::door::DoorCall;
use lope_store::runs::{Runs, RunsAnswer, RunsRequest};
use lope_store::watch::Watch;
use lope_store::{Store, StoreResult};
use tracing::Instrument;

use super::recorder::Telemetry;

struct ObservedRuns {
    runs: Arc<dyn Runs>,
    telemetry: Arc<Telemetry>,
}

pub(crate) fn observed(store: Store, telemetry: &Arc<Telemetry>) -> Store {
    let runs = Arc::new(ObservedRuns {
        runs: store.runs,
        telemetry: Arc::clone(telemetry),
    });
    Store { runs, ..store }
}

impl ObservedRuns {
    async fn through<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        let began = Instant::now();
        self.telemetry.call_began(verb);
        let answer = call
            .instrument(tracing::debug_span!("lope.store", operation = verb))
            .await;
        self.telemetry
            .call_ended(verb, began.elapsed(), answer.as_ref().err());
        answer
    }
}

impl Runs for ObservedRuns {
    fn call(&self, request: RunsRequest) -> DoorCall<'_, RunsAnswer> {
        let verb = request.verb();
        let committed: Vec<RunId> = if let RunsRequest::Commit { commits } = &request {
            commits.iter().map(|commit| commit.run).collect()
        } else {
            Vec::new()
        };
        Box::pin(async move {
            let began = Instant::now();
            let answer = self.through(verb, self.runs.call(request)).await;
            let metrics = self.telemetry.metrics();
            if !committed.is_empty() {
                metrics.count_commit(committed.len(), began.elapsed());
            }
            if let Ok(RunsAnswer::Heartbeat(Err(_)) | RunsAnswer::Claim(Err(_))) = &answer {
                metrics.count_lost_lease();
            }
            if let Ok(RunsAnswer::Claim(Ok(claimed))) = &answer {
                self.telemetry.claimed(&claimed.runs);
            }
            if let Err(error) = &answer
                && !committed.is_empty()
            {
                self.telemetry.commit_failed(&committed, error);
            }
            answer
        })
    }

    fn watch(&self) -> Watch {
        self.runs.watch()
    }
}
