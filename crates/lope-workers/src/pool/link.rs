//! One connection: first words, then batches both ways until it ends.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lope_model::{Failure, failure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Notify;

use super::attempts::DeferredReply;
use super::message::{self, FRAME_MAX, FromWorker, Hello, PROTOCOL, ToWorker};
use super::roster::{PoolWorkerId, RosterEvent, TaskId};
use super::{PoolInner, RealmChange, frame};
use crate::clock::wall;

/// How long a connection may take to its first word.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// Largest first frame of a worker from elsewhere, in bytes.
const TOKEN_FRAME_MAX: usize = 1_024;
/// How many bytes of somebody who was refused are read and forgotten.
const UNREAD_MAX: u64 = 4 * 1024 * 1024;
/// A frame that has so many bytes is sent before more is added.
const BATCH_BYTES: usize = 256 * 1024;
/// What a connection reads at once.
const READ_BYTES: usize = 128 * 1024;

/// A stream's two halves.
pub(super) struct WorkerStream {
    pub(super) reader: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    pub(super) writer: Box<dyn AsyncWrite + Send + Unpin>,
}

/// How a process of our own introduces itself.
pub(super) enum WorkerArrival {
    Here(WorkerStream, Hello),
    Broken(Failure),
}

impl WorkerStream {
    pub(super) fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let reader: Box<dyn AsyncRead + Send + Unpin> = Box::new(reader);
        Self {
            reader: BufReader::with_capacity(READ_BYTES, reader),
            writer: Box::new(writer),
        }
    }

    pub(super) async fn say(&mut self, words: &ToWorker) -> io::Result<()> {
        let body = message::encode(words);
        frame::write(
            &mut self.writer,
            &[&message::list_head(1)[..], &body].concat(),
        )
        .await
    }

    /// What stands in the first frame of a worker from elsewhere: its token and nothing else.
    pub(super) async fn token(&mut self) -> Result<Vec<u8>, String> {
        let read = frame::read_bounded(&mut self.reader, TOKEN_FRAME_MAX).await;
        let bytes = read.map_err(|error| error.to_string())?;
        bytes.ok_or_else(|| "it hung up".to_owned())
    }

    /// Refuse somebody who may be speaking still: unread words would cut off the refusal.
    pub(super) async fn turn_away(&mut self, reason: &str) {
        // It is refused either way.
        let _ = self.say(&ToWorker::Refused(reason.to_owned())).await;
        let _ = self.writer.shutdown().await;
        let mut unread = (&mut self.reader).take(UNREAD_MAX);
        let _ = tokio::io::copy(&mut unread, &mut tokio::io::sink()).await;
    }

    /// The first message of a worker, or why there is none.
    pub(super) async fn first(&mut self) -> Result<FromWorker, String> {
        let read = tokio::time::timeout(FIRST_WORD, frame::read(&mut self.reader)).await;
        let bytes = read
            .map_err(|_| "it said nothing".to_owned())?
            .map_err(|error| error.to_string())?;
        let messages = message::decode(&bytes.ok_or("it hung up")?)?;
        messages
            .into_iter()
            .next()
            .ok_or_else(|| "its first frame is empty".to_owned())
    }
}

/// Why a worker with these first words cannot be taken.
pub(super) fn misfit(hello: &Hello) -> Option<String> {
    (hello.protocol != PROTOCOL).then(|| {
        format!(
            "the worker '{}' speaks version {} of the protocol, this runner version {PROTOCOL}: \
             install the package and the command of one release",
            hello.name, hello.protocol
        )
    })
}

/// Serve a worker until its connection ends; the answer says how.
pub(super) async fn serve(
    inner: &Arc<PoolInner>,
    worker: PoolWorkerId,
    stream: WorkerStream,
    hello: Hello,
    remote: bool,
) -> String {
    let notification = inner.welcome(worker, hello, remote);
    let WorkerStream {
        mut reader,
        mut writer,
    } = stream;
    let read = async {
        loop {
            match frame::read(&mut reader).await {
                Ok(Some(bytes)) => match message::decode(&bytes) {
                    Ok(messages) => inner.received(worker, messages),
                    Err(problem) => return format!("it broke the protocol: {problem}"),
                },
                Ok(None) => return "its connection ended".to_owned(),
                Err(error) => return format!("its connection broke: {error}"),
            }
        }
    };
    let write = async {
        loop {
            notification.notified().await;
            while let Some(bytes) = inner.batch(worker) {
                if frame::write(&mut writer, &bytes).await.is_err() {
                    // Whoever reads will notice the end, and may still find answers before it.
                    return std::future::pending::<String>().await;
                }
            }
        }
    };
    tokio::select! {
        how = read => how,
        how = write => how,
    }
}

impl PoolInner {
    /// Enter a worker into the roster.
    fn welcome(self: &Arc<Self>, worker: PoolWorkerId, hello: Hello, remote: bool) -> Arc<Notify> {
        let mut notification = None;
        // Nobody may want to know.
        for realm in &hello.realms {
            drop(self.realms.try_send(RealmChange::Came(realm.clone())));
        }
        self.change(|state| {
            if !remote {
                state.own_realms.extend(hello.realms.iter().cloned());
            }
            if let Some(link) = state.links.get_mut(&worker) {
                link.realms = hello.realms;
                link.name = Arc::clone(&hello.name);
                notification = Some(Arc::clone(&link.notification));
            }
            state.say(
                worker,
                ToWorker::Welcome {
                    worker: worker.0,
                    heartbeat: self.settings.heartbeat,
                },
            );
            vec![RosterEvent::Hello {
                worker,
                actions: hello.actions,
                credits: hello.slots,
                remote,
            }]
        });
        notification.unwrap_or_default()
    }

    /// What waits for a worker, as one frame; nothing if nothing waits.
    fn batch(self: &Arc<Self>, worker: PoolWorkerId) -> Option<Vec<u8>> {
        let mut messages = {
            let mut state = self.lock();
            std::mem::take(&mut state.links.get_mut(&worker)?.outbox)
        };
        let (mut bodies, mut count, mut taken) = (Vec::new(), 0, 0);
        for words in &messages {
            if bodies.len() >= BATCH_BYTES {
                break;
            }
            taken += 1;
            let body = message::encode(words);
            if bodies.len() + body.len() > FRAME_MAX - 64 {
                if count > 0 {
                    taken -= 1;
                    break;
                }
                self.too_large(worker, words, body.len());
                continue;
            }
            bodies.extend_from_slice(&body);
            count += 1;
        }
        let rest = messages.split_off(taken);
        if !rest.is_empty() {
            let mut state = self.lock();
            if let Some(link) = state.links.get_mut(&worker) {
                link.outbox.splice(0..0, rest);
                link.notification.notify_one();
            }
        }
        (count > 0).then(|| [&message::list_head(count)[..], &bodies].concat())
    }

    fn too_large(self: &Arc<Self>, worker: PoolWorkerId, words: &ToWorker, size: usize) {
        if let ToWorker::Task { id, .. } = words {
            let message =
                format!("its arguments have {size} bytes, more than {FRAME_MAX} are allowed");
            let result = Err(Failure::new(failure::kind::LIMIT, message));
            self.received(worker, vec![FromWorker::Answer { id: *id, result }]);
        }
    }

    /// Take in what a worker said.
    fn received(self: &Arc<Self>, worker: PoolWorkerId, messages: Vec<FromWorker>) {
        let (mut later, mut lines) = (Vec::new(), Vec::new());
        self.change(|state| {
            let mut events = Vec::with_capacity(messages.len());
            for words in messages {
                match words {
                    FromWorker::Answer { id, result } if state.roster.holds(worker, id) => {
                        later.extend(state.answer(id, result, Some(worker)));
                        events.push(RosterEvent::Answered { worker, task: id });
                    }
                    FromWorker::Log { id, line } if state.roster.holds(worker, id) => {
                        if let Some(attempt) = state.attempts.get_mut(&id) {
                            later.extend(attempt.alive());
                            lines.push((attempt.log(&self.logs), line));
                        }
                    }
                    FromWorker::Alive(id) if state.roster.holds(worker, id) => {
                        later.extend(state.attempts.get(&id).and_then(super::attempts::PoolAttempt::alive));
                    }
                    FromWorker::Forgotten(id) if state.roster.holds(worker, id) => {
                        state.give_whole(worker, id);
                    }
                    FromWorker::Beat { blocked, at } => {
                        if let Some(at) = at {
                            tracing::warn!(%worker, action = %at, %blocked, "an action blocks its worker's loop");
                        }
                        events.push(RosterEvent::Beat { worker, blocked });
                    }
                    FromWorker::Leaving => events.push(RosterEvent::Leaving(worker)),
                    // What is said about tasks that it does not have, and first words said again,
                    // mean nothing.
                    FromWorker::Answer { .. } | FromWorker::Log { .. } => {}
                    FromWorker::Alive(_) | FromWorker::Forgotten(_) => {}
                    FromWorker::Bye | FromWorker::Hello(_) | FromWorker::Broken { .. } => {}
                }
            }
            events
        });
        let now = wall();
        for (log, line) in lines {
            let mut log = log.lock().expect("no panic while the lock is held");
            line.pieces()
                .for_each(|piece| drop(log.push(now, line.stream, piece.as_bytes())));
        }
        later.into_iter().for_each(DeferredReply::happen);
    }

    /// A worker is gone.
    pub(super) fn farewell(self: &Arc<Self>, worker: PoolWorkerId, how: String) {
        self.change(|state| {
            state.expected.remove(&worker);
            let link = state.links.remove(&worker);
            for realm in link.iter().flat_map(|link| &link.realms) {
                let others = || state.links.values().any(|link| link.realms.contains(realm));
                if !state.own_realms.contains(realm) && !others() {
                    // As when it came.
                    drop(self.realms.try_send(RealmChange::Gone(realm.clone())));
                }
            }
            let name = link.map_or_else(|| "worker".into(), |link| link.name);
            vec![RosterEvent::Gone {
                worker,
                how: format!("the worker '{name}' is gone: {how}").into(),
            }]
        });
    }

    pub(super) fn broken(self: &Arc<Self>, worker: PoolWorkerId, why: Failure) {
        self.change(|state| {
            state.expected.remove(&worker);
            state.links.remove(&worker);
            vec![RosterEvent::Broken { worker, why }]
        });
    }
}

/// A task's number as the pool counts.
impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::fmt::Display for PoolWorkerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
