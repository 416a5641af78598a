//! Executors that say when an attempt begins; how it ended is told by the engine, when it counts.

use std::sync::Arc;

use lope_engine::Executors;
use lope_engine::executor::{Done, Executor, Task, Token};
use lope_model::Value;

use super::tower::Tower;

struct Seen {
    inner: Arc<dyn Executor>,
    tower: Arc<Tower>,
}

pub(crate) fn observed(executors: Executors, tower: &Arc<Tower>) -> Executors {
    let seen = executors.into_iter().map(|(kind, inner)| {
        let seen: Arc<dyn Executor> = Arc::new(Seen { inner, tower: Arc::clone(tower) });
        (kind, seen)
    });
    seen.collect()
}

impl Executor for Seen {
    fn start(&self, task: Task, done: Done) {
        self.tower.attempt_began(&task);
        self.inner.start(task, done);
    }

    fn start_all(&self, tasks: Vec<(Task, Done)>) {
        tasks.iter().for_each(|(task, _)| self.tower.attempt_began(task));
        self.inner.start_all(tasks);
    }

    fn cancel(&self, token: &Token) {
        self.inner.cancel(token);
    }

    fn refuses(&self, arguments: &Value) -> Option<String> {
        self.inner.refuses(arguments)
    }
}
