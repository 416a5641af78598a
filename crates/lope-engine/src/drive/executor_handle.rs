//! The way to one executor: it is called where the call comes from if it is known to return at
//! once, and on a thread of its own otherwise. One that is stuck keeps what it was given, and nobody
//! else waits for it.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::executor::{Done, Executor, Task, Token};

/// An executor, and how it is called.
pub(crate) struct ExecutorHandle {
    kind: Arc<str>,
    executor: Arc<dyn Executor>,
    /// The calls that wait for its thread, if it has one.
    line: Option<Arc<CallLine>>,
}

#[derive(Default)]
struct CallLine {
    calls: Mutex<WaitingCalls>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitingCalls {
    calls: VecDeque<ExecutorCall>,
    closed: bool,
}

enum ExecutorCall {
    Start(Box<(Task, Done)>),
    Cancel(Token),
    Withdraw,
}

impl ExecutorHandle {
    /// The thread ends when the handle is dropped and its executor has returned.
    pub(crate) fn new(kind: &Arc<str>, executor: Arc<dyn Executor>) -> Self {
        let line = if executor.returns_at_once() {
            None
        } else {
            begin(kind, &executor)
        };
        Self {
            kind: Arc::clone(kind),
            executor,
            line,
        }
    }

    pub(crate) fn start_all(&self, tasks: Vec<(Task, Done)>) {
        match &self.line {
            None => start_all(&self.kind, &*self.executor, tasks),
            Some(line) => {
                let starts = tasks.into_iter().map(Box::new).map(ExecutorCall::Start);
                line.lock().calls.extend(starts);
                line.changed.notify_one();
            }
        }
    }

    /// What waits for its thread ends here.
    pub(crate) fn cancel(&self, token: &Token) {
        match &self.line {
            None => cancel(&self.kind, &*self.executor, token),
            Some(line) => {
                let mut waiting = line.lock();
                let taken = waiting.take(token);
                if taken.is_none() {
                    waiting.calls.push_back(ExecutorCall::Cancel(token.clone()));
                }
                drop(waiting);
                line.changed.notify_one();
                // Dropped without the lock: its end is told to the dispatcher.
                drop(taken);
            }
        }
    }

    /// What waits for its thread goes back, and then what waits with the executor.
    pub(crate) fn withdraw(&self) {
        match &self.line {
            None => withdraw(&self.kind, &*self.executor),
            Some(line) => {
                let mut waiting = line.lock();
                let calls = std::mem::take(&mut waiting.calls);
                let (starts, others): (VecDeque<_>, VecDeque<_>) = calls
                    .into_iter()
                    .partition(|call| matches!(call, ExecutorCall::Start(_)));
                waiting.calls = others;
                waiting.calls.push_back(ExecutorCall::Withdraw);
                drop(waiting);
                line.changed.notify_one();
                for call in starts {
                    if let ExecutorCall::Start(start) = call {
                        start.1.give_back();
                    }
                }
            }
        }
    }
}

impl Drop for ExecutorHandle {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.lock().closed = true;
            line.changed.notify_one();
        }
    }
}

/// The thread of an executor; without one it is called where the call comes from.
fn begin(kind: &Arc<str>, executor: &Arc<dyn Executor>) -> Option<Arc<CallLine>> {
    let line = Arc::new(CallLine::default());
    let (theirs, name, executor) = (Arc::clone(&line), Arc::clone(kind), Arc::clone(executor));
    let work = move || {
        while let Some(call) = theirs.next() {
            perform(&name, &*executor, call);
        }
    };
    let named = std::thread::Builder::new().name(format!("lope-executor-{kind}"));
    match named.spawn(work) {
        Ok(_) => Some(line),
        Err(error) => {
            tracing::error!(%kind, %error, "an executor has no thread of its own");
            None
        }
    }
}

/// Starts that follow each other, or one of the others.
enum CallGroup {
    Start(Vec<(Task, Done)>),
    Cancel(Token),
    Withdraw,
}

fn perform(kind: &str, executor: &dyn Executor, group: CallGroup) {
    match group {
        CallGroup::Start(tasks) => start_all(kind, executor, tasks),
        CallGroup::Cancel(token) => cancel(kind, executor, &token),
        CallGroup::Withdraw => withdraw(kind, executor),
    }
}

impl CallLine {
    fn lock(&self) -> MutexGuard<'_, WaitingCalls> {
        self.calls
            .lock()
            .expect("nobody panics while the line is held")
    }

    /// What is to be done next; nothing when the handle is gone and all is done.
    fn next(&self) -> Option<CallGroup> {
        let mut waiting = self.lock();
        loop {
            if let Some(group) = waiting.next_group() {
                return Some(group);
            }
            if waiting.closed {
                return None;
            }
            waiting = self
                .changed
                .wait(waiting)
                .expect("nobody panics while the line is held");
        }
    }
}

impl WaitingCalls {
    fn next_group(&mut self) -> Option<CallGroup> {
        let mut tasks = Vec::new();
        loop {
            match self.calls.pop_front() {
                Some(ExecutorCall::Start(start)) => tasks.push(*start),
                None if tasks.is_empty() => return None,
                None => return Some(CallGroup::Start(tasks)),
                Some(other) if !tasks.is_empty() => {
                    self.calls.push_front(other);
                    return Some(CallGroup::Start(tasks));
                }
                Some(ExecutorCall::Cancel(token)) => return Some(CallGroup::Cancel(token)),
                Some(ExecutorCall::Withdraw) => return Some(CallGroup::Withdraw),
            }
        }
    }

    /// A start that waits, which waits no longer.
    fn take(&mut self, token: &Token) -> Option<ExecutorCall> {
        let is_it = |call: &ExecutorCall| match call {
            ExecutorCall::Start(start) => start.0.token == *token,
            ExecutorCall::Cancel(_) | ExecutorCall::Withdraw => false,
        };
        let place = self.calls.iter().position(is_it)?;
        self.calls.remove(place)
    }
}

/// An executor that panics loses what it was given (each `Done` is dropped on the way out) and
/// nothing else.
fn start_all(kind: &str, executor: &dyn Executor, tasks: Vec<(Task, Done)>) {
    if catch_unwind(AssertUnwindSafe(|| executor.start_all(tasks))).is_err() {
        tracing::error!(%kind, "an executor panicked when it was given tasks");
    }
}

fn cancel(kind: &str, executor: &dyn Executor, token: &Token) {
    if catch_unwind(AssertUnwindSafe(|| executor.cancel(token))).is_err() {
        tracing::error!(%kind, run = %token.run, execution = %token.execution, attempt = token.attempt, "an executor panicked when it was told to stop a task");
    }
}

fn withdraw(kind: &str, executor: &dyn Executor) {
    if catch_unwind(AssertUnwindSafe(|| executor.withdraw())).is_err() {
        tracing::error!(%kind, "an executor panicked when it was to give tasks back");
    }
}

impl fmt::Debug for ExecutorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecutorHandle({})", self.kind)
    }
}
