//! The commands that the figures are made of: runs of one step with a small body.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope_model::{
    Digest, Epoch, Priority, QueueName, Realm, RunId, RunnerId, Span, Timestamp, VersionId,
};
use lope_store::runs::{
    Admit, Claim, ClaimedRun, Deploy, FinalStatus, Finish, JournalRow, LiveStatus, Register,
    RunCommit, Then,
};

pub(crate) const BODY: [u8; 120] = [7; 120];

fn version() -> VersionId {
    VersionId(Digest::of(b"flow"))
}

pub(crate) fn deploy() -> Deploy {
    Deploy {
        version: version(),
        name: "flow".to_owned(),
        body: vec![1],
    }
}

pub(crate) fn register() -> Register {
    Register {
        runner: RunnerId::from_bytes([9; 16]),
        name: "bench".to_owned(),
        host: "here".to_owned(),
        pid: 1,
        process: String::new(),
        program: "bench".to_owned(),
        serves: lope_store::runs::Serves::default(),
        lease: Span::from_secs(6_000),
    }
}

/// Ids that rise, as those of a runner do.
pub(crate) fn id(number: u64) -> RunId {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    dated(Timestamp::from_millis(now.as_millis() as i64), number)
}

/// Ids of the week of 13 November 2023.
pub(crate) fn old_id(number: u64) -> RunId {
    dated(Timestamp::from_millis(1_700_000_000_000), number)
}

fn dated(at: Timestamp, number: u64) -> RunId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    RunId::from_parts(at, random)
}

pub(crate) fn admission(run: RunId) -> Admit {
    Admit {
        run,
        workflow: "flow".to_owned(),
        version: version(),
        key: None,
        queue: QueueName::default(),
        priority: Priority::NORMAL,
        realm: Realm::default(),
        due: Timestamp::EPOCH,
        law: 1,
        weight: 1,
        tags: BTreeMap::new(),
        parent: None,
        rows: rows(1, 1),
        snapshot: None,
        blobs: Vec::new(),
        claimed_by: None,
    }
}

pub(crate) fn born(run: RunId, owner: RunnerId) -> Admit {
    Admit {
        claimed_by: Some(owner),
        ..admission(run)
    }
}

fn rows(from: u64, number: u64) -> Vec<JournalRow> {
    let event: Arc<str> = "settled".into();
    let row = |seq| JournalRow {
        seq,
        at: Timestamp::EPOCH,
        event: Arc::clone(&event),
        body: BODY.to_vec(),
    };
    (from..from + number).map(row).collect()
}

pub(crate) fn commit(run: RunId, owner: RunnerId, from: u64, number: u64) -> RunCommit {
    RunCommit {
        rows: rows(from, number),
        ..RunCommit::new(run, owner, Epoch(1), Then::Hold(LiveStatus::Running))
    }
}

/// A run as it is after it was born claimed.
pub(crate) fn claimed() -> ClaimedRun {
    ClaimedRun {
        run: RunId::from_bytes([0; 16]),
        epoch: Epoch(1),
        version: version(),
        queue: QueueName::default(),
        priority: Priority::NORMAL,
        realm: Realm::default(),
        law: 1,
        weight: 1,
        mail: 0,
        due: Timestamp::EPOCH,
    }
}

pub(crate) fn finish(run: &ClaimedRun, owner: RunnerId) -> RunCommit {
    let end = Finish {
        status: FinalStatus::Completed,
        result: Some(vec![1; 20]),
        error: None,
        seen: Some(0),
    };
    RunCommit {
        epoch: run.epoch,
        then: Then::Finish(end),
        ..commit(run.run, owner, 2, 1)
    }
}

pub(crate) fn claim(runner: RunnerId, limit: usize) -> Claim {
    Claim {
        runner,
        queues: vec![QueueName::default()],
        realms: vec![Realm::default()],
        law: 1,
        limit,
        weight: u64::MAX,
        most: None,
        only: Vec::new(),
    }
}
