//! What `lope mailbox work` says and keeps of every attempt: a word to people when one fails, a
//! line in the trace always.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use lope::mailbox::frame::Message;
use lope::mailbox::trace::{AttemptResult, AttemptTrace, Observer};

use crate::error::{CliError, CliResult};
use crate::output::{Output, complain, remark};

/// Sees every attempt of all workers of this process.
#[derive(Debug)]
pub(super) struct Watcher {
    output: Output,
    trace: Option<TraceFile>,
}

/// A file that gets a line an attempt.
#[derive(Debug)]
struct TraceFile {
    path: PathBuf,
    file: Mutex<File>,
    broken: AtomicBool,
}

impl Watcher {
    pub(super) fn new(output: Output, trace: Option<&Path>) -> CliResult<Self> {
        let trace = trace.map(|path| -> CliResult<TraceFile> {
            let file = File::options().create(true).append(true).open(path);
            let file =
                file.map_err(|error| CliError::usage(format!("{}: {error}", path.display())))?;
            Ok(TraceFile {
                path: path.to_owned(),
                file: Mutex::new(file),
                broken: AtomicBool::new(false),
            })
        });
        Ok(Self {
            output,
            trace: trace.transpose()?,
        })
    }
}

impl Observer for Watcher {
    fn attempted(&self, attempt: &AttemptTrace<'_>) {
        if let Some(trace) = &self.trace {
            trace.write(attempt);
        }
        let id = || {
            Message::decode(attempt.frame)
                .map_or("?".into(), |message| String::from_utf8_lossy(message.id))
        };
        match attempt.result {
            AttemptResult::Requeued { reason } => {
                remark(
                    self.output,
                    &format!("  ↻ {}: attempt {}: {reason}", id(), attempt.attempt),
                );
            }
            AttemptResult::Dead { reason } => {
                remark(
                    self.output,
                    &format!(
                        "  ✗ {}: dead letter after attempt {}: {reason}",
                        id(),
                        attempt.attempt
                    ),
                );
            }
            AttemptResult::Lost => remark(
                self.output,
                &format!("  ↷ {}: somebody else has it now", id()),
            ),
            AttemptResult::Success | AttemptResult::Duplicate | AttemptResult::Conflict => {}
        }
    }
}

impl TraceFile {
    /// The work goes on without a trace that cannot be written; that is said once.
    fn write(&self, attempt: &AttemptTrace<'_>) {
        let line = format!("{attempt}\n");
        let Ok(mut file) = self.file.lock() else {
            return;
        };
        if let Err(error) = file.write_all(line.as_bytes())
            && !self.broken.swap(true, Ordering::Relaxed)
        {
            complain(&format!(
                "{}: {error}; the trace has a gap",
                self.path.display()
            ));
        }
    }
}
