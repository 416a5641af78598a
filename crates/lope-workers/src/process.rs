//! Processes, as the executor of `run` steps: argv or a shell line, in a group of its own, logged while it runs.
//!
//! Standard output is the result, as JSON if it is JSON. A non-zero exit is a failure `ExitStatus`. On cancel or timeout the
//! group gets TERM, a moment to end, then KILL; if the runner itself dies, the kernel ends the process.

mod order;
pub(crate) mod spawner;

use std::collections::HashMap;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lope_engine::executor::{Done, Executor, Task, Token};
use lope_model::{Failure, Timestamp, Value, failure, limit, value};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use self::order::Order;
use self::spawner::Spawner;
use crate::logs::{Log, Logs, Stream};

/// How long a process that was told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// How many of the last lines of stderr a failure shows.
const TAIL: usize = 20;
/// Longest line of output that is kept whole in the log.
const LINE_MAX: usize = 64 * 1024;
/// Lines that are read before others have their turn.
const TURN: u32 = 256;

/// Starts processes.
#[derive(Debug)]
pub struct Processes {
    runtime: Handle,
    logs: Logs,
    spawner: Spawner,
    running: Arc<Mutex<HashMap<Token, Arc<Notify>>>>,
}

impl Processes {
    pub fn new(runtime: Handle, logs: Logs) -> Self {
        let spawner = Spawner::begin(runtime.clone());
        Self { runtime, logs, spawner, running: Arc::default() }
    }
}

impl Executor for Processes {
    fn start(&self, task: Task, done: Done) {
        let stop = Arc::new(Notify::new());
        self.lock().insert(task.token.clone(), Arc::clone(&stop));
        let (logs, spawner, running) = (self.logs.clone(), self.spawner.clone(), Arc::clone(&self.running));
        self.runtime.spawn(async move {
            let token = task.token.clone();
            let result = run(task, &logs, &spawner, &stop, &done).await;
            running.lock().expect("no panic while the lock is held").remove(&token);
            done.finish(result, None);
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
        self.running.lock().expect("no panic while the lock is held")
    }
}

async fn run(task: Task, logs: &Logs, spawner: &Spawner, stop: &Notify, done: &Done) -> Result<Value, Failure> {
    let order = Order::read(&task.arguments)?;
    let mut command = order.command(&task);
    let input = order.input().map_err(|error| order.not_started(&error))?;
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawner.spawn(command).await.map_err(|error| order.not_started(&error))?;
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let log = logs.begin(&task.token);
    done.logged(log.name());
    let log = Mutex::new(log);
    let work = attend(&mut child, &log, done);
    let ended = tokio::select! {
        ended = work => ended,
        () = stop.notified() => None,
    };
    let Some((status, out, err)) = ended else {
        end_group(&mut child, pid).await;
        return Err(Failure::new(failure::kind::CANCELLED, "the process was stopped"));
    };
    // Whatever the process left behind in its group goes with it.
    signal(pid, Signal::KILL);
    let status =
        status.map_err(|error| Failure::new("IOError", format!("the process cannot be waited for: {error}")))?;
    answer(status, out, &err)
}

type Ended = (io::Result<ExitStatus>, Result<Vec<u8>, Failure>, Vec<String>);

/// Read what the process says, wait for its end.
async fn attend(child: &mut Child, log: &Mutex<Log>, done: &Done) -> Option<Ended> {
    let (stdout, stderr) = (child.stdout.take()?, child.stderr.take()?);
    let (mut out, mut size, mut tail) = (Vec::new(), 0_usize, Vec::new());
    let alive = || done.alive();
    let read_out = each_line(stdout, alive, |line| {
        write(log, done, Stream::Out, line);
        size += line.len();
        if size <= limit::PAYLOAD_MAX {
            out.extend_from_slice(line);
        }
    });
    let read_err = each_line(stderr, alive, |line| {
        write(log, done, Stream::Err, line);
        if tail.len() == TAIL {
            tail.remove(0);
        }
        tail.push(String::from_utf8_lossy(line).trim_end().to_owned());
    });
    let (status, (), ()) = tokio::join!(child.wait(), read_out, read_err);
    let out = if size > limit::PAYLOAD_MAX {
        let message = format!("its output has {size} bytes, more than {} are allowed", limit::PAYLOAD_MAX);
        Err(Failure::new(failure::kind::LIMIT, message))
    } else {
        Ok(out)
    };
    Some((status, out, tail))
}

/// Hands over each line with its end; one that is too long comes in pieces. `alive` hears that something was said. Others have their
/// turn in between: a process that says much quickly must not keep its runner from renewing its session.
async fn each_line(pipe: impl AsyncRead + Unpin, alive: impl Fn(), mut take: impl FnMut(&[u8])) {
    let mut reader = BufReader::with_capacity(LINE_MAX, pipe);
    let (mut line, mut lines) = (Vec::new(), 0);
    loop {
        let buffer = match reader.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(buffer) => buffer,
        };
        let end = buffer.iter().position(|byte| *byte == b'\n').map_or(buffer.len(), |at| at + 1);
        line.extend_from_slice(&buffer[..end]);
        reader.consume(end);
        if line.ends_with(b"\n") || line.len() >= LINE_MAX {
            take(&line);
            line.clear();
            lines += 1;
        }
        if lines >= TURN || reader.buffer().is_empty() {
            alive();
            lines = 0;
            tokio::task::yield_now().await;
        }
    }
    if !line.is_empty() {
        take(&line);
    }
}

fn write(log: &Mutex<Log>, done: &Done, stream: Stream, line: &[u8]) {
    let mut text = String::from_utf8_lossy(line);
    if !done.masks().is_empty() {
        text = done.masks().hide(&text).into();
    }
    log.lock().expect("no panic while the lock is held").line(now(), stream, text.trim_end_matches('\n'));
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// TERM, a moment, KILL, for the whole group.
async fn end_group(child: &mut Child, pid: Option<Pid>) {
    signal(pid, Signal::TERM);
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        signal(pid, Signal::KILL);
        let _ = child.wait().await;
    }
    signal(pid, Signal::KILL);
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // A group that is gone is what we want.
        let _ = kill_process_group(group, signal);
    }
}

fn answer(status: ExitStatus, out: Result<Vec<u8>, Failure>, err: &[String]) -> Result<Value, Failure> {
    if !status.success() {
        let last = err.iter().rev().find(|line| !line.is_empty());
        let message = last.map_or_else(|| status.to_string(), |line| format!("{status}: {line}"));
        let mut failure = Failure::new(failure::kind::EXIT_STATUS, message);
        failure.detail = Value::map([
            ("code", status.code().map_or(Value::Null, |code| Value::Int(i64::from(code)))),
            ("stderr", Value::from(err.join("\n"))),
        ]);
        return Err(failure);
    }
    let text = String::from_utf8(out?).map_err(|error| Value::bytes(error.into_bytes()));
    Ok(match text {
        Ok(text) => value::from_json(&text).unwrap_or_else(|_| Value::from(text.strip_suffix('\n').unwrap_or(&text))),
        Err(bytes) => bytes,
    })
}

#[cfg(test)]
mod tests;
