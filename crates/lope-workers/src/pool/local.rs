//! A process of the pool's own: started, awaited, served, and its end told.
//!
//! What it prints outside of tasks goes to the runner's standard error, and its last lines into the message about its end.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lope_model::Failure;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, oneshot};

use super::Inner;
use super::link::{self, Arrival};
use super::roster::WorkerId;

/// How long a process may take to end when its connection has ended.
const END_GRACE: Duration = Duration::from_secs(2);
/// How long what it printed may take to arrive after its end; children of its own may hold the pipe open.
const TAIL_GRACE: Duration = Duration::from_millis(200);
/// Lines of what it printed that are told when it ends.
const TAIL: usize = 12;

type Tail = Arc<Mutex<VecDeque<String>>>;

pub(super) async fn attend(
    inner: Arc<Inner>,
    worker: WorkerId,
    arrival: oneshot::Receiver<Arrival>,
    kill: Arc<Notify>,
) {
    let mut child = match inner.spawner.spawn(command(&inner, worker)).await {
        Ok(child) => child,
        Err(error) => {
            let program = inner.settings.program.path.display();
            return inner
                .broken(worker, Failure::new("WorkerBroken", format!("'{program}' cannot be started: {error}")));
        }
    };
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let tail = Tail::default();
    let printed = tokio::spawn(echo(child.stdout.take(), child.stderr.take(), Arc::clone(&tail)));
    let arrived = tokio::select! {
        arrived = arrival => arrived.ok(),
        _ = child.wait() => None,
        () = kill.notified() => None,
    };
    let Some(Arrival::Here(stream, hello)) = arrived else {
        let status = end(&mut child, group, Duration::ZERO).await;
        let _ = tokio::time::timeout(TAIL_GRACE, printed).await;
        return inner.broken(worker, unborn(arrived, status, &tail));
    };
    let how = tokio::select! {
        how = link::serve(&inner, worker, stream, hello, false) => how,
        () = kill.notified() => {
            signal(group);
            "it was killed".to_owned()
        }
    };
    let status = end(&mut child, group, END_GRACE).await;
    let _ = tokio::time::timeout(TAIL_GRACE, printed).await;
    inner.farewell(worker, format!("{how}; {}{}", described(status), last_words(&tail)));
}

fn command(inner: &Inner, worker: WorkerId) -> Command {
    let program = &inner.settings.program;
    let mut command = Command::new(&program.path);
    command.args(&program.arguments);
    command.arg("--connect").arg(inner.place.socket());
    command.arg("--worker").arg(worker.to_string());
    command.arg("--slots").arg(inner.settings.slots.to_string());
    command.envs(program.environment.iter().map(|(name, value)| (name, value)));
    command.env("PYTHONUNBUFFERED", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    command
}

/// Why a process never became a worker.
fn unborn(arrived: Option<Arrival>, status: Option<ExitStatus>, tail: &Tail) -> Failure {
    match arrived {
        Some(Arrival::Broken(failure)) => failure,
        Some(Arrival::Here(..)) | None => {
            let message =
                format!("a worker process ended before it was ready: {}{}", described(status), last_words(tail));
            Failure::new("WorkerBroken", message)
        }
    }
}

/// Wait for the end, and make it come if it does not.
async fn end(child: &mut Child, group: Option<Pid>, grace: Duration) -> Option<ExitStatus> {
    let waited = tokio::time::timeout(grace, child.wait()).await;
    // Whatever it left behind in its group goes with it.
    signal(group);
    match waited {
        Ok(status) => status.ok(),
        Err(_) => child.wait().await.ok(),
    }
}

fn signal(group: Option<Pid>) {
    if let Some(group) = group {
        // It may have ended already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn described(status: Option<ExitStatus>) -> String {
    match status {
        None => "its end is unknown".to_owned(),
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("its process ended with status {code}"),
            (None, Some(signal)) => format!("its process was killed by signal {signal}"),
            (None, None) => "its process ended".to_owned(),
        },
    }
}

fn last_words(tail: &Tail) -> String {
    let tail = tail.lock().expect("no panic while the lock is held");
    let lines: Vec<String> = tail.iter().map(|line| format!("\n  {line}")).collect();
    lines.concat()
}

async fn echo(out: Option<impl AsyncRead + Unpin>, err: Option<impl AsyncRead + Unpin>, tail: Tail) {
    let both = (copy(out, &tail), copy(err, &tail));
    tokio::join!(both.0, both.1);
}

async fn copy(pipe: Option<impl AsyncRead + Unpin>, tail: &Tail) {
    let Some(pipe) = pipe else { return };
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while let Ok(1..) = reader.read_until(b'\n', &mut line).await {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        // A runner without a standard error works on.
        let _ = writeln!(io::stderr(), "{text}");
        let mut tail = tail.lock().expect("no panic while the lock is held");
        if tail.len() == TAIL {
            tail.pop_front();
        }
        tail.push_back(text);
    }
}
