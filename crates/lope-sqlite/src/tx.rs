//! What a verb works on: one connection inside a transaction, the time, what the store shares; and
//! how a verb becomes a job that a thread carries out and answers.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lope_model::{Moment, Timestamp};
use lope_store::watch::Hint;
use lope_store::{StoreError, StoreResult};
use rusqlite::{CachedStatement, Connection};
use tokio::sync::oneshot;

use crate::failure::{SqliteFault, Worked};
use crate::inner::SqliteInner;

/// A verb's view of the store: a transaction, and the time it is.
#[derive(Debug)]
pub(crate) struct Tx<'a> {
    pub(crate) db: &'a Connection,
    pub(crate) now: Timestamp,
    pub(crate) moment: Moment,
    pub(crate) inner: &'a SqliteInner,
    notices: Cell<Notices>,
}

/// Which doors' watchers to notify once the transaction is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Notices {
    pub(crate) runs: Hint,
    pub(crate) tables: bool,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(db: &'a Connection, inner: &'a SqliteInner) -> Self {
        let clock = &inner.options.clock;
        Self {
            db,
            now: clock.now(),
            moment: clock.moment(),
            inner,
            notices: Cell::default(),
        }
    }

    /// A statement that stays prepared on this connection.
    pub(crate) fn statement(&self, sql: &str) -> Worked<CachedStatement<'_>> {
        Ok(self.db.prepare_cached(sql)?)
    }

    /// There may be work for a runner.
    pub(crate) fn made_work(&self) {
        self.concerns(Hint::Work);
    }

    /// A run has ended.
    pub(crate) fn ended_run(&self) {
        self.concerns(Hint::Ended);
    }

    fn concerns(&self, hint: Hint) {
        let notices = self.notices.get();
        self.notices.set(Notices {
            runs: notices.runs.max(hint),
            ..notices
        });
    }

    /// The byte tables were written.
    pub(crate) fn wrote_tables(&self) {
        self.notices.set(Notices {
            tables: true,
            ..self.notices.get()
        });
    }

    pub(crate) fn notices(&self) -> Notices {
        self.notices.get()
    }
}

impl Notices {
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            runs: self.runs.max(other.runs),
            tables: self.tables || other.tables,
        }
    }

    pub(crate) fn any(self) -> bool {
        self.runs > Hint::Nothing || self.tables
    }
}

/// Something to do in a transaction, and somebody who waits for the answer. It may be done again if
/// the transaction it was part of was rolled back.
pub(crate) trait StoreJob: Send {
    /// About how many rows it writes.
    fn rows(&self) -> usize;
    fn work(&mut self, tx: &Tx<'_>) -> Worked<()>;
    /// Tell whoever waits.
    fn settle(self: Box<Self>, outcome: StoreResult<()>);
}

struct VerbJob<T, F> {
    rows: usize,
    verb: F,
    done: Option<T>,
    answer: oneshot::Sender<StoreResult<T>>,
}

/// A job that carries out `verb`, and where its answer will come.
pub(crate) fn job<T, F>(
    rows: usize,
    verb: F,
) -> (Box<dyn StoreJob>, oneshot::Receiver<StoreResult<T>>)
where
    T: Send + 'static,
    F: FnMut(&Tx<'_>) -> Worked<T> + Send + 'static,
{
    let (answer, reply) = oneshot::channel();
    (
        Box::new(VerbJob {
            rows,
            verb,
            done: None,
            answer,
        }),
        reply,
    )
}

impl<T, F> StoreJob for VerbJob<T, F>
where
    T: Send,
    F: FnMut(&Tx<'_>) -> Worked<T> + Send,
{
    fn rows(&self) -> usize {
        self.rows
    }

    /// A panic in a verb is contained: its transaction is rolled back and its caller told; others
    /// go on.
    fn work(&mut self, tx: &Tx<'_>) -> Worked<()> {
        let worked = catch_unwind(AssertUnwindSafe(|| (self.verb)(tx)));
        self.done = Some(worked.map_err(|_| {
            SqliteFault::Store(StoreError::refused("a verb of the store panicked"))
        })??);
        Ok(())
    }

    fn settle(self: Box<Self>, outcome: StoreResult<()>) {
        let VerbJob { done, answer, .. } = *self;
        let told = outcome.map(|()| done.expect("a job that went well was worked on"));
        // Whoever asked may have gone away.
        let _ = answer.send(told);
    }
}
