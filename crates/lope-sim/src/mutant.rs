//! Mistakes planted into a world: what stands in for the engine's threads does one thing wrong. A
//! judge that does not see it sees nothing of its class.

use lope_store::runs::{Mail, RunCommit};

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
}

impl Mutant {
    /// All of them.
    pub const PLANTED: [Self; 8] = [
        Self::ForgetChildCancels,
        Self::SendTwice,
        Self::AnnounceWhatWaits,
        Self::GrantEverything,
        Self::FreeSlotsEarly,
        Self::StartAfterLease,
        Self::DropMail,
        Self::SnapshotAhead,
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
        Some(_) | None => {}
    }
    commit
}

pub(crate) fn mail(mutant: Option<Mutant>, mail: Vec<Mail>) -> Vec<Mail> {
    if mutant == Some(Mutant::DropMail) {
        Vec::new()
    } else {
        mail
    }
}
