//! A program of a peer that is up, and what is said between it and us: `ready`, `go`, the times it
//! took, `done`. Its output is read by a thread of its own, so that one that hangs is noticed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::install::PeerProgram;
use crate::sweeper::Sweeper;

/// How long a program may say nothing.
const PATIENCE: Duration = Duration::from_mins(10);

pub(super) struct Conversation<'sweeper> {
    sweeper: &'sweeper Sweeper,
    child: Child,
    lines: Receiver<String>,
}

impl<'sweeper> Conversation<'sweeper> {
    pub(super) fn begin(
        sweeper: &'sweeper Sweeper,
        program: &PeerProgram,
        words: [&str; 2],
        url: &str,
        folder: &Path,
    ) -> Result<Self> {
        let (first, rest) = program.words.split_first().context("no program")?;
        let mut command = Command::new(first);
        command
            .args(rest)
            .args(words)
            .envs(program.variables.iter().map(|(name, path)| (*name, path)))
            .env("PEER_URL", url)
            .env("PEER_FOLDER", folder)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = sweeper.spawn_with_input(&mut command)?;
        let output = child.stdout.take().context("it has no output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            sweeper,
            child,
            lines,
        })
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line; the times that come before it, and when it came.
    pub(super) fn await_line(&self, wanted: &str) -> Result<(Vec<f64>, Instant)> {
        let mut times = Vec::new();
        loop {
            let line = match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => bail!("it ended before it was {wanted}"),
                Err(RecvTimeoutError::Timeout) => bail!("it hangs and is not {wanted}"),
            };
            if line == wanted {
                return Ok((times, Instant::now()));
            }
            if let Some(time) = line.strip_prefix("time ") {
                times.push(
                    time.parse()
                        .with_context(|| format!("'{line}' is no time"))?,
                );
            }
        }
    }

    pub(super) fn go(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("it has no input")?;
        input.write_all(b"go\n").context("it does not listen")
    }

    /// Kills it with all that it started.
    pub(super) fn kill(mut self) -> Result<()> {
        self.sweeper.kill(&mut self.child)
    }
}
