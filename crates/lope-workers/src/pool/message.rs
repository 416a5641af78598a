//! The words between runner and worker, as MessagePack. A frame is a list of messages, a message a
//! list that begins with its name; values (arguments, results, failures) travel as bytes of their
//! own, so that a bad one spoils nothing else. `docs/worker-protocol.md` is the contract.

use std::collections::BTreeSet;
use std::sync::Arc;

use lope_engine::executor::Task;
use lope_model::{Failure, Realm, Span, Value, limit, value};
use serde::ser::{Serialize, SerializeSeq, Serializer};

use super::roster::{ActionNames, TaskId};
use crate::logs::Stream;

/// The version of the protocol. A worker of another one is refused.
pub const PROTOCOL: i64 = 1;
/// Largest frame, in bytes: the largest value and room for what surrounds it.
pub const FRAME_MAX: usize = limit::PAYLOAD_MAX + 1024 * 1024;
/// Most actions that one worker serves.
const ACTIONS_MAX: usize = 100_000;
/// Most realms that one worker brings; further ones are not heard.
const REALMS_MAX: usize = 1_000;

/// What a runner says.
#[derive(Clone, Debug)]
pub(super) enum ToWorker {
    Welcome { worker: u64, heartbeat: Span },
    Refused(String),
    Task { id: TaskId, task: Box<Task> },
    Cancel(TaskId),
    Drain,
}

/// What a worker says.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum FromWorker {
    Hello(Hello),
    Broken {
        worker: Option<u64>,
        message: String,
        traceback: Option<String>,
    },
    Answer {
        id: TaskId,
        result: Result<Value, Failure>,
    },
    Log {
        id: TaskId,
        line: LogText,
    },
    Alive(TaskId),
    /// It no longer has the heap that the task works on.
    Forgotten(TaskId),
    Beat {
        blocked: Span,
        at: Option<Arc<str>>,
    },
    Leaving,
    Bye,
}

/// Lines for an attempt's log.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LogText {
    pub(super) stream: Stream,
    text: Arc<str>,
    /// Its last line goes on in the next message.
    goes_on: bool,
}

impl LogText {
    /// Each line with its end; the last one has none if it goes on.
    pub(super) fn pieces(&self) -> impl Iterator<Item = String> {
        let count = self.text.lines().count();
        self.text.lines().enumerate().map(move |(at, line)| {
            let end = if self.goes_on && at + 1 == count {
                ""
            } else {
                "\n"
            };
            format!("{line}{end}")
        })
    }
}

/// A worker's first words.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Hello {
    pub(super) protocol: i64,
    /// The number that a process was started with.
    pub(super) worker: Option<u64>,
    pub(super) name: Arc<str>,
    pub(super) slots: usize,
    pub(super) actions: ActionNames,
    /// What it makes its runner able to serve.
    pub(super) realms: Vec<Realm>,
}

struct Bin<'a>(&'a [u8]);

impl Serialize for Bin<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl Serialize for ToWorker {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Welcome { worker, heartbeat } => {
                let settings = Value::map([
                    ("protocol", Value::Int(PROTOCOL)),
                    ("worker", Value::Int(worker.cast_signed())),
                    ("heartbeat_ms", Value::Int(heartbeat.millis().cast_signed())),
                    ("payload_max", Value::Int(limit::PAYLOAD_MAX as i64)),
                    ("frame_max", Value::Int(FRAME_MAX as i64)),
                ]);
                ("welcome", settings).serialize(serializer)
            }
            Self::Refused(reason) => ("refused", reason).serialize(serializer),
            Self::Task { id, task } => task_words(*id, task, serializer),
            Self::Cancel(id) => ("cancel", id.0).serialize(serializer),
            Self::Drain => ("drain",).serialize(serializer),
        }
    }
}

fn task_words<S: Serializer>(id: TaskId, task: &Task, serializer: S) -> Result<S::Ok, S::Error> {
    let arguments = value::to_msgpack(&task.arguments);
    let mut words = serializer.serialize_seq(Some(12))?;
    words.serialize_element("task")?;
    words.serialize_element(&id.0)?;
    words.serialize_element(&*task.action)?;
    words.serialize_element(&Bin(&arguments))?;
    words.serialize_element(&task.token.run.to_string())?;
    words.serialize_element(&*task.token.execution)?;
    words.serialize_element(&task.token.attempt)?;
    words.serialize_element(&*task.workflow)?;
    words.serialize_element(&*task.step)?;
    words.serialize_element(&task.idempotency_key)?;
    words.serialize_element(&task.limits.timeout.map(Span::millis))?;
    words.serialize_element(&task.trace.as_deref())?;
    words.end()
}

/// One message as it stands in a frame.
pub(super) fn encode(message: &ToWorker) -> Vec<u8> {
    rmp_serde::to_vec(message).expect("every message has a MessagePack form")
}

/// What stands before the messages of a frame: MessagePack's mark of a list, with their number.
pub(super) fn list_head(messages: u32) -> [u8; 5] {
    let [a, b, c, d] = messages.to_be_bytes();
    [0xdd, a, b, c, d]
}

/// The inside of a frame as messages, or what is wrong with it.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<FromWorker>, String> {
    let frame = value::from_msgpack(bytes).map_err(|error| format!("a frame is {error}"))?;
    let messages = frame.as_list().ok_or("a frame is no list of messages")?;
    messages
        .iter()
        .map(|message| {
            message
                .as_list()
                .ok_or_else(|| "a message is no list".to_owned())
                .and_then(read)
        })
        .collect()
}

fn read(words: &[Value]) -> Result<FromWorker, String> {
    let name = words
        .first()
        .and_then(Value::as_str)
        .ok_or("a message has no name")?;
    let bad = || format!("the message '{name}' does not have the parts that the protocol names");
    let message = match (name, &words[1..]) {
        ("done", [id, Value::Bytes(bytes), ..]) => task(id).map(|id| FromWorker::Answer {
            id,
            result: result(bytes),
        }),
        ("failed", [id, Value::Bytes(bytes), ..]) => task(id).map(|id| FromWorker::Answer {
            id,
            result: Err(failure(bytes)),
        }),
        ("log", [id, Value::Str(stream), Value::Str(text), more @ ..]) => {
            let stream = if &**stream == "out" {
                Stream::Out
            } else {
                Stream::Err
            };
            task(id).map(|id| FromWorker::Log {
                id,
                line: LogText {
                    stream,
                    text: Arc::clone(text),
                    goes_on: more.first() == Some(&Value::Bool(true)),
                },
            })
        }
        ("forgotten", [id, ..]) => task(id).map(FromWorker::Forgotten),
        ("alive", [id, ..]) => task(id).map(FromWorker::Alive),
        ("beat", [Value::Int(blocked), at, ..]) => {
            let blocked = Span::from_millis(u64::try_from(*blocked).unwrap_or(0));
            Some(FromWorker::Beat {
                blocked,
                at: at.as_str().map(Arc::from),
            })
        }
        ("leaving", _) => Some(FromWorker::Leaving),
        ("bye", _) => Some(FromWorker::Bye),
        ("hello", [map, ..]) => hello(map).map(FromWorker::Hello),
        ("broken", [map, ..]) => {
            map.get("message")
                .and_then(Value::as_str)
                .map(|message| FromWorker::Broken {
                    worker: number(map),
                    message: message.to_owned(),
                    traceback: map
                        .get("traceback")
                        .and_then(Value::as_str)
                        .map(str::to_owned),
                })
        }
        _ => {
            return Err(format!(
                "'{name}' is no message that a worker sends, or it lacks its parts"
            ));
        }
    };
    message.ok_or_else(bad)
}

fn task(id: &Value) -> Option<TaskId> {
    id.as_int()
        .and_then(|id| u64::try_from(id).ok())
        .map(TaskId)
}

/// The number that a process was started with.
fn number(map: &Value) -> Option<u64> {
    map.get("worker")
        .and_then(Value::as_int)
        .and_then(|id| u64::try_from(id).ok())
}

fn hello(map: &Value) -> Option<Hello> {
    let text = |key| map.get(key).and_then(Value::as_str).map(Arc::from);
    let actions = map.get("actions")?.as_list()?;
    if actions.len() > ACTIONS_MAX {
        return None;
    }
    let realms = map
        .get("realms")
        .and_then(Value::as_list)
        .unwrap_or_default();
    let realms = realms
        .iter()
        .take(REALMS_MAX)
        .filter_map(|name| Realm::parse(name.as_str()?).ok())
        .collect();
    let actions: Option<BTreeSet<Arc<str>>> = actions
        .iter()
        .map(|name| name.as_str().map(Arc::from))
        .collect();
    Some(Hello {
        protocol: map.get("protocol")?.as_int()?,
        worker: number(map),
        name: text("name").unwrap_or_else(|| "worker".into()),
        slots: map
            .get("slots")
            .and_then(Value::as_int)
            .and_then(|slots| usize::try_from(slots).ok())?
            .max(1),
        actions: Arc::new(actions?),
        realms,
    })
}

fn result(bytes: &[u8]) -> Result<Value, Failure> {
    bounded(bytes, "result")?;
    value::from_msgpack(bytes)
        .map_err(|error| Failure::new("BadValue", format!("the worker's result is {error}")))
}

fn failure(bytes: &[u8]) -> Failure {
    if let Err(failure) = bounded(bytes, "failure") {
        return failure;
    }
    let read = rmp_serde::from_slice(bytes);
    read.unwrap_or_else(|error| {
        Failure::new(
            "BadValue",
            format!("the worker's failure cannot be read: {error}"),
        )
    })
}

fn bounded(bytes: &[u8], what: &str) -> Result<(), Failure> {
    if bytes.len() <= limit::PAYLOAD_MAX {
        return Ok(());
    }
    let message = format!(
        "its {what} has {} bytes, more than {} are allowed",
        bytes.len(),
        limit::PAYLOAD_MAX
    );
    Err(Failure::new(lope_model::failure::kind::LIMIT, message))
}
