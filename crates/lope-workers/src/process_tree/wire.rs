//! What is said between a runner and the subreaper of a tree: one command in, reports out.

use std::ffi::OsString;
use std::io::{self, Seek, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use lope_model::limit;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Largest command without its input: the kernel takes no more arguments and environment.
const COMMAND_MAX: usize = 4 * limit::PAYLOAD_MAX;

/// A process to be started, with all that it gets.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TreeCommand {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// The whole of it: nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
    pub folder: Option<PathBuf>,
    /// What it reads from its standard input.
    #[serde(skip)]
    pub input: Option<Vec<u8>>,
}

/// Where the output of a tree goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TreeOutput {
    /// To whoever started it, as `stdout` and `stderr` of the tree.
    #[default]
    Piped,
    /// To the runner's own.
    Inherited,
    /// Both to the runner's error output.
    ToErrors,
}

impl TreeOutput {
    /// Standard output and error of the first process.
    pub(super) fn streams(self) -> (Stdio, Stdio) {
        match self {
            Self::Piped => (Stdio::piped(), Stdio::piped()),
            Self::Inherited => (Stdio::inherit(), Stdio::inherit()),
            Self::ToErrors => (Stdio::from(io::stderr()), Stdio::inherit()),
        }
    }
}

/// What a subreaper is asked to start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct StartOrder {
    pub(super) command: TreeCommand,
    /// Not at this time of the machine's forward clock, in nanoseconds, or later.
    pub(super) before: Option<u64>,
}

/// What a subreaper says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum SubreaperReport {
    NotStarted {
        code: Option<i32>,
        message: String,
    },
    /// Its time to begin was over.
    TooLate,
    Started,
    /// All is gone; the first process ended so, as the kernel says it.
    Ended(i32),
}

impl SubreaperReport {
    pub(super) fn not_started(error: &io::Error) -> Self {
        Self::NotStarted {
            code: error.raw_os_error(),
            message: error.to_string(),
        }
    }
}

impl TreeCommand {
    /// The process, without its output.
    ///
    /// The input lies there as a whole, in a file without a name, before the process begins. From a
    /// pipe, a process whose runner is killed would read the first part and an end, and take it for
    /// all of it.
    pub(super) fn to_process(&self) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(match &self.input {
            None => Stdio::null(),
            Some(bytes) => {
                let mut file = tempfile::tempfile()?;
                file.write_all(bytes)?;
                file.rewind()?;
                file.into()
            }
        });
        Ok(command)
    }
}

pub(super) async fn send_order(
    stream: &mut (impl AsyncWrite + Unpin),
    order: &StartOrder,
) -> io::Result<()> {
    send(stream, order).await?;
    let input = order.command.input.as_deref();
    let length = input.map_or(u64::MAX, |bytes| bytes.len() as u64);
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(input.unwrap_or_default()).await?;
    stream.flush().await
}

pub(super) async fn read_order(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<StartOrder> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let mut body = vec![0; bounded(u32::from_be_bytes(head) as usize)?];
    stream.read_exact(&mut body).await?;
    let mut order: StartOrder = rmp_serde::from_slice(&body).map_err(io::Error::other)?;
    let mut length = [0; 8];
    stream.read_exact(&mut length).await?;
    let length = u64::from_be_bytes(length);
    if length != u64::MAX {
        let mut input = vec![0; bounded(usize::try_from(length).unwrap_or(usize::MAX))?];
        stream.read_exact(&mut input).await?;
        order.command.input = Some(input);
    }
    Ok(order)
}

/// One message with its length before it.
pub(super) async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> io::Result<()> {
    let body = rmp_serde::to_vec(message).map_err(io::Error::other)?;
    let length = u32::try_from(bounded(body.len())?).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes()[..], &body].concat())
        .await
}

fn bounded(length: usize) -> io::Result<usize> {
    if length > COMMAND_MAX {
        return Err(io::Error::new(
            io::ErrorKind::ArgumentListTooLong,
            format!("{length} bytes, more than {COMMAND_MAX} are allowed"),
        ));
    }
    Ok(length)
}

/// Reports as they come; whoever stops waiting for one loses nothing.
#[derive(Debug, Default)]
pub(super) struct ReportBuffer(Vec<u8>);

impl ReportBuffer {
    /// The next report; nothing when the subreaper is gone.
    pub(super) async fn next(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Option<SubreaperReport>> {
        loop {
            if let Some(report) = self.take()? {
                return Ok(Some(report));
            }
            if stream.read_buf(&mut self.0).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn take(&mut self) -> io::Result<Option<SubreaperReport>> {
        let Some((head, body)) = self.0.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*head) as usize;
        let Some(body) = body.get(..length) else {
            return Ok(None);
        };
        let report = rmp_serde::from_slice(body).map_err(io::Error::other)?;
        self.0.drain(..4 + length);
        Ok(Some(report))
    }
}
