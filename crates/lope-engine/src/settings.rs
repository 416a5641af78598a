//! What an engine may be told: how much it takes on, how long it waits, what it serves.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use lope_model::policy::RateLimit;
use lope_model::{Priority, QueueName, Realm, RunId, Span, limit};
use lope_store::runs::FinalStatus;

use crate::mailbox_send::EncodeMessage;
use crate::secret::Secrets;

/// Ends whatever belongs to runners of this machine that are gone, and returns when it has ended.
pub type EndAbandoned = fn() -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Settings of one engine. `Default` is what a single machine wants.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The runner's name in the registry.
    pub name: String,
    /// The machine, as the registry shows it.
    pub host: String,
    /// What names its process among all that ever were; empty: its death is told by its lease alone.
    pub process: String,
    /// Threads that advance runs.
    pub shards: usize,
    /// Most runs in memory at once.
    pub max_runs: usize,
    /// Most runs taken by one claim; up to four times as many while runs leave as fast as they come.
    pub claim_batch: usize,
    /// How long the session lives without a heartbeat.
    pub lease: Span,
    pub heartbeat: Span,
    /// How often dead sessions are looked for, and the queue when there was no notification.
    pub sweep: Span,
    /// A run that only waits longer than this leaves memory.
    pub evict_after: Span,
    /// Smallest journal, in bytes, that a snapshot is worth.
    pub snapshot_min: usize,
    /// Most runs of one commit.
    pub group_commit_max: usize,
    /// Most bytes that the runs in memory take together: while they take more, none is taken up.
    pub resident_bytes: u64,
    /// Attempts in flight at once, over all runs.
    pub concurrency: usize,
    /// Does it claim from its queues? If not, it works only on runs that it was told to own, and on
    /// their children.
    pub claims: bool,
    /// Queues it claims from.
    pub queues: Vec<QueueName>,
    /// Realms it serves.
    pub realms: Vec<Realm>,
    /// Limits of queues by name.
    pub queue_limits: QueueLimits,
    /// Largest value that an attempt may answer with, encoded.
    pub payload_max: usize,
    /// How long finished runs are kept; absent: for ever.
    pub retention: Option<Span>,
    /// The same for single workflows, where it differs.
    pub retention_of: BTreeMap<String, Option<Span>>,
    /// The same for runs that ended in one way, where it differs and their workflow says nothing.
    pub retention_by_status: BTreeMap<FinalStatus, Option<Span>>,
    /// Hears which runs were deleted, so that what is kept of them elsewhere goes with them.
    pub on_pruned: Option<Arc<dyn PrunedListener>>,
    /// How often an execution may lose its runner, where its policy does not say.
    pub loss_budget: u32,
    /// Makes the rows of messages to mailboxes; without it a run that sends one is set aside.
    pub mailbox_send: Option<EncodeMessage>,
    /// Ends what runners that are gone have left on this machine: asked before an attempt takes the
    /// place of one of theirs under a key.
    pub end_abandoned: Option<EndAbandoned>,
    /// Where the values of secrets are found.
    pub secrets: Option<Arc<dyn Secrets>>,
}

/// Hears which runs have left the store.
pub trait PrunedListener: Send + Sync + std::fmt::Debug {
    fn pruned(&self, runs: &[RunId]);
}

/// What bounds runs, by their queue.
pub type QueueLimits = BTreeMap<QueueName, QueueLimit>;

/// What bounds the runs of one queue. Absent fields bound nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueueLimit {
    /// Most runs of the queue at work at once, in the whole store: whoever claims counts those of
    /// all runners.
    pub concurrency: Option<u32>,
    /// Most runs begun in a stretch of time, by all runners together.
    pub rate: Option<RateLimit>,
    /// The priority of runs that name none.
    pub priority: Option<Priority>,
}

/// The priority of a run on a queue: the one that was said, else the queue's, else normal.
pub(crate) fn priority_on(
    limits: &QueueLimits,
    queue: &QueueName,
    said: Option<Priority>,
) -> Priority {
    said.or_else(|| limits.get(queue)?.priority)
        .unwrap_or_default()
}

impl Settings {
    /// The priority of what is started on a queue later, such as by a schedule.
    pub fn priority(&self, queue: &QueueName, said: Option<Priority>) -> Priority {
        priority_on(&self.queue_limits, queue, said)
    }

    /// Serves a realm no more. Did it before?
    pub(crate) fn unserve(&mut self, realm: &Realm) -> bool {
        let before = self.realms.len();
        self.realms.retain(|served| served != realm);
        self.realms.len() < before
    }

    /// Is anything ever deleted?
    pub fn prunes(&self) -> bool {
        let mut others = self
            .retention_of
            .values()
            .chain(self.retention_by_status.values());
        self.retention.is_some() || others.any(Option::is_some)
    }

    /// Does a run that ends make room for others to be claimed?
    pub(crate) fn bounds_queues(&self) -> bool {
        let mut limits = self.queue_limits.values();
        limits.any(|limit| limit.concurrency.is_some())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            host: "localhost".to_owned(),
            process: String::new(),
            shards: std::thread::available_parallelism().map_or(2, usize::from),
            max_runs: 10_000,
            claim_batch: 500,
            lease: Span::from_secs(15),
            heartbeat: Span::from_secs(5),
            sweep: Span::from_secs(1),
            evict_after: Span::from_secs(10),
            snapshot_min: 64 * 1024,
            group_commit_max: 1_000,
            resident_bytes: 256 * 1024 * 1024,
            concurrency: 256,
            claims: true,
            queues: vec![QueueName::default()],
            realms: vec![Realm::default()],
            queue_limits: QueueLimits::new(),
            payload_max: limit::PAYLOAD_MAX,
            retention: Some(Span::from_secs(30 * 24 * 3_600)),
            retention_of: BTreeMap::new(),
            retention_by_status: BTreeMap::new(),
            on_pruned: None,
            loss_budget: lope_definition::policy::LOSS_BUDGET,
            mailbox_send: None,
            end_abandoned: None,
            secrets: None,
        }
    }
}

impl QueueLimit {
    /// Does it keep runs from being claimed?
    pub fn holds_back(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }
}
