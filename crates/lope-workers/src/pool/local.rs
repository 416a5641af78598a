//! A process of the pool's own: started, awaited, served, and its end told.
//!
//! What it prints outside of tasks goes to the runner's standard error, and its last lines into the
//! message about its end.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lope_model::Failure;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::{Notify, oneshot};

use super::PoolInner;
use super::link::{self, WorkerArrival};
use super::roster::PoolWorkerId;
use crate::process_tree::{ProcessTree, TreeCommand};

/// How long a process may take to end when its connection has ended.
const END_GRACE: Duration = Duration::from_secs(2);
/// How long what it printed may take to arrive after its end; children of its own may hold the pipe
/// open.
const TAIL_GRACE: Duration = Duration::from_millis(200);
/// The variable by which a worker tells apart what its actions start, and room for its value: a
/// process that is forked and runs no other program can change its environment in place alone.
const ATTEMPT_VARIABLE: &str = "LOPE_PROCESS_TREE_ATTEMPT";
const ATTEMPT_ROOM: &str = "--------------------------------";
/// Lines of what it printed that are told when it ends.
const TAIL: usize = 12;

type Tail = Arc<Mutex<VecDeque<String>>>;

pub(super) async fn attend(
    inner: Arc<PoolInner>,
    worker: PoolWorkerId,
    arrival: oneshot::Receiver<WorkerArrival>,
    kill: Arc<Notify>,
) {
    let mut tree = match inner
        .trees
        .start_worker(worker.0, command(&inner, worker))
        .await
    {
        Ok(tree) => tree,
        Err(error) => {
            let program = inner.settings.program.path.display();
            return inner.broken(
                worker,
                Failure::new(
                    "WorkerBroken",
                    format!("'{program}' cannot be started: {error}"),
                ),
            );
        }
    };
    let tail = Tail::default();
    let printed = tokio::spawn(echo(
        Arc::clone(&inner),
        tree.stdout.take(),
        tree.stderr.take(),
        Arc::clone(&tail),
    ));
    let arrived = tokio::select! {
        arrived = arrival => arrived.ok(),
        _ = tree.wait() => None,
        () = kill.notified() => None,
    };
    let Some(WorkerArrival::Here(stream, hello)) = arrived else {
        let status = end(&mut tree, Duration::ZERO).await;
        let _ = tokio::time::timeout(TAIL_GRACE, printed).await;
        return inner.broken(worker, unborn(arrived, status, &tail));
    };
    let (how, grace) = tokio::select! {
        how = link::serve(&inner, worker, stream, hello, false) => (how, END_GRACE),
        () = kill.notified() => ("it was killed".to_owned(), Duration::ZERO),
    };
    let status = end(&mut tree, grace).await;
    let _ = tokio::time::timeout(TAIL_GRACE, printed).await;
    inner.farewell(
        worker,
        format!("{how}; {}{}", described(status), last_words(&tail)),
    );
}

fn command(inner: &PoolInner, worker: PoolWorkerId) -> TreeCommand {
    let program = &inner.settings.program;
    let mut arguments = program.arguments.clone();
    let socket = inner.socket_folder.socket().into_os_string();
    arguments.extend(["--connect".into(), socket]);
    arguments.extend(["--worker".into(), worker.to_string().into()]);
    arguments.extend(["--slots".into(), inner.settings.slots.to_string().into()]);
    // Python orders sets of text by their hashes; a run that moves finds the same order.
    let mut environment = vec![("PYTHONHASHSEED".into(), "0".into())];
    environment.extend(program.inherited.for_workers());
    environment.extend(program.environment.iter().cloned());
    environment.push(("PYTHONUNBUFFERED".into(), "1".into()));
    environment.push((ATTEMPT_VARIABLE.into(), ATTEMPT_ROOM.into()));
    TreeCommand {
        program: program.path.clone().into_os_string(),
        arguments,
        environment,
        folder: None,
        input: None,
    }
}

/// Why a process never became a worker.
fn unborn(arrived: Option<WorkerArrival>, status: Option<ExitStatus>, tail: &Tail) -> Failure {
    match arrived {
        Some(WorkerArrival::Broken(failure)) => failure,
        Some(WorkerArrival::Here(..)) | None => {
            let message = format!(
                "a worker process ended before it was ready: {}{}",
                described(status),
                last_words(tail)
            );
            Failure::new("WorkerBroken", message)
        }
    }
}

/// Wait for the end, and make it come if it does not.
async fn end(tree: &mut ProcessTree, grace: Duration) -> Option<ExitStatus> {
    match tokio::time::timeout(grace, tree.wait()).await {
        Ok(status) => status.ok(),
        Err(_) => tree.stop(Duration::ZERO).await.ok(),
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

async fn echo(
    inner: Arc<PoolInner>,
    out: Option<impl AsyncRead + Unpin>,
    err: Option<impl AsyncRead + Unpin>,
    tail: Tail,
) {
    let both = (copy(&inner, out, &tail), copy(&inner, err, &tail));
    tokio::join!(both.0, both.1);
}

async fn copy(inner: &PoolInner, pipe: Option<impl AsyncRead + Unpin>, tail: &Tail) {
    let Some(pipe) = pipe else { return };
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while let Ok(1..) = reader.read_until(b'\n', &mut line).await {
        let text = inner.masked(String::from_utf8_lossy(&line).trim_end());
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
