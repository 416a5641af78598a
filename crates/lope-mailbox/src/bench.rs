//! What benchmarks of the mailbox do alike: fill a queue, work it off, see how late timers come,
//! and find what the tables could do at best. How long it takes is measured by whoever calls; only
//! of timers that come late the lateness is noted here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lope_model::{Span, Timestamp};
use lope_store::StoreResult;
use lope_store::tables::{At, Batch, Guard, Range, TableId, Tables, Write};

use crate::config::ConsumerConfig;
use crate::consumer_loop::{ConsumerLoop, ConsumerLoopError, Until};
use crate::error::BootError;
use crate::frame::{Message, MessageKind};
use crate::handler::{Handler, handler, plain};
use crate::key::{TimerKey, WorkerId};
use crate::mailbox::{Mailbox, MailboxError};
use crate::message::delivery;
use crate::record::Owner;
use crate::stop::StopSignal;
use crate::time::TimeHooks;

/// Whose inbox is filled.
pub const WORKER: i64 = 7;
/// Messages of one commit while a queue is filled.
const CHUNK: usize = 5_000;
const PAYLOAD: &[u8] = b"a payload of thirty-two bytes...";

/// The tables of a store that is measured, and the time its workers go by.
#[derive(Clone)]
pub struct MeasuredMailbox {
    pub tables: Arc<dyn Tables>,
    pub time: TimeHooks,
}

/// Handles timers and notes how late they came.
#[derive(Debug)]
pub struct TimerMeter {
    worker: ConsumerLoop,
    noted: Arc<Mutex<Vec<i64>>>,
}

impl TimerMeter {
    /// How late each timer came, in milliseconds, sorted.
    pub async fn lateness(mut self) -> Result<Vec<i64>, ConsumerLoopError> {
        self.worker.run(Until::Stopped).await?;
        let mut late =
            std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        late.sort_unstable();
        Ok(late)
    }
}

/// A handler that does nothing.
pub fn idle_handler() -> Arc<dyn Handler> {
    Arc::new(plain(|_, _| Ok(())))
}

/// A handler that counts its messages in the state.
pub fn counting_handler() -> Arc<dyn Handler> {
    Arc::new(handler(|context, _| {
        Box::pin(async move {
            let count = context.state(b"count").await?;
            let count = count.map_or(0, |bytes| {
                u64::from_le_bytes(bytes.try_into().unwrap_or_default())
            });
            context.put_state(b"count", (count + 1).to_le_bytes().to_vec())
        })
    }))
}

fn worker_id() -> WorkerId {
    WorkerId::new(WORKER).expect("the number is not negative")
}

fn sealed(kind: MessageKind, id: &str, payload: &[u8]) -> Vec<u8> {
    Message::new(kind, WORKER, id.as_bytes(), payload)
        .encode()
        .expect("the id is not empty")
}

impl MeasuredMailbox {
    /// Put so many messages into the inbox.
    pub async fn queue(&self, count: usize) -> Result<(), MailboxError> {
        let mailbox = Mailbox::new(Arc::clone(&self.tables));
        for begin in (0..count).step_by(CHUNK) {
            let numbers = begin..(begin + CHUNK).min(count);
            let frames = numbers
                .map(|number| sealed(MessageKind::Command, &format!("message-{number}"), PAYLOAD));
            mailbox.send_frames(frames.collect()).await?;
        }
        Ok(())
    }

    /// Arm so many timers that are long due, four a millisecond.
    pub async fn arm(&self, count: usize) -> StoreResult<()> {
        for begin in (0..count).step_by(CHUNK) {
            let writes = (begin..(begin + CHUNK).min(count)).map(|number| {
                let due = Timestamp::from_millis(number as i64 / 4);
                let key = TimerKey::new(due, number as u64).expect("the time is not negative");
                let frame = sealed(MessageKind::Timer, &format!("timer-{number}"), b"");
                Write::Put(At::new(TableId::TIMERS, key.to_bytes()), frame)
            });
            self.tables
                .commit(vec![Batch {
                    guards: vec![],
                    writes: writes.collect(),
                }])
                .await?;
        }
        Ok(())
    }

    /// A worker with this handler: run it until idle, and the queue is empty.
    pub async fn worker(
        &self,
        max_batch: usize,
        handler: Arc<dyn Handler>,
    ) -> Result<ConsumerLoop, BootError> {
        let owner = Owner::new("bench").expect("the name is short");
        let config = ConsumerConfig {
            max_batch,
            lease: Span::from_secs(60),
            ..ConsumerConfig::new(worker_id(), owner)
        };
        ConsumerLoop::init(Arc::clone(&self.tables), handler, config, self.time.clone()).await
    }

    /// A worker that stops by itself after so many messages: run it until stopped.
    pub async fn taker(&self, max_batch: usize, count: usize) -> Result<ConsumerLoop, BootError> {
        let stop: Arc<OnceLock<StopSignal>> = Arc::default();
        let asked = Arc::clone(&stop);
        let left = AtomicUsize::new(count);
        let handler = plain(move |_, _| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1
                && let Some(stop) = asked.get()
            {
                stop.request();
            }
            Ok(())
        });
        let worker = self.worker(max_batch, Arc::new(handler)).await?;
        stop.get_or_init(|| worker.stop());
        Ok(worker)
    }

    /// A worker with nothing to do but timers, so far apart that it is idle again before the next
    /// one. They are armed before it starts, so that nothing but the clock wakes it.
    pub async fn timer_meter(&self, timers: usize, apart: Span) -> Result<TimerMeter, BootError> {
        let noted: Arc<Mutex<Vec<i64>>> = Arc::default();
        let late = Arc::clone(&noted);
        let stop: Arc<OnceLock<StopSignal>> = Arc::default();
        let asked = Arc::clone(&stop);
        let handler = plain(move |context, message| {
            let due = i64::from_le_bytes(message.payload.try_into().unwrap_or_default());
            let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
            late.push(context.about().now.millis() - due);
            if let Some(stop) = asked.get().filter(|_| late.len() >= timers) {
                stop.request();
            }
            Ok(())
        });
        let worker = self.worker(64, Arc::new(handler)).await?;
        stop.get_or_init(|| worker.stop());
        self.arm_apart(timers as u64, apart).await?;
        Ok(TimerMeter { worker, noted })
    }

    async fn arm_apart(&self, timers: u64, apart: Span) -> StoreResult<()> {
        let begin = self.time.clock.now().plus(Span::from_millis(500));
        let writes = (0..timers).map(|number| {
            let due = begin.plus(apart.times(number));
            let payload = due.millis().to_le_bytes();
            delivery(
                &Message::new(MessageKind::Timer, WORKER, b"t", &payload),
                Some(due),
            )
            .expect("the message is sound")
        });
        self.tables
            .commit(vec![Batch {
                guards: vec![],
                writes: writes.collect(),
            }])
            .await?;
        Ok(())
    }

    /// What the tables could do at best: rows of the inbox are read and removed, guarded by their
    /// value, in commits of this size; no lease, no handler. Answers with how many there were.
    pub async fn bare(&self, batch: usize) -> StoreResult<usize> {
        let mut removed = 0;
        let range = Range::prefix(TableId::INBOX, &worker_id().to_bytes(), batch);
        loop {
            let page = self.tables.range(range.clone()).await?;
            if page.is_empty() {
                return Ok(removed);
            }
            removed += page.len();
            let batches = page.into_iter().map(|row| {
                let at = At::new(TableId::INBOX, row.key);
                Batch {
                    guards: vec![Guard::Equals(at.clone(), row.value)],
                    writes: vec![Write::Delete(at)],
                }
            });
            self.tables.commit(batches.collect()).await?;
        }
    }
}

impl std::fmt::Debug for MeasuredMailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MeasuredMailbox").finish_non_exhaustive()
    }
}
