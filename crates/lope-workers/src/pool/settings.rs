//! What a pool may be told: how many processes of what, how many tasks at once, how long it is
//! patient.

use std::ffi::OsString;
use std::path::PathBuf;

use lope_model::Span;

use crate::environment::InheritedEnvironment;

/// Settings of one pool. `Default` has no processes of its own and takes no workers from elsewhere.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// Worker processes that the pool keeps alive.
    pub processes: usize,
    /// Tasks that one process may have at once.
    pub slots: usize,
    /// How a process is started.
    pub program: WorkerProgram,
    /// Tasks after which a process is replaced by a fresh one; absent: never.
    pub recycle_after: Option<u64>,
    /// How often a worker shows life.
    pub heartbeat: Span,
    /// Silence after which a worker counts as dead.
    pub silence: Span,
    /// How long a process may take from its start to its first word.
    pub start_limit: Span,
    /// How long a cancelled task may take to end before its process is replaced.
    pub cancel_grace: Span,
    /// How long the other tasks of such a process may take before it is killed.
    pub stuck_grace: Span,
    /// How long a task that was there at two crashes has a process for itself, and how long it
    /// waits for one.
    pub alone_for: Span,
    /// How long a task waits for a remote worker that serves its action; absent: remote workers are
    /// not taken.
    pub remote_wait: Option<Span>,
    /// First and longest pause before a process that died is replaced.
    pub backoff: (Span, Span),
}

/// How a worker process is started.
#[derive(Clone, Debug, Default)]
pub struct WorkerProgram {
    /// The interpreter, or any worker's program.
    pub path: PathBuf,
    /// Its arguments; the address, the worker's number and its slots are added.
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// What it inherits of the runner's.
    pub inherited: InheritedEnvironment,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            processes: 0,
            slots: 128,
            program: WorkerProgram::default(),
            recycle_after: None,
            heartbeat: Span::from_secs(1),
            silence: Span::from_secs(30),
            start_limit: Span::from_secs(60),
            cancel_grace: Span::from_secs(5),
            stuck_grace: Span::from_secs(30),
            alone_for: Span::from_secs(5),
            remote_wait: None,
            backoff: (Span::from_millis(100), Span::from_secs(10)),
        }
    }
}

impl WorkerProgram {
    /// Python with modules preloaded; `folders` go to the front of its path.
    pub fn python(interpreter: PathBuf, modules: &[String], folders: &[PathBuf]) -> Self {
        let mut arguments: Vec<OsString> = ["-m", "lope", "worker"].map(OsString::from).to_vec();
        for folder in folders {
            arguments.extend([OsString::from("--path"), folder.clone().into_os_string()]);
        }
        for module in modules {
            arguments.extend(["--module", module.as_str()].map(OsString::from));
        }
        Self {
            path: interpreter,
            arguments,
            environment: Vec::new(),
            inherited: InheritedEnvironment::default(),
        }
    }
}
