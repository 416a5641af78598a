//! Logs as they are printed: all of a file, its end, or what comes while it grows.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncSeekExt};

/// Most bytes of a log that are read at once: its end.
const TAIL_MAX: u64 = 16 * 1024 * 1024;
const POLL: Duration = Duration::from_millis(100);

/// The last lines of a file.
pub(crate) async fn tail(path: &Path, limit: usize) -> io::Result<Vec<String>> {
    let mut file = tokio::fs::File::open(path).await?;
    let length = file.metadata().await?.len();
    let from = length.saturating_sub(TAIL_MAX);
    file.seek(io::SeekFrom::Start(from)).await?;
    let mut bytes = Vec::new();
    file.take(TAIL_MAX).read_to_end(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line of a part is a piece of one.
    let lines = text.lines().skip(usize::from(from > 0));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.drain(..lines.len().saturating_sub(limit));
    Ok(lines)
}

/// Print a file's lines as they come, until whoever writes it has ended.
pub(crate) async fn follow<F>(
    path: &Path,
    print: impl Fn(&str),
    mut has_ended: impl FnMut() -> F,
) -> io::Result<()>
where
    F: Future<Output = bool>,
{
    let mut file = tokio::fs::File::open(path).await?;
    let mut rest = Vec::new();
    let mut bytes = vec![0; 64 * 1024];
    loop {
        // What was written before the end is printed.
        let ended = has_ended().await;
        loop {
            let count = file.read(&mut bytes).await?;
            if count == 0 {
                break;
            }
            rest.extend_from_slice(&bytes[..count]);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                print(String::from_utf8_lossy(&line[..end]).as_ref());
            }
        }
        if ended {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
}
