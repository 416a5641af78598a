//! Damaged rows: whatever is asked of the store together with such a run is refused whole. The
//! process finds out which it is, sets it aside and goes on with the others.

use lope_engine::shard::ShardInput;
use lope_model::{Epoch, RunId, RunnerId};
use lope_store::runs::{
    ClaimedRun, LiveStatus, Release, RunCommit, Then, Wake, damaged as set_aside_as,
};

use crate::mutant::Mutant;
use crate::serve::Answers;
use crate::wire::{ProcessMessage, ProcessPart, Request, shard_of};
use crate::world::SimWorld;

/// What is wrong with it.
const WHY: &str = "its rows cannot be read";

impl SimWorld {
    /// Is it so that nobody can read or write the rows of a run?
    pub(crate) fn is_damaged(&self, run: RunId) -> bool {
        let is_due = |from: i64| from <= self.at;
        let job = self.ids.iter().position(|id| *id == run);
        job.is_some_and(|job| self.jobs[job].damaged_at.is_some_and(is_due))
    }

    /// Something of these runs cannot be read: each is loaded alone, and the one it is of is set
    /// aside.
    pub(crate) fn load_around_damage(
        &mut self,
        slot: usize,
        owner: RunnerId,
        claimed: Vec<ClaimedRun>,
    ) {
        if self.processes[slot].session() != owner {
            return;
        }
        if self.setup.mutant == Some(Mutant::DropNeighbours) {
            return self.drop_claimed(slot, owner, &claimed);
        }
        if let [alone] = &claimed[..] {
            self.counts.set_aside += 1;
            let park = parking(alone.run, owner, alone.epoch, set_aside_as(WHY));
            self.send(slot, Request::Park(park));
            return self.drop_claimed(slot, owner, &claimed);
        }
        for alone in claimed {
            self.send(slot, Request::Load(vec![alone]));
        }
    }

    /// A group in which one commit cannot be made is not made; of one alone its run is told.
    pub(crate) fn refuse_group(&mut self, slot: usize, commits: &[RunCommit]) -> Answers {
        let process = &mut self.processes[slot];
        if let [alone] = commits {
            self.counts.set_aside += 1;
            let part = ProcessPart::Shard(shard_of(alone.run, process.shards.len()));
            let rejected = ShardInput::Rejected(alone.run, set_aside_as(WHY));
            return vec![(part, ProcessMessage::Input(rejected))];
        }
        let suspects = commits.iter().map(|commit| commit.run);
        process.suspects.extend(suspects);
        self.unanswered(slot, commits)
    }

    /// Commits that travel together: one that is suspected travels alone.
    pub(crate) fn groups(&mut self, slot: usize, commits: Vec<RunCommit>) -> Vec<Vec<RunCommit>> {
        let suspects = &mut self.processes[slot].suspects;
        let (alone, together): (Vec<RunCommit>, Vec<RunCommit>) = commits
            .into_iter()
            .partition(|commit| suspects.remove(&commit.run));
        let mut groups: Vec<Vec<RunCommit>> = alone.into_iter().map(|it| vec![it]).collect();
        if !together.is_empty() {
            groups.push(together);
        }
        groups
    }
}

/// A commit that writes nothing and keeps a run out of claims.
pub(crate) fn parking(run: RunId, owner: RunnerId, epoch: Epoch, reason: String) -> RunCommit {
    let release = Release {
        status: LiveStatus::Paused,
        wake: Wake::Parked(reason),
        seen: u64::MAX,
    };
    RunCommit::new(run, owner, epoch, Then::Release(release))
}
