//! May mail go before a run, and what does it do to it?

use crate::runs::{Deliver, Delivered, FinalStatus, Reach};

/// What a store knows of the run that mail is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliverFacts {
    /// How the run ended; nothing: it lives.
    pub ended: Option<FinalStatus>,
    /// Did mail of this id ever arrive?
    pub seen: bool,
    /// Mail that arrived and was not taken.
    pub waiting: u64,
}

/// The mail is accepted: it is counted, and the run is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// The run goes back into the queue first.
    pub reopens: bool,
    /// It is parked no more.
    pub unparks: bool,
}

/// An id arrives once. Mail for a run that has ended is late, unless it reopens one that failed. What
/// waits is bounded. `None`: no run of this id.
pub fn deliver(mail: &Deliver, facts: Option<&DeliverFacts>) -> Result<Accepted, Delivered> {
    let Some(facts) = facts else {
        return Err(Delivered::Missing);
    };
    if facts.seen {
        return Err(Delivered::Duplicate);
    }
    let reopens = match facts.ended {
        None => false,
        Some(FinalStatus::Failed) if mail.reach == Reach::Reopen => true,
        Some(FinalStatus::Failed | FinalStatus::Completed | FinalStatus::Cancelled) => {
            return Err(Delivered::Finished);
        }
    };
    if facts.waiting >= mail.room() {
        return Err(Delivered::Full);
    }
    Ok(Accepted {
        reopens,
        unparks: match mail.reach {
            Reach::Live => false,
            Reach::Unpark | Reach::Reopen => true,
        },
    })
}

#[cfg(test)]
mod tests {
    use lope_model::{RunId, limit};

    use super::*;

    fn mail(reach: Reach) -> Deliver {
        Deliver {
            run: RunId::from_bytes([9; 16]),
            id: "id".to_owned(),
            kind: "signal".to_owned(),
            body: Vec::new(),
            reach,
            reserved: false,
        }
    }

    const LIVE: DeliverFacts = DeliverFacts {
        ended: None,
        seen: false,
        waiting: 0,
    };

    #[test]
    fn mail_reaches_a_live_run_once_while_there_is_room() {
        let signal = mail(Reach::Live);
        assert_eq!(deliver(&signal, None), Err(Delivered::Missing));
        assert!(deliver(&signal, Some(&LIVE)).is_ok());
        let crowded = DeliverFacts {
            waiting: limit::MAIL_MAX,
            ..LIVE
        };
        assert_eq!(deliver(&signal, Some(&crowded)), Err(Delivered::Full));
        let steering = Deliver {
            reserved: true,
            ..signal.clone()
        };
        assert!(deliver(&steering, Some(&crowded)).is_ok());
        let stuffed = DeliverFacts {
            waiting: limit::MAIL_MAX + limit::MAIL_RESERVED,
            ..LIVE
        };
        assert_eq!(deliver(&steering, Some(&stuffed)), Err(Delivered::Full));
        let seen = DeliverFacts {
            seen: true,
            ..crowded
        };
        assert_eq!(deliver(&signal, Some(&seen)), Err(Delivered::Duplicate));
    }

    #[test]
    fn only_what_failed_is_reopened() {
        for ended in FinalStatus::ALL {
            let facts = DeliverFacts {
                ended: Some(ended),
                ..LIVE
            };
            for reach in [Reach::Live, Reach::Unpark, Reach::Reopen] {
                let opens = ended == FinalStatus::Failed && reach == Reach::Reopen;
                let expected = opens
                    .then_some(Accepted {
                        reopens: true,
                        unparks: true,
                    })
                    .ok_or(Delivered::Finished);
                assert_eq!(
                    deliver(&mail(reach), Some(&facts)),
                    expected,
                    "{ended:?} {reach:?}"
                );
            }
        }
    }
}
