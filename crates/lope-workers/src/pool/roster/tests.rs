//! The roster's decisions, one by one.

use std::sync::Arc;

use lope_model::{Failure, Moment, Span};

use super::super::settings::PoolSettings;
use super::*;

/// A roster, a clock moved by hand, and what was decided since the last look.
struct Table {
    roster: Roster,
    now: Moment,
    born: u64,
}

fn settings(processes: usize) -> PoolSettings {
    PoolSettings {
        processes,
        silence: Span::from_secs(30),
        cancel_grace: Span::from_secs(5),
        stuck_grace: Span::from_secs(30),
        backoff: (Span::from_millis(100), Span::from_secs(1)),
        ..PoolSettings::default()
    }
}

impl Table {
    fn new(settings: PoolSettings) -> (Self, Vec<RosterAction>) {
        let mut table = Self {
            roster: Roster::new(settings),
            now: Moment(0),
            born: 0,
        };
        let acts = table.event(RosterEvent::Tick);
        (table, acts)
    }

    /// A roster whose first workers are there and serve `a` and `b`.
    fn ready(settings: PoolSettings, credits: usize) -> Self {
        let processes = settings.processes as u64;
        let (mut table, _) = Self::new(settings);
        for worker in 1..=processes {
            table.hello(worker, credits);
        }
        table
    }

    fn event(&mut self, event: RosterEvent) -> Vec<RosterAction> {
        let mut acts = Vec::new();
        self.roster.handle(self.now, event, &mut acts);
        acts
    }

    fn after(&mut self, span: Span) -> Vec<RosterAction> {
        self.now = self.now.plus(span);
        self.event(RosterEvent::Tick)
    }

    fn hello(&mut self, worker: u64, credits: usize) -> Vec<RosterAction> {
        self.hello_with(worker, credits, &["a", "b"], false)
    }

    fn hello_with(
        &mut self,
        worker: u64,
        credits: usize,
        names: &[&str],
        remote: bool,
    ) -> Vec<RosterAction> {
        let actions = Arc::new(names.iter().map(|name| Arc::from(*name)).collect());
        self.event(RosterEvent::Hello {
            worker: PoolWorkerId(worker),
            actions,
            credits,
            remote,
        })
    }

    fn beat(&mut self, worker: u64, blocked: Span) {
        self.event(RosterEvent::Beat {
            worker: PoolWorkerId(worker),
            blocked,
        });
    }

    fn submit(&mut self, action: &str) -> Vec<RosterAction> {
        self.born += 1;
        let execution = self.born;
        self.again(action, execution)
    }

    /// A further attempt of an execution; `submit` counts executions as it counts tasks.
    fn again(&mut self, action: &str, execution: u64) -> Vec<RosterAction> {
        self.event(RosterEvent::Submit {
            task: TaskId(self.born),
            action: action.into(),
            execution,
            prefers: None,
        })
    }

    fn answered(&mut self, worker: u64, task: u64) -> Vec<RosterAction> {
        self.event(RosterEvent::Answered {
            worker: PoolWorkerId(worker),
            task: TaskId(task),
        })
    }

    fn gone(&mut self, worker: u64) -> Vec<RosterAction> {
        self.event(RosterEvent::Gone {
            worker: PoolWorkerId(worker),
            how: "killed".into(),
        })
    }
}

fn give(worker: u64, task: u64) -> RosterAction {
    RosterAction::Give {
        worker: PoolWorkerId(worker),
        task: TaskId(task),
    }
}

fn spawn(worker: u64) -> RosterAction {
    RosterAction::Spawn(PoolWorkerId(worker))
}

fn failed(acts: &[RosterAction]) -> Vec<(u64, &str)> {
    let fails = acts.iter().filter_map(|act| match act {
        RosterAction::Fail { task, why } => Some((task.0, &*why.kind)),
        _ => None,
    });
    fails.collect()
}

#[test]
fn its_processes_are_started_at_once_and_tasks_wait_for_them() {
    let (mut table, acts) = Table::new(settings(2));
    assert_eq!(acts, [spawn(1), spawn(2)]);
    assert_eq!(table.submit("a"), []);
    assert_eq!(table.hello(2, 4), [give(2, 1)]);
    assert_eq!(table.hello(1, 4), []);
    assert_eq!(table.submit("b"), [give(1, 2)], "the less busy one");
}

/// "credit-based back-pressure"
#[test]
fn nobody_gets_more_than_its_credits_and_the_oldest_goes_first() {
    let mut table = Table::ready(settings(1), 2);
    assert_eq!(table.submit("a"), [give(1, 1)]);
    assert_eq!(table.submit("a"), [give(1, 2)]);
    assert_eq!(table.submit("b"), []);
    assert_eq!(table.submit("a"), []);
    assert_eq!(table.answered(1, 2), [give(1, 3)]);
    assert_eq!(table.answered(1, 2), [], "an answer counts once");
    assert_eq!(table.answered(1, 1), [give(1, 4)]);
}

/// "a worker announces the actions it serves, and only gets those"
#[test]
fn a_worker_gets_only_what_it_serves() {
    let mut table = Table::ready(settings(1), 4);
    table.hello_with(7, 4, &["remote"], true);
    assert_eq!(table.submit("remote"), [give(7, 1)]);
    assert_eq!(table.submit("a"), [give(1, 2)]);
    let acts = table.submit("unknown");
    assert_eq!(failed(&acts), [(3, "UnknownAction")]);
    let RosterAction::Fail { why, .. } = &acts[0] else {
        panic!("{acts:?}")
    };
    assert!(
        why.message.contains("they serve a, b, remote"),
        "{}",
        why.message
    );
}

#[test]
fn a_task_for_a_remote_worker_waits_a_while_for_it() {
    let settings = PoolSettings {
        remote_wait: Some(Span::from_secs(10)),
        ..settings(0)
    };
    let mut table = Table::ready(settings, 0);
    assert_eq!(table.submit("far"), []);
    assert_eq!(table.submit("far"), []);
    assert_eq!(table.roster.next_deadline(), Some(Moment(10_000)));
    assert_eq!(table.after(Span::from_secs(9)), []);
    assert_eq!(table.hello_with(5, 1, &["far"], true), [give(5, 1)]);
    assert_eq!(
        table
            .event(RosterEvent::Gone {
                worker: PoolWorkerId(5),
                how: "cut".into()
            })
            .len(),
        1,
        "the first is lost"
    );
    assert_eq!(
        failed(&table.after(Span::from_secs(2))),
        [(2, "UnknownAction")]
    );
}

/// "crash → attempts reported lost, process replaced with backoff"
#[test]
fn a_crash_loses_its_attempts_and_is_replaced_later_each_time() {
    let mut table = Table::ready(settings(1), 4);
    table.submit("a");
    table.submit("b");
    assert_eq!(
        failed(&table.gone(1)),
        [(1, "WorkerLost"), (2, "WorkerLost")]
    );
    assert_eq!(table.roster.next_deadline(), Some(Moment(100)));
    assert_eq!(table.after(Span::from_millis(100)), [spawn(2)]);
    table.gone(2);
    assert_eq!(table.after(Span::from_millis(199)), []);
    assert_eq!(table.after(Span::from_millis(1)), [spawn(3)]);
    table.hello(3, 1);
    table.submit("a");
    table.answered(3, 3);
    table.gone(3);
    assert_eq!(
        table.after(Span::from_millis(100)),
        [spawn(4)],
        "an answer proves that processes work"
    );
    for worker in 4..12 {
        table.gone(worker);
        assert_eq!(
            table.after(Span::from_secs(1)),
            [spawn(worker + 1)],
            "never later than a second"
        );
    }
}

/// "graceful recycling after K actions (replacement first)"
#[test]
fn a_worn_process_works_until_its_replacement_is_there() {
    let mut table = Table::ready(
        PoolSettings {
            recycle_after: Some(2),
            ..settings(1)
        },
        4,
    );
    (0..3).for_each(|_| drop(table.submit("a")));
    assert_eq!(table.answered(1, 1), []);
    assert_eq!(table.answered(1, 2), [spawn(2)]);
    assert_eq!(
        table.submit("a"),
        [give(1, 4)],
        "the replacement is not there yet"
    );
    assert_eq!(table.hello(2, 4), [RosterAction::Drain(PoolWorkerId(1))]);
    assert_eq!(table.submit("a"), [give(2, 5)]);
    assert_eq!(table.answered(1, 3), []);
    assert_eq!(table.answered(1, 4), []);
    assert_eq!(
        table.gone(1),
        [],
        "it ended as it was told to; nobody has to replace it"
    );
    assert_eq!(table.after(Span::from_secs(5)), []);
}

#[test]
fn a_cancel_reaches_the_worker_and_its_credit_comes_back_with_the_answer() {
    let mut table = Table::ready(settings(1), 1);
    table.submit("a");
    table.submit("a");
    let acts = table.event(RosterEvent::Cancel(TaskId(1)));
    assert_eq!(
        acts,
        [RosterAction::Cancel {
            worker: PoolWorkerId(1),
            task: TaskId(1)
        }]
    );
    assert_eq!(table.event(RosterEvent::Cancel(TaskId(1))), [], "once");
    assert_eq!(table.answered(1, 1), [give(1, 2)]);
    table.submit("a");
    assert_eq!(
        failed(&table.event(RosterEvent::Cancel(TaskId(3)))),
        [(3, "Cancelled")],
        "one that waits ends here"
    );
    assert_eq!(table.answered(1, 2), []);
}

#[test]
fn a_task_that_ignores_its_cancel_costs_its_process_when_the_others_are_done() {
    let mut table = Table::ready(settings(1), 4);
    table.submit("a");
    table.submit("b");
    table.event(RosterEvent::Cancel(TaskId(1)));
    assert_eq!(table.roster.next_deadline(), Some(Moment(5_000)));
    assert_eq!(
        table.after(Span::from_secs(5)),
        [spawn(2)],
        "a replacement first"
    );
    assert_eq!(table.submit("a"), [], "the stuck one gets nothing more");
    assert_eq!(
        table.hello(2, 4),
        [give(2, 3), RosterAction::Drain(PoolWorkerId(1))]
    );
    let killed = RosterAction::Kill {
        worker: PoolWorkerId(1),
        why: "a cancelled task did not end",
    };
    assert_eq!(table.answered(1, 2), [killed]);
    assert_eq!(failed(&table.gone(1)), [(1, "WorkerLost")]);
}

#[test]
fn a_stuck_process_is_killed_in_the_end_and_at_once_if_its_loop_is_blocked() {
    let killed = RosterAction::Kill {
        worker: PoolWorkerId(1),
        why: "a cancelled task did not end",
    };
    for (blocked, wait) in [(Span::ZERO, 30), (Span::from_secs(6), 0)] {
        let mut table = Table::ready(settings(1), 4);
        table.submit("a");
        table.submit("b");
        table.event(RosterEvent::Cancel(TaskId(1)));
        table.now = Moment(5_000);
        table.beat(1, blocked);
        let mut acts = table.event(RosterEvent::Tick);
        for _ in 0..wait {
            assert!(!acts.contains(&killed), "{acts:?}");
            table.beat(1, blocked);
            acts = table.after(Span::from_secs(1));
        }
        assert!(acts.contains(&killed), "{acts:?}");
    }
}

#[test]
fn a_silent_worker_and_one_that_does_not_start_are_killed() {
    let mut table = Table::ready(settings(1), 1);
    assert_eq!(table.after(Span::from_secs(29)), []);
    table.beat(1, Span::ZERO);
    assert_eq!(table.after(Span::from_secs(29)), []);
    assert_eq!(
        table.after(Span::from_secs(1)),
        [
            RosterAction::Kill {
                worker: PoolWorkerId(1),
                why: "it showed no life"
            },
            spawn(2)
        ]
    );
    assert_eq!(
        table.after(Span::from_secs(60))[0],
        RosterAction::Kill {
            worker: PoolWorkerId(2),
            why: "it took too long to start"
        }
    );
}

/// "a module that fails to import … clear errors, no hang, pool healthy after each"
#[test]
fn what_cannot_start_fails_the_tasks_that_wait_and_is_tried_again() {
    let (mut table, _) = Table::new(settings(1));
    table.submit("a");
    let why = Failure::new("WorkerBroken", "no module");
    let acts = table.event(RosterEvent::Broken {
        worker: PoolWorkerId(1),
        why,
    });
    assert_eq!(failed(&acts), [(1, "WorkerBroken")]);
    assert_eq!(
        failed(&table.submit("a")),
        [(2, "WorkerBroken")],
        "and those that come"
    );
    assert_eq!(table.after(Span::from_millis(100)), [spawn(2)]);
    table.hello(2, 1);
    assert_eq!(
        table.submit("a"),
        [give(2, 3)],
        "once it is mended, all is well"
    );
}

/// "a poisonous action that kills its process stops after its attempts and fails its run, others go
/// on"
#[test]
fn what_was_there_at_two_crashes_runs_alone() {
    let mut table = Table::ready(settings(1), 4);
    table.submit("a");
    table.submit("b");
    for worker in 1..=2 {
        table.gone(worker);
        table.after(Span::from_secs(1));
        table.hello(worker + 1, 4);
        if worker == 1 {
            (1..=2).for_each(|execution| {
                table.born += 1;
                table.again("a", execution);
            });
        }
    }
    table.submit("b");
    table.born += 1;
    assert_eq!(table.again("a", 1), [], "it waits for an empty process");
    assert_eq!(table.submit("b"), [], "which gets nothing else meanwhile");
    assert_eq!(table.answered(3, 5), [give(3, 6)]);
    assert_eq!(table.submit("b"), [], "alone");
    assert_eq!(
        failed(&table.gone(3)),
        [(6, "WorkerLost")],
        "nobody else is lost"
    );
    table.after(Span::from_secs(1));
    assert_eq!(table.hello(4, 4), [give(4, 7), give(4, 8)]);
}

#[test]
fn nobody_is_alone_or_waits_to_be_for_long() {
    let mut table = Table::ready(settings(1), 4);
    table.submit("a");
    table.gone(1);
    table.after(Span::from_secs(1));
    table.hello(2, 4);
    table.born += 1;
    table.again("a", 1);
    table.gone(2);
    table.after(Span::from_secs(1));
    table.hello(3, 4);
    table.submit("b");
    table.born += 1;
    assert_eq!(table.again("a", 1), []);
    assert_eq!(
        table.roster.next_deadline(),
        Some(table.now.plus(Span::from_secs(5)))
    );
    assert_eq!(
        table.after(Span::from_secs(5)),
        [give(3, 4)],
        "the other takes too long"
    );
    table.answered(3, 3);
    table.gone(3);
    table.after(Span::from_secs(1));
    table.hello(4, 4);
    table.born += 1;
    assert_eq!(table.again("a", 1), [give(4, 5)]);
    assert_eq!(table.submit("b"), []);
    assert_eq!(
        table.after(Span::from_secs(5)),
        [give(4, 6)],
        "it has been alone for long enough"
    );
}

#[test]
fn a_closed_pool_drains_and_starts_nothing() {
    let mut table = Table::ready(settings(2), 1);
    table.submit("a");
    assert_eq!(
        table.event(RosterEvent::Close),
        [
            RosterAction::Drain(PoolWorkerId(1)),
            RosterAction::Drain(PoolWorkerId(2))
        ]
    );
    table.answered(1, 1);
    assert_eq!(table.gone(1), []);
    assert_eq!(table.gone(2), []);
    assert_eq!(
        (table.roster.members(), table.after(Span::from_secs(60))),
        (0, vec![])
    );
}
