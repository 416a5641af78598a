//! May a commit be written, and where does a released run go?

use lope_model::{Epoch, RunnerId, Timestamp};

use crate::runs::{CommitReply, Finish, JournalRow, Release, RunCommit, Then, Wake};

/// What stands in the queue for a live run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitFacts {
    pub owner: Option<RunnerId>,
    pub epoch: Epoch,
    /// Its last journal row.
    pub head: u64,
    /// Mail ever delivered.
    pub mail: u64,
}

/// The commit may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// The last journal row after it.
    pub head: u64,
}

/// Where a released run waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rest<'a> {
    pub due: Timestamp,
    pub parked: Option<&'a str>,
}

/// Owner and epoch, then the journal, then mail that a finish does not know of; children are judged
/// after it. `None`: no live run of this id.
pub fn commit(commit: &RunCommit, facts: Option<&CommitFacts>) -> Result<Granted, CommitReply> {
    let Some(facts) = facts else {
        return Err(CommitReply::Missing);
    };
    let CommitFacts {
        owner,
        epoch,
        head,
        mail,
    } = *facts;
    if owner != Some(commit.owner) || epoch != commit.epoch {
        return Err(CommitReply::Lost { owner, epoch });
    }
    let reach = commit.rows.last().map_or(head, |row| row.seq);
    let snapshot = commit.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
    if !continues(&commit.rows, head) || snapshot > reach {
        return Err(CommitReply::Gap { head });
    }
    match &commit.then {
        Then::Finish(Finish {
            seen: Some(seen), ..
        }) if mail > *seen => Err(CommitReply::Mail { mail }),
        Then::Finish(_) | Then::Hold(_) | Then::Release(_) => Ok(Granted { head: reach }),
    }
}

fn continues(rows: &[JournalRow], head: u64) -> bool {
    let begins = rows
        .first()
        .is_none_or(|first| head.checked_add(1) == Some(first.seq));
    begins && is_consecutive(rows)
}

/// Rows must follow each other, wherever the journal's head is.
pub fn is_consecutive(rows: &[JournalRow]) -> bool {
    rows.windows(2)
        .all(|pair| pair[0].seq.checked_add(1) == Some(pair[1].seq))
}

/// Mail that the owner has not seen wakes the run at once, whatever it was going to wait for.
pub fn release(release: &Release, mail: u64, now: Timestamp) -> Rest<'_> {
    let due = |due| Rest { due, parked: None };
    if mail > release.seen {
        return due(now);
    }
    match &release.wake {
        Wake::At(at) => due(now.max(*at)),
        Wake::OnMail => due(Timestamp::NEVER),
        Wake::Parked(reason) => Rest {
            due: Timestamp::NEVER,
            parked: Some(reason),
        },
    }
}

#[cfg(test)]
mod tests {
    use lope_model::RunId;

    use super::*;
    use crate::runs::{FinalStatus, LiveStatus, Snapshot};

    const ME: RunnerId = RunnerId::from_bytes([1; 16]);
    const OTHER: RunnerId = RunnerId::from_bytes([2; 16]);
    const FACTS: CommitFacts = CommitFacts {
        owner: Some(ME),
        epoch: Epoch(3),
        head: 7,
        mail: 2,
    };

    fn rows(numbers: &[u64]) -> Vec<JournalRow> {
        let row = |seq: &u64| JournalRow {
            seq: *seq,
            at: Timestamp::EPOCH,
            event: "".into(),
            body: Vec::new(),
        };
        numbers.iter().map(row).collect()
    }

    fn held(numbers: &[u64]) -> RunCommit {
        let then = Then::Hold(LiveStatus::Running);
        RunCommit {
            rows: rows(numbers),
            ..RunCommit::new(RunId::from_bytes([9; 16]), ME, Epoch(3), then)
        }
    }

    #[test]
    fn owner_and_epoch_come_first() {
        let gap = held(&[99]);
        assert_eq!(commit(&gap, None), Err(CommitReply::Missing));
        for (owner, epoch) in [
            (None, Epoch(3)),
            (Some(OTHER), Epoch(3)),
            (Some(ME), Epoch(4)),
        ] {
            let facts = CommitFacts {
                owner,
                epoch,
                ..FACTS
            };
            let lost = Err(CommitReply::Lost { owner, epoch });
            assert_eq!(commit(&gap, Some(&facts)), lost);
        }
    }

    #[test]
    fn rows_continue_the_journal_without_gaps() {
        let gap = Err(CommitReply::Gap { head: 7 });
        for (numbers, head) in [(vec![], 7), (vec![8], 8), (vec![8, 9, 10], 10)] {
            let verdict = commit(&held(&numbers), Some(&FACTS));
            assert_eq!(verdict, Ok(Granted { head }), "{numbers:?}");
        }
        for numbers in [
            vec![7],
            vec![9],
            vec![8, 10],
            vec![8, 8],
            vec![0],
            vec![u64::MAX],
        ] {
            assert_eq!(commit(&held(&numbers), Some(&FACTS)), gap, "{numbers:?}");
        }
        let snapshot = |seq| RunCommit {
            snapshot: Some(Snapshot {
                seq,
                law: 1,
                body: Vec::new(),
            }),
            ..held(&[8])
        };
        assert!(commit(&snapshot(8), Some(&FACTS)).is_ok());
        assert_eq!(commit(&snapshot(9), Some(&FACTS)), gap);
    }

    #[test]
    fn a_finish_knows_all_mail_or_says_that_it_does_not_care() {
        let finish = |seen| RunCommit {
            then: Then::Finish(Finish {
                status: FinalStatus::Completed,
                result: None,
                error: None,
                seen,
            }),
            ..held(&[8])
        };
        let overlooked = Err(CommitReply::Mail { mail: 2 });
        assert_eq!(commit(&finish(Some(1)), Some(&FACTS)), overlooked);
        assert!(commit(&finish(Some(2)), Some(&FACTS)).is_ok());
        assert!(commit(&finish(None), Some(&FACTS)).is_ok());
    }

    #[test]
    fn a_released_run_waits_as_its_owner_says_unless_mail_came() {
        let now = Timestamp::from_millis(1_000);
        let to = |wake| Release {
            status: LiveStatus::Waiting,
            wake,
            seen: 2,
        };
        let later = Timestamp::from_millis(2_000);
        let parked = to(Wake::Parked("paused".to_owned()));
        for (wake, due) in [
            (Wake::At(later), later),
            (Wake::At(Timestamp::EPOCH), now),
            (Wake::OnMail, Timestamp::NEVER),
        ] {
            assert_eq!(release(&to(wake), 2, now), Rest { due, parked: None });
        }
        assert_eq!(release(&parked, 2, now).parked, Some("paused"));
        let woken = Rest {
            due: now,
            parked: None,
        };
        assert_eq!(release(&parked, 3, now), woken);
    }
}
