//! On message, do an action: the same executors that do the steps of workflows (Rust functions,
//! Python, …) handle messages.
//!
//! The action gets one argument, `message`: its id, kind, worker, sender, attempt, and the payload
//! as JSON, or as text or bytes if it is not JSON. What the action answers goes to the sender. A
//! failure may pass and is tried again within the worker's budget; one of the type `Never` does
//! not.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lope_engine::executor::{Done, Executor, Limits, OutcomeSink, Task, TaskOutcome, Token};
use lope_mailbox::frame::Message;
use lope_mailbox::key::WorkerId;
use lope_mailbox::{About, Context, Handled, Handler, HandlerError};
use lope_model::{Digest, Epoch, Failure, RunId, Span, Value, failure, limit, value};
use tokio::sync::oneshot;

/// The type of a failure that makes its message a dead letter at once.
pub const NEVER_FAILURE: &str = "Never";

/// Hands each message to an action of an executor.
pub struct ActionHandler {
    pub executor: Arc<dyn Executor>,
    /// The kind of the executor, as steps name it.
    pub kind: Arc<str>,
    pub action: Arc<str>,
    /// Longest time for one message.
    pub timeout: Option<Span>,
}

/// Where the outcome of one call goes.
#[derive(Default)]
struct Waiting(Mutex<Option<oneshot::Sender<TaskOutcome>>>);

/// A call under way; cancelled when it is dropped before its outcome.
struct Call<'a> {
    executor: &'a dyn Executor,
    token: Option<Token>,
}

impl OutcomeSink for Waiting {
    fn settle(&self, outcome: TaskOutcome) {
        if let Some(waiting) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Whoever asked may have gone.
            let _ = waiting.send(outcome);
        }
    }

    fn alive(&self, _token: &Token) {}
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            self.executor.cancel(&token);
        }
    }
}

impl ActionHandler {
    fn task(&self, about: &About, message: &Message<'_>) -> Task {
        let id = Digest::of_parts(&[&about.worker.to_bytes(), message.id]);
        let mut run = [0; 16];
        run.copy_from_slice(&id.as_bytes()[..16]);
        Task {
            token: Token {
                run: RunId::from_bytes(run),
                execution: Arc::clone(&self.action),
                attempt: about.attempt,
                epoch: Epoch(0),
            },
            workflow: format!("mailbox {}", about.worker).into(),
            step: Arc::clone(&self.action),
            executor: Arc::clone(&self.kind),
            action: Arc::clone(&self.action),
            arguments: Value::map([("message", arguments(about, message))]),
            limits: Limits {
                timeout: self.timeout,
                ..Limits::default()
            },
            idempotency_key: Some(run_key(about.worker, message.id)),
            trace: None,
        }
    }

    async fn call(&self, task: Task) -> Result<Value, Failure> {
        let (sender, outcome) = oneshot::channel();
        let waiting = Arc::new(Waiting(Mutex::new(Some(sender))));
        let mut call = Call {
            executor: &*self.executor,
            token: Some(task.token.clone()),
        };
        let done = Done::new(task.token.clone(), waiting);
        self.executor.start(task, done);
        let outcome = match self.timeout {
            None => outcome.await.ok(),
            Some(timeout) => match tokio::time::timeout(timeout.to_duration(), outcome).await {
                Ok(outcome) => outcome.ok(),
                Err(_) => {
                    return Err(Failure::new(
                        failure::kind::TIMEOUT,
                        format!("it took longer than {timeout}"),
                    ));
                }
            },
        };
        call.token = None;
        let lost = || {
            Failure::new(
                failure::kind::WORKER_LOST,
                "the worker ended without an answer",
            )
        };
        outcome.map_or_else(
            || Err(lost()),
            |outcome| outcome.result.map_err(|failure| *failure),
        )
    }
}

#[async_trait]
impl Handler for ActionHandler {
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        let task = self.task(context.about(), message);
        if let Some(why) = self.executor.refuses(&task.arguments) {
            return Err(HandlerError::Failed(why));
        }
        match self.call(task).await {
            Ok(Value::Null) => Ok(()),
            Ok(answer) => {
                context.reply(value::to_json(&answer));
                Ok(())
            }
            Err(failure) => Err(verdict(&failure)),
        }
    }
}

/// The key of what a message leads to. An id that no key can hold stands in it as its digest.
pub fn run_key(worker: WorkerId, id: &[u8]) -> String {
    let named = std::str::from_utf8(id).ok().filter(|id| !id.contains('\0'));
    let key = named
        .map(|id| format!("mailbox:{worker}:{id}"))
        .filter(|key| key.len() <= limit::NAME_MAX);
    key.unwrap_or_else(|| format!("mailbox:{worker}:sha256:{}", Digest::of(id)))
}

fn verdict(failure: &Failure) -> HandlerError {
    let text = format!("{}: {}", failure.kind, failure.message);
    match &*failure.kind {
        failure::kind::UNKNOWN_ACTION => HandlerError::Unfit(failure.message.clone()),
        _ if failure.is_a(NEVER_FAILURE) => HandlerError::Failed(text),
        _ => HandlerError::Busy(text),
    }
}

fn arguments(about: &About, message: &Message<'_>) -> Value {
    let text =
        |bytes: &[u8]| std::str::from_utf8(bytes).map_or_else(|_| Value::bytes(bytes), Value::str);
    let payload = std::str::from_utf8(message.payload)
        .ok()
        .and_then(|payload| value::from_json(payload).ok());
    Value::map([
        ("id", text(message.id)),
        ("kind", Value::str(message.kind.name())),
        ("worker", Value::Int(about.worker.number())),
        (
            "from_worker",
            message.from_worker.map_or(Value::Null, Value::Int),
        ),
        ("attempt", Value::Int(i64::from(about.attempt))),
        ("payload", payload.unwrap_or_else(|| text(message.payload))),
    ])
}

impl std::fmt::Debug for ActionHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ActionHandler({} {})", self.kind, self.action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_runs_differ_by_worker_and_id_and_fit() {
        let seven = WorkerId::new(7).unwrap();
        assert_eq!(run_key(seven, b"order-1"), "mailbox:7:order-1");
        let long = vec![b'x'; 1_000];
        for id in [&long[..], &[0xff, 1], b"a\0b"] {
            let key = run_key(seven, id);
            assert!(
                key.starts_with("mailbox:7:sha256:") && key.len() <= limit::NAME_MAX,
                "{key}"
            );
        }
        assert_ne!(run_key(seven, &long), run_key(seven, &long[1..]));
        assert_ne!(
            run_key(seven, b"m"),
            run_key(WorkerId::new(8).unwrap(), b"m")
        );
    }
}
