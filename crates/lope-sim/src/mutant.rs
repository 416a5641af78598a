//! Mistakes planted into a world: what stands in for the engine's threads does one thing wrong. A
//! judge that does not see it sees nothing of its class.

use lope_store::runs::{Claim, Deliver, FinalStatus, Mail, RunCommit, RunRecord, RunStatus, Then};

/// What is done wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Children are not told that their parent was cancelled.
    ForgetChildCancels,
    /// Messages to mailboxes go out twice.
    SendTwice,
    /// Attempts that wait for a slot are written down as begun.
    AnnounceWhatWaits,
    /// Limits that all runners share grant whatever is asked.
    GrantEverything,
    /// A slot is free as soon as its attempt was told to stop.
    FreeSlotsEarly,
    /// Attempts start whether the lease is over or not.
    StartAfterLease,
    /// Mail that was accepted is not handed over.
    DropMail,
    /// A snapshot is of a state that is not in the journal.
    SnapshotAhead,
    /// A late retry opens a run that has completed.
    ReopenWhatEnded,
    /// What a retry opened is not gone on with.
    ForgetRetries,
    /// What shall be thrown away is written first.
    WriteDiscarded,
    /// A run is let go with a snapshot of what was thrown away.
    SnapshotDiscarded,
    /// A claim takes more runs of a queue than may have an owner.
    ClaimBeyondBound,
    /// Runs that have left keep their places in a queue with a bound.
    KeepPlaces,
    /// Children's ends and what steers a run have no room of their own.
    NoReservedRoom,
    /// What is loaded together with a damaged run is not taken up.
    DropNeighbours,
    /// What waits for a slot begins although its run was paused.
    BeginWhatIsPaused,
}

impl Mutant {
    /// All of them.
    pub const PLANTED: [Self; 17] = [
        Self::ForgetChildCancels,
        Self::SendTwice,
        Self::AnnounceWhatWaits,
        Self::GrantEverything,
        Self::FreeSlotsEarly,
        Self::StartAfterLease,
        Self::DropMail,
        Self::SnapshotAhead,
        Self::ReopenWhatEnded,
        Self::ForgetRetries,
        Self::WriteDiscarded,
        Self::SnapshotDiscarded,
        Self::ClaimBeyondBound,
        Self::KeepPlaces,
        Self::NoReservedRoom,
        Self::DropNeighbours,
        Self::BeginWhatIsPaused,
    ];
}

/// A commit as the mistaken engine sends it.
pub(crate) fn commit(mutant: Option<Mutant>, mut commit: RunCommit) -> RunCommit {
    match mutant {
        Some(Mutant::ForgetChildCancels) => commit
            .deliveries
            .retain(|mail| !mail.id.starts_with("cancel/")),
        Some(Mutant::SendTwice) => commit.mailbox_sends.extend(commit.mailbox_sends.clone()),
        Some(Mutant::SnapshotAhead) => {
            commit
                .snapshot
                .iter_mut()
                .for_each(|snapshot| snapshot.seq += 1);
        }
        Some(Mutant::NoReservedRoom) => {
            for mail in &mut commit.deliveries {
                mail.reserved = false;
            }
        }
        Some(_) | None => {}
    }
    commit
}

pub(crate) fn mail(mutant: Option<Mutant>, mut mail: Vec<Mail>) -> Vec<Mail> {
    match mutant {
        Some(Mutant::DropMail) => mail.clear(),
        Some(Mutant::ForgetRetries) => mail.retain(|item| item.kind != "retry"),
        Some(_) | None => {}
    }
    mail
}

/// Mail as a client sends it.
pub(crate) fn deliver(mutant: Option<Mutant>, mail: Deliver) -> Deliver {
    Deliver {
        reserved: mail.reserved && mutant != Some(Mutant::NoReservedRoom),
        ..mail
    }
}

pub(crate) fn claim(mutant: Option<Mutant>, claim: Claim) -> Claim {
    Claim {
        most: claim
            .most
            .filter(|_| mutant != Some(Mutant::ClaimBeyondBound)),
        ..claim
    }
}

/// A commit as the mistaken store keeps it: what has completed stands there as failed, so that a
/// retry opens it.
pub(crate) fn stored(mutant: Option<Mutant>, mut commit: RunCommit) -> RunCommit {
    if let (Some(Mutant::ReopenWhatEnded), Then::Finish(finish)) = (mutant, &mut commit.then)
        && finish.status == FinalStatus::Completed
    {
        finish.status = FinalStatus::Failed;
    }
    commit
}

/// The record of a run as that store shows it.
pub(crate) fn shown(mutant: Option<Mutant>, mut record: RunRecord) -> RunRecord {
    let failed = RunStatus::Final(FinalStatus::Failed);
    let is_other = record.status == failed && record.error.is_none();
    if mutant == Some(Mutant::ReopenWhatEnded) && is_other {
        record.status = RunStatus::Final(FinalStatus::Completed);
    }
    record
}
