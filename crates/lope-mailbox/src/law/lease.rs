//! When a lease holds, who may take it, and what it says after a change of hands.
//!
//! Expiry is judged by moments, which no change of the wall clock moves. A lease that seems to hold
//! for much longer than it was given was written under another boot of the clock and holds nothing.
//!
//! A holder that dies costs everything in its hand an attempt. Most of it was not the cause, so
//! from the third time on a message is a *suspect*: that it is with the handler is written down
//! before, only then it is counted, and it rests a little longer each time. A machine that is
//! killed again and again makes no dead letters of what it was not busy with.

use lope_model::{Epoch, Moment, Span};

use super::retry;
use crate::key::MessagePosition;
use crate::record::{Lease, LeaseState, Owner};

/// How far the clocks of two workers may be apart. A lease that was just given seems to hold for so
/// much longer than its term.
const SKEW: Span = Span::from_secs(5);

/// Losses that make a message a suspect.
const SUSPECT: u32 = 3;

/// Who asks, and when.
#[derive(Clone, Debug)]
pub struct Claimer {
    pub owner: Owner,
    pub now: Moment,
    /// How long a claim is given for.
    pub term: Span,
    /// The first claim that this process made under its name, if it made one. Leases of the name
    /// that are as young were lost out of memory (the store did not answer), not with the process.
    pub since: Option<Epoch>,
}

/// What a lease means to somebody who wants its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claimability {
    /// Not before this moment.
    Closed(Moment),
    /// It may be taken now.
    Open,
}

/// May the claimer take what this lease covers? An owner's own leases are open to it: it does not
/// remember them, so it started anew since. Owners that are known to be gone hold nothing.
pub fn claimability(
    lease: &Lease,
    claimer: &Claimer,
    is_gone: impl Fn(&Owner) -> bool,
) -> Claimability {
    let (until, term) = match lease.state {
        LeaseState::Waiting => (lease.until, lease.term),
        LeaseState::Held | LeaseState::Begun
            if lease.owner != claimer.owner && !is_gone(&lease.owner) =>
        {
            (lease.until, lease.term)
        }
        LeaseState::Held => return Claimability::Open,
        LeaseState::Begun => rest(lease),
    };
    if holds(until, term, claimer.now) {
        Claimability::Closed(until)
    } else {
        Claimability::Open
    }
}

fn holds(until: Moment, term: Span, now: Moment) -> bool {
    let left = until.0.saturating_sub(now.0);
    left > 0 && left.cast_unsigned() <= term.millis().saturating_add(SKEW.millis())
}

/// How long a suspect whose holder died with it rests, from its claim on.
fn rest(lease: &Lease) -> (Moment, Span) {
    let claimed = Moment(
        lease
            .until
            .0
            .saturating_sub(lease.term.millis().cast_signed()),
    );
    let span = retry::after_loss(lease.lost.saturating_sub(SUSPECT));
    (claimed.plus(span), span)
}

/// Must be written down that a message with this lease is with its handler?
pub fn is_suspect(lease: &Lease) -> bool {
    lease.lost >= SUSPECT
}

/// The lease of a suspect that goes to its handler now.
pub fn begun(held: &Lease) -> Lease {
    Lease {
        state: LeaseState::Begun,
        ..held.clone()
    }
}

/// A first lease on messages that had none.
pub fn fresh(claimer: &Claimer, epoch: Epoch, through: Option<MessagePosition>) -> Lease {
    Lease {
        state: LeaseState::Held,
        owner: claimer.owner.clone(),
        epoch,
        attempts: 1,
        lost: 0,
        until: claimer.now.plus(claimer.term),
        term: claimer.term,
        through,
    }
}

/// The lease after the claimer took it over. If somebody else held it, or the claimer before it
/// started anew, that attempt was lost with its holder; that of a suspect only if it had begun.
pub fn taken(
    lease: &Lease,
    claimer: &Claimer,
    epoch: Epoch,
    through: Option<MessagePosition>,
) -> Lease {
    let again =
        lease.owner == claimer.owner && claimer.since.is_some_and(|since| since <= lease.epoch);
    let (attempt, loss) = match lease.state {
        LeaseState::Held | LeaseState::Begun if again => (0, 0),
        LeaseState::Held if is_suspect(lease) => (0, 0),
        LeaseState::Held | LeaseState::Begun => (1, 1),
        LeaseState::Waiting => (1, 0),
    };
    let (attempts, lost) = (
        lease.attempts.saturating_add(attempt),
        lease.lost.saturating_add(loss),
    );
    Lease {
        attempts,
        lost,
        ..fresh(claimer, epoch, through)
    }
}

/// The lease of a message that failed and is to be tried again after `delay`.
pub fn waiting(held: &Lease, now: Moment, delay: Span) -> Lease {
    Lease {
        state: LeaseState::Waiting,
        until: now.plus(delay),
        term: delay,
        through: None,
        ..held.clone()
    }
}

/// The lease of a message that was claimed but not begun: open to anybody, and the claim does not
/// count.
pub fn put_back(held: &Lease, now: Moment) -> Lease {
    Lease {
        attempts: held.attempts.saturating_sub(1),
        ..waiting(held, now, Span::ZERO)
    }
}

/// The lease, given for another term.
pub fn renewed(lease: &Lease, now: Moment) -> Lease {
    Lease {
        until: now.plus(lease.term),
        ..lease.clone()
    }
}

/// When a held lease is to be renewed: well before it ends.
pub fn renewal(lease: &Lease) -> Moment {
    Moment(
        lease
            .until
            .0
            .saturating_sub((lease.term.millis() / 2).cast_signed()),
    )
}

/// How many messages a takeover takes at once. A stretch whose holder died is taken in ever smaller
/// pieces, so that a message that kills its worker is soon alone with its count of lost attempts.
pub fn takeover_batch(batch: usize, lost: u32) -> usize {
    batch
        .checked_shr(lost.saturating_mul(4))
        .unwrap_or(0)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimer(name: &str, now: i64) -> Claimer {
        Claimer {
            owner: Owner::new(name).unwrap(),
            now: Moment(now),
            term: Span::from_millis(100),
            since: None,
        }
    }

    fn held_by(name: &str, at: i64) -> Lease {
        fresh(&claimer(name, at), Epoch(1), None)
    }

    /// "a second claimer is busy until the deadline, then takes over with attempts+1"
    #[test]
    fn a_second_claimer_waits_for_the_deadline() {
        let lease = held_by("a", 0);
        let table = [
            (0, Claimability::Closed(Moment(100))),
            (99, Claimability::Closed(Moment(100))),
            (100, Claimability::Open),
        ];
        for (now, expected) in table {
            assert_eq!(
                claimability(&lease, &claimer("b", now), |_| false),
                expected,
                "{now}"
            );
        }
        let after = taken(&lease, &claimer("b", 100), Epoch(2), None);
        assert_eq!(
            (after.attempts, after.lost, after.epoch, after.until),
            (2, 1, Epoch(2), Moment(200))
        );
    }

    /// "The same owner may claim again after a restart."
    #[test]
    fn an_owner_may_take_its_own_lease_again() {
        assert_eq!(
            claimability(&held_by("a", 0), &claimer("a", 1), |_| false),
            Claimability::Open
        );
        assert_eq!(
            claimability(&held_by("a", 0), &claimer("b", 1), |owner| owner.as_str()
                == "a"),
            Claimability::Open
        );
    }

    #[test]
    fn a_lease_of_the_same_process_is_not_a_lost_attempt() {
        let same = Claimer {
            since: Some(Epoch(1)),
            ..claimer("a", 1)
        };
        let restarted = Claimer {
            since: Some(Epoch(2)),
            ..claimer("a", 1)
        };
        let counts = |claimer: &Claimer| {
            let lease = taken(&held_by("a", 0), claimer, Epoch(3), None);
            (lease.attempts, lease.lost)
        };
        assert_eq!(
            [counts(&same), counts(&restarted), counts(&claimer("a", 1))],
            [(1, 0), (2, 1), (2, 1)]
        );
        assert_eq!(
            counts(&Claimer {
                owner: Owner::new("b").unwrap(),
                ..same
            }),
            (2, 1)
        );
    }

    #[test]
    fn a_suspect_is_counted_only_when_it_was_with_its_handler_and_rests_then() {
        let taken_by_b = |lease: &Lease| {
            let lease = taken(lease, &claimer("b", 9_000), Epoch(2), None);
            (lease.attempts, lease.lost)
        };
        let held = Lease {
            attempts: 4,
            lost: SUSPECT,
            ..held_by("a", 0)
        };
        assert!(
            is_suspect(&held)
                && !is_suspect(&Lease {
                    lost: SUSPECT - 1,
                    ..held.clone()
                })
        );
        assert_eq!(
            (taken_by_b(&held), taken_by_b(&begun(&held))),
            ((4, SUSPECT), (5, SUSPECT + 1))
        );
        assert_eq!(
            claimability(&held, &claimer("a", 1), |_| false),
            Claimability::Open
        );
        let opens = |lost: u32| match claimability(
            &begun(&Lease {
                lost,
                ..held.clone()
            }),
            &claimer("a", 1),
            |_| true,
        ) {
            Claimability::Closed(until) => until.0,
            Claimability::Open => 0,
        };
        assert!(
            opens(SUSPECT) > 0 && opens(SUSPECT + 1) == 2 * opens(SUSPECT),
            "longer each time"
        );
        assert_eq!(opens(SUSPECT + 20), opens(SUSPECT + 30), "but not for ever");
        let rested = claimer("a", opens(SUSPECT));
        assert_eq!(
            claimability(&begun(&held), &rested, |_| false),
            Claimability::Open
        );
    }

    #[test]
    fn a_waiting_message_opens_when_its_delay_is_over_also_for_its_last_owner() {
        let lease = waiting(&held_by("a", 0), Moment(50), Span::from_millis(20));
        assert_eq!(
            claimability(&lease, &claimer("a", 69), |_| true),
            Claimability::Closed(Moment(70))
        );
        assert_eq!(
            claimability(&lease, &claimer("a", 70), |_| false),
            Claimability::Open
        );
        let after = taken(&lease, &claimer("b", 70), Epoch(2), None);
        assert_eq!((after.attempts, after.lost), (2, 0));
    }

    #[test]
    fn a_lease_of_another_boot_holds_nothing() {
        // The clock began anew: the lease seems to hold for 90 seconds, but was given for a tenth
        // of one.
        assert_eq!(
            claimability(&held_by("a", 90_000), &claimer("b", 100), |_| false),
            Claimability::Open
        );
    }

    #[test]
    fn a_claimer_whose_clock_is_behind_takes_nothing_that_was_just_given() {
        assert_eq!(
            claimability(&held_by("a", 900), &claimer("b", 890), |_| false),
            Claimability::Closed(Moment(1_000))
        );
    }

    #[test]
    fn what_was_not_begun_does_not_count() {
        let back = put_back(&held_by("a", 0), Moment(10));
        assert_eq!((back.attempts, back.state), (0, LeaseState::Waiting));
        assert_eq!(
            claimability(&back, &claimer("b", 10), |_| false),
            Claimability::Open
        );
    }

    #[test]
    fn renewal_comes_at_half_the_term_and_keeps_the_rest() {
        let lease = held_by("a", 0);
        assert_eq!(renewal(&lease), Moment(50));
        assert_eq!(
            renewed(&lease, Moment(50)),
            Lease {
                until: Moment(150),
                ..lease
            }
        );
    }

    #[test]
    fn a_stretch_that_fails_is_taken_in_ever_smaller_pieces() {
        let sizes: Vec<usize> = (0..5).map(|lost| takeover_batch(1_024, lost)).collect();
        assert_eq!(sizes, [1_024, 64, 4, 1, 1]);
        assert_eq!((takeover_batch(64, 1), takeover_batch(0, 40)), (4, 1));
    }
}
