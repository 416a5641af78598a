//! Group commit for the byte tables: callers leave batches in a queue; one writer takes what waits,
//! carries it out in one transaction and answers after it is on disk. The writer is spawned here
//! and ends when the queue is closed.

use std::sync::Arc;
use std::time::Duration;

use lope_store::tables::{Batch, BatchReply, Manifest};
use lope_store::{StoreError, StoreResult};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::batch::{self, Care};
use crate::connection::DbConnection;
use crate::failure::{FaultResponse, Worked};
use crate::notify::Notifiers;
use crate::options::{GroupLimits, WRITER_QUEUE_MAX};
use crate::pool::Connector;
use crate::size::{self, Size, Weighed};

/// How often a group that was rolled back because others stood in its way is tried again.
const TRIES_MAX: u32 = 20;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(2);

/// What one caller wants, and where its answer goes.
struct BatchJob {
    batches: Vec<Batch>,
    manifest: Manifest,
    reply: oneshot::Sender<StoreResult<Vec<BatchReply>>>,
}

/// The callers' end of the queue.
#[derive(Debug)]
pub(crate) struct BatchWriter {
    queue: std::sync::Mutex<Option<mpsc::Sender<BatchJob>>>,
    task: std::sync::Mutex<Option<JoinHandle<()>>>,
}

impl BatchWriter {
    pub(crate) fn start(connector: Arc<Connector>, notifiers: Arc<Notifiers>) -> Self {
        let (sender, queue) = mpsc::channel(WRITER_QUEUE_MAX);
        let task = tokio::spawn(work(queue, connector, notifiers));
        Self {
            queue: std::sync::Mutex::new(Some(sender)),
            task: std::sync::Mutex::new(Some(task)),
        }
    }

    /// Leave batches, in as many jobs as they need, and wait for the answers.
    pub(crate) async fn ask(
        &self,
        batches: Vec<Batch>,
        manifest: Manifest,
    ) -> StoreResult<Vec<BatchReply>> {
        let mut replies = Vec::with_capacity(batches.len());
        self.queue()?;
        for batches in size::parts(batches)? {
            let (reply, answer) = oneshot::channel();
            let job = BatchJob {
                batches,
                manifest: manifest.clone(),
                reply,
            };
            self.queue()?
                .send(job)
                .await
                .map_err(|_| StoreError::Closed)?;
            replies.extend(answer.await.unwrap_or(Err(StoreError::Closed))?);
        }
        Ok(replies)
    }

    fn queue(&self) -> StoreResult<mpsc::Sender<BatchJob>> {
        self.queue
            .lock()
            .expect("nobody panics while holding it")
            .clone()
            .ok_or(StoreError::Closed)
    }

    /// Take no more jobs and wait until those there are done.
    pub(crate) async fn close(&self) {
        self.queue
            .lock()
            .expect("nobody panics while holding it")
            .take();
        let task = self
            .task
            .lock()
            .expect("nobody panics while holding it")
            .take();
        if let Some(task) = task {
            // A writer that panicked has answered nobody; its callers were told when their channels
            // closed.
            let _ = task.await;
        }
    }
}

async fn work(
    mut queue: mpsc::Receiver<BatchJob>,
    connector: Arc<Connector>,
    notifiers: Arc<Notifiers>,
) {
    let mut db = None;
    while let Some(first) = queue.recv().await {
        let group = gather(first, &mut queue, connector.options.group);
        carry_out(group, &mut db, &connector, &notifiers).await;
    }
}

/// Everything that waits, up to the limits. The group has the largest manifest: tables are only
/// ever added.
fn gather(
    first: BatchJob,
    queue: &mut mpsc::Receiver<BatchJob>,
    limits: GroupLimits,
) -> Vec<BatchJob> {
    let mut size = Size::default();
    first
        .batches
        .iter()
        .for_each(|batch| size.add(batch.size()));
    let mut group = vec![first];
    while size.rows < limits.rows
        && size.bytes < limits.bytes
        && let Ok(job) = queue.try_recv()
    {
        job.batches.iter().for_each(|batch| size.add(batch.size()));
        group.push(job);
    }
    group
}

/// Carry out a group, job by job if the server refuses what one of them carries.
async fn carry_out(
    group: Vec<BatchJob>,
    db: &mut Option<DbConnection>,
    connector: &Connector,
    notifiers: &Notifiers,
) {
    match attempt(&group, db, connector).await {
        Ok(replies) => answer(group, replies, notifiers),
        Err(fault) if fault.response != FaultResponse::Tell && group.len() > 1 => {
            for job in group {
                let alone = vec![job];
                match attempt(&alone, db, connector).await {
                    Ok(replies) => answer(alone, replies, notifiers),
                    Err(fault) => refuse(alone, &fault.error),
                }
            }
        }
        Err(fault) => refuse(group, &fault.error),
    }
}

async fn attempt(
    group: &[BatchJob],
    db: &mut Option<DbConnection>,
    connector: &Connector,
) -> Worked<Vec<BatchReply>> {
    let batches: Vec<&Batch> = group.iter().flat_map(|job| &job.batches).collect();
    let largest = group
        .iter()
        .map(|job| &job.manifest)
        .max_by_key(|manifest| manifest.specs().len());
    let Some(manifest) = largest else {
        return Ok(Vec::new());
    };
    let mut care = Care::Trusting;
    let mut tries = 0;
    loop {
        tries += 1;
        if !db.as_ref().is_some_and(DbConnection::is_usable) {
            *db = Some(connector.connect().await?);
        }
        let db = db.as_ref().expect("just connected");
        match batch::perform(db, &batches, manifest, care).await {
            Err(fault) if fault.response == FaultResponse::Again && tries < TRIES_MAX => {
                care = Care::Careful;
                tokio::time::sleep(TRY_AGAIN_AFTER * tries).await;
            }
            done => return done,
        }
    }
}

fn answer(group: Vec<BatchJob>, replies: Vec<BatchReply>, notifiers: &Notifiers) {
    if replies.iter().any(Result::is_ok) {
        notifiers.tables_changed();
    }
    let mut replies = replies.into_iter();
    for job in group {
        // A caller that went away needs no answer.
        let _ = job
            .reply
            .send(Ok(replies.by_ref().take(job.batches.len()).collect()));
    }
}

fn refuse(group: Vec<BatchJob>, error: &StoreError) {
    for job in group {
        let _ = job.reply.send(Err(error.clone()));
    }
}
