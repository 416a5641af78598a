//! What a task that depends on limits of all runners goes through: it asks with a slot in hand, is
//! let through, refused or told that others hold what it needs, and gives back what it had.
//!
//! The limits themselves are elsewhere; here is only who asks and who waits, so that a key that is
//! held is asked for by the first that waits for it and not by all.

use lope_limits::{AttemptRef, LimitEnd, LimitKey, LimitRequest, LimitVerdict};
use lope_model::{Moment, Value};

use super::{Rank, RunningTask, SlotCommand, SlotScheduler, SlotStage};
use crate::executor::{Task, Token};

impl Token {
    /// The attempt, as the limits know it.
    pub fn attempt_ref(&self) -> AttemptRef {
        AttemptRef {
            run: self.run,
            execution: self.execution.clone(),
            attempt: self.attempt,
            epoch: self.epoch,
        }
    }

    pub fn of(attempt: &AttemptRef) -> Self {
        Self {
            run: attempt.run,
            execution: attempt.execution.clone(),
            attempt: attempt.attempt,
            epoch: attempt.epoch,
        }
    }
}

impl SlotScheduler {
    /// A task asks, unless others wait before it for the same.
    pub(super) fn ask(
        &mut self,
        now: Moment,
        rank: Rank,
        task: Box<Task>,
        commands: &mut Vec<SlotCommand>,
    ) {
        let request = Box::new(task.limits.request(task.token.attempt_ref()));
        let is_behind = |key: &LimitKey| {
            let first = self.held.get(key).and_then(|held| held.first_key_value());
            first.is_some_and(|(first, _)| *first < rank)
        };
        let waits_for = request.keys().find(is_behind);
        if let Some(key) = waits_for.or_else(|| self.full_here(&request)) {
            self.held.entry(key).or_default().insert(rank, task);
            return;
        }
        self.ranks.remove(&task.token);
        let token = task.token.clone();
        self.occupy(now, &task, Some(request.clone()));
        let running = self.running.get_mut(&token);
        running.expect("it has a slot").stage = SlotStage::Asking(rank, task);
        commands.push(SlotCommand::Ask(request));
    }

    /// The key of a request, if as many are at work under it here as may be, or ask for it: those of
    /// a session that has ended count until they have ended themselves.
    fn full_here(&self, request: &LimitRequest) -> Option<LimitKey> {
        let (key, limit) = request.permit.as_ref()?;
        let has_key = |running: &&RunningTask| {
            let permit = running
                .shared
                .as_ref()
                .and_then(|shared| shared.permit.as_ref());
            permit.is_some_and(|(other, _)| other == key)
        };
        let many = self.running.values().filter(has_key).count();
        (many >= *limit as usize).then(|| LimitKey::Permits(key.clone()))
    }

    /// What the limits said to a task that asked.
    pub fn answered(
        &mut self,
        now: Moment,
        token: &Token,
        verdict: LimitVerdict,
        commands: &mut Vec<SlotCommand>,
    ) {
        let asks = |running: &RunningTask| matches!(running.stage, SlotStage::Asking(..));
        if !self.running.get(token).is_some_and(asks) {
            // It was given up meanwhile, and so is what it was granted.
            return;
        }
        if let LimitVerdict::Granted { .. } = verdict {
            self.granted(now, token, commands);
        } else if let Some(ended) = self.end(token) {
            self.turned_away(ended, verdict, commands);
        }
        self.fill(now, commands);
    }

    fn granted(&mut self, now: Moment, token: &Token, commands: &mut Vec<SlotCommand>) {
        if now >= self.lease_until || self.draining {
            let Some(mut ended) = self.end(token) else {
                return;
            };
            let stage = std::mem::replace(&mut ended.stage, SlotStage::Working);
            if let SlotStage::Asking(rank, task) = stage {
                self.ranks.insert(token.clone(), rank);
                self.waiting.insert(rank, task);
            }
            return self.release(ended, None, false, commands);
        }
        let Some(running) = self.running.get_mut(token) else {
            return;
        };
        let shared = running.shared.clone();
        let stage = std::mem::replace(&mut running.stage, SlotStage::Working);
        if let SlotStage::Asking(_, task) = stage {
            self.start(now, task, commands);
        }
        // Where several may be at work under a key, the next one tries.
        for key in shared.iter().flat_map(|shared| shared.keys()) {
            let is_single = match &key {
                LimitKey::Outcome(_) => true,
                LimitKey::Permits(_) => {
                    let permit = shared.as_ref().and_then(|shared| shared.permit.as_ref());
                    permit.is_some_and(|(_, limit)| *limit <= 1)
                }
                LimitKey::Circuit(_) | LimitKey::Rate(_) | LimitKey::QueueRate(_) => false,
            };
            if !is_single {
                self.wake_first(&key);
            }
        }
    }

    fn turned_away(
        &mut self,
        ended: RunningTask,
        verdict: LimitVerdict,
        commands: &mut Vec<SlotCommand>,
    ) {
        let SlotStage::Asking(rank, task) = ended.stage else {
            return;
        };
        let shared = ended.shared.iter();
        let keys: Vec<LimitKey> = shared.flat_map(|shared| shared.keys()).collect();
        let token = task.token.clone();
        match verdict {
            LimitVerdict::Held(key) => {
                self.ranks.insert(token, rank);
                self.held.entry(key).or_default().insert(rank, task);
                return;
            }
            LimitVerdict::Done(result) => {
                // All that wait for the key get the same.
                for key in keys
                    .iter()
                    .filter(|key| matches!(key, LimitKey::Outcome(_)))
                {
                    self.waiting
                        .extend(self.held.remove(key).unwrap_or_default());
                }
                commands.push(SlotCommand::Answer { token, result });
            }
            LimitVerdict::Refused { until, reason } => commands.push(SlotCommand::Refuse {
                token,
                until,
                reason,
            }),
            LimitVerdict::Granted { .. } => {}
        }
        keys.iter().for_each(|key| self.wake_first(key));
    }

    /// Something may have changed: the first that waits for each key asks again. Is any waiting?
    pub fn ask_again(&mut self, now: Moment, commands: &mut Vec<SlotCommand>) -> bool {
        if self.may_begin(now) {
            let keys: Vec<LimitKey> = self.held.keys().cloned().collect();
            keys.iter().for_each(|key| self.wake_first(key));
            self.fill(now, commands);
        }
        self.is_held_up()
    }

    /// Does any wait for what others hold?
    pub fn is_held_up(&self) -> bool {
        !self.held.is_empty()
    }

    /// One that was to ask does not: the next that waits for the same does.
    pub(super) fn wake_next(&mut self, task: &Task) {
        let request = task.limits.request(task.token.attempt_ref());
        request.keys().for_each(|key| self.wake_first(&key));
    }

    fn wake_first(&mut self, key: &LimitKey) {
        let Some(held) = self.held.get_mut(key) else {
            return;
        };
        if let Some((rank, task)) = held.pop_first() {
            self.waiting.insert(rank, task);
        }
        if held.is_empty() {
            self.held.remove(key);
        }
    }

    /// The secrets of an attempt are known: it goes to its executor, if it is still wanted.
    pub fn revealed(&mut self, token: &Token) -> bool {
        let Some(running) = self.running.get_mut(token) else {
            return false;
        };
        let is_wanted = matches!(running.stage, SlotStage::Revealing);
        if is_wanted {
            running.stage = SlotStage::Working;
        }
        is_wanted
    }

    /// One that has a slot and has not begun is given up.
    pub(super) fn give_up(&mut self, token: &Token, commands: &mut Vec<SlotCommand>) {
        if let Some(ended) = self.end(token) {
            self.release(ended, None, false, commands);
        }
    }

    /// What a task held is free again, with what came out of it; who waited for it may try.
    pub(super) fn release(
        &mut self,
        ended: RunningTask,
        result: Option<Result<Value, ()>>,
        settles: bool,
        commands: &mut Vec<SlotCommand>,
    ) {
        let Some(request) = ended.shared else {
            return;
        };
        let keys: Vec<LimitKey> = request.keys().collect();
        commands.push(SlotCommand::Release {
            end: Box::new(LimitEnd {
                request: *request,
                result,
            }),
            settles,
        });
        keys.iter().for_each(|key| self.wake_first(key));
    }
}

impl RunningTask {
    /// Must the limits know how it ended before its owner does? Others go by it.
    pub(super) fn tells_its_outcome(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.idempotency_key.is_some() || shared.circuit.is_some())
    }

    /// It ran out of time: its circuit knows at once, whenever it ends.
    pub(super) fn fail_circuit(&mut self, commands: &mut Vec<SlotCommand>) {
        let Some(shared) = &mut self.shared else {
            return;
        };
        let Some(circuit) = shared.circuit.take() else {
            return;
        };
        let request = LimitRequest {
            attempt: shared.attempt.clone(),
            idempotency_key: None,
            permit: None,
            circuit: Some(circuit),
            rate: None,
        };
        commands.push(SlotCommand::Release {
            end: Box::new(LimitEnd {
                request,
                result: Some(Err(())),
            }),
            settles: false,
        });
    }
}
