//! How a run begins: its first event and what the store is told of it, in one place for whoever
//! starts one, be it a client, a schedule or another run.

use std::collections::BTreeMap;

use lope_flow::LAW;
use lope_flow::law::{Event, EventKind, Fed, Start};
use lope_model::{Digest, Epoch, Priority, QueueName, Realm, RunId, Timestamp, Value, VersionId};
use lope_store::runs::Admit;

use crate::codec;

/// About how many bytes a run takes in memory besides its values.
const RUN_BYTES: usize = 1_024;

/// Where a run waits when nobody has it. Its children wait there too, unless they name another
/// realm.
#[derive(Clone, Debug, Default)]
pub struct Home {
    pub queue: QueueName,
    pub realm: Realm,
    pub priority: Priority,
}

/// A run as it will be admitted, and its first event, so that whoever takes it on at once need not
/// read it.
#[derive(Clone, Debug)]
pub struct PendingRun {
    pub admit: Admit,
    pub start: Event,
}

/// What every new run has.
pub(crate) struct Beginning {
    pub(crate) run: RunId,
    pub(crate) workflow: String,
    pub(crate) version: VersionId,
    pub(crate) home: Home,
    /// Does it stay open for more inputs?
    pub(crate) open: bool,
    pub(crate) env: Value,
    pub(crate) input: Option<Fed>,
}

impl Beginning {
    /// The run, due now, without key, tags and parent. Its seed comes from its id, so that
    /// beginning it twice begins it once.
    pub(crate) fn at(self, now: Timestamp) -> PendingRun {
        let start = Start {
            run: self.run,
            law: LAW,
            seed: Digest::of(self.run.as_bytes()).short(),
            epoch: Epoch(1),
            open: self.open,
            env: self.env,
            input: self.input,
        };
        let mut start = Event::new(now, EventKind::Start(Box::new(start)));
        let mut blobs = Vec::new();
        let row = codec::row(1, &mut start, &mut blobs);
        let admit = Admit {
            run: self.run,
            workflow: self.workflow,
            version: self.version,
            key: None,
            queue: self.home.queue,
            priority: self.home.priority,
            realm: self.home.realm,
            due: now,
            law: LAW,
            weight: weight(row.body.len()),
            tags: BTreeMap::new(),
            parent: None,
            rows: vec![row],
            snapshot: None,
            blobs,
            claimed_by: None,
        };
        PendingRun { admit, start }
    }
}

/// What a claim counts for a run whose stored beginning has so many bytes.
pub(crate) fn weight(bytes: usize) -> u32 {
    u32::try_from(bytes + RUN_BYTES).unwrap_or(u32::MAX)
}
