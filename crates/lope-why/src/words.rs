//! Why a run is not moving, in words for people.

use std::sync::Arc;

use lope_limits::Holder;
use lope_model::{Failure, QueueName, Realm, RunId, Span, Timestamp};
use lope_store::runs::FinalStatus;

use super::{NamedHolder, Untaken, Why};

/// Most holders that a sentence names.
const HOLDERS_SHOWN: usize = 3;

impl Why {
    /// In plain words, as of a moment.
    pub fn message(&self, now: Timestamp) -> String {
        let of_run = self.message_of_run(now);
        of_run
            .or_else(|| self.message_of_step(now))
            .unwrap_or_default()
    }

    /// What the store and the registry say.
    fn message_of_run(&self, now: Timestamp) -> Option<String> {
        Some(match self {
            Self::Ended { status, at: None } => format!("it has ended: {}", status.as_str()),
            Self::Ended {
                status,
                at: Some(at),
            } => format!("it has ended: {} at {at}", status.as_str()),
            Self::Paused { reason: None, .. } => "it is paused".to_owned(),
            Self::Paused {
                reason: Some(reason),
                ..
            } => format!("it is paused ({reason})"),
            Self::SetAside { reason } => format!("it was set aside: {reason}"),
            Self::NobodyWrites { message, .. } => message.clone(),
            Self::NotDue { until } => format!("it may not begin {}", until_and_ahead(*until, now)),
            Self::NoRunner { since: None } => "no runner is up".to_owned(),
            Self::NoRunner { since: due } => {
                format!(
                    "no runner is up to take it; it is due{}",
                    since_and_ago(*due, now)
                )
            }
            Self::NotTaken {
                queue,
                realm,
                since: due,
                runners,
                because,
            } => format!(
                "it is due{} and no runner took it: {}",
                since_and_ago(Some(*due), now),
                because.message(queue, realm, *runners)
            ),
            Self::OwnerGone { runner, host } => format!(
                "its runner {runner}{} is gone; the next runner takes it over",
                host.as_ref()
                    .map_or_else(String::new, |host| format!(" on {host}"))
            ),
            Self::Owned {
                runner,
                name,
                host,
                pid,
                heartbeat_at,
            } => format!(
                "runner {runner} ('{name}', process {pid} on {host}) has it; its last heartbeat was {} ago",
                round(now.since(*heartbeat_at))
            ),
            Self::Mail { count: 1 } => "1 message waits to be taken up".to_owned(),
            Self::Mail { count } => format!("{count} messages wait to be taken up"),
            Self::Cancelling => "it is being cancelled; `finally` blocks still run".to_owned(),
            Self::Idle => "it is open and waits for an input".to_owned(),
            Self::Working { .. }
            | Self::Interrupted { .. }
            | Self::NoSlot { .. }
            | Self::BackingOff { .. }
            | Self::NoWorker { .. } => return None,
            Self::Limited { .. }
            | Self::Held { .. }
            | Self::Sleeping { .. }
            | Self::Signal { .. }
            | Self::Child { .. }
            | Self::ChildGone { .. }
            | Self::Turn { .. } => return None,
        })
    }

    /// What an execution waits for.
    fn message_of_step(&self, now: Timestamp) -> Option<String> {
        Some(match self {
            Self::Working {
                execution,
                attempt,
                action,
                since: begun,
                secrets,
            } => {
                let begun = since_and_ago(*begun, now);
                let looked_up = looked_up(secrets);
                format!(
                    "{execution} is at work, or waits there for a slot{looked_up}: '{action}', attempt {attempt}{begun}"
                )
            }
            Self::Interrupted { execution, attempt } => format!(
                "attempt {attempt} of {execution} was under way when its runner stopped; a new one will be made"
            ),
            Self::NoSlot { execution, action } => {
                format!("{execution} ('{action}') waits for a free slot")
            }
            Self::BackingOff {
                execution,
                failed,
                until,
                failure,
            } => {
                let until = until_and_ahead(*until, now);
                let said = said(failure.as_ref());
                format!("{execution} backs off {until}: attempt {failed} failed{said}")
            }
            Self::NoWorker {
                execution,
                until,
                message,
            } => {
                let again = again(*until, now);
                format!("no worker serves {execution}: {message}; {again}")
            }
            Self::Limited {
                execution,
                until,
                reason,
                holders,
            } => {
                let until = until_and_ahead(*until, now);
                let by = by(holders, "; it was last used by", now);
                format!("{execution} must wait {until}: {reason}{by}")
            }
            Self::Held {
                execution,
                key,
                holders,
            } => {
                let by = by(holders, ", held by", now);
                format!("{execution} waits for {key}{by}")
            }
            Self::Sleeping { .. }
            | Self::Signal { .. }
            | Self::Child { .. }
            | Self::ChildGone { .. }
            | Self::Turn { .. } => return self.message_of_wait(now),
            Self::Ended { .. }
            | Self::Paused { .. }
            | Self::SetAside { .. }
            | Self::NobodyWrites { .. }
            | Self::NotDue { .. } => return None,
            Self::NoRunner { .. } | Self::NotTaken { .. } | Self::OwnerGone { .. } => return None,
            Self::Owned { .. } | Self::Mail { .. } | Self::Cancelling | Self::Idle => return None,
        })
    }

    /// What an execution that does nothing itself waits for.
    fn message_of_wait(&self, now: Timestamp) -> Option<String> {
        Some(match self {
            Self::Sleeping { execution, until } => {
                format!("{execution} sleeps {}", until_and_ahead(*until, now))
            }
            Self::Signal {
                execution,
                signal,
                since: begun,
                until,
            } => {
                let begun = since_and_ago(*begun, now);
                let at_most = until.map_or_else(String::new, |until| {
                    format!(", at most {}", until_and_ahead(until, now))
                });
                format!("{execution} waits for the signal '{signal}'{begun}{at_most}")
            }
            Self::Child { execution, child } => {
                format!("{execution} waits for its child run {child}")
            }
            Self::ChildGone { execution, child } => {
                format!("{execution} waits for its child run {child}, which was removed")
            }
            Self::Turn { execution } => {
                format!("{execution} waits until earlier inputs have come so far")
            }
            Self::Ended { .. }
            | Self::Paused { .. }
            | Self::SetAside { .. }
            | Self::NobodyWrites { .. }
            | Self::NotDue { .. }
            | Self::NoRunner { .. } => return None,
            Self::NotTaken { .. } | Self::OwnerGone { .. } | Self::Owned { .. } => return None,
            Self::Mail { .. } | Self::Cancelling | Self::Idle => return None,
            Self::Working { .. }
            | Self::Interrupted { .. }
            | Self::NoSlot { .. }
            | Self::BackingOff { .. }
            | Self::NoWorker { .. }
            | Self::Limited { .. }
            | Self::Held { .. } => return None,
        })
    }

    /// What a person can do about it, as a command where there is one.
    pub fn hint(&self, run: RunId) -> Option<String> {
        Some(match self {
            Self::Ended {
                status: FinalStatus::Failed,
                ..
            } => format!("lope runs retry {run}"),
            Self::Paused { served: true, .. } => format!("lope runs resume {run}"),
            Self::Paused { served: false, .. } => {
                format!(
                    "lope run --resume {run} goes on here; lope runs resume {run} leaves it to a runner (lope up)"
                )
            }
            Self::NobodyWrites { hint, .. } => hint.clone(),
            Self::SetAside { .. } => format!("mend the cause, then: lope runs resume {run}"),
            Self::NoRunner { .. } => {
                format!("lope up; for this run alone: lope run --resume {run}")
            }
            Self::NotTaken {
                queue,
                because: Untaken::Queue { .. },
                ..
            } => format!("lope up --queue {queue}"),
            Self::NotTaken {
                realm,
                because: Untaken::Realm,
                ..
            } => {
                format!(
                    "start a runner that serves realm '{realm}', for Python: lope up --python MODULE"
                )
            }
            Self::NotTaken { .. } => return None,
            Self::OwnerGone { .. } => "lope up".to_owned(),
            Self::Idle => format!("lope runs feed {run} JSON"),
            Self::NoWorker { until: None, .. } => {
                "start its worker again: python -m lope worker --connect ADDRESS --module MODULE"
                    .to_owned()
            }
            Self::NoWorker { .. } => "start a runner that has this action".to_owned(),
            Self::Signal { signal, .. } => format!("lope runs signal {run} {signal} [JSON]"),
            Self::Child { child, .. } => format!("lope runs why {child}"),
            Self::ChildGone { .. } => format!("lope runs cancel {run}"),
            Self::Working { .. } => format!("lope runs logs {run} --follow"),
            Self::Ended { .. }
            | Self::NotDue { .. }
            | Self::Owned { .. }
            | Self::Mail { .. }
            | Self::Cancelling => {
                return None;
            }
            Self::Interrupted { .. }
            | Self::NoSlot { .. }
            | Self::BackingOff { .. }
            | Self::Limited { .. } => {
                return None;
            }
            Self::Held { holders, .. } => {
                let first = holders.first()?;
                format!("lope runs why {}", first.holder.attempt.run)
            }
            Self::Sleeping { .. } | Self::Turn { .. } => return None,
        })
    }
}

impl Untaken {
    fn message(&self, queue: &QueueName, realm: &Realm, runners: usize) -> String {
        match self {
            Self::Queue { served } if served.is_empty() => {
                format!("the {runners} that are up work on runs of their own and serve no queue")
            }
            Self::Queue { served } => {
                let served = served
                    .iter()
                    .map(|name| format!("'{name}'"))
                    .collect::<Vec<_>>()
                    .join(", ");
                format!("none serves queue '{queue}'; {runners} up, which serve {served}")
            }
            Self::Realm => {
                format!("none that serves queue '{queue}' serves realm '{realm}' ({runners} up)")
            }
            Self::Limit { most } => {
                format!(
                    "queue '{queue}' is at its limit, {most} of its runs may be at work at once"
                )
            }
            Self::Busy => {
                format!(
                    "{runners} up serve queue '{queue}' and have as many runs as they may, or are about to take it"
                )
            }
        }
    }
}

/// That a step's secrets may be what it waits for.
fn looked_up(secrets: &[Arc<str>]) -> String {
    match secrets {
        [] => String::new(),
        [one] => format!(", or its secret is looked up ({one})"),
        all => format!(", or its secrets are looked up ({})", all.join(", ")),
    }
}

/// Who holds something, the first few.
fn by(holders: &[NamedHolder], word: &str, now: Timestamp) -> String {
    let one = |named: &NamedHolder| {
        let Holder {
            attempt,
            since,
            runner,
        } = &named.holder;
        let since = since_and_ago(Some(*since), now);
        let runner = match &named.runner {
            Some(name) => format!("runner {runner} ({name})"),
            None => format!("runner {runner}"),
        };
        format!(
            "{} of run {} on {runner}{since}",
            attempt.execution, attempt.run
        )
    };
    let names: Vec<String> = holders.iter().take(HOLDERS_SHOWN).map(one).collect();
    match holders.len().saturating_sub(HOLDERS_SHOWN) {
        _ if names.is_empty() => String::new(),
        0 => format!("{word} {}", names.join(", ")),
        more => format!("{word} {} and {more} more", names.join(", ")),
    }
}

/// When something is tried again that nobody can do now.
fn again(until: Option<Timestamp>, now: Timestamp) -> String {
    match until {
        Some(until) => format!("it is tried again {}", ahead(until, now)),
        None => "it goes on when one is there".to_owned(),
    }
}

fn ahead(until: Timestamp, now: Timestamp) -> String {
    if until <= now {
        "now".to_owned()
    } else {
        format!("in {}", round(until.since(now)))
    }
}

/// Milliseconds only where they matter.
fn round(span: Span) -> Span {
    if span.millis() < 1_000 {
        span
    } else {
        Span::from_secs(span.millis() / 1_000)
    }
}

fn said(failure: Option<&Failure>) -> String {
    failure.map_or_else(String::new, |it| {
        format!(" with {}: {}", it.kind, it.message)
    })
}

fn until_and_ahead(until: Timestamp, now: Timestamp) -> String {
    format!("until {until} ({})", ahead(until, now))
}

fn since_and_ago(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(String::new, |since| {
        format!(" since {since} ({} ago)", round(now.since(since)))
    })
}
