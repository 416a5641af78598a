//! What a process says, line by line.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Longest line that comes whole.
pub const LINE_MAX: usize = 64 * 1024;
/// Lines that are read before others have their turn.
const TURN: u32 = 256;

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
