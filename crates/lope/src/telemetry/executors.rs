//! Executors that say when an attempt begins; how it ended is told by the engine, when it counts.

use std::sync::Arc;

use lope_engine::Executors;
use lope_engine::executor::{Done, Executor, Task, Token};
use lope_model::Value;

use super::recorder::Telemetry;

struct ObservedExecutor {
    inner: Arc<dyn Executor>,
    telemetry: Arc<Telemetry>,
}

pub(crate) fn observed(executors: Executors, telemetry: &Arc<Telemetry>) -> Executors {
    let seen = executors.into_iter().map(|(kind, inner)| {
        let seen: Arc<dyn Executor> = Arc::new(ObservedExecutor {
            inner,
            telemetry: Arc::clone(telemetry),
        });
        (kind, seen)
    });
    seen.collect()
}

impl Executor for ObservedExecutor {
    fn start(&self, mut task: Task, done: Done) {
        self.telemetry.attempt_began(&mut task);
        self.inner.start(task, done);
    }

    fn start_all(&self, mut tasks: Vec<(Task, Done)>) {
        tasks
            .iter_mut()
            .for_each(|(task, _)| self.telemetry.attempt_began(task));
        self.inner.start_all(tasks);
    }

    fn cancel(&self, token: &Token) {
        self.inner.cancel(token);
    }

    fn withdraw(&self) {
        self.inner.withdraw();
    }

    fn returns_at_once(&self) -> bool {
        self.inner.returns_at_once()
    }

    fn refuses(&self, arguments: &Value) -> Option<String> {
        self.inner.refuses(arguments)
    }
}
