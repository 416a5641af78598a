//! What a process says, line by line.

use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Longest line that comes whole.
pub const LINE_MAX: usize = 64 * 1024;
/// Lines that are read before others have their turn.
const TURN: u32 = 256;
/// How long output may still come when no process of the tree is left: somebody else may hold the
/// pipe.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// Read while something ends, and what is left then. A pipe that somebody outside of the tree holds
/// open is left after a while.
pub async fn read_until<E, R>(
    ending: impl Future<Output = E>,
    reading: impl Future<Output = R>,
) -> E {
    let mut reading = pin!(reading);
    let mut ending = pin!(ending);
    tokio::select! {
        ended = &mut ending => {
            let _ = tokio::time::timeout(OUTPUT_GRACE, reading).await;
            ended
        }
        _ = &mut reading => ending.await,
    }
}

/// Hands over each line with its end; one that is too long comes in pieces. `alive` hears that
/// something was said. Others have their turn in between: a process that says much quickly must not
/// keep its runner from renewing its session.
pub async fn each_line(
    pipe: impl AsyncRead + Unpin,
    alive: impl Fn(),
    mut take: impl FnMut(&[u8]),
) {
    let mut reader = BufReader::with_capacity(LINE_MAX, pipe);
    let (mut line, mut lines) = (Vec::new(), 0);
    loop {
        let buffer = match reader.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(buffer) => buffer,
        };
        let end = buffer
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(buffer.len(), |at| at + 1);
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
