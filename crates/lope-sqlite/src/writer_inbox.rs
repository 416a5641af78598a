//! What waits for the writer's thread: jobs, and which of them may share a transaction.

use tokio::sync::{mpsc, oneshot};

use crate::tx::StoreJob;

/// What an answer promises.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Durability {
    /// A power failure may take it back.
    Unflushed,
    Flushed,
}

/// What the writer is asked to do.
pub(crate) enum WriterMessage {
    Do(Box<dyn StoreJob>, Durability),
    /// Has another process written?
    Poll,
    Stop(oneshot::Sender<()>),
}

/// What waits for the writer's thread.
pub(crate) struct WriterInbox {
    rx: mpsc::Receiver<WriterMessage>,
    /// A message that was taken out while a group was being filled.
    held_back: Option<WriterMessage>,
}

impl WriterInbox {
    pub(crate) fn new(rx: mpsc::Receiver<WriterMessage>) -> Self {
        Self {
            rx,
            held_back: None,
        }
    }

    pub(crate) fn next(&mut self) -> Option<WriterMessage> {
        self.held_back.take().or_else(|| self.rx.blocking_recv())
    }

    /// The next job that waits and may join a transaction; anything else is held back until the
    /// group is done.
    pub(crate) fn next_job(&mut self, group: Durability) -> Option<Box<dyn StoreJob>> {
        loop {
            if self.held_back.is_some() {
                return None;
            }
            match self.rx.try_recv().ok()? {
                WriterMessage::Do(job, durability) if durability <= group => return Some(job),
                WriterMessage::Poll => {}
                other @ (WriterMessage::Do(..) | WriterMessage::Stop(_)) => {
                    self.held_back = Some(other);
                }
            }
        }
    }
}
