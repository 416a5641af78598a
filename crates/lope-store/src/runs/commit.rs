//! `commit`: what happened to a run, guarded by owner and epoch, in one transaction with what
//! follows from it.

use lope_model::{Blob, Epoch, RunId, RunnerId, Timestamp, limit};

use super::admit::Admit;
use super::deliver::Deliver;
use super::record::{FinalStatus, JournalRow, LiveStatus, Snapshot};
use crate::tables::Append;
use crate::watch::Hint;

/// What one run's owner writes. All of it happens, or nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunCommit {
    pub run: RunId,
    pub owner: RunnerId,
    pub epoch: Epoch,
    /// Continue the journal at its head, without gaps. May be empty.
    pub rows: Vec<JournalRow>,
    pub blobs: Vec<Blob>,
    /// Replaces an older snapshot; its law becomes the run's. The journal stays.
    pub snapshot: Option<Snapshot>,
    /// Mail (by its number) that `rows` took into the journal; its ids are remembered.
    pub taken: Vec<u64>,
    /// Children, admitted with this commit; one that exists already stays as it is.
    pub children: Vec<Admit>,
    /// Mail to other runs (a child's completion, a signal), delivered with this commit.
    pub deliveries: Vec<Deliver>,
    /// Messages to mailboxes: rows of inboxes and timers, written with this commit.
    pub mailbox_sends: Vec<Append>,
    pub then: Then,
}

impl RunCommit {
    /// A commit that writes nothing but what becomes of the run.
    pub fn new(run: RunId, owner: RunnerId, epoch: Epoch, then: Then) -> Self {
        Self {
            run,
            owner,
            epoch,
            rows: Vec::new(),
            blobs: Vec::new(),
            snapshot: None,
            taken: Vec::new(),
            children: Vec::new(),
            deliveries: Vec::new(),
            mailbox_sends: Vec::new(),
            then,
        }
    }

    /// Whom it concerns once it is made, besides the owner: an owner that goes on leaves nothing to
    /// others.
    pub fn hint(&self) -> Hint {
        if !self.children.is_empty() || !self.deliveries.is_empty() {
            return Hint::Work;
        }
        match self.then {
            Then::Hold(_) => Hint::Nothing,
            Then::Release(_) => Hint::Work,
            Then::Finish(_) => Hint::Ended,
        }
    }
}

/// Who has the run after the commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Then {
    /// Its owner goes on.
    Hold(LiveStatus),
    /// It goes back to the queue.
    Release(Release),
    /// It has ended: record kept, queue row gone, waiting mail dropped.
    Finish(Finish),
}

/// How a run goes back to the queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Release {
    pub status: LiveStatus,
    pub wake: Wake,
    /// The mail counter the owner knows of: if more was delivered meanwhile, the run is due at
    /// once, and not parked.
    pub seen: u64,
}

/// When a released run is claimed again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wake {
    At(Timestamp),
    /// Only by mail.
    OnMail,
    /// Kept out of claims, for this reason, until mail that unparks it arrives.
    Parked(String),
}

impl Wake {
    /// Kept out of claims; a long reason is cut to what every store takes.
    pub fn parked(mut reason: String) -> Self {
        reason.truncate(reason.floor_char_boundary(limit::KEY_MAX));
        Self::Parked(reason.replace('\0', " "))
    }
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finish {
    pub status: FinalStatus,
    pub result: Option<Vec<u8>>,
    pub error: Option<Vec<u8>>,
    /// The mail counter the owner knows of; if more was delivered meanwhile, the commit is answered
    /// with `Mail` and nothing is written. Absent: finish whatever mail waits.
    pub seen: Option<u64>,
}

/// The answer to one run's commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommitReply {
    /// Durable. `mail` is the counter now: higher than known means mail waits. `undelivered` names
    /// runs that could not be reached (finished, unknown, or full of mail); a duplicate was reached
    /// before.
    Done { mail: u64, undelivered: Vec<RunId> },
    /// Another owner or epoch holds the run; nothing was written.
    Lost {
        owner: Option<RunnerId>,
        epoch: Epoch,
    },
    /// The rows do not continue the journal, whose last row is `head`, or the snapshot is ahead of
    /// both; nothing was written.
    Gap { head: u64 },
    /// More mail than the finish knew of; nothing was written.
    Mail { mail: u64 },
    /// No live run of this id; nothing was written.
    Missing,
    /// A child's version was never deployed; nothing was written.
    UnknownVersion,
}
