//! Turns of several runners on one table: by hand, and in every order that dice give, with plans
//! made from what was read long ago and runners that die.

use std::sync::Arc;

use lope_model::{Epoch, RunId};
use lope_store::tables::{At, Guard, Write};
use proptest::prelude::*;

use super::*;

const TABLE: TableId = TableId(7);

/// A table, who lives, and the time.
#[derive(Default)]
struct Ground {
    rows: HashMap<At, Vec<u8>>,
    live: HashSet<RunnerId>,
    now: i64,
}

impl Ground {
    fn with_runners(count: u8) -> Self {
        Self {
            live: (0..count).map(runner).collect(),
            ..Self::default()
        }
    }

    fn read(&self, works: &[LimitWork]) -> HashMap<LimitKey, Option<Vec<u8>>> {
        let keys = works.iter().flat_map(LimitWork::keys);
        keys.map(|key| (key.clone(), self.rows.get(&key.at(TABLE)).cloned()))
            .collect()
    }

    /// What a runner decides now.
    fn plan(&self, me: u8, lines: &RateLines, works: &[LimitWork]) -> Vec<GroupPlan> {
        let facts = LimitFacts {
            now: Timestamp::from_millis(self.now),
            runner: runner(me),
            table: TABLE,
            found: &self.read(works),
            live: &self.live,
            lines,
        };
        facts.plan(works)
    }

    fn apply(&mut self, batch: &Batch) -> bool {
        let holds = batch.guards.iter().all(|guard| match guard {
            Guard::Absent(at) => !self.rows.contains_key(at),
            Guard::Equals(at, value) => self.rows.get(at) == Some(value),
            Guard::Unchanged(..) | Guard::ScopeUnchanged(..) => false,
        });
        for write in batch.writes.iter().filter(|_| holds) {
            match write {
                Write::Put(at, value) => drop(self.rows.insert(at.clone(), value.clone())),
                Write::Delete(at) => drop(self.rows.remove(at)),
                Write::Create(..) | Write::Append { .. } => unreachable!("limits use neither"),
            }
        }
        holds
    }

    /// Decide and write at once.
    fn decide(&mut self, me: u8, lines: &mut RateLines, works: &[LimitWork]) -> Vec<LimitVerdict> {
        let mut verdicts: Vec<(usize, LimitVerdict)> = Vec::new();
        for plan in self.plan(me, lines, works) {
            assert!(self.apply(&plan.batch), "nobody is beside it");
            for (key, draft) in plan.lines {
                let now = Timestamp::from_millis(self.now);
                lines.entry(key).or_default().apply(draft, now);
            }
            verdicts.extend(plan.verdicts);
        }
        verdicts.sort_by_key(|(index, _)| *index);
        verdicts.into_iter().map(|(_, verdict)| verdict).collect()
    }

    fn one(&mut self, me: u8, work: LimitWork) -> Option<LimitVerdict> {
        self.decide(me, &mut RateLines::default(), &[work]).pop()
    }
}

fn runner(number: u8) -> RunnerId {
    RunnerId::from_bytes([number; 16])
}

fn attempt(number: u32) -> AttemptRef {
    AttemptRef {
        run: RunId::from_bytes([1; 16]),
        execution: "step".into(),
        attempt: number,
        epoch: Epoch(1),
    }
}

fn plain(number: u32) -> LimitRequest {
    LimitRequest {
        attempt: attempt(number),
        idempotency_key: None,
        permit: None,
        circuit: None,
        rate: None,
    }
}

fn once(number: u32, key: &str) -> LimitRequest {
    LimitRequest {
        idempotency_key: Some(key.into()),
        ..plain(number)
    }
}

fn permit(number: u32, key: &str, limit: u32) -> LimitRequest {
    LimitRequest {
        permit: Some((key.into(), limit)),
        ..plain(number)
    }
}

fn ask(request: LimitRequest) -> LimitWork {
    LimitWork::Request(request)
}

fn end(request: LimitRequest, result: Option<Result<Value, ()>>) -> LimitWork {
    LimitWork::End(LimitEnd { request, result })
}

const GRANTED: LimitVerdict = LimitVerdict::Granted { inherited: false };
const INHERITED: LimitVerdict = LimitVerdict::Granted { inherited: true };

#[test]
fn one_effect_a_key_and_its_answer_for_all() {
    let mut ground = Ground::with_runners(3);
    let held = Some(LimitVerdict::Held(LimitKey::Outcome("k".into())));
    assert_eq!(ground.one(0, ask(once(1, "k"))), Some(GRANTED));
    assert_eq!(ground.one(1, ask(once(2, "k"))), held);
    assert_eq!(ground.one(2, ask(once(3, "other"))), Some(GRANTED));
    ground.one(0, end(once(1, "k"), Some(Err(()))));
    assert_eq!(
        ground.one(1, ask(once(2, "k"))),
        Some(GRANTED),
        "a failure is no effect"
    );
    ground.live.remove(&runner(1));
    assert_eq!(
        ground.one(2, ask(once(4, "k"))),
        Some(INHERITED),
        "its runner died in the middle"
    );
    let late = end(once(2, "k"), Some(Ok(Value::Int(0))));
    ground.one(1, late);
    assert_eq!(
        ground.one(0, ask(once(1, "k"))),
        held,
        "an answer of a dead one's does not count"
    );
    ground.one(2, end(once(4, "k"), Some(Ok(Value::Int(7)))));
    for me in [0, 2] {
        let answer = ground.one(me, ask(once(9, "k")));
        assert_eq!(answer, Some(LimitVerdict::Done(Ok(Value::Int(7)))));
    }
}

#[test]
fn an_answer_that_is_too_large_for_a_row_is_kept_as_a_failure() {
    let large = Value::str("x".repeat(limit::PAYLOAD_MAX));
    let failure = kept(&large).unwrap_err();
    assert!(failure.is_a(failure::kind::LIMIT), "{failure:?}");
    assert_eq!(kept(&Value::Int(1)), Ok(Value::Int(1)));
}

#[test]
fn what_is_given_back_is_taken_in_the_same_turn_and_nothing_is_half_taken() {
    let mut ground = Ground::with_runners(2);
    let mut lines = RateLines::default();
    let held = LimitVerdict::Held(LimitKey::Permits("k".into()));
    let works = [1, 2, 3].map(|number| ask(permit(number, "k", 2)));
    assert_eq!(
        ground.decide(0, &mut lines, &works),
        [GRANTED, GRANTED, held.clone()]
    );
    let works = [
        ask(permit(3, "k", 2)),
        ask(permit(4, "k", 2)),
        end(permit(1, "k", 2), None),
    ];
    assert_eq!(
        ground.decide(0, &mut lines, &works),
        [GRANTED, held.clone()]
    );
    let both = LimitRequest {
        idempotency_key: Some("o".into()),
        ..permit(5, "k", 2)
    };
    assert_eq!(ground.one(1, ask(both)), Some(held));
    assert_eq!(
        ground.one(1, ask(once(6, "o"))),
        Some(GRANTED),
        "its key was left alone"
    );
}

/// "Circuit breaker opens, half-opens, closes", over all runners.
#[test]
fn a_circuit_that_one_runner_opened_holds_in_another_and_has_one_probe() {
    let circuit = Arc::new(CircuitBreaker {
        failures: 2,
        reset: Span::from_millis(100),
        name: Some("bank".into()),
    });
    let guarded = |number| LimitRequest {
        circuit: Some(Arc::clone(&circuit)),
        ..plain(number)
    };
    let open = |until: i64| {
        Some(LimitVerdict::Refused {
            until: Timestamp::from_millis(until),
            reason: "the circuit 'bank' is open".into(),
        })
    };
    let mut ground = Ground::with_runners(3);
    for me in [0, 1] {
        assert_eq!(ground.one(me, ask(guarded(1))), Some(GRANTED));
        ground.one(me, end(guarded(1), Some(Err(()))));
    }
    assert_eq!(ground.one(2, ask(guarded(2))), open(100));
    ground.now = 100;
    assert_eq!(ground.one(2, ask(guarded(2))), Some(GRANTED), "the probe");
    let probed = Some(LimitVerdict::Held(LimitKey::Circuit("bank".into())));
    assert_eq!(ground.one(0, ask(guarded(3))), probed, "there is one");
    ground.live.remove(&runner(2));
    assert_eq!(
        ground.one(0, ask(guarded(3))),
        Some(GRANTED),
        "the probe's runner is gone"
    );
    assert_eq!(ground.one(1, ask(guarded(4))), probed);
    ground.one(0, end(guarded(3), Some(Ok(Value::Null))));
    assert_eq!(
        ground.one(1, ask(guarded(4))),
        Some(GRANTED),
        "it does not wait for the reset"
    );
    assert!(ground.rows.is_empty(), "a closed circuit needs no row");
}

#[test]
fn a_rate_gives_each_its_time_and_a_late_comer_does_not_take_it() {
    let rate = Arc::new(RateLimit {
        count: 2,
        per: Span::from_secs(1),
        name: Some("api".into()),
    });
    let limited = |number| {
        ask(LimitRequest {
            rate: Some(Arc::clone(&rate)),
            ..plain(number)
        })
    };
    let until = |verdict: &LimitVerdict| match verdict {
        LimitVerdict::Granted { .. } => 0,
        LimitVerdict::Refused { until, .. } => until.millis(),
        LimitVerdict::Done(_) | LimitVerdict::Held(_) => panic!("{verdict:?}"),
    };
    let mut ground = Ground::with_runners(2);
    let mut lines = RateLines::default();
    let mut times = |ground: &mut Ground, numbers: &[u32]| {
        let works: Vec<LimitWork> = numbers.iter().copied().map(limited).collect();
        let verdicts = ground.decide(0, &mut lines, &works);
        verdicts.iter().map(until).collect::<Vec<i64>>()
    };
    assert_eq!(
        times(&mut ground, &[1, 2, 3, 4, 5]),
        [0, 0, 1_000, 1_000, 2_000]
    );
    ground.now = 999;
    assert_eq!(
        times(&mut ground, &[3]),
        [1_000],
        "too early keeps its place"
    );
    ground.now = 1_000;
    assert_eq!(times(&mut ground, &[6, 3, 4]), [2_000, 0, 0]);
    let other = ground.decide(1, &mut RateLines::default(), &[limited(7)]);
    assert_eq!(
        until(&other[0]),
        2_000,
        "another runner finds the rate spent"
    );
}

#[test]
fn a_row_that_cannot_be_read_stops_its_own_attempts_alone_and_says_so() {
    let mut ground = Ground::with_runners(1);
    let key = LimitKey::Permits("k".into());
    ground.rows.insert(key.at(TABLE), vec![9, 9]);
    let Some(LimitVerdict::Refused { until, reason }) = ground.one(0, ask(permit(1, "k", 1)))
    else {
        panic!("it is refused");
    };
    assert_eq!(until.millis(), 30_000);
    assert_eq!(
        &*reason,
        "the concurrency key 'k': its row cannot be read: format 9"
    );
    assert_eq!(ground.one(0, ask(permit(1, "j", 1))), Some(GRANTED));
}

/// A runner of the model: what it holds, and a plan that it has not written yet.
#[derive(Default)]
struct Actor {
    holds: Vec<LimitRequest>,
    planned: Option<(LimitWork, GroupPlan)>,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Ask { key: u8 },
    End { index: u8, succeeds: bool },
    Write,
    Die,
}

fn deed() -> impl Strategy<Value = (u8, Deed)> {
    let deed = prop_oneof![
        8 => (0..4_u8).prop_map(|key| Deed::Ask { key }),
        6 => (any::<u8>(), any::<bool>()).prop_map(|(index, succeeds)| Deed::End { index, succeeds }),
        14 => Just(Deed::Write),
        1 => Just(Deed::Die),
    ];
    (0..4_u8, deed)
}

proptest! {
    /// Keys 0 and 1 are idempotency keys, 2 and 3 permits of one and two.
    #[test]
    fn whatever_the_order_no_key_has_more_than_it_may(deeds in prop::collection::vec(deed(), 1..400)) {
        let mut ground = Ground::with_runners(4);
        let mut actors: Vec<Actor> = (0..4).map(|_| Actor::default()).collect();
        let mut number = 0;
        let mut effects = [0_u32; 2];
        for (who, deed) in deeds {
            let actor = &mut actors[usize::from(who)];
            if !ground.live.contains(&runner(who)) {
                continue;
            }
            let work = match deed {
                Deed::Ask { key } => {
                    number += 1;
                    let name = format!("{key}");
                    Some(ask(if key < 2 { once(number, &name) } else { permit(number, &name, u32::from(key) - 1) }))
                }
                Deed::End { index, succeeds } if !actor.holds.is_empty() => {
                    let request = actor.holds[usize::from(index) % actor.holds.len()].clone();
                    Some(end(request, Some(if succeeds { Ok(Value::Null) } else { Err(()) })))
                }
                Deed::End { .. } | Deed::Write => None,
                Deed::Die => {
                    ground.live.remove(&runner(who));
                    *actor = Actor::default();
                    continue;
                }
            };
            if let Some(work) = work {
                let plan = ground.plan(who, &RateLines::default(), std::slice::from_ref(&work)).pop().unwrap();
                actor.planned = Some((work, plan));
                continue;
            }
            let Some((work, plan)) = actor.planned.take() else { continue };
            if !ground.apply(&plan.batch) {
                continue;
            }
            match (work, plan.verdicts.into_iter().next()) {
                (LimitWork::Request(request), Some((_, LimitVerdict::Granted { .. }))) => actor.holds.push(request),
                (LimitWork::End(end), None) => {
                    actor.holds.retain(|held| *held != end.request);
                    if let (Some(key), Some(Ok(_))) = (&end.request.idempotency_key, &end.result) {
                        effects[usize::from(&**key == "1")] += 1;
                    }
                }
                (_, _) => {}
            }
            let held = |name: &str| actors.iter().flat_map(|actor| &actor.holds).filter(|held| {
                held.idempotency_key.as_deref() == Some(name) || held.permit.as_ref().is_some_and(|(key, _)| &**key == name)
            }).count();
            prop_assert!(held("0") <= 1 && held("1") <= 1 && held("2") <= 1 && held("3") <= 2);
            prop_assert!(effects.iter().all(|effects| *effects <= 1), "{effects:?}");
        }
    }
}
