//! The task that asks the limits which all runners share, for the dispatcher: what attempts need
//! before they begin, what they give back, and outcomes that the limits must know of before the
//! run does. All that waits goes into one turn; nothing else waits for it.
//!
//! A store that does not answer makes attempts wait, not fail: they are asked to come again.

use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use lope_limits::{
    AttemptRef, LimitEnd, LimitRequest, LimitVerdict, LimitWork, LimitsReply, LimitsStore,
};
use lope_store::StoreError;
use lope_store::watch::Watch;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::adopter::Adopter;
use super::clock::ProcessClock;
use super::dispatcher::Dispatcher;
use super::limit_input::LimitInput;
use super::seam;
use super::supervisor::{SupervisedTask, caught};
use crate::executor::{TaskOutcome, Token};
use crate::settings::{EndAbandoned, Settings};
use crate::shard::ShardInput;

/// Most inputs taken in before a turn.
const INPUTS_MAX: usize = 1_024;
/// How often what is held is asked for when nothing rang: a holder that died gives nothing back.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// Shortest pause between two looks: everything that is committed to the tables notifies.
const POLL_PAUSE: Duration = Duration::from_millis(10);
/// Pauses while the store does not answer: they double.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

pub(crate) struct LimitsTask {
    name: String,
    limits: LimitsStore,
    adopter: Arc<Adopter>,
    dispatcher: Arc<Dispatcher>,
    clock: ProcessClock,
    end_abandoned: Option<EndAbandoned>,
    inputs: mpsc::UnboundedReceiver<LimitInput>,
    received: Vec<LimitInput>,
    requests: Vec<LimitRequest>,
    /// Ends, and whether an outcome waits for them.
    ends: Vec<(LimitEnd, bool)>,
    outcomes: HashMap<AttemptRef, TaskOutcome>,
    /// The limits know the end of these; their outcomes have not come yet.
    told: HashSet<AttemptRef>,
    watch: Option<Watch>,
    /// When what is held is asked for again, and what is not done is done again.
    next_poll: Option<Instant>,
    /// How long the store has not answered.
    retry: Option<Duration>,
}

impl SupervisedTask for LimitsTask {
    const NAME: &'static str = "limits";

    async fn work(&mut self) {
        loop {
            seam::pass(&self.name, Self::NAME);
            self.sort();
            self.handle_requests().await;
            if !self.wait().await {
                return;
            }
        }
    }
}

impl LimitsTask {
    pub(crate) fn new(
        settings: &Settings,
        adopter: &Arc<Adopter>,
        dispatcher: &Arc<Dispatcher>,
        clock: ProcessClock,
        inputs: mpsc::UnboundedReceiver<LimitInput>,
    ) -> Self {
        Self {
            name: settings.name.clone(),
            limits: LimitsStore::new(adopter.store.clone()),
            adopter: Arc::clone(adopter),
            dispatcher: Arc::clone(dispatcher),
            clock,
            end_abandoned: settings.end_abandoned,
            inputs,
            received: Vec::new(),
            requests: Vec::new(),
            ends: Vec::new(),
            outcomes: HashMap::new(),
            told: HashSet::new(),
            watch: None,
            next_poll: None,
            retry: None,
        }
    }

    /// Wait until there is something to do. False: the engine is gone.
    async fn wait(&mut self) -> bool {
        self.listen();
        let next_poll = self.next_poll;
        let sleep = async {
            match next_poll {
                Some(until) => tokio::time::sleep_until(until).await,
                None => pending().await,
            }
        };
        let notified = async {
            match &mut self.watch {
                Some(watch) => watch.changed().await,
                None => pending().await,
            }
        };
        tokio::select! {
            count = self.inputs.recv_many(&mut self.received, INPUTS_MAX) => return count > 0,
            () = notified => self.poll_in(POLL_PAUSE),
            () = sleep => {
                self.next_poll = None;
                self.dispatcher.ask_again();
            }
        }
        true
    }

    /// Look again after this time, or sooner if that is said already.
    fn poll_in(&mut self, pause: Duration) {
        let at = Instant::now() + pause;
        self.next_poll = Some(self.next_poll.map_or(at, |poll| poll.min(at)));
    }

    /// While something waits for what others hold, changes are listened for, and only then.
    fn listen(&mut self) {
        if let Some(pause) = self.retry {
            self.watch = None;
            return self.poll_in(pause);
        }
        if !(self.requests.is_empty() && self.ends.is_empty()) {
            self.poll_in(POLL_PAUSE);
        }
        if !self.dispatcher.is_held_up() {
            self.watch = None;
        } else if self.watch.is_some() {
            self.poll_in(POLL_EVERY);
        } else {
            self.watch = Some(self.adopter.store.tables.watch());
            // What changed before anybody listened.
            self.poll_in(POLL_PAUSE);
        }
    }

    /// Inputs in their order: one that is given up before it was asked for need not be.
    fn sort(&mut self) {
        for input in self.received.drain(..) {
            match input {
                LimitInput::Request(request) => self.requests.push(*request),
                LimitInput::End { end, settles } => {
                    let attempt = &end.request.attempt;
                    self.requests.retain(|request| request.attempt != *attempt);
                    self.ends.push((*end, settles));
                }
                LimitInput::Outcome(outcome) => {
                    let attempt = outcome.token.attempt_ref();
                    if self.told.remove(&attempt) {
                        settle(&self.adopter, *outcome);
                    } else {
                        self.outcomes.insert(attempt, *outcome);
                    }
                }
            }
        }
    }

    async fn handle_requests(&mut self) {
        if self.requests.is_empty() && self.ends.is_empty() {
            return;
        }
        let ends = self.ends.iter().map(|(end, _)| LimitWork::End(end.clone()));
        let requests = self.requests.iter().cloned().map(LimitWork::Request);
        let works: Vec<LimitWork> = ends.chain(requests).collect();
        let now = self.clock.wall();
        let runner = self.adopter.runner();
        let applied = caught(self.limits.apply(now, runner, works.clone())).await;
        let reply = applied.unwrap_or_else(|panic| LimitsReply {
            undone: works,
            error: Some(StoreError::unknown(panic)),
            ..LimitsReply::default()
        });
        self.take(reply);
    }

    fn take(&mut self, reply: LimitsReply) {
        let mut settles: HashMap<AttemptRef, bool> = HashMap::new();
        for (end, waits) in self.ends.drain(..) {
            *settles.entry(end.request.attempt).or_default() |= waits;
        }
        self.requests.clear();
        let mut verdicts = Vec::new();
        for (work, verdict) in reply.done {
            match (work, verdict) {
                (LimitWork::Request(request), Some(verdict)) => {
                    verdicts.extend(self.answer(&request.attempt, verdict));
                }
                (LimitWork::Request(_), None) => {}
                (LimitWork::End(end), _) => self.ended(end.request.attempt, &settles),
            }
        }
        let failed = reply.error.is_some();
        for work in reply.undone {
            match work {
                LimitWork::End(end) => {
                    let waits = settles
                        .get(&end.request.attempt)
                        .copied()
                        .unwrap_or_default();
                    self.ends.push((end, waits));
                }
                LimitWork::Request(request) if failed => {
                    verdicts.extend(come_again(&request));
                    // It may have been granted; then nobody knows.
                    self.ends.push((LimitEnd::unused(request), false));
                }
                LimitWork::Request(request) => self.requests.push(request),
            }
        }
        self.failed(reply.error);
        self.dispatcher.answered(verdicts);
    }

    /// What the attempt is told, now or when what a dead one left has ended.
    fn answer(&self, attempt: &AttemptRef, verdict: LimitVerdict) -> Option<(Token, LimitVerdict)> {
        let token = Token::of(attempt);
        match (&verdict, self.end_abandoned) {
            (LimitVerdict::Granted { inherited: true }, Some(end_abandoned)) => {
                let dispatcher = Arc::clone(&self.dispatcher);
                tokio::spawn(async move {
                    end_abandoned().await;
                    dispatcher.answered([(token, verdict)]);
                });
                None
            }
            (_, _) => Some((token, verdict)),
        }
    }

    fn ended(&mut self, attempt: AttemptRef, settles: &HashMap<AttemptRef, bool>) {
        if settles.get(&attempt) != Some(&true) {
            return;
        }
        match self.outcomes.remove(&attempt) {
            Some(outcome) => settle(&self.adopter, outcome),
            None => drop(self.told.insert(attempt)),
        }
    }

    fn failed(&mut self, error: Option<StoreError>) {
        let Some(error) = error else {
            self.retry = None;
            return;
        };
        if self.retry.is_none() {
            tracing::warn!(%error, "the store did not answer for limits that runners share; attempts that need them wait");
        }
        let next = self.retry.map_or(RETRY_FIRST, |pause| pause * 2);
        self.retry = Some(next.min(RETRY_MAX));
    }
}

/// Nobody knows what holds it; whoever asked waits as if somebody did.
fn come_again(request: &LimitRequest) -> Option<(Token, LimitVerdict)> {
    let key = request.keys().next()?;
    Some((Token::of(&request.attempt), LimitVerdict::Held(key)))
}

fn settle(adopter: &Adopter, outcome: TaskOutcome) {
    adopter
        .shards
        .send(outcome.token.run, ShardInput::Outcome(outcome));
}
