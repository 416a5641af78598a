//! A store that fails when it is told to: around any store, for crash tests and simulation.
//!
//! Before every call a hook decides: let it pass, fail it, lose its answer, or crash before or
//! after it. After a crash the store is gone for whoever held it (`Closed`), while what stands
//! behind it remains and can be opened again.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::board::{Board, BoardAnswer, BoardRequest};
use crate::door::DoorCall;
use crate::error::{StoreError, StoreResult};
use crate::runs::{Runs, RunsAnswer, RunsRequest};
use crate::store::{Finding, Store, Upkeep, UpkeepAnswer, UpkeepRequest};
use crate::tables::{Tables, TablesAnswer, TablesRequest};
use crate::transfer::Transfer;
use crate::watch::Watch;

/// A call that is about to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreCall {
    pub door: Door,
    /// The verb, as the trait names it: `commit`.
    pub verb: &'static str,
    /// How many calls were made before it through this store.
    pub number: u64,
}

/// Which door a call goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    Tables,
    Runs,
    Board,
    Upkeep,
}

/// What becomes of a call.
#[derive(Debug)]
pub enum InjectedFault {
    /// Nothing: it is made and answered.
    None,
    /// It is not made; this is the answer.
    Fail(StoreError),
    /// It is made; the answer is `Unknown`.
    LoseAnswer,
    /// It is not made, and everything from here on is `Closed`.
    CrashBefore,
    /// It is made, and its answer and everything from here on is `Closed`.
    CrashAfter,
}

/// Decides about each call.
pub type Hook = Arc<dyn Fn(StoreCall) -> InjectedFault + Send + Sync>;

/// The doors of a store with a hook before them.
struct FaultyStore {
    store: Store,
    hook: Hook,
    calls: AtomicU64,
    crashed: AtomicBool,
}

/// `store` with a hook before every call.
pub fn with_faults(store: Store, hook: Hook) -> Store {
    let faulty = FaultyStore {
        store,
        hook,
        calls: AtomicU64::new(0),
        crashed: AtomicBool::new(false),
    };
    let faulty = Arc::new(faulty);
    Store {
        tables: faulty.clone(),
        runs: faulty.clone(),
        board: faulty.clone(),
        upkeep: faulty,
    }
}

impl Runs for FaultyStore {
    fn call(&self, request: RunsRequest) -> DoorCall<'_, RunsAnswer> {
        let verb = request.verb();
        Box::pin(self.through(Door::Runs, verb, self.store.runs.call(request)))
    }

    /// It cannot fail; a hook may still panic at it.
    fn watch(&self) -> Watch {
        self.noticed(Door::Runs, "watch");
        self.store.runs.watch()
    }
}

impl Board for FaultyStore {
    fn call(&self, request: BoardRequest) -> DoorCall<'_, BoardAnswer> {
        let verb = request.verb();
        Box::pin(self.through(Door::Board, verb, self.store.board.call(request)))
    }

    fn watch(&self) -> Watch {
        self.store.board.watch()
    }
}

impl Tables for FaultyStore {
    fn call(&self, request: TablesRequest) -> DoorCall<'_, TablesAnswer> {
        let verb = request.verb();
        Box::pin(self.through(Door::Tables, verb, self.store.tables.call(request)))
    }

    fn watch(&self) -> Watch {
        self.store.tables.watch()
    }
}

impl Upkeep for FaultyStore {
    fn call(&self, request: UpkeepRequest) -> DoorCall<'_, UpkeepAnswer> {
        let verb = request.verb();
        Box::pin(self.through(Door::Upkeep, verb, self.store.upkeep.call(request)))
    }

    fn describe(&self) -> String {
        self.store.upkeep.describe()
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        self.store.upkeep.transfer()
    }

    fn stopped_writer(&self) -> Option<Finding> {
        self.store.upkeep.stopped_writer()
    }
}

impl FaultyStore {
    async fn through<T>(
        &self,
        door: Door,
        verb: &'static str,
        made: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        self.is_up()?;
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        match (self.hook)(StoreCall { door, verb, number }) {
            InjectedFault::None => {
                let answer = made.await;
                // An answer that comes after a crash reaches nobody.
                self.is_up().and(answer)
            }
            InjectedFault::Fail(error) => Err(error),
            InjectedFault::LoseAnswer => {
                made.await?;
                Err(StoreError::unknown("the answer was lost"))
            }
            InjectedFault::CrashBefore => self.crash(),
            InjectedFault::CrashAfter => {
                let _nobody_hears_it = made.await;
                self.crash()
            }
        }
    }

    /// Tell the hook of a call that has no answer and is not counted.
    fn noticed(&self, door: Door, verb: &'static str) {
        let number = self.calls.load(Ordering::Relaxed);
        let _no_fault_applies = (self.hook)(StoreCall { door, verb, number });
    }

    fn is_up(&self) -> StoreResult<()> {
        if self.crashed.load(Ordering::Acquire) {
            Err(StoreError::Closed)
        } else {
            Ok(())
        }
    }

    fn crash<T>(&self) -> StoreResult<T> {
        self.crashed.store(true, Ordering::Release);
        Err(StoreError::Closed)
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyStore({:?})", self.store)
    }
}
