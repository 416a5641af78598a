//! May a run enter, and how does it begin?

use lope_model::{Epoch, RunId, RunnerId, Timestamp};

use crate::runs::{Admit, Admitted, CommitReply};

/// What a store knows of an admission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdmitFacts {
    /// The run that has this id, or else this key, and its workflow.
    pub existing: Option<(RunId, String)>,
    /// Was the version deployed?
    pub version_known: bool,
    /// Does the session live that the run may be born to? Only asked if the admission names one.
    pub session_held: bool,
}

/// How a fresh run begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Birth {
    pub owner: Option<RunnerId>,
    pub epoch: Epoch,
    pub due: Timestamp,
    /// Its last journal row.
    pub head: u64,
}

/// What a store knows of a child that a commit admits. One whose version is known need not be looked
/// for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildFacts {
    pub version_known: bool,
    /// Is there a run with its id or key?
    pub exists: bool,
}

/// A run whose id or key is taken stays as it is; a fresh one needs its version. It is born to a
/// runner whose session lives, or to nobody.
pub fn admit(admit: &Admit, facts: AdmitFacts, now: Timestamp) -> Result<Birth, Admitted> {
    if let Some((run, workflow)) = facts.existing {
        return Err(Admitted::Exists { run, workflow });
    }
    if !facts.version_known {
        return Err(Admitted::UnknownVersion);
    }
    let base = admit.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
    let owner = admit.claimed_by.filter(|_| facts.session_held);
    Ok(Birth {
        owner,
        epoch: first_epoch(owner.is_some()),
        due: admit.due.max(now),
        head: admit.rows.last().map_or(base, |row| row.seq),
    })
}

/// A child that is there already stays as it is; one that is not and whose version nobody deployed
/// stops the commit.
pub fn children(facts: impl IntoIterator<Item = ChildFacts>) -> Result<(), CommitReply> {
    let may_enter = |child: ChildFacts| child.version_known || child.exists;
    if facts.into_iter().all(may_enter) {
        Ok(())
    } else {
        Err(CommitReply::UnknownVersion)
    }
}

/// Being claimed is a change of owner.
fn first_epoch(owned: bool) -> Epoch {
    Epoch(u64::from(owned))
}

impl Admitted {
    /// The answer to an admission that was written.
    pub fn created(owned: bool) -> Self {
        Self::Created {
            epoch: first_epoch(owned),
            owned,
        }
    }
}
