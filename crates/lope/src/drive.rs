//! The law as a filter, for tests in other languages. It loads definitions and folds
//! runs in memory; whoever asks stands in for workers, children, signals and the clock.
//!
//! A request is a line of JSON with `op`, an answer is a line of JSON. `load` a definition, `start`
//! a run, then `outcome`, `child`, `signal`, `tick` (time jumps to the next timer), `cancel` and
//! `forget`. `functions` lists what expressions may call. Nothing is stored, and a run that nobody
//! forgets stays until the end.

use std::sync::Arc;

use lope_definition::Definition;
use lope_expr::functions;
use lope_flow::law::{
    self, Effect, Event, EventKind, Fed, Outcome, Plan, Reason, Settled, Start, State, Status,
};
use lope_model::{Epoch, Failure, RunId, Timestamp, Value};
use serde::Deserialize;
use serde_json::{Value as Json, json};

/// Most signals that an answer names as waited for.
const WAITS_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum DriveRequest {
    Functions,
    Load {
        definition: Json,
    },
    Start {
        plan: usize,
        input: Value,
    },
    Outcome {
        run: usize,
        execution: Arc<str>,
        attempt: u32,
        result: Settled,
    },
    Child {
        run: usize,
        execution: Arc<str>,
        child: RunId,
        result: Settled,
    },
    Signal {
        run: usize,
        name: Arc<str>,
        value: Value,
    },
    Tick {
        run: usize,
    },
    Cancel {
        run: usize,
    },
    Forget {
        run: usize,
    },
}

/// A run in memory.
struct DrivenRun {
    plan: Arc<Plan>,
    state: State,
    now: Timestamp,
}

/// Answers requests, one after the other.
#[derive(Default)]
pub struct Driver {
    plans: Vec<Arc<Plan>>,
    runs: Vec<Option<DrivenRun>>,
}

impl Driver {
    /// The answer to a request; a bad one is answered with an `error`.
    pub fn answer(&mut self, line: &str) -> String {
        let answer = self.act(line);
        answer
            .unwrap_or_else(|message| json!({ "error": message }))
            .to_string()
    }

    fn act(&mut self, line: &str) -> Result<Json, String> {
        let request =
            serde_json::from_str(line).map_err(|error| format!("not a request: {error}"))?;
        match request {
            DriveRequest::Functions => {
                Ok(json!({ "functions": functions::all().map(described).collect::<Vec<_>>() }))
            }
            DriveRequest::Load { definition } => self.load(&definition),
            DriveRequest::Start { plan, input } => self.start(plan, input),
            DriveRequest::Outcome {
                run,
                execution,
                attempt,
                result,
            } => {
                let outcome = Outcome {
                    execution,
                    attempt,
                    epoch: Epoch(1),
                    result,
                    started_at: None,
                    worker: None,
                    log: None,
                };
                self.event(run, EventKind::Outcome(Box::new(outcome)))
            }
            DriveRequest::Child {
                run,
                execution,
                child,
                result,
            } => self.event(
                run,
                EventKind::Child {
                    execution,
                    child,
                    result,
                },
            ),
            DriveRequest::Signal { run, name, value } => {
                self.event(run, EventKind::Signal { name, value })
            }
            DriveRequest::Tick { run } => self.tick(run),
            DriveRequest::Cancel { run } => self.event(run, EventKind::Cancel { force: false }),
            DriveRequest::Forget { run } => {
                self.runs.get_mut(run).map(Option::take);
                Ok(json!({}))
            }
        }
    }

    fn load(&mut self, definition: &Json) -> Result<Json, String> {
        let definition =
            Definition::from_json(&definition.to_string()).map_err(|error| error.to_string())?;
        let plan = Plan::new(&definition).map_err(|problems| {
            let told: Vec<String> = problems.iter().map(|each| format!("{each:?}")).collect();
            told.join("\n")
        })?;
        let version = plan.version().to_string();
        self.plans.push(Arc::new(plan));
        Ok(json!({ "plan": self.plans.len() - 1, "version": version }))
    }

    fn start(&mut self, plan: usize, input: Value) -> Result<Json, String> {
        let plan = self.plans.get(plan).map(Arc::clone).ok_or("no such plan")?;
        let number = self.runs.len();
        let run = RunId::from_parts(Timestamp::EPOCH, seed(number));
        self.runs.push(Some(DrivenRun {
            state: State::new(&plan),
            plan,
            now: Timestamp::EPOCH,
        }));
        let input = Some(Fed::new("1", input));
        let start = Start {
            run,
            law: lope_flow::LAW,
            seed: number as u64,
            epoch: Epoch(1),
            open: false,
            env: Value::Null,
            input,
        };
        self.event(number, EventKind::Start(Box::new(start)))
    }

    fn tick(&mut self, number: usize) -> Result<Json, String> {
        let run = self
            .runs
            .get_mut(number)
            .and_then(Option::as_mut)
            .ok_or("no such run")?;
        let wake = run.state.next_wake().ok_or("the run waits for no time")?;
        run.now = run.now.max(wake);
        self.event(number, EventKind::Timer)
    }

    fn event(&mut self, number: usize, kind: EventKind) -> Result<Json, String> {
        let run = self
            .runs
            .get_mut(number)
            .and_then(Option::as_mut)
            .ok_or("no such run")?;
        let mut effects = Vec::new();
        law::fold(
            &run.plan,
            &mut run.state,
            Event::new(run.now, kind),
            &mut effects,
        );
        run.confirm(&mut effects);
        Ok(json!({
            "run": number,
            "status": run.state.status().as_str(),
            "now": run.now.millis(),
            "wake": run.state.next_wake().map(Timestamp::millis),
            "waits": run.waits(),
            "effects": effects.iter().filter_map(told).collect::<Vec<_>>(),
        }))
    }
}

impl DrivenRun {
    /// Detached children are there as soon as they are asked for: nobody stands in for them.
    fn confirm(&mut self, effects: &mut Vec<Effect>) {
        while let Some(child) = self.state.unconfirmed(&self.plan).into_iter().next() {
            let execution = child.execution;
            let result = Settled::Done(Value::Null);
            let kind = EventKind::Child {
                execution,
                child: child.child,
                result,
            };
            law::fold(
                &self.plan,
                &mut self.state,
                Event::new(self.now, kind),
                effects,
            );
        }
    }

    /// The signals that the run waits for, once nothing else is under way.
    fn waits(&self) -> Vec<Arc<str>> {
        if self.state.status() != Status::Waiting {
            return Vec::new();
        }
        let reasons = self.state.why(&self.plan, WAITS_MAX).into_iter();
        let signal = |reason| match reason {
            Reason::Signal { signal, .. } => Some(signal),
            Reason::NotStarted
            | Reason::Paused { .. }
            | Reason::Cancelling
            | Reason::Idle
            | Reason::InFlight { .. }
            | Reason::Ready { .. }
            | Reason::Retry { .. }
            | Reason::Refused { .. }
            | Reason::Sleeping { .. }
            | Reason::Child { .. }
            | Reason::Turn { .. }
            | Reason::Failed { .. } => None,
        };
        reasons.filter_map(signal).collect()
    }
}

fn described(entry: &functions::FunctionEntry) -> Json {
    json!({ "name": entry.name, "parameters": entry.parameters, "kind": format!("{:?}", entry.kind) })
}

/// The random part of a run's id, which need not be random here.
fn seed(number: usize) -> [u8; 10] {
    let mut seed = [7; 10];
    seed[2..].copy_from_slice(&(number as u64).to_be_bytes());
    seed
}

/// An effect that somebody must act on.
fn told(effect: &Effect) -> Option<Json> {
    Some(match effect {
        Effect::Dispatch(each) => json!({
            "dispatch": each.action, "executor": each.executor, "execution": each.execution, "step": each.step,
            "attempt": each.attempt, "with": each.with,
        }),
        Effect::CancelAttempt {
            execution, attempt, ..
        } => json!({ "cancel": execution, "attempt": attempt }),
        Effect::StartChild(each) => json!({
            "child": each.workflow, "execution": each.execution, "id": each.child, "input": each.input,
            "detached": each.detached,
        }),
        Effect::CancelChild { execution, child } => {
            json!({ "cancel_child": execution, "id": child })
        }
        Effect::Send(each) => {
            json!({ "send": each.target, "execution": each.execution, "body": each.body })
        }
        Effect::Complete { result } => json!({ "complete": result }),
        Effect::Fail { failure } => json!({ "fail": failed(failure) }),
        Effect::Cancelled => json!({ "cancelled": true }),
        Effect::InputSettled { .. } | Effect::Telemetry(_) => return None,
    })
}

fn failed(failure: &Failure) -> Json {
    serde_json::to_value(failure).expect("every failure has a JSON form")
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({} runs)", self.runs.len())
    }
}
