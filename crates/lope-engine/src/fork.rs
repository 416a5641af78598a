//! Forking: a new run that goes on from a position in another one's journal.
//!
//! The state at that position becomes the new run's base snapshot; one row says whose copy it is.
//! Attempts and children that were open there are the original's and are started anew.

use std::sync::Arc;

use lope_flow::law::{self, Event, EventKind, Plan, State, Status};
use lope_model::{Epoch, RunId, Timestamp};
use lope_store::runs::{Admit, Admitted, RunRecord};
use lope_store::{Store, StoreError, StoreResult};
use uuid::Uuid;

use crate::{admission, codec, query};

/// The tag that names the run a fork came from.
pub const FORKED_FROM: &str = "forked_from";

/// How a run is forked.
#[derive(Clone, Debug, Default)]
pub struct Fork {
    /// The last journal row that both runs share; absent: the last one there is.
    pub at: Option<u64>,
    /// A name of the user's for the new run.
    pub key: Option<String>,
}

/// What became of a fork.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Forked {
    /// The new run, and the position it goes on from.
    Run { run: RunId, at: u64 },
    /// The key is another run's.
    Exists { run: RunId },
    /// The run had ended at this position: there is nothing to go on with. It ran until this row.
    Ended { last: u64 },
    /// The journal holds rows from `first` to `last` only.
    NoSuchRow { first: u64, last: u64 },
}

/// Fork a run.
pub async fn fork(
    store: &Store,
    record: &RunRecord,
    fork: Fork,
    now: Timestamp,
) -> StoreResult<Forked> {
    let plan = query::plan(store, record).await?;
    let first = store
        .runs
        .journal(record.run, 0, 1)
        .await?
        .first()
        .map_or(1, |row| row.seq);
    let at = fork.at.unwrap_or(record.head);
    if at < first || at > record.head {
        return Ok(Forked::NoSuchRow {
            first,
            last: record.head,
        });
    }
    let history = query::history(store, record.run, &plan, Some(at)).await?;
    let run = RunId::from_uuid(Uuid::now_v7());
    let Some(admit) = copy_of(&plan, history.state(), at, run, now) else {
        return Ok(Forked::Ended {
            last: record.head.saturating_sub(1).max(first),
        });
    };
    let admit = of_record(admit, record, fork.key);
    match store.runs.admit(vec![admit]).await?.into_iter().next() {
        Some(Admitted::Created { .. }) => Ok(Forked::Run { run, at }),
        Some(Admitted::Exists { run, .. }) => Ok(Forked::Exists { run }),
        Some(Admitted::UnknownVersion) => {
            Err(StoreError::corrupt("the run's workflow version is missing"))
        }
        None => Err(StoreError::Closed),
    }
}

/// The new run as it is admitted; `None` if its state is one that nothing can go on from.
fn copy_of(plan: &Arc<Plan>, state: &State, at: u64, run: RunId, now: Timestamp) -> Option<Admit> {
    let mut blobs = Vec::new();
    let epoch = Epoch(1);
    let mut copy = state.clone();
    let snapshot = codec::snapshot(at, &mut copy, &mut blobs);
    let mut kinds = vec![EventKind::Forked { run, epoch }];
    if state.status() == Status::Failed {
        // It goes on where the original failed.
        kinds.push(EventKind::Retry { epoch });
    }
    let (mut effects, mut rows) = (Vec::new(), Vec::new());
    for (kind, seq) in kinds.into_iter().zip(at + 1..) {
        let mut event = Event::new(now.max(copy.at()), kind);
        rows.push(codec::row(seq, &mut event, &mut blobs));
        law::fold(plan, &mut copy, event, &mut effects);
    }
    if copy.status().is_final() {
        return None;
    }
    Some(Admit {
        run,
        workflow: plan.name().to_string(),
        version: plan.version(),
        key: None,
        queue: lope_model::QueueName::default(),
        priority: lope_model::Priority::default(),
        realm: lope_model::Realm::default(),
        due: now,
        law: state.law(),
        weight: admission::weight(snapshot.body.len()),
        tags: std::collections::BTreeMap::new(),
        parent: None,
        rows,
        snapshot: Some(snapshot),
        blobs,
        claimed_by: None,
    })
}

/// Queue, priority, realm and tags are the original's; the key and the parent are not.
fn of_record(admit: Admit, record: &RunRecord, key: Option<String>) -> Admit {
    let mut tags = record.tags.clone();
    if tags.len() < lope_model::limit::TAGS_MAX || tags.contains_key(FORKED_FROM) {
        tags.insert(FORKED_FROM.to_owned(), record.run.to_string());
    }
    let (queue, realm) = (record.queue.clone(), record.realm.clone());
    Admit {
        key,
        queue,
        realm,
        priority: record.priority,
        tags,
        ..admit
    }
}
