//! Rust functions by name (and version), as the executor of `action` steps.
//!
//! Functions may be added while others run. Each call is a task of its own on one of the registry's runtimes; a function that
//! panics or is stopped takes nothing else with it.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, RwLock};
use std::task::{Context, Poll};

use lope_engine::executor::{Done, Executor, Task, Token};
use lope_model::{Failure, Value, failure};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tracing::Instrument;

/// What a call becomes.
pub type Answer = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>>;
/// From arguments to an answer.
pub type Function = Arc<dyn Fn(Value) -> Answer + Send + Sync>;

tokio::task_local! {
    static CALL: Arc<Call>;
}

/// The attempt that a function is called for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    pub token: Token,
    pub workflow: Arc<str>,
    /// The step's path in its definition.
    pub step: Arc<str>,
    /// The same for every attempt; what it names shall happen once.
    pub idempotency_key: Option<String>,
}

impl Call {
    /// The attempt that the caller works for, inside a function.
    pub fn current() -> Option<Arc<Self>> {
        CALL.try_with(Arc::clone).ok()
    }
}

/// A registry of functions.
pub struct Functions {
    by_name: RwLock<HashMap<Arc<str>, Function>>,
    /// Where calls run; those of one run are on one of them.
    pools: Vec<Handle>,
    running: Arc<Mutex<HashMap<Token, AbortHandle>>>,
}

impl Functions {
    pub fn new(runtime: Handle) -> Self {
        Self::over(vec![runtime])
    }

    /// Calls are spread over these runtimes by their run. There must be one at least.
    pub fn over(pools: Vec<Handle>) -> Self {
        assert!(!pools.is_empty(), "functions need a runtime to run on");
        Self { by_name: RwLock::default(), pools, running: Arc::default() }
    }

    /// The function that does `name`, from its arguments to its output.
    pub fn add<F, A>(&self, name: &str, function: F) -> &Self
    where
        F: Fn(Value) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, Failure>> + Send + 'static,
    {
        self.add_boxed(name, Arc::new(move |arguments| Box::pin(function(arguments))))
    }

    /// As `add`, for a function whose type is not known.
    pub fn add_boxed(&self, name: &str, function: Function) -> &Self {
        self.by_name.write().expect("no panic while the names are held").insert(name.into(), function);
        self
    }

    /// The name under which a version of a function is asked for.
    pub fn versioned(name: &str, version: &str) -> String {
        format!("{name}@{version}")
    }

    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub fn names(&self) -> Vec<Arc<str>> {
        self.by_name.read().expect("no panic while the names are held").keys().map(Arc::clone).collect()
    }

    fn find(&self, name: &str) -> Option<Function> {
        self.by_name.read().expect("no panic while the names are held").get(name).map(Arc::clone)
    }

    fn pool(&self, token: &Token) -> &Handle {
        let bytes = token.run.as_bytes();
        &self.pools[usize::from(bytes[15]) % self.pools.len()]
    }
}

impl Executor for Functions {
    fn start(&self, task: Task, done: Done) {
        let Some(function) = self.find(&task.action) else {
            let failure = Failure::new(failure::kind::UNKNOWN_ACTION, unknown(&task.action));
            return done.finish(Err(failure), None);
        };
        let Task { token, workflow, step, arguments, idempotency_key, .. } = task;
        let span = tracing::info_span!(
            "lope.step", run = %token.run, %workflow, %step, execution = %token.execution, attempt = token.attempt
        );
        let running = Arc::clone(&self.running);
        let call = Arc::new(Call { token: token.clone(), workflow, step, idempotency_key });
        let ended = token.clone();
        // The function is called inside its task: what it does before its first await may panic too.
        let work = CALL.scope(call, async move {
            match catch_unwind(AssertUnwindSafe(|| function(arguments))) {
                Ok(answer) => Caught(answer).await,
                Err(panic) => Err(panicked(&*panic)),
            }
        });
        let work = async move {
            let result = work.await;
            forget(&running, &ended);
            done.finish(result, None);
        };
        // The lock is held over the spawn, so that the entry is there before the task can take it out.
        let mut entries = self.running.lock().expect("no panic while the lock is held");
        let task = self.pool(&token).spawn(work.instrument(span));
        entries.insert(token, task.abort_handle());
    }

    fn cancel(&self, token: &Token) {
        if let Some(work) = forget(&self.running, token) {
            work.abort();
        }
    }
}

/// An answer whose panic is a failure of its attempt.
struct Caught(Answer);

impl Future for Caught {
    type Output = Result<Value, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(&*panic))))
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
    Failure::new(failure::kind::PANIC, message.unwrap_or_else(|| "it panicked".to_owned()))
}

fn forget(running: &Mutex<HashMap<Token, AbortHandle>>, token: &Token) -> Option<AbortHandle> {
    running.lock().expect("no panic while the lock is held").remove(token)
}

fn unknown(action: &str) -> String {
    format!("no worker of this runner serves the action '{action}'")
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
