//! What a runner tells: it hears the engine's news and the store's answers, and tells those
//! who wait, subscribe or were promised a call.
//!
//! News come on the engine's threads: nothing here blocks, and callbacks run as tasks of their own.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lope_engine::executor::Task;
use lope_engine::{News, NewsListener};
use lope_flow::law::{Notice, Settled};
use lope_model::trace::traceparent;
use lope_model::{Epoch, Failure, RunId};
use lope_store::runs::ClaimedRun;
use lope_store::{StoreError, StoreResult};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, oneshot, watch};

use super::{
    Metrics, STEP_EXCEPTION, STEP_RETRY, STEP_START, STEP_STOP, STORE_EXCEPTION, STORE_START,
    STORE_STOP, TelemetryEvent, WORKFLOW_EXCEPTION, WORKFLOW_START, WORKFLOW_STOP,
};
use crate::clock;
use crate::results::{Callback, Completion, InputResult};

/// Events kept for a subscriber that is slow.
const EVENTS_MAX: usize = 8_192;

pub(crate) struct Telemetry {
    runner: Arc<str>,
    runtime: Handle,
    hub: broadcast::Sender<TelemetryEvent>,
    metrics: Metrics,
    /// Rings with all news.
    notification: watch::Sender<u64>,
    watched: Mutex<Watched>,
    is_traced: AtomicBool,
}

/// When attempts of a run began, by execution and number.
type BegunAttempts = HashMap<(Arc<str>, u32), Instant>;

#[derive(Default)]
struct Watched {
    runs: HashMap<RunId, Known>,
    began: HashMap<RunId, BegunAttempts>,
    inputs: HashMap<(RunId, Arc<str>), Vec<oneshot::Sender<Settled>>>,
    checkpoints: HashMap<RunId, Vec<oneshot::Sender<StoreResult<()>>>>,
    /// Inputs fed here that have no result yet.
    unsettled: HashMap<RunId, HashSet<Arc<str>>>,
}

/// A workflow that this program knows by an id.
struct Known {
    id: Arc<str>,
    workflow: Arc<str>,
    callback: Option<Callback>,
    /// When it began to work after it last rested, as a span that ends when it rests.
    working: Option<(Instant, tracing::Span)>,
    /// Inputs settled since it last rested; kept only for a callback.
    results: Vec<InputResult>,
}

/// An attempt that has ended, with its failure if it failed.
struct EndedAttempt<'a> {
    execution: &'a Arc<str>,
    step: &'a Arc<str>,
    number: u32,
    failure: Option<&'a Failure>,
}

impl Watched {
    fn settle(&mut self, run: RunId, input: &Arc<str>) {
        if let Some(waiting) = self.unsettled.get_mut(&run) {
            waiting.remove(input);
            if waiting.is_empty() {
                self.unsettled.remove(&run);
            }
        }
    }
}

impl Telemetry {
    pub(crate) fn new(runner: Arc<str>, runtime: Handle) -> Arc<Self> {
        let metrics = Metrics::new(&runner);
        let hub = broadcast::Sender::new(EVENTS_MAX);
        let notification = watch::Sender::new(0);
        Arc::new(Self {
            runner,
            runtime,
            hub,
            metrics,
            notification,
            watched: Mutex::default(),
            is_traced: AtomicBool::new(false),
        })
    }

    /// What an engine tells its news to.
    pub(crate) fn listener(telemetry: &Arc<Self>) -> NewsListener {
        let telemetry = Arc::clone(telemetry);
        Arc::new(move |news| telemetry.hear(news))
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<TelemetryEvent> {
        self.hub.subscribe()
    }

    pub(crate) const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// A run has this id in this program.
    pub(crate) fn know(&self, run: RunId, id: &str, workflow: &str) {
        let known = || Known {
            id: id.into(),
            workflow: workflow.into(),
            callback: None,
            working: None,
            results: Vec::new(),
        };
        self.watched().runs.entry(run).or_insert_with(known);
    }

    pub(crate) fn forget(&self, run: RunId) {
        let mut watched = self.watched();
        watched.runs.remove(&run);
        watched.unsettled.remove(&run);
        watched.began.remove(&run);
    }

    pub(crate) fn call_back(&self, run: RunId, callback: Callback) {
        if let Some(known) = self.watched().runs.get_mut(&run) {
            known.callback = Some(callback);
        }
    }

    /// An input is on its way to a run.
    pub(crate) fn fed(&self, run: RunId, input: &Arc<str>) {
        self.watched()
            .unsettled
            .entry(run)
            .or_default()
            .insert(Arc::clone(input));
    }

    pub(crate) fn has_unsettled(&self, run: RunId) -> bool {
        self.watched().unsettled.contains_key(&run)
    }

    /// Rings when anything happened after this call.
    pub(crate) fn notification(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut notification = self.notification.subscribe();
        async move {
            // It outlives whoever waits.
            let _ = notification.changed().await;
        }
    }

    /// The result of an input that settles after this call.
    pub(crate) fn await_input(&self, run: RunId, input: &str) -> oneshot::Receiver<Settled> {
        let (sender, receiver) = oneshot::channel();
        let mut watched = self.watched();
        let waiting = watched.inputs.entry((run, input.into())).or_default();
        waiting.retain(|sender| !sender.is_closed());
        waiting.push(sender);
        receiver
    }

    /// When everything of a run is written down, or could not be.
    pub(crate) fn await_checkpoint(&self, run: RunId) -> oneshot::Receiver<StoreResult<()>> {
        let (sender, receiver) = oneshot::channel();
        self.watched()
            .checkpoints
            .entry(run)
            .or_default()
            .push(sender);
        receiver
    }

    /// A workflow was started or resumed here.
    pub(crate) fn started(&self, run: RunId) {
        self.metrics.count_start();
        self.emit(run, |event| TelemetryEvent {
            name: WORKFLOW_START,
            ..event
        });
    }

    /// Runs were taken up here; those that nobody had before have started, unless this program
    /// started them itself.
    pub(crate) fn claimed(&self, runs: &[ClaimedRun]) {
        let watched = self.watched();
        let first = runs.iter().filter(|it| it.epoch == Epoch(1));
        let started = first.filter(|it| !watched.runs.contains_key(&it.run));
        started.for_each(|_| self.metrics.count_start());
    }

    /// Attempts are told which span they are.
    pub(crate) fn trace(&self) {
        self.is_traced.store(true, Ordering::Release);
    }

    pub(crate) fn attempt_began(&self, task: &mut Task) {
        let token = &task.token;
        if self.is_traced.load(Ordering::Acquire) {
            let span = traceparent(token.run, &token.execution, token.attempt);
            task.trace = Some(span.into());
        }
        let key = (Arc::clone(&token.execution), token.attempt);
        let now = Instant::now();
        let mut watched = self.watched();
        watched.began.entry(token.run).or_default().insert(key, now);
        drop(watched);
        self.emit(token.run, |event| TelemetryEvent {
            name: STEP_START,
            workflow: Some(Arc::clone(&task.workflow)),
            step: Some(Arc::clone(&task.step)),
            execution: Some(Arc::clone(&token.execution)),
            attempt: Some(token.attempt),
            ..event
        });
    }

    pub(crate) fn call_began(&self, verb: &'static str) {
        self.tell(|event| TelemetryEvent {
            name: STORE_START,
            operation: Some(verb),
            ..event
        });
    }

    pub(crate) fn call_ended(
        &self,
        verb: &'static str,
        took: Duration,
        error: Option<&StoreError>,
    ) {
        self.metrics.count_call(verb, took, error.is_some());
        let name = if error.is_some() {
            STORE_EXCEPTION
        } else {
            STORE_STOP
        };
        let error = error.map(|error| Failure::new("StoreError", error.to_string()));
        self.tell(|event| TelemetryEvent {
            name,
            operation: Some(verb),
            duration: Some(took),
            error,
            ..event
        });
    }

    /// What these runs wanted to write is not written; they do not go on until it is.
    pub(crate) fn commit_failed(&self, runs: &[RunId], error: &StoreError) {
        for run in runs {
            let waiting = self.watched().checkpoints.remove(run).unwrap_or_default();
            // Whoever waited may have gone.
            waiting
                .into_iter()
                .for_each(|sender| drop(sender.send(Err(error.clone()))));
        }
    }

    fn hear(&self, news: &News) {
        match news {
            News::InputSettled { run, input, result } => self.input_settled(*run, input, result),
            News::Notice { run, notice, .. } => self.noticed(*run, notice),
            News::Checkpointed(run) => {
                let waiting = self.watched().checkpoints.remove(run).unwrap_or_default();
                waiting
                    .into_iter()
                    .for_each(|sender| drop(sender.send(Ok(()))));
            }
            News::Rested(run) => self.completed(*run, "idle", None),
            News::Ended {
                run,
                status,
                result,
            } => {
                let failure = match result {
                    Settled::Failed(failure) => Some(&**failure),
                    Settled::Done(_) | Settled::Cancelled => None,
                };
                self.completed(*run, status.as_str(), failure);
                self.forget(*run);
            }
            News::Left(run) => drop(self.watched().began.remove(run)),
        }
        self.notification
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    fn input_settled(&self, run: RunId, input: &Arc<str>, result: &Settled) {
        let failure = match result {
            Settled::Done(_) => None,
            Settled::Failed(failure) => Some(Failure::clone(failure)),
            Settled::Cancelled => Some(Failure::new(
                lope_model::failure::kind::CANCELLED,
                "it was cancelled",
            )),
        };
        self.metrics
            .count_input(if failure.is_some() { "failed" } else { "done" });
        let waiting = {
            let mut watched = self.watched();
            watched.settle(run, input);
            if let Some(known) = watched
                .runs
                .get_mut(&run)
                .filter(|known| known.callback.is_some())
            {
                known.results.push(InputResult {
                    input: Arc::clone(input),
                    result: result.clone(),
                });
            }
            watched
                .inputs
                .remove(&(run, Arc::clone(input)))
                .unwrap_or_default()
        };
        waiting
            .into_iter()
            .for_each(|sender| drop(sender.send(result.clone())));
        if failure.is_some() {
            let duration = self.working_for(run);
            self.emit(run, |event| TelemetryEvent {
                name: WORKFLOW_EXCEPTION,
                duration,
                error: failure,
                ..event
            });
        }
    }

    fn noticed(&self, run: RunId, notice: &Notice) {
        match notice {
            Notice::InputStarted { .. } => self.begin_work(run),
            Notice::StepSettled {
                execution,
                step,
                attempt,
                failure,
            } => {
                self.attempt_ended(
                    run,
                    &EndedAttempt {
                        execution,
                        step,
                        number: *attempt,
                        failure: failure.as_ref(),
                    },
                );
            }
            Notice::Retrying {
                execution,
                step,
                failed,
                failure,
                ..
            } => {
                self.attempt_ended(
                    run,
                    &EndedAttempt {
                        execution,
                        step,
                        number: *failed,
                        failure: Some(failure),
                    },
                );
                self.metrics.count_retry();
                self.emit(run, |event| TelemetryEvent {
                    name: STEP_RETRY,
                    step: Some(Arc::clone(step)),
                    execution: Some(Arc::clone(execution)),
                    attempt: Some(*failed + 1),
                    error: Some(failure.clone()),
                    ..event
                });
            }
            Notice::FellBack {
                execution,
                step,
                failure,
            } => {
                self.attempt_ended(
                    run,
                    &EndedAttempt {
                        execution,
                        step,
                        number: failure.attempt.unwrap_or(0),
                        failure: Some(failure),
                    },
                );
            }
            Notice::Started | Notice::SignalDropped { .. } => {}
        }
    }

    fn begin_work(&self, run: RunId) {
        if let Some(known) = self.watched().runs.get_mut(&run) {
            let span = || tracing::info_span!("lope.workflow", run = %run, id = %known.id, workflow = %known.workflow);
            if known.working.is_none() {
                known.working = Some((Instant::now(), span()));
            }
        }
    }

    fn attempt_ended(&self, run: RunId, ended: &EndedAttempt<'_>) {
        let failure = ended.failure;
        let key = (Arc::clone(ended.execution), ended.number);
        let mut watched = self.watched();
        let began = watched.began.get_mut(&run);
        let began = began.and_then(|attempts| attempts.remove(&key));
        drop(watched);
        let duration = began.map(|began| began.elapsed());
        if let Some(Failure { kind, .. }) = failure {
            let (step, execution, attempt) = (ended.step, ended.execution, ended.number);
            tracing::info!(%run, %step, %execution, attempt, %kind, "an attempt failed");
        }
        self.metrics
            .count_attempt(if failure.is_some() { "failed" } else { "done" }, duration);
        self.emit(run, |event| TelemetryEvent {
            name: if failure.is_some() {
                STEP_EXCEPTION
            } else {
                STEP_STOP
            },
            duration,
            step: Some(Arc::clone(ended.step)),
            execution: Some(Arc::clone(ended.execution)),
            attempt: Some(ended.number),
            error: failure.cloned(),
            ..event
        });
    }

    fn completed(&self, run: RunId, status: &'static str, failure: Option<&Failure>) {
        let duration = self.working_for(run);
        let name = if failure.is_some() {
            WORKFLOW_EXCEPTION
        } else {
            WORKFLOW_STOP
        };
        self.emit(run, |event| TelemetryEvent {
            name,
            duration,
            error: failure.cloned(),
            ..event
        });
        let call = {
            let mut watched = self.watched();
            let Some(known) = watched.runs.get_mut(&run) else {
                return;
            };
            known.working = None;
            let results = std::mem::take(&mut known.results);
            let completion = Completion {
                id: Arc::clone(&known.id),
                run,
                status,
                results,
            };
            known
                .callback
                .as_ref()
                .map(|callback| (Arc::clone(callback), completion))
        };
        if let Some((callback, completion)) = call {
            self.runtime.spawn(async move {
                let called = catch_unwind(AssertUnwindSafe(|| callback(&completion.id, &completion)));
                if called.is_err() {
                    tracing::error!(id = %completion.id, "the callback of a completed workflow panicked");
                }
            });
        }
    }

    fn working_for(&self, run: RunId) -> Option<Duration> {
        self.watched()
            .runs
            .get(&run)?
            .working
            .as_ref()
            .map(|(since, _)| since.elapsed())
    }

    /// An event about a run.
    fn emit(&self, run: RunId, make: impl FnOnce(TelemetryEvent) -> TelemetryEvent) {
        self.tell(|event| {
            let known = self
                .watched()
                .runs
                .get(&run)
                .map(|known| (Arc::clone(&known.id), Arc::clone(&known.workflow)));
            let (id, workflow) = known.unzip();
            make(TelemetryEvent {
                run: Some(run),
                id,
                workflow,
                ..event
            })
        });
    }

    /// An event, if anybody listens.
    fn tell(&self, make: impl FnOnce(TelemetryEvent) -> TelemetryEvent) {
        if self.hub.receiver_count() == 0 {
            return;
        }
        let event = TelemetryEvent {
            name: "",
            at: clock::now(),
            runner: Arc::clone(&self.runner),
            duration: None,
            run: None,
            id: None,
            workflow: None,
            step: None,
            execution: None,
            attempt: None,
            operation: None,
            error: None,
        };
        // The last listener may have gone meanwhile.
        let _ = self.hub.send(make(event));
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().expect("no panic while it is held")
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Telemetry({})", self.runner)
    }
}
