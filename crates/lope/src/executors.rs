//! The executors that every runner brings: processes, scripts, HTTP. Functions are added by whoever has some.

use std::path::PathBuf;
use std::sync::Arc;

use lope_engine::Executors;
use lope_engine::executor::Executor;
use lope_flow::definition::executor;
use lope_workers::{Functions, Logs, Processes, Requests, Scripts};
use tokio::runtime::Handle;

/// Processes, scripts and HTTP, and `functions` for actions; logs go under `logs`.
pub fn standard(
    runtime: &Handle,
    logs: PathBuf,
    functions: Functions,
) -> Result<Executors, lope_workers::http::NoClient> {
    let requests = Requests::new(runtime.clone())?;
    let all: [(&str, Arc<dyn Executor>); 4] = [
        (executor::ACTION, Arc::new(functions)),
        (executor::RUN, Arc::new(Processes::new(runtime.clone(), Logs::at(logs)))),
        (executor::JS, Arc::new(Scripts::new(runtime.clone()))),
        (executor::HTTP, Arc::new(requests)),
    ];
    Ok(all.into_iter().map(|(name, executor)| (Arc::from(name), executor)).collect())
}
