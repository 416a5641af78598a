//! What travels: requests from processes to the store, and messages to the parts of a process.

use std::sync::Arc;

use lope_engine::executor::{TaskOutcome, Token};
use lope_engine::session::{SessionEvent, SessionRequest};
use lope_engine::shard::{Adoption, ShardInput};
use lope_limits::LimitVerdict;
use lope_model::{Epoch, RunId, RunnerId};
use lope_store::runs::{Claim, ClaimedRun, Loaded, RunCommit};

/// One start of one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) slot: usize,
    pub(crate) start: u32,
}

/// A thread or task of a process: each takes its messages in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ProcessPart {
    Session,
    Adopter,
    Dispatcher,
    Shard(usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Request {
    Register,
    Heartbeat,
    Claim(Claim),
    Takeover,
    Reconcile,
    Mail,
    Load(Vec<ClaimedRun>),
    Commit(Vec<RunCommit>),
    /// A run that cannot be folded is set aside.
    Park(RunCommit),
    Latest(Arc<str>),
    /// Runs at which a shard fell go back to the store, in the name of the session they were held
    /// in.
    GiveBack(RunnerId, Vec<(RunId, Epoch)>),
    /// The session ends in order.
    Release,
    /// A client's run, taken on by this process at once.
    Admit {
        job: usize,
    },
}

/// A request on its way, in the name of a session.
#[derive(Clone, Debug)]
pub(crate) struct PendingRequest {
    pub(crate) from: Address,
    pub(crate) session: RunnerId,
    pub(crate) request: Request,
    /// Nobody waits for the answer any more.
    pub(crate) given_up: bool,
    /// The answer will be lost.
    pub(crate) unheard: bool,
}

#[derive(Debug)]
pub(crate) enum ProcessMessage {
    /// To the session task, from inside the process.
    SessionEvent(SessionEvent),
    /// To the session task, from the store, in the name of a session.
    Answer(RunnerId, SessionEvent),
    /// To the adopter: what a load of these brought.
    Loaded(RunnerId, Vec<ClaimedRun>, LoadAnswer),
    /// To the adopter: a run was born claimed.
    Newborn(Box<Adoption>),
    /// To the adopter: a run was not born claimed after all, or nobody knows.
    Unborn(RunnerId, RunId),
    /// To the adopter: the store knows that these are nobody's.
    GivenBack(RunnerId, Vec<(RunId, Epoch)>),
    /// To a shard.
    Input(ShardInput),
    /// To every shard.
    Tell(Told),
    /// To the dispatcher: a worker answered.
    Done(TaskOutcome),
    /// To the dispatcher: what the limits said to an attempt.
    Verdict(Token, LimitVerdict),
    /// To the dispatcher: the limits may have changed.
    AskAgain,
}

/// What a load brings.
#[derive(Debug)]
pub(crate) enum LoadAnswer {
    Unanswered,
    /// One of the runs cannot be read.
    Damaged,
    Runs(Vec<Option<Loaded>>),
}

/// What is told to every shard alike.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Latest(Arc<str>, Option<lope_engine::shard::Latest>),
}

impl Request {
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Heartbeat => "heartbeat",
            Self::Claim(_) => "claim",
            Self::Takeover => "takeover",
            Self::Reconcile => "owned",
            Self::Mail => "waiting",
            Self::Load(_) => "load",
            Self::Commit(_) => "commit",
            Self::Park(_) => "park",
            Self::Latest(_) => "latest",
            Self::GiveBack(..) => "give back",
            Self::Release => "release",
            Self::Admit { .. } => "admit",
        }
    }

    /// Which ask of the session task's it is, if it is one.
    pub(crate) fn asked(&self) -> Option<SessionRequest> {
        match self {
            Self::Register => Some(SessionRequest::Register),
            Self::Heartbeat => Some(SessionRequest::Heartbeat),
            Self::Claim(_) => Some(SessionRequest::Claim),
            Self::Takeover => Some(SessionRequest::Takeover),
            Self::Reconcile => Some(SessionRequest::Reconcile),
            Self::Mail => Some(SessionRequest::Mail),
            Self::Load(_) | Self::Commit(_) | Self::Park(_) | Self::Latest(_) => None,
            Self::GiveBack(..) | Self::Release | Self::Admit { .. } => None,
        }
    }
}

/// The shard of a run among so many.
pub(crate) fn shard_of(run: RunId, shards: usize) -> usize {
    usize::from(run.as_bytes()[15]) % shards
}
