//! Processes, as the executor of `run` steps: argv or a shell line, as a tree of its own, logged
//! while it runs.
//!
//! Standard output is the result, as JSON if it is JSON. A non-zero exit is a failure `ExitStatus`.
//! On cancel or timeout the tree is told to end and, after a moment, killed; its answer comes when
//! nothing of it is left. What the first process leaves behind ends with it.

mod spec;

use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lope_engine::executor::{Done, Executor, StartRight, Task, Token};
use lope_model::{Failure, Value, failure, limit, value};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use self::spec::ProcessSpec;
use crate::clock::wall;
use crate::environment::InheritedEnvironment;
use crate::lines::{each_line, read_until};
use crate::logs::{Logs, MaskedLog, Stream};
use crate::process_tree::{ProcessTree, ProcessTrees, is_subreaper_lost, is_too_late};

/// How long a process that was told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// Until it is asked again whether an attempt may begin whose lease was over.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// How many of the last lines of stderr a failure shows.
const TAIL: usize = 20;
/// How many of them its message shows.
const MESSAGE_LINES: usize = 5;
/// Most bytes of them: a line may be as long as it likes.
const MESSAGE_BYTES: usize = 2_000;
/// Most bytes of what a process complained about that its failure carries; the log has all of it.
const DETAIL_BYTES: usize = 16_000;

/// Starts processes.
#[derive(Debug)]
pub struct Processes {
    runtime: Handle,
    logs: Logs,
    trees: ProcessTrees,
    environment: Arc<InheritedEnvironment>,
    running: Arc<Mutex<HashMap<Token, Arc<Notify>>>>,
}

impl Processes {
    pub fn new(runtime: Handle, logs: Logs) -> Self {
        let trees = ProcessTrees::begin(&runtime);
        Self {
            runtime,
            logs,
            trees,
            environment: Arc::default(),
            running: Arc::default(),
        }
    }

    /// What processes inherit, besides what their step names.
    #[must_use]
    pub fn inheriting(mut self, environment: InheritedEnvironment) -> Self {
        self.environment = Arc::new(environment);
        self
    }
}

impl Executor for Processes {
    fn returns_at_once(&self) -> bool {
        true
    }

    fn start(&self, task: Task, done: Done) {
        let stop = Arc::new(Notify::new());
        self.lock().insert(task.token.clone(), Arc::clone(&stop));
        let work = ProcessWork {
            logs: self.logs.clone(),
            trees: self.trees.clone(),
            environment: Arc::clone(&self.environment),
            stop,
        };
        let running = Arc::clone(&self.running);
        self.runtime.spawn(async move {
            let result = work.run(&task, &done).await;
            running
                .lock()
                .expect("no panic while the lock is held")
                .remove(&task.token);
            match result {
                Some(result) => done.finish(result, None),
                None => done.give_back(),
            }
        });
    }

    fn cancel(&self, token: &Token) {
        if let Some(stop) = self.lock().get(token) {
            stop.notify_one();
        }
    }
}

impl Processes {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Token, Arc<Notify>>> {
        self.running
            .lock()
            .expect("no panic while the lock is held")
    }
}

/// What one attempt works with.
struct ProcessWork {
    logs: Logs,
    trees: ProcessTrees,
    environment: Arc<InheritedEnvironment>,
    stop: Arc<Notify>,
}

impl ProcessWork {
    /// Nothing if it may not begin here any more.
    async fn run(&self, task: &Task, done: &Done) -> Option<Result<Value, Failure>> {
        let spec = match ProcessSpec::read(&task.arguments) {
            Ok(spec) => spec,
            Err(failure) => return Some(Err(failure)),
        };
        let is_stopped = AtomicBool::new(false);
        let right = || {
            if is_stopped.load(Ordering::Relaxed) {
                StartRight::Over
            } else {
                done.start_right()
            }
        };
        let mut starting = pin!(self.start(task, &spec, right));
        let started = tokio::select! {
            started = &mut starting => started,
            () = self.stop.notified() => {
                is_stopped.store(true, Ordering::Relaxed);
                // What has begun meanwhile is ended with all that it started.
                if let Ok(mut tree) = starting.await {
                    stop(&mut tree, &task.token).await;
                }
                return Some(Err(stopped()));
            }
        };
        match started {
            Ok(tree) => Some(self.attend(tree, task, done).await),
            Err(error) if is_too_late(&error) => None,
            Err(error) => Some(Err(
                subreaper_lost(&error).unwrap_or_else(|| spec.not_started(&error))
            )),
        }
    }

    /// Start it as soon as it may begin: a lease that could not be renewed for a while may be held
    /// again a moment later.
    async fn start(
        &self,
        task: &Task,
        spec: &ProcessSpec,
        right: impl Fn() -> StartRight,
    ) -> io::Result<ProcessTree> {
        loop {
            let command = spec.command(task, self.environment.for_processes());
            let started = self.trees.start_attempt(&task.token, command, &right).await;
            match started {
                Err(error) if is_too_late(&error) && right() != StartRight::Over => {
                    tokio::time::sleep(ASK_AGAIN).await;
                }
                started => return started,
            }
        }
    }

    async fn attend(
        &self,
        mut tree: ProcessTree,
        task: &Task,
        done: &Done,
    ) -> Result<Value, Failure> {
        let log = self.logs.begin_masked(&task.token, done.masks());
        done.logged(log.name());
        let ended = self.until_ended(&mut tree, log, task, done).await;
        let status = ended.status.ok_or_else(stopped)?.map_err(|error| {
            let unknown = || format!("the process cannot be waited for: {error}");
            subreaper_lost(&error).unwrap_or_else(|| Failure::new("IOError", unknown()))
        })?;
        answer(status, ended.out, &ended.err)
    }

    /// Read what the process says, wait for its end. What it says after it was told to end is read too.
    async fn until_ended(
        &self,
        tree: &mut ProcessTree,
        log: MaskedLog,
        task: &Task,
        done: &Done,
    ) -> ProcessEnd {
        let stdout = tree.stdout.take().expect("its output is piped");
        let stderr = tree.stderr.take().expect("its output is piped");
        let log = Mutex::new(log);
        let mut out = Output::default();
        let mut tail = Vec::new();
        let alive = || done.alive();
        let read_out = each_line(stdout, alive, |line| {
            write(&log, Stream::Out, line);
            out.push(line);
        });
        let read_err = each_line(stderr, alive, |line| {
            tail.extend(write(&log, Stream::Err, line));
            tail.drain(..tail.len().saturating_sub(TAIL));
        });
        let reading = async { tokio::join!(read_out, read_err) };
        let status = read_until(self.told_or_ended(tree, &task.token), reading).await;
        let mut log = log.into_inner().expect("no panic while the lock is held");
        tail.extend(log.finish(wall()).err);
        ProcessEnd {
            status,
            out: out.end(),
            err: tail,
        }
    }

    /// How it ended by itself, if it was not told to.
    async fn told_or_ended(
        &self,
        tree: &mut ProcessTree,
        token: &Token,
    ) -> Option<io::Result<ExitStatus>> {
        tokio::select! {
            status = tree.wait() => return Some(status),
            () = self.stop.notified() => {}
        }
        stop(tree, token).await;
        None
    }
}

/// The standard output of a process, as much of it as may be a result.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    size: usize,
}

impl Output {
    fn push(&mut self, line: &[u8]) {
        self.size += line.len();
        if self.size <= limit::PAYLOAD_MAX {
            self.bytes.extend_from_slice(line);
        }
    }

    fn end(self) -> Result<Vec<u8>, Failure> {
        let Self { bytes, size } = self;
        if size <= limit::PAYLOAD_MAX {
            return Ok(bytes);
        }
        let most = limit::PAYLOAD_MAX;
        let message = format!("its output has {size} bytes, more than {most} are allowed");
        Err(Failure::new(failure::kind::LIMIT, message))
    }
}

/// Somebody killed what stood above the process: how it would have ended is not known, as when a
/// worker dies.
fn subreaper_lost(error: &io::Error) -> Option<Failure> {
    is_subreaper_lost(error).then(|| Failure::new(failure::kind::WORKER_LOST, error.to_string()))
}

async fn stop(tree: &mut ProcessTree, token: &Token) {
    if let Err(error) = tree.stop(GRACE).await {
        let (run, execution, attempt) = (&token.run, &token.execution, token.attempt);
        tracing::warn!(%run, %execution, attempt, %error, "a process was stopped, and how it ended is not known");
    }
}

fn stopped() -> Failure {
    Failure::new(failure::kind::CANCELLED, "the process was stopped")
}

/// How a process ended, and what it said.
struct ProcessEnd {
    /// Nothing if it was told to end.
    status: Option<io::Result<ExitStatus>>,
    out: Result<Vec<u8>, Failure>,
    /// The last lines of its standard error.
    err: Vec<String>,
}

/// Into the log; what stands there now.
fn write(log: &Mutex<MaskedLog>, stream: Stream, line: &[u8]) -> Vec<String> {
    log.lock()
        .expect("no panic while the lock is held")
        .push(wall(), stream, line)
}

fn answer(
    status: ExitStatus,
    out: Result<Vec<u8>, Failure>,
    err: &[String],
) -> Result<Value, Failure> {
    if !status.success() {
        let message = match last_lines(err) {
            None => status.to_string(),
            Some(lines) => format!("{status}: {lines}"),
        };
        let mut failure = Failure::new(failure::kind::EXIT_STATUS, message);
        failure.detail = Value::map([
            (
                "code",
                status
                    .code()
                    .map_or(Value::Null, |code| Value::Int(i64::from(code))),
            ),
            ("stderr", Value::from(ending(&err.join("\n"), DETAIL_BYTES))),
        ]);
        return Err(failure);
    }
    let text = String::from_utf8(out?).map_err(|error| Value::bytes(error.into_bytes()));
    Ok(match text {
        Ok(text) => value::from_json(&text)
            .unwrap_or_else(|_| Value::from(text.strip_suffix('\n').unwrap_or(&text))),
        Err(bytes) => bytes,
    })
}

/// The last lines that say something.
fn last_lines(err: &[String]) -> Option<String> {
    let said = err.iter().filter(|line| !line.is_empty());
    let mut lines: Vec<&str> = said.rev().take(MESSAGE_LINES).map(String::as_str).collect();
    lines.reverse();
    (!lines.is_empty()).then(|| ending(&lines.join("\n"), MESSAGE_BYTES))
}

/// The end of a text, with a mark where something is missing.
fn ending(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut from = text.len() - most;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    format!("…{}", &text[from..])
}

#[cfg(test)]
mod tests;
