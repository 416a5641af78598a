//! Rust functions by name, as the executor of `action` steps.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use lope_engine::executor::{Done, Executor, Task, Token};
use lope_model::{Failure, Value, failure};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

type Answer = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>>;
type Function = Arc<dyn Fn(Value) -> Answer + Send + Sync>;

/// A registry of functions. A function that panics fails its attempt and nothing else.
pub struct Functions {
    by_name: HashMap<Arc<str>, Function>,
    runtime: Handle,
    running: Arc<Mutex<HashMap<Token, AbortHandle>>>,
}

impl Functions {
    pub fn new(runtime: Handle) -> Self {
        Self { by_name: HashMap::new(), runtime, running: Arc::default() }
    }

    /// The function that does `name`, from its arguments to its output.
    pub fn add<F, A>(&mut self, name: &str, function: F) -> &mut Self
    where
        F: Fn(Value) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, Failure>> + Send + 'static,
    {
        self.by_name.insert(name.into(), Arc::new(move |arguments| Box::pin(function(arguments))));
        self
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }
}

impl Executor for Functions {
    fn start(&self, task: Task, done: Done) {
        let Some(function) = self.by_name.get(&task.action).cloned() else {
            let failure = Failure::new(failure::kind::UNKNOWN_ACTION, unknown(&task.action));
            return done.finish(Err(failure), None);
        };
        let (running, token) = (Arc::clone(&self.running), task.token.clone());
        // The lock is held over the spawn, so that the entry is there before the task can take it out.
        let mut entries = self.running.lock().expect("no panic while the lock is held");
        let work = self.runtime.spawn(async move {
            let result = function(task.arguments).await;
            forget(&running, &task.token);
            done.finish(result, None);
        });
        entries.insert(token, work.abort_handle());
    }

    fn cancel(&self, token: &Token) {
        if let Some(work) = forget(&self.running, token) {
            work.abort();
        }
    }
}

fn forget(running: &Mutex<HashMap<Token, AbortHandle>>, token: &Token) -> Option<AbortHandle> {
    running.lock().expect("no panic while the lock is held").remove(token)
}

fn unknown(action: &str) -> String {
    format!("no worker of this runner serves the action '{action}'")
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.by_name.keys()).finish()
    }
}
