//! A run led through events by hand: one line an event, and what comes of it as one line.
//!
//! Events: `start JSON`, `start1 JSON` (under the first law), `open`, `input ID JSON`, `PATH#N ok
//! JSON`, `PATH#N err TYPE`, `at MS`, `signal NAME JSON`, `child PATH ok JSON`, `child PATH err
//! TYPE`, `child PATH gone`, `cancel`, `cancel!`, `pause`, `resume`, `adopt EPOCH`, `refuse PATH#N
//! MS`, `sent PATH#N`, `retry EPOCH`, `close`, `fork`.
//!
//! Effects: `PATH#N` or `PATH#N(args)` dispatched, `-PATH#N` cancelled, `child PATH(workflow
//! args)`, `-child PATH`, `send TARGET BODY`, `ID=JSON`, `ID!TYPE`, `ID~` an input settled,
//! `complete JSON`, `fail TYPE`, `cancelled`; `ignored`.
//!
//! Behind every line the harness also holds: the state comes back from its snapshot as it was; a
//! second delivery of the same outcome changes nothing; a copy folded from the rows alone is equal;
//! no more in flight than allowed.

use std::collections::HashMap;
use std::sync::Arc;

use lope_flow::law::{
    Effect, Event, EventKind, Fed, Outcome, Plan, Progress, Settled, Start, State, Status, fold,
};
use lope_model::{Epoch, Failure, RunId, Timestamp, Value};

use super::json;

pub const RUN: [u8; 10] = [3; 10];

pub fn run_id() -> RunId {
    RunId::from_parts(Timestamp::EPOCH, RUN)
}

/// A run under the hand.
#[derive(Debug)]
pub struct Led<'a> {
    pub plan: &'a Plan,
    pub state: State,
    pub journal: Vec<Event>,
    pub effects: Vec<Effect>,
    now: i64,
    epochs: HashMap<(Arc<str>, u32), Epoch>,
    children: HashMap<Arc<str>, RunId>,
}

/// Leads a run through lines of `(event, effects)`.
pub fn lead<'a>(plan: &'a Plan, lines: &[(&str, &str)]) -> Led<'a> {
    let mut led = Led::new(plan);
    for (index, (event, expected)) in lines.iter().enumerate() {
        let got = led.line(event);
        assert_eq!(&got, expected, "line {index}: {event}");
    }
    led
}

impl<'a> Led<'a> {
    pub fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            state: State::new(plan),
            journal: Vec::new(),
            effects: Vec::new(),
            now: 0,
            epochs: HashMap::new(),
            children: HashMap::new(),
        }
    }

    pub fn status(&self) -> Status {
        self.state.status()
    }

    pub fn wake(&self) -> Option<i64> {
        self.state.next_wake().map(Timestamp::millis)
    }

    /// Leads the run through one line and tells what came of it.
    pub fn line(&mut self, line: &str) -> String {
        let kind = self.read(line);
        self.event(kind)
    }

    pub fn event(&mut self, kind: EventKind) -> String {
        let event = Event::new(Timestamp::from_millis(self.now), kind);
        let mut effects = Vec::new();
        let thorough = self.state.live() < 64 || self.journal.len().is_multiple_of(64);
        let before = thorough.then(|| self.state.clone());
        let progress = fold(self.plan, &mut self.state, event.clone(), &mut effects);
        if progress == Progress::Ignored {
            assert!(
                before.is_none_or(|before| before == self.state),
                "an ignored event changes nothing"
            );
            assert!(effects.is_empty());
            return "ignored".into();
        }
        assert_eq!(progress, Progress::Done);
        self.journal.push(event.clone());
        if thorough {
            self.hold(event);
        }
        let told: Vec<String> = effects
            .iter()
            .filter_map(|effect| self.tell(effect))
            .collect();
        self.effects.extend(effects);
        told.join("; ")
    }

    /// What must hold after every event.
    fn hold(&mut self, event: Event) {
        let mut blobs = Vec::new();
        let bytes = self.state.clone().encode(&mut blobs);
        let blob = |digest| {
            blobs
                .iter()
                .find(|blob| blob.digest == digest)
                .map(|blob| blob.bytes.clone())
        };
        assert_eq!(
            State::decode(&bytes, blob).unwrap(),
            self.state,
            "a snapshot keeps everything"
        );
        let mut rows = Vec::new();
        let row = event.clone().encode(&mut rows);
        let blob = |digest| {
            rows.iter()
                .find(|blob| blob.digest == digest)
                .map(|blob| blob.bytes.clone())
        };
        assert_eq!(
            Event::decode(&row, blob).unwrap(),
            event,
            "a row keeps everything"
        );
        if matches!(
            event.kind,
            EventKind::Outcome(_) | EventKind::Child { .. } | EventKind::Refused { .. }
        ) {
            let before = self.state.clone();
            let again = fold(self.plan, &mut self.state, event, &mut Vec::new());
            assert_eq!(
                (again, &before),
                (Progress::Ignored, &self.state),
                "a second delivery says nothing"
            );
        }
        let most = self.plan.definition().concurrency.unwrap_or(1_024);
        assert!(
            self.state.load().0 <= most,
            "{} in flight of {most}",
            self.state.load().0
        );
    }

    fn read(&mut self, line: &str) -> EventKind {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let start = |law, open, input| {
            let env = json(r#"{"HOME":"x"}"#);
            EventKind::Start(Box::new(Start {
                run: run_id(),
                law,
                seed: 1,
                epoch: Epoch(1),
                open,
                env,
                input,
            }))
        };
        match word {
            "start" => start(lope_flow::LAW, false, Some(Fed::new("1", json(rest)))),
            "start1" => start(1, false, Some(Fed::new("1", json(rest)))),
            "open" => start(lope_flow::LAW, true, None),
            "input" => {
                let (id, value) = rest.split_once(' ').unwrap();
                EventKind::Input(Box::new(Fed::new(id, json(value))))
            }
            "at" => {
                self.now = rest.parse().unwrap();
                EventKind::Timer
            }
            "signal" => {
                let (name, value) = rest.split_once(' ').unwrap();
                EventKind::Signal {
                    name: name.into(),
                    value: json(value),
                }
            }
            "child" => {
                let (path, result) = rest.split_once(' ').unwrap();
                let child = self.children[path];
                EventKind::Child {
                    execution: path.into(),
                    child,
                    result: settled(result),
                }
            }
            "cancel" => EventKind::Cancel { force: false },
            "cancel!" => EventKind::Cancel { force: true },
            "pause" => EventKind::Pause { reason: None },
            "resume" => EventKind::Resume,
            "adopt" => EventKind::Adopted {
                epoch: Epoch(rest.parse().unwrap()),
                budget: None,
            },
            "retry" => EventKind::Retry {
                epoch: Epoch(rest.parse().unwrap()),
            },
            "close" => EventKind::Close,
            "fork" => EventKind::Forked {
                run: RunId::from_parts(Timestamp::EPOCH, [9; 10]),
                epoch: Epoch(9),
            },
            "refuse" => {
                let (token, until) = rest.split_once(' ').unwrap();
                let (execution, attempt, epoch) = self.token(token);
                let until = Timestamp::from_millis(until.parse().unwrap());
                EventKind::Refused {
                    execution,
                    attempt,
                    epoch,
                    until,
                    reason: "busy".into(),
                }
            }
            "sent" => {
                let (execution, attempt, epoch) = self.token(rest);
                EventKind::Dispatched {
                    execution,
                    attempt,
                    epoch,
                }
            }
            "return" => {
                let (execution, attempt, epoch) = self.token(rest);
                EventKind::Returned {
                    execution,
                    attempt,
                    epoch,
                }
            }
            token => {
                let (execution, attempt, epoch) = self.token(token);
                let result = settled(rest);
                let outcome = Outcome {
                    execution,
                    attempt,
                    epoch,
                    result,
                    started_at: None,
                    worker: Some("w".into()),
                    log: None,
                };
                EventKind::Outcome(Box::new(outcome))
            }
        }
    }

    /// The token of an attempt as it was dispatched; of one that never was, with epoch 1.
    fn token(&self, text: &str) -> (Arc<str>, u32, Epoch) {
        let (path, number) = text
            .rsplit_once('#')
            .unwrap_or_else(|| panic!("'{text}' is no event"));
        let (path, number): (Arc<str>, u32) = (path.into(), number.parse().unwrap());
        let epoch = self
            .epochs
            .get(&(path.clone(), number))
            .copied()
            .unwrap_or(Epoch(1));
        (path, number, epoch)
    }

    fn tell(&mut self, effect: &Effect) -> Option<String> {
        Some(match effect {
            Effect::Dispatch(it) => {
                self.epochs
                    .insert((it.execution.clone(), it.attempt), it.epoch);
                let with = if it.with.is_null() {
                    String::new()
                } else {
                    format!("({})", it.with)
                };
                format!("{}#{}{with}", it.execution, it.attempt)
            }
            Effect::CancelAttempt {
                execution, attempt, ..
            } => format!("-{execution}#{attempt}"),
            Effect::StartChild(it) => {
                self.children.insert(it.execution.clone(), it.child);
                format!("child {}({} {})", it.execution, it.workflow, it.input)
            }
            Effect::CancelChild { execution, child } => {
                assert_eq!(self.children[execution], *child);
                format!("-child {execution}")
            }
            Effect::Send(it) => format!("send {} {}", it.target, it.body),
            Effect::InputSettled { input, result } => match result {
                Settled::Done(value) => format!("{input}={value}"),
                Settled::Failed(failure) => format!("{input}!{}", failure.kind),
                Settled::Cancelled => format!("{input}~"),
            },
            Effect::Complete { result } => format!("complete {result}"),
            Effect::Fail { failure } => format!("fail {}", failure.kind),
            Effect::Cancelled => "cancelled".into(),
            Effect::Telemetry(_) => return None,
        })
    }
}

fn settled(text: &str) -> Settled {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "ok" => Settled::Done(if rest.is_empty() {
            Value::Null
        } else {
            json(rest)
        }),
        "err" => Settled::failed(Failure::new(rest, "no")),
        "later" => {
            let mut failure = Failure::new("UsageLimit", "no");
            failure.again_at = Some(Timestamp::from_millis(rest.parse().unwrap()));
            Settled::failed(failure)
        }
        "gone" => Settled::Cancelled,
        other => panic!("'{other}' is no result"),
    }
}
