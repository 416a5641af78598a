//! Frames on a stream: four bytes of length, most significant first, then so many bytes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::message::FRAME_MAX;

/// The next frame; nothing at the end of the stream.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    read_bounded(stream, FRAME_MAX).await
}

/// The same for a frame of at most so many bytes.
pub(super) async fn read_bounded(
    stream: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; 4];
    match stream.read_exact(&mut head).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_be_bytes(head) as usize;
    if length > most {
        let message = format!("a frame of {length} bytes, more than {most} are allowed");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    // Memory is taken as bytes arrive, not as they are announced.
    let mut body = Vec::with_capacity(length.min(64 * 1024));
    stream.take(length as u64).read_to_end(&mut body).await?;
    Ok((body.len() == length).then_some(body))
}

pub(super) async fn write(stream: &mut (impl AsyncWrite + Unpin), body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(|_| io::Error::other("a frame is too large"))?;
    let mut bytes = Vec::with_capacity(body.len() + 4);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    stream.write_all(&bytes).await?;
    stream.flush().await
}
