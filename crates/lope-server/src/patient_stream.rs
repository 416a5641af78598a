//! A connection whose client must take what it is sent: one that takes nothing for long is hung up
//! on, so that it does not keep a place that others wait for.
//!
//! A client that is refused while it is still sending is given a moment to read why: were the
//! connection closed with something unread, the system would cut it and throw the answer away.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Who sent so much before the last answer may still be sending.
const LARGE: usize = 32 * 1024;
/// How long, and how much of what is still sent is thrown away.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct PatientStream<S> {
    inner: S,
    patience: Duration,
    /// Running while the client takes nothing.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Bytes that came since the last answer, and before it.
    unanswered: usize,
    answered: usize,
    lingering: Option<Linger>,
}

/// The end of a connection whose client may still be sending.
#[derive(Debug)]
struct Linger {
    until: Pin<Box<Sleep>>,
    left: usize,
}

impl<S> PatientStream<S> {
    pub(crate) fn new(inner: S, patience: Duration) -> Self {
        Self {
            inner,
            patience,
            deadline: None,
            unanswered: 0,
            answered: 0,
            lingering: None,
        }
    }

    /// Something was sent.
    fn note_answer(&mut self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(_))) {
            self.answered = std::mem::take(&mut self.unanswered);
        }
    }

    /// What became of a write, or that it took too long.
    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let patience = self.patience;
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PatientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.unanswered += buffer.filled().len() - before;
        read
    }
}

impl<S: AsyncRead + Unpin> PatientStream<S> {
    /// Until the client has nothing more to say, or enough of it was thrown away.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Linger { until, left } = self.lingering.get_or_insert_with(|| Linger {
            until: Box::pin(sleep(LINGER)),
            left: LINGER_MAX,
        });
        let mut scratch = [0; 4_096];
        loop {
            if *left == 0 || until.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.inner).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    *left = left.saturating_sub(buffer.filled().len());
                }
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PatientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.note_answer(&written);
        self.within(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, pieces);
        self.note_answer(&written);
        self.within(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        self.within(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            let shut = Pin::new(&mut self.inner).poll_shutdown(context);
            ready!(self.within(context, shut))?;
        }
        if self.answered >= LARGE {
            ready!(self.poll_linger(context));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_nothing_is_hung_up_on_and_whoever_takes_a_little_is_not() {
        let patience = Duration::from_secs(30);
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut stream = PatientStream::new(ours, patience);
        let reader = tokio::spawn(async move {
            let mut taken = [0; 4];
            for _ in 0..4 {
                sleep(Duration::from_secs(20)).await;
                theirs.read_exact(&mut taken).await.unwrap();
            }
            theirs
        });
        stream.write_all(&[7; 16]).await.unwrap();
        let _theirs = reader.await.unwrap();
        let refused = stream.write_all(&[7; 16]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }
}
