//! `admit`: a run enters the store with its first journal rows and its place in the queue.

use std::collections::BTreeMap;

use lope_model::{Blob, Epoch, Priority, QueueName, Realm, RunId, RunnerId, Timestamp, VersionId};

use super::record::{JournalRow, Parent, Snapshot};

/// A run to be stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admit {
    pub run: RunId,
    pub workflow: String,
    /// Must have been deployed.
    pub version: VersionId,
    /// A name of the user's, unique in the store: a second admission with it answers with the first
    /// run.
    pub key: Option<String>,
    pub queue: QueueName,
    pub priority: Priority,
    pub realm: Realm,
    /// When it may be claimed; a past time means now.
    pub due: Timestamp,
    /// The law its journal is written under.
    pub law: u32,
    /// Roughly how many bytes it takes in memory; claims are bounded by it.
    pub weight: u32,
    pub tags: BTreeMap<String, String>,
    pub parent: Option<Parent>,
    /// First journal rows, `seq` from 1 (or behind the snapshot of a fork), without gaps.
    pub rows: Vec<JournalRow>,
    /// The base of a fork.
    pub snapshot: Option<Snapshot>,
    pub blobs: Vec<Blob>,
    /// Born claimed by this runner, if its session is held; otherwise the run waits in the queue
    /// like any other.
    pub claimed_by: Option<RunnerId>,
}

/// The answer to one admission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admitted {
    /// Stored; `epoch` is 1 and the runner owns it if it was born claimed, otherwise 0.
    Created { epoch: Epoch, owned: bool },
    /// A run with this id or key is there already, of this workflow; nothing was written.
    Exists { run: RunId, workflow: String },
    /// The version was never deployed; nothing was written.
    UnknownVersion,
}
