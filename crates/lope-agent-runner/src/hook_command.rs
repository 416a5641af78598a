//! A hook that is a command: a tree of processes like an agent's. Nothing of it is left when it has
//! ended, when it took too long, or when whoever tells it dies.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use lope_engine::executor::StartRight;
use lope_model::Span;
use lope_workers::lines::read_until;
use lope_workers::process_tree::{ProcessTree, ProcessTrees, TreeCommand, TreeWork};
use tokio::io::{AsyncRead, AsyncReadExt, copy, sink};
use tokio::time::{Instant, timeout_at};

/// How long a command may take to end when it is told to.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Most of what it complains of that is told.
const WORDS_MAX: u64 = 4_096;

/// Tell a command, and wait until nothing of it is left; in words, why it has not heard.
pub(crate) async fn tell(
    trees: &ProcessTrees,
    work: &TreeWork,
    command: TreeCommand,
    timeout: Span,
) -> Result<(), String> {
    let end = Instant::now() + timeout.to_duration();
    let late = || format!("not within {timeout}");
    let starting = trees.start_work(work, command, || StartRight::Always);
    let started = timeout_at(end, starting).await.map_err(|_| late())?;
    let mut tree = started.map_err(|error| error.to_string())?;
    let mut words = Vec::new();
    let reading = read(tree.stdout.take(), tree.stderr.take(), &mut words);
    let status = read_until(ended(&mut tree, end), reading).await;
    let status = status.ok_or_else(late)?;
    let status = status.map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(());
    }
    Err(match String::from_utf8_lossy(&words).trim() {
        "" => status.to_string(),
        words => format!("{status}: {words}"),
    })
}

/// Nothing if its time was up.
async fn ended(tree: &mut ProcessTree, end: Instant) -> Option<io::Result<ExitStatus>> {
    let ended = timeout_at(end, tree.wait()).await;
    if ended.is_err()
        && let Err(error) = tree.stop(STOP_GRACE).await
    {
        tracing::warn!(%error, "a hook was stopped, and how it ended is not known");
    }
    ended.ok()
}

/// What it says goes nowhere but for the beginning of its complaints; it is read to its end, so that
/// nobody waits who says much.
async fn read(
    stdout: Option<impl AsyncRead + Unpin>,
    stderr: Option<impl AsyncRead + Unpin>,
    words: &mut Vec<u8>,
) {
    let out = async {
        if let Some(mut pipe) = stdout {
            // What cannot be read is not told.
            let _ = copy(&mut pipe, &mut sink()).await;
        }
    };
    let err = async {
        if let Some(mut pipe) = stderr {
            let _ = (&mut pipe).take(WORDS_MAX).read_to_end(words).await;
            let _ = copy(&mut pipe, &mut sink()).await;
        }
    };
    tokio::join!(out, err);
}
