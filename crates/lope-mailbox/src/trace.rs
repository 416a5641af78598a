//! The hook that sees every attempt with its frame and its result: enough to write a trace and to
//! replay it.

use std::fmt;

use lope_model::Timestamp;

use crate::key::{MessagePosition, WorkerId};

/// One attempt at one message, when its result is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptTrace<'a> {
    pub at: Timestamp,
    pub worker: WorkerId,
    /// Where the message stood; none for a frame that was handed in.
    pub position: Option<MessagePosition>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    pub frame: &'a [u8],
    pub result: AttemptResult<'a>,
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptResult<'a> {
    /// Handled and committed.
    Success,
    /// Acknowledged without the handler.
    Duplicate,
    /// Handled, but what was read had changed by the commit; it is tried again.
    Conflict,
    /// Put back for another attempt.
    Requeued { reason: &'a str },
    /// Given up.
    Dead { reason: &'a str },
    /// The lease was lost while it was in hand; somebody else has it.
    Lost,
}

/// Sees attempts. It is called on the worker's thread: what it does, the worker waits for.
pub trait Observer: Send + Sync {
    fn attempted(&self, attempt: &AttemptTrace<'_>);
}

impl<F: Fn(&AttemptTrace<'_>) + Send + Sync> Observer for F {
    fn attempted(&self, attempt: &AttemptTrace<'_>) {
        self(attempt);
    }
}

impl AttemptResult<'_> {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::Requeued { .. } => "requeued",
            Self::Dead { .. } => "dead",
            Self::Lost => "lost",
        }
    }

    pub const fn reason(&self) -> Option<&str> {
        match self {
            Self::Requeued { reason } | Self::Dead { reason } => Some(reason),
            Self::Success | Self::Duplicate | Self::Conflict | Self::Lost => None,
        }
    }
}

/// A line of a trace: time, worker, position, attempt, result, frame in hexadecimal, separated by
/// tabs.
impl fmt::Display for AttemptTrace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}\t", self.at.millis(), self.worker)?;
        match self.position {
            None => f.write_str("-")?,
            Some(MessagePosition::Inbox(seq)) => write!(f, "inbox:{seq}")?,
            Some(MessagePosition::Timer(key)) => {
                write!(f, "timer:{}:{}", key.due().millis(), key.seq)?;
            }
        }
        write!(f, "\t{}\t{}\t", self.attempt, self.result.name())?;
        self.frame
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The frame and the result's name of a trace line; none if it is not one.
pub fn read_line(line: &str) -> Option<(Vec<u8>, &str)> {
    let mut fields = line.trim_end().split('\t').skip(4);
    let (result, hex) = (fields.next()?, fields.next()?);
    if !hex.is_ascii() || hex.len() % 2 != 0 {
        return None;
    }
    let frame = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok());
    Some((frame.collect::<Option<Vec<u8>>>()?, result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_line_reads_back() {
        let attempt = AttemptTrace {
            at: Timestamp::from_millis(5),
            worker: WorkerId::new(7).unwrap(),
            position: Some(MessagePosition::Inbox(3)),
            attempt: 2,
            frame: &[0xde, 0x0f],
            result: AttemptResult::Requeued { reason: "busy" },
        };
        let line = attempt.to_string();
        assert_eq!(line, "5\t7\tinbox:3\t2\trequeued\tde0f");
        assert_eq!(read_line(&line), Some((vec![0xde, 0x0f], "requeued")));
        assert_eq!(
            (read_line("nothing"), read_line("1\t2\t3\t4\tx\tzz")),
            (None, None)
        );
    }
}
