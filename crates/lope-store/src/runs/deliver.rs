//! `deliver`: mail to a run, whoever owns it. Its id is remembered as long as the run is, so mail
//! sent twice arrives once.

use lope_model::{RunId, Timestamp, limit};

/// How far mail reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// A live run; one that is parked stays parked.
    Live,
    /// A live run, taken out of parking.
    Unpark,
    /// Also a run that failed: it goes back into the queue, with its journal, its key and its
    /// epoch, without its error and end. One that completed or was cancelled has ended for good.
    /// Which it is must be decided where the mail is written: a sender knows it from before. A
    /// live one is reached as by `Unpark`.
    Reopen,
}

/// Mail to be delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deliver {
    pub run: RunId,
    /// Unique per run: the second delivery of an id is a duplicate.
    pub id: String,
    /// What it is to the law: `signal`, `input`, `cancel`, `child`… Opaque to the store.
    pub kind: String,
    pub body: Vec<u8>,
    pub reach: Reach,
    /// It may use the room that is kept beside the mail that anybody sends (`limit::MAIL_RESERVED`):
    /// what steers the run, and the ends of its children.
    pub reserved: bool,
}

impl Deliver {
    /// Most mail that may wait before it.
    pub const fn room(&self) -> u64 {
        if self.reserved {
            limit::MAIL_MAX + limit::MAIL_RESERVED
        } else {
            limit::MAIL_MAX
        }
    }
}

/// The answer to one delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivered {
    /// It waits for the owner, durably, and the run will be woken.
    Accepted,
    /// Mail with this id was delivered before, whatever became of the run since; nothing was
    /// written.
    Duplicate,
    /// The run has ended, and not in a way that this mail reopens; nothing was written.
    Finished,
    /// There is no such run.
    Missing,
    /// Too much mail waits (`Deliver::room`); nothing was written.
    Full,
}

/// Mail that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail {
    /// Its number: rises with arrival, unique per run.
    pub number: u64,
    pub id: String,
    pub kind: String,
    pub body: Vec<u8>,
    pub at: Timestamp,
}
