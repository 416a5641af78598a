//! Rust functions by name (and version), as the executor of `action` steps.
//!
//! Functions may be added while others run. Calls run on one of the registry's runtimes; a function
//! that panics or is stopped takes nothing else with it.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, RwLock};
use std::task::{Context, Poll};

use foldhash::HashMap;
use lope_engine::executor::{Done, Executor, Task, Token};
use lope_model::{Failure, Value, failure};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tracing::{Instrument, Span};

/// What a call becomes.
pub type CallFuture = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>>;
/// From arguments to an answer.
pub type BoxedFunction = Arc<dyn Fn(Value) -> CallFuture + Send + Sync>;

tokio::task_local! {
    static CALL: Arc<FunctionCall>;
}

/// The attempt that a function is called for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionCall {
    pub token: Token,
    pub workflow: Arc<str>,
    /// The step's path in its definition.
    pub step: Arc<str>,
    /// The same for every attempt; what it names shall happen once.
    pub idempotency_key: Option<String>,
}

impl FunctionCall {
    /// The attempt that the caller works for, inside a function.
    pub fn current() -> Option<Arc<Self>> {
        CALL.try_with(Arc::clone).ok()
    }
}

/// A registry of functions.
pub struct Functions {
    by_name: RwLock<HashMap<Arc<str>, BoxedFunction>>,
    /// Where calls run; those of one run are on one of them.
    pools: Vec<Handle>,
    running: Arc<RunningCalls>,
}

impl Functions {
    pub fn new(runtime: Handle) -> Self {
        Self::over(vec![runtime])
    }

    /// Calls are spread over these runtimes by their run. There must be one at least.
    pub fn over(pools: Vec<Handle>) -> Self {
        assert!(!pools.is_empty(), "functions need a runtime to run on");
        Self {
            by_name: RwLock::default(),
            pools,
            running: Arc::default(),
        }
    }

    /// The function that does `name`, from its arguments to its output.
    pub fn add<F, A>(&self, name: &str, function: F) -> &Self
    where
        F: Fn(Value) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, Failure>> + Send + 'static,
    {
        self.add_boxed(
            name,
            Arc::new(move |arguments| Box::pin(function(arguments))),
        )
    }

    /// As `add`, for a function whose type is not known.
    pub fn add_boxed(&self, name: &str, function: BoxedFunction) -> &Self {
        self.by_name
            .write()
            .expect("no panic while the names are held")
            .insert(name.into(), function);
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
        self.by_name
            .read()
            .expect("no panic while the names are held")
            .keys()
            .map(Arc::clone)
            .collect()
    }

    fn find(&self, name: &str) -> Option<BoxedFunction> {
        self.by_name
            .read()
            .expect("no panic while the names are held")
            .get(name)
            .map(Arc::clone)
    }

    /// The pool of a run, by its place.
    fn pool(&self, token: &Token) -> usize {
        usize::from(token.run.as_bytes()[15]) % self.pools.len()
    }
}

impl Executor for Functions {
    fn returns_at_once(&self) -> bool {
        true
    }

    fn start(&self, task: Task, done: Done) {
        self.start_all(vec![(task, done)]);
    }

    /// Those of one pool wait in one line; as many tasks as the pool has threads, at most, work it
    /// off. What answers at once, as short functions do, needs no task of its own.
    fn start_all(&self, tasks: Vec<(Task, Done)>) {
        let mut lines: Vec<VecDeque<PendingCall>> =
            self.pools.iter().map(|_| VecDeque::new()).collect();
        for (task, done) in tasks {
            match self.find(&task.action) {
                Some(function) => {
                    lines[self.pool(&task.token)].push_back(PendingCall::new(function, task, done));
                }
                None => {
                    let failure =
                        Failure::new(failure::kind::UNKNOWN_ACTION, unknown(&task.action));
                    done.finish(Err(failure), None);
                }
            }
        }
        for (pool, line) in self
            .pools
            .iter()
            .zip(lines)
            .filter(|(_, line)| !line.is_empty())
        {
            let mut entries = self
                .running
                .lock()
                .expect("no panic while the lock is held");
            entries.extend(line.iter().map(|job| (job.call.token.clone(), None)));
            drop(entries);
            let hands = line.len().min(pool.metrics().num_workers());
            let line = Arc::new(Mutex::new(line));
            for _ in 0..hands {
                pool.spawn(work_off(Arc::clone(&line), Arc::clone(&self.running)));
            }
        }
    }

    fn cancel(&self, token: &Token) {
        if let Some(work) = forget(&self.running, token) {
            work.abort();
        }
    }
}

/// Calls under way; one that has no task of its own yet is in a line, or at its first turn.
type RunningCalls = Mutex<HashMap<Token, Option<AbortHandle>>>;

/// A call to be made.
struct PendingCall {
    function: BoxedFunction,
    arguments: Value,
    call: Arc<FunctionCall>,
    done: Done,
    span: Span,
}

impl PendingCall {
    fn new(function: BoxedFunction, task: Task, done: Done) -> Self {
        let Task {
            token,
            workflow,
            step,
            arguments,
            idempotency_key,
            ..
        } = task;
        let span = tracing::info_span!(
            "lope.step", run = %token.run, %workflow, %step, execution = %token.execution, attempt = token.attempt
        );
        let call = Arc::new(FunctionCall {
            token,
            workflow,
            step,
            idempotency_key,
        });
        Self {
            function,
            arguments,
            call,
            done,
            span,
        }
    }

    /// Make the call and give it a first turn. One that does not answer at once goes on as a task
    /// of its own, which can be stopped.
    async fn begin(self, running: &Arc<RunningCalls>) {
        let Self {
            function,
            arguments,
            call,
            done,
            span,
        } = self;
        let token = call.token.clone();
        // The function is called inside its scope: what it does before its first await may panic
        // too.
        let work = CALL.scope(call, async move {
            match catch_unwind(AssertUnwindSafe(|| function(arguments))) {
                Ok(answer) => Caught(answer).await,
                Err(panic) => Err(panicked(&*panic)),
            }
        });
        let mut work = Box::pin(work.instrument(span));
        match poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
            Poll::Ready(result) => answer(running, &token, done, result),
            Poll::Pending => {
                let (known, ended) = (Arc::clone(running), token.clone());
                let rest = async move {
                    let result = work.await;
                    answer(&known, &ended, done, result);
                };
                // The lock is held over the spawn, so that the entry is there before the task can
                // take it out.
                let mut entries = running.lock().expect("no panic while the lock is held");
                if let Some(entry) = entries.get_mut(&token) {
                    *entry = Some(tokio::spawn(rest).abort_handle());
                }
            }
        }
    }
}

fn answer(running: &RunningCalls, token: &Token, done: Done, result: Result<Value, Failure>) {
    forget(running, token);
    done.finish(result, None);
}

/// Begin the calls of a line until it is empty. Those that are no longer wanted do not begin.
async fn work_off(line: Arc<Mutex<VecDeque<PendingCall>>>, running: Arc<RunningCalls>) {
    loop {
        let job = line
            .lock()
            .expect("no panic while the line is held")
            .pop_front();
        let Some(job) = job else { return };
        let wanted = running
            .lock()
            .expect("no panic while the lock is held")
            .contains_key(&job.call.token);
        if wanted {
            job.begin(&running).await;
        }
    }
}

/// An answer whose panic is a failure of its attempt.
struct Caught(CallFuture);

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
    Failure::new(
        failure::kind::PANIC,
        message.unwrap_or_else(|| "it panicked".to_owned()),
    )
}

fn forget(running: &RunningCalls, token: &Token) -> Option<AbortHandle> {
    running
        .lock()
        .expect("no panic while the lock is held")
        .remove(token)
        .flatten()
}

fn unknown(action: &str) -> String {
    format!("no worker of this runner serves the action '{action}'")
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
