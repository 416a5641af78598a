//! What an engine may be told: how much it takes on, how long it waits, what it serves.

use lope_model::{QueueName, Realm, Span};

/// Settings of one engine. `Default` is what a single machine wants.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The runner's name in the registry.
    pub name: String,
    /// The machine, as the registry shows it.
    pub host: String,
    /// Threads that advance runs.
    pub shards: usize,
    /// Most runs in memory at once.
    pub max_runs: usize,
    /// Most runs taken by one claim.
    pub claim_batch: usize,
    /// How long the session lives without a heartbeat.
    pub lease: Span,
    pub heartbeat: Span,
    /// How often dead sessions are looked for, and the queue when nothing rang.
    pub sweep: Span,
    /// A run that only waits longer than this leaves memory.
    pub evict_after: Span,
    /// Smallest journal, in bytes, that a snapshot is worth.
    pub snapshot_min: usize,
    /// Most runs of one commit.
    pub group_commit_max: usize,
    /// Most bytes of runs taken by one claim.
    pub resident_bytes: u64,
    /// Attempts in flight at once, over all runs.
    pub concurrency: usize,
    /// Queues it claims from.
    pub queues: Vec<QueueName>,
    /// Realms it serves.
    pub realms: Vec<Realm>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            host: "localhost".to_owned(),
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
            queues: vec![QueueName::default()],
            realms: vec![Realm::default()],
        }
    }
}
