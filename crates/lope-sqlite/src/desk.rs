//! Where a verb works: one connection inside a transaction, the time, the house; and how a verb becomes a job that a thread
//! carries out and answers.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lope_model::{Moment, Timestamp};
use lope_store::{StoreError, StoreResult};
use rusqlite::{CachedStatement, Connection};
use tokio::sync::oneshot;

use crate::failure::{Fault, Worked};
use crate::house::House;

/// A verb's view of the store: a transaction, and the time it is.
#[derive(Debug)]
pub(crate) struct Desk<'a> {
    pub(crate) db: &'a Connection,
    pub(crate) now: Timestamp,
    pub(crate) moment: Moment,
    pub(crate) house: &'a House,
    rings: Cell<Rings>,
}

/// Which bells to ring once the transaction is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rings {
    pub(crate) runs: bool,
    pub(crate) tables: bool,
}

impl<'a> Desk<'a> {
    pub(crate) fn new(db: &'a Connection, house: &'a House) -> Self {
        let clock = &house.options.clock;
        Self { db, now: clock.now(), moment: clock.moment(), house, rings: Cell::default() }
    }

    /// A statement that stays prepared on this connection.
    pub(crate) fn statement(&self, sql: &str) -> Worked<CachedStatement<'_>> {
        Ok(self.db.prepare_cached(sql)?)
    }

    /// There may be work for a runner.
    pub(crate) fn made_work(&self) {
        self.rings.set(Rings { runs: true, ..self.rings.get() });
    }

    /// The byte tables were written.
    pub(crate) fn wrote_tables(&self) {
        self.rings.set(Rings { tables: true, ..self.rings.get() });
    }

    pub(crate) fn rings(&self) -> Rings {
        self.rings.get()
    }
}

impl Rings {
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self { runs: self.runs || other.runs, tables: self.tables || other.tables }
    }

    pub(crate) fn any(self) -> bool {
        self.runs || self.tables
    }
}

/// Something to do at a desk, and somebody who waits for the answer. It may be done again if the transaction it was part of
/// was rolled back.
pub(crate) trait Job: Send {
    /// About how many rows it writes.
    fn rows(&self) -> usize;
    fn work(&mut self, desk: &Desk<'_>) -> Worked<()>;
    /// Tell whoever waits.
    fn settle(self: Box<Self>, outcome: StoreResult<()>);
}

struct Call<T, F> {
    rows: usize,
    verb: F,
    done: Option<T>,
    answer: oneshot::Sender<StoreResult<T>>,
}

/// A job that carries out `verb`, and where its answer will come.
pub(crate) fn job<T, F>(rows: usize, verb: F) -> (Box<dyn Job>, oneshot::Receiver<StoreResult<T>>)
where
    T: Send + 'static,
    F: FnMut(&Desk<'_>) -> Worked<T> + Send + 'static,
{
    let (answer, reply) = oneshot::channel();
    (Box::new(Call { rows, verb, done: None, answer }), reply)
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnMut(&Desk<'_>) -> Worked<T> + Send,
{
    fn rows(&self) -> usize {
        self.rows
    }

    /// A panic in a verb is contained: its transaction is rolled back and its caller told; others go on.
    fn work(&mut self, desk: &Desk<'_>) -> Worked<()> {
        let worked = catch_unwind(AssertUnwindSafe(|| (self.verb)(desk)));
        self.done = Some(worked.map_err(|_| Fault::Store(StoreError::refused("a verb of the store panicked")))??);
        Ok(())
    }

    fn settle(self: Box<Self>, outcome: StoreResult<()>) {
        let Call { done, answer, .. } = *self;
        let told = outcome.map(|()| done.expect("a job that went well was worked on"));
        // Whoever asked may have gone away.
        let _ = answer.send(told);
    }
}
