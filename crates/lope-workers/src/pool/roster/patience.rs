//! Time in the roster: silent workers, starts that take too long, cancels that are ignored, tasks
//! that nobody will serve.

use std::sync::Arc;

use lope_model::{Failure, Moment, failure};

use super::member::{Member, Stage};
use super::{PoolWorkerId, Roster, RosterAction, TaskId, listed};

impl Roster {
    /// Look at the clock.
    pub(super) fn tick(&mut self, now: Moment, acts: &mut Vec<RosterAction>) {
        let workers: Vec<PoolWorkerId> = self.members.keys().copied().collect();
        for worker in workers {
            self.check_silence(now, worker, acts);
        }
        self.end_isolation(now, acts);
        self.give_up_hopeless(now, acts);
    }

    /// A task has a process for itself for a while only, and waits for one no longer than that: it
    /// may be innocent, and those in the process may take for ever.
    fn end_isolation(&mut self, now: Moment, acts: &mut Vec<RosterAction>) {
        for member in self.members.values_mut() {
            member.alone_until = member.alone_until.filter(|until| *until > now);
        }
        while let Some(task) = self.alone.front().copied()
            && let Some(waiting) = self.waiting.get_mut(&task)
            && waiting.since.plus(self.settings.alone_for) <= now
        {
            waiting.alone = false;
            self.queues
                .entry(Arc::clone(&waiting.action))
                .or_default()
                .push_front(task);
            self.alone.pop_front();
        }
        self.feed_all(now, acts);
    }

    /// When `Tick` must come at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let of_members = self
            .members
            .values()
            .filter_map(|member| self.deadline(member));
        let alive = self
            .members
            .values()
            .filter(|member| !member.remote)
            .count();
        let spawn = (!self.closing && alive < self.settings.processes).then_some(self.next_spawn);
        let wait = self.settings.remote_wait;
        let waiting = self
            .waiting
            .first_key_value()
            .and_then(|(_, first)| Some(first.since.plus(wait?)));
        let first_alone = self.alone.front().and_then(|task| self.waiting.get(task));
        let alone = first_alone.map(|waiting| waiting.since.plus(self.settings.alone_for));
        let isolated = self
            .members
            .values()
            .filter_map(|member| member.alone_until);
        of_members
            .chain(spawn)
            .chain(waiting)
            .chain(alone)
            .chain(isolated)
            .min()
    }

    fn deadline(&self, member: &Member) -> Option<Moment> {
        let silence = || member.last_heard.plus(self.settings.silence);
        match member.stage {
            Stage::Starting => member.start_until,
            Stage::Ready | Stage::Retiring | Stage::Draining => {
                let cancels = member
                    .cancelled
                    .values()
                    .copied()
                    .filter(|_| member.stuck_until.is_none());
                cancels.chain(member.stuck_until).chain([silence()]).min()
            }
            Stage::Dying => None,
        }
    }

    fn check_silence(&mut self, now: Moment, worker: PoolWorkerId, acts: &mut Vec<RosterAction>) {
        let Some(member) = self.members.get_mut(&worker) else {
            return;
        };
        if member.stage == Stage::Dying {
            return;
        }
        if member.stage == Stage::Starting {
            if member.start_until.is_some_and(|until| until <= now) {
                member.stage = Stage::Dying;
                acts.push(RosterAction::Kill {
                    worker,
                    why: "it took too long to start",
                });
            }
            return;
        }
        if member.last_heard.plus(self.settings.silence) <= now {
            member.stage = Stage::Dying;
            acts.push(RosterAction::Kill {
                worker,
                why: "it showed no life",
            });
            return;
        }
        if member.stuck_until.is_none() && member.cancelled.values().any(|until| *until <= now) {
            // While its loop is blocked, the others cannot end either; no use in waiting for them.
            let hopeless = member.blocked >= self.settings.cancel_grace;
            let grace = if hopeless {
                lope_model::Span::ZERO
            } else {
                self.settings.stuck_grace
            };
            member.stuck_until = Some(now.plus(grace));
            if member.stage == Stage::Ready {
                member.stage = Stage::Retiring;
            }
        }
        let overdue = member.stuck_until.is_some_and(|until| until <= now);
        if overdue {
            member.stage = Stage::Dying;
            acts.push(RosterAction::Kill {
                worker,
                why: "a cancelled task did not end",
            });
        } else {
            self.kill_if_only_stuck(worker, acts);
        }
    }

    /// A worker that holds nothing but tasks that ignore their cancel is of no more use.
    pub(super) fn kill_if_only_stuck(
        &mut self,
        worker: PoolWorkerId,
        acts: &mut Vec<RosterAction>,
    ) {
        let Some(member) = self.members.get_mut(&worker) else {
            return;
        };
        if member.stuck_until.is_some() && member.stage != Stage::Dying && member.only_cancelled() {
            member.stage = Stage::Dying;
            acts.push(RosterAction::Kill {
                worker,
                why: "a cancelled task did not end",
            });
        }
    }

    /// Fail what waits for an action that nobody serves or will serve.
    pub(super) fn give_up_hopeless(&mut self, now: Moment, acts: &mut Vec<RosterAction>) {
        let hopeless: Vec<(Arc<str>, Failure)> = self
            .queues
            .keys()
            .filter_map(|action| Some((Arc::clone(action), self.hopeless(action)?)))
            .collect();
        for (action, why) in hopeless {
            let late = |since: Moment| {
                self.settings
                    .remote_wait
                    .is_none_or(|wait| since.plus(wait) <= now)
            };
            let tasks = self
                .waiting
                .iter()
                .filter(|(_, waiting)| waiting.action == action && late(waiting.since));
            let tasks: Vec<TaskId> = tasks.map(|(task, _)| *task).collect();
            for task in tasks {
                self.forget(task);
                acts.push(RosterAction::Fail {
                    task,
                    why: why.clone(),
                });
            }
        }
    }

    /// Why nobody will do this; nothing if somebody may.
    fn hopeless(&self, action: &str) -> Option<Failure> {
        if self
            .members
            .values()
            .any(|member| member.accepts() && member.serves(action))
        {
            return None;
        }
        if let Some(why) = &self.broken {
            return Some(why.clone());
        }
        let may_come = self.settings.processes > 0 && !self.closing;
        if may_come && self.own.as_ref().is_none_or(|own| own.contains(action)) {
            return None;
        }
        let known = self.actions();
        let known = if known.is_empty() {
            "nothing".to_owned()
        } else {
            listed(&known)
        };
        let message =
            format!("no worker of this runner serves the action '{action}'; they serve {known}");
        Some(Failure::new(failure::kind::UNKNOWN_ACTION, message))
    }
}
