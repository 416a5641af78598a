//! Why a run is not moving, decided from what the store and the folded state say. Pure: no clock,
//! no store.

mod kind;
mod told;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_flow::law::{Dispatch, Reason};
use lope_limits::{BlockingLimit, Holder, LimitKey};
use lope_model::{Failure, QueueName, Realm, RunId, RunnerId, Timestamp, failure};
use lope_store::runs::{FinalStatus, RunRecord, RunStatus, RunnerRecord, STOPPED};
use lope_store::store::Finding;

pub use told::as_told;

/// What a run that was paused is parked with.
pub const PARKED_PAUSED: &str = "paused";

/// Was a run with this reason set aside, so that a person must look at it? A run that was paused or
/// stopped was not.
pub fn is_set_aside(parked: &str) -> bool {
    parked != PARKED_PAUSED && parked != STOPPED
}

/// Names of secrets by the execution that needs them.
pub type NeededSecrets = BTreeMap<Arc<str>, Arc<[Arc<str>]>>;

/// The secrets that are looked up before these attempts begin.
pub fn needed_secrets(asked: &[Dispatch]) -> NeededSecrets {
    let secret = asked.iter().filter(|it| !it.handling.secrets.is_empty());
    secret
        .map(|it| (Arc::clone(&it.execution), Arc::clone(&it.handling.secrets)))
        .collect()
}

/// What is known of a run at a moment.
#[derive(Clone, Debug)]
pub struct Sight<'a> {
    pub record: &'a RunRecord,
    /// What the law says about its state.
    pub reasons: &'a [Reason],
    /// When each execution that is not over was opened.
    pub since: &'a BTreeMap<Arc<str>, Timestamp>,
    /// Limits of all runners that stand in the way of executions.
    pub limits: &'a BTreeMap<Arc<str>, BlockingLimit>,
    /// The secrets that executions need.
    pub secrets: &'a NeededSecrets,
    /// The registry.
    pub runners: &'a [RunnerRecord],
    /// Children that it waits for and that are not there any more.
    pub gone: &'a BTreeSet<RunId>,
    /// Runs of the run's queue that have an owner.
    pub at_work: u64,
    /// What the store says of a process that stands still in a write.
    pub stopped_writer: Option<Finding>,
    /// Mail that nobody took yet.
    pub waiting_mail: usize,
    pub now: Timestamp,
}

/// Why no runner took a run that is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Untaken {
    /// None serves its queue; these are served.
    Queue { served: Vec<QueueName> },
    /// None of those that serve its queue serves its realm.
    Realm,
    /// As many runs of its queue are at work as may be.
    Limit { most: u32 },
    /// Those that could are busy, or will take it soon.
    Busy,
}

/// Who holds a limit, and on which runner, if the registry knows that one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedHolder {
    pub holder: Holder,
    pub runner: Option<String>,
}

/// One reason why a run is not further than it is.
#[derive(Clone, PartialEq, Debug)]
pub enum Why {
    Ended {
        status: FinalStatus,
        at: Option<Timestamp>,
    },
    Paused {
        reason: Option<Arc<str>>,
        /// Is a runner up that would take it?
        served: bool,
    },
    /// It cannot be folded, or has diverged, and waits for a person.
    SetAside {
        reason: String,
    },
    /// A process stands still in a write of the store.
    NobodyWrites {
        message: String,
        hint: String,
    },
    /// Its time has not come.
    NotDue {
        until: Timestamp,
    },
    /// It is due, and nobody works on this store.
    NoRunner {
        since: Option<Timestamp>,
    },
    /// It is due and runners are up, but none took it.
    NotTaken {
        queue: QueueName,
        realm: Realm,
        since: Timestamp,
        runners: usize,
        because: Untaken,
    },
    /// Its runner is gone; whoever works next takes it over.
    OwnerGone {
        runner: RunnerId,
        host: Option<String>,
    },
    Owned {
        runner: RunnerId,
        name: String,
        host: String,
        pid: u32,
        heartbeat_at: Timestamp,
    },
    /// Mail waits to be taken up.
    Mail {
        count: usize,
    },
    Cancelling,
    Idle,
    Working {
        execution: Arc<str>,
        attempt: u32,
        action: Arc<str>,
        since: Option<Timestamp>,
        /// What must be looked up before it begins.
        secrets: Arc<[Arc<str>]>,
    },
    /// It was in flight when its runner stopped.
    Interrupted {
        execution: Arc<str>,
        attempt: u32,
    },
    /// It would start if there were a slot.
    NoSlot {
        execution: Arc<str>,
        action: Arc<str>,
    },
    BackingOff {
        execution: Arc<str>,
        failed: u32,
        until: Timestamp,
        failure: Option<Failure>,
    },
    NoWorker {
        execution: Arc<str>,
        /// When it is tried again; nothing: as soon as there is one.
        until: Option<Timestamp>,
        message: String,
    },
    /// A limit that many runs share.
    Limited {
        execution: Arc<str>,
        until: Timestamp,
        reason: Arc<str>,
        /// Who opened the circuit.
        holders: Vec<NamedHolder>,
    },
    /// Others hold what it needs.
    Held {
        execution: Arc<str>,
        key: LimitKey,
        holders: Vec<NamedHolder>,
    },
    Sleeping {
        execution: Arc<str>,
        until: Timestamp,
    },
    Signal {
        execution: Arc<str>,
        signal: Arc<str>,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    },
    Child {
        execution: Arc<str>,
        child: RunId,
    },
    /// The child that it waits for was removed: nobody will answer.
    ChildGone {
        execution: Arc<str>,
        child: RunId,
    },
    /// A `state` that waits for earlier inputs.
    Turn {
        execution: Arc<str>,
    },
}

/// Children that a run waits for and that must be there: an owner may be about to start one.
pub fn awaited(record: &RunRecord, reasons: &[Reason]) -> BTreeSet<RunId> {
    let is_at_rest = record.owner.is_none() && record.started_at.is_some();
    let children = reasons.iter().filter_map(|reason| match reason {
        Reason::Child { child, .. } => Some(*child),
        Reason::NotStarted | Reason::Paused { .. } | Reason::Cancelling | Reason::Idle => None,
        Reason::InFlight { .. } | Reason::Ready { .. } | Reason::Retry { .. } => None,
        Reason::Refused { .. } | Reason::Sleeping { .. } | Reason::Signal { .. } => None,
        Reason::Turn { .. } | Reason::Failed { .. } => None,
    });
    children.filter(|_| is_at_rest).collect()
}

/// Why a run is not moving, the most telling reason first. A run that moves is told as working.
pub fn why(sight: &Sight<'_>) -> Vec<Why> {
    let record = sight.record;
    if let RunStatus::Final(status) = record.status {
        return vec![Why::Ended {
            status,
            at: record.finished_at,
        }];
    }
    let mail = (sight.waiting_mail > 0).then_some(Why::Mail {
        count: sight.waiting_mail,
    });
    if let Some(reason) = record.parked.as_deref() {
        return [parked(sight, reason)].into_iter().chain(mail).collect();
    }
    let live = sight.runners.iter().filter(|runner| runner.live).count();
    let owner = record
        .owner
        .map(|id| (id, sight.runners.iter().find(|runner| runner.runner == id)));
    let owned = matches!(owner, Some((_, Some(runner))) if runner.live);
    let mut all = Vec::new();
    all.extend(sight.stopped_writer.clone().map(|found| Why::NobodyWrites {
        message: found.message,
        hint: found.hint,
    }));
    if paused(sight.reasons).is_none() {
        all.extend(not_taken(sight, live).filter(|_| owner.is_none()));
    }
    all.extend(
        sight
            .reasons
            .iter()
            .filter_map(|reason| particular(sight, reason, owned)),
    );
    all.extend(mail);
    all.extend(owner.map(|(id, runner)| owner_of(id, runner)));
    let told = all
        .iter()
        .any(|why| matches!(why, Why::NoRunner { .. } | Why::Paused { .. }));
    if live == 0 && !told {
        all.push(Why::NoRunner { since: None });
    }
    all
}

fn parked(sight: &Sight<'_>, reason: &str) -> Why {
    if is_set_aside(reason) {
        let reason = reason.to_owned();
        return Why::SetAside { reason };
    }
    Why::Paused {
        reason: paused(sight.reasons).or_else(|| (reason == STOPPED).then(|| reason.into())),
        served: is_served(sight),
    }
}

/// Nobody owns the run: is it due, and why did nobody take it?
fn not_taken(sight: &Sight<'_>, live: usize) -> Option<Why> {
    let record = sight.record;
    // Mail that a run has not seen makes it due; mail that it has no room for does not.
    let due = record.due.filter(|due| *due < Timestamp::NEVER)?;
    if due > sight.now {
        // One that has begun sleeps or waits until then, as its state says.
        let is_fresh = record.started_at.is_none();
        return is_fresh.then_some(Why::NotDue { until: due });
    }
    if live == 0 {
        return Some(Why::NoRunner { since: Some(due) });
    }
    let (queue, realm) = (record.queue.clone(), record.realm.clone());
    Some(Why::NotTaken {
        queue,
        realm,
        since: due,
        runners: live,
        because: untaken(sight),
    })
}

/// Is a runner up that serves the run's queue and realm?
fn is_served(sight: &Sight<'_>) -> bool {
    let (queue, realm) = (&sight.record.queue, &sight.record.realm);
    let serves = |runner: &RunnerRecord| {
        runner.live
            && runner.serves.queues.contains_key(queue)
            && runner.serves.realms.contains(realm)
    };
    sight.runners.iter().any(serves)
}

fn untaken(sight: &Sight<'_>) -> Untaken {
    let (queue, realm) = (&sight.record.queue, &sight.record.realm);
    let live = || {
        sight
            .runners
            .iter()
            .filter(|runner| runner.live)
            .map(|runner| &runner.serves)
    };
    let here: Vec<_> = live()
        .filter(|serves| serves.queues.contains_key(queue))
        .collect();
    if here.is_empty() {
        let served: BTreeSet<&QueueName> = live().flat_map(|serves| serves.queues.keys()).collect();
        return Untaken::Queue {
            served: served.into_iter().cloned().collect(),
        };
    }
    let able: Vec<_> = here
        .into_iter()
        .filter(|serves| serves.realms.contains(realm))
        .collect();
    if able.is_empty() {
        return Untaken::Realm;
    }
    // Each runner goes by its own settings; the run waits while all of them are at their limit.
    let most = able
        .into_iter()
        .map(|serves| serves.queues[queue])
        .collect::<Option<Vec<u32>>>();
    match most.and_then(|all| all.into_iter().max()) {
        Some(most) if sight.at_work >= u64::from(most) => Untaken::Limit { most },
        Some(_) | None => Untaken::Busy,
    }
}

fn owner_of(id: RunnerId, runner: Option<&RunnerRecord>) -> Why {
    match runner {
        Some(runner) if runner.live => Why::Owned {
            runner: id,
            name: runner.name.clone(),
            host: runner.host.clone(),
            pid: runner.pid,
            heartbeat_at: runner.heartbeat_at,
        },
        gone => Why::OwnerGone {
            runner: id,
            host: gone.map(|runner| runner.host.clone()),
        },
    }
}

fn paused(reasons: &[Reason]) -> Option<Arc<str>> {
    reasons.iter().find_map(|reason| match reason {
        Reason::Paused { reason } => Some(Arc::clone(reason)),
        Reason::NotStarted
        | Reason::Cancelling
        | Reason::Idle
        | Reason::InFlight { .. }
        | Reason::Ready { .. } => None,
        Reason::Retry { .. }
        | Reason::Refused { .. }
        | Reason::Sleeping { .. }
        | Reason::Signal { .. } => None,
        Reason::Child { .. } | Reason::Turn { .. } | Reason::Failed { .. } => None,
    })
}

fn particular(sight: &Sight<'_>, reason: &Reason, owned: bool) -> Option<Why> {
    let since = |execution: &Arc<str>| sight.since.get(execution).copied();
    Some(match reason.clone() {
        Reason::NotStarted | Reason::Failed { .. } => return None,
        Reason::Paused { reason } => Why::Paused {
            reason: Some(reason),
            served: owned || is_served(sight),
        },
        Reason::Cancelling => Why::Cancelling,
        Reason::Idle => Why::Idle,
        Reason::InFlight { execution, .. } | Reason::Ready { execution, .. }
            if owned && sight.limits.contains_key(&execution) =>
        {
            let limit = &sight.limits[&execution];
            Why::Held {
                key: limit.key.clone(),
                holders: named(sight, limit),
                execution,
            }
        }
        Reason::InFlight {
            execution,
            attempt,
            action,
        } => return in_flight(sight, owned, execution, attempt, action),
        Reason::Ready {
            execution, action, ..
        } => Why::NoSlot { execution, action },
        Reason::Retry {
            execution,
            attempt,
            at,
            failure,
        } => backing_off(execution, attempt, at, failure),
        Reason::Refused {
            execution,
            until,
            reason,
            ..
        } => Why::Limited {
            holders: sight
                .limits
                .get(&execution)
                .map_or_else(Vec::new, |limit| named(sight, limit)),
            execution,
            until,
            reason,
        },
        Reason::Sleeping { execution, until } => Why::Sleeping { execution, until },
        Reason::Signal {
            execution,
            signal,
            until,
        } => Why::Signal {
            since: since(&execution),
            execution,
            signal,
            until,
        },
        Reason::Child { execution, child } if sight.gone.contains(&child) => {
            Why::ChildGone { execution, child }
        }
        Reason::Child { execution, child } => Why::Child { execution, child },
        Reason::Turn { execution } => Why::Turn { execution },
    })
}

/// An attempt that was begun: it is at work, or its worker or its runner is gone.
fn in_flight(
    sight: &Sight<'_>,
    owned: bool,
    execution: Arc<str>,
    attempt: u32,
    action: Arc<str>,
) -> Option<Why> {
    if owned && worker_gone(sight) {
        let realm = &sight.record.realm;
        let message = format!("the last worker that brought '{realm}' to its runner is gone");
        return Some(Why::NoWorker {
            execution,
            until: None,
            message,
        });
    }
    if owned {
        return Some(Why::Working {
            since: sight.since.get(&execution).copied(),
            secrets: sight.secrets.get(&execution).cloned().unwrap_or_default(),
            execution,
            attempt,
            action,
        });
    }
    // One that was admitted and that nobody had yet is not interrupted.
    (sight.record.epoch.0 != 0).then_some(Why::Interrupted { execution, attempt })
}

/// Does the owner not serve the run's realm any more? Workers from elsewhere bring realms and take
/// them along.
fn worker_gone(sight: &Sight<'_>) -> bool {
    let record = sight.record;
    let owner = sight
        .runners
        .iter()
        .find(|runner| Some(runner.runner) == record.owner);
    record.realm != Realm::default()
        && owner.is_some_and(|owner| !owner.serves.realms.contains(&record.realm))
}

/// Those that hold a limit, by name.
fn named(sight: &Sight<'_>, limit: &BlockingLimit) -> Vec<NamedHolder> {
    let name = |record: &RunnerRecord| {
        let (name, pid, host) = (&record.name, record.pid, &record.host);
        format!("'{name}', process {pid} on {host}")
    };
    let holders = limit.holders.iter();
    holders
        .map(|holder| NamedHolder {
            runner: sight
                .runners
                .iter()
                .find(|record| record.runner == holder.runner)
                .map(name),
            holder: holder.clone(),
        })
        .collect()
}

/// An attempt failed and the next one is not due: for want of a worker, or by its policy.
fn backing_off(
    execution: Arc<str>,
    next_attempt: u32,
    until: Timestamp,
    failure: Option<Failure>,
) -> Why {
    match failure {
        Some(failure) if &*failure.kind == failure::kind::UNKNOWN_ACTION => Why::NoWorker {
            execution,
            until: Some(until),
            message: failure.message,
        },
        failure => Why::BackingOff {
            execution,
            failed: next_attempt.saturating_sub(1),
            until,
            failure,
        },
    }
}

#[cfg(test)]
mod tests;
