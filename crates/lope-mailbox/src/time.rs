//! Time as it is handed in: a clock, and a way to sleep. The only file of this crate that waits,
//! and the only one that reads a clock of the machine.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lope_model::{Clock, Moment, Span, Timestamp};
use lope_store::{Reading, StoreResult, SystemClock, Upkeep};
use rustix::time::{ClockId, clock_gettime};

/// A way to wait.
#[async_trait]
pub trait Sleep: Send + Sync + fmt::Debug {
    async fn sleep(&self, span: Span);
}

/// Waits by the runtime's timer.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemSleep;

/// The clock and the sleep of a worker.
#[derive(Clone, Debug)]
pub struct TimeHooks {
    pub clock: Arc<dyn Clock>,
    pub sleep: Arc<dyn Sleep>,
}

/// The clock of a store, so that workers in many processes and on many machines judge leases and
/// timers alike. It is read once and then goes on by this machine's time since boot; `refresh`
/// reads it again.
pub struct StoreClock {
    upkeep: Arc<dyn Upkeep>,
    read: Mutex<(Reading, i64)>,
}

impl StoreClock {
    pub async fn open(upkeep: Arc<dyn Upkeep>) -> StoreResult<Self> {
        let read = Mutex::new((upkeep.reading().await?, since_boot()));
        Ok(Self { upkeep, read })
    }

    pub async fn refresh(&self) -> StoreResult<()> {
        let reading = self.upkeep.reading().await?;
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = (reading, since_boot());
        Ok(())
    }

    fn read(&self) -> (Reading, i64) {
        let (reading, at) = *self.read.lock().unwrap_or_else(PoisonError::into_inner);
        (reading, since_boot().saturating_sub(at))
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        let (reading, passed) = self.read();
        Timestamp::from_millis(reading.now.millis().saturating_add(passed))
    }

    fn moment(&self) -> Moment {
        let (reading, passed) = self.read();
        Moment(reading.moment.0.saturating_add(passed))
    }
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreClock({})", self.upkeep.describe())
    }
}

/// Milliseconds that also pass while the machine sleeps.
fn since_boot() -> i64 {
    let since = clock_gettime(ClockId::Boottime);
    since
        .tv_sec
        .saturating_mul(1_000)
        .saturating_add(since.tv_nsec / 1_000_000)
}

#[async_trait]
impl Sleep for SystemSleep {
    async fn sleep(&self, span: Span) {
        tokio::time::sleep(span.to_duration()).await;
    }
}

impl TimeHooks {
    /// This clock, and real sleep.
    pub fn on(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            sleep: Arc::new(SystemSleep),
        }
    }
}

impl Default for TimeHooks {
    /// The machine's clock. Its moments begin with this value: leases of one store must be judged
    /// by one clock, so workers in several processes are given the store's.
    fn default() -> Self {
        Self::on(Arc::new(SystemClock::default()))
    }
}

#[cfg(test)]
mod tests {
    use lope_store::{ManualClock, MemoryStore};

    use super::*;

    #[tokio::test]
    async fn the_clock_of_a_store_goes_on_and_follows_it_when_refreshed() {
        let theirs = Arc::new(ManualClock::at(Timestamp::from_millis(5_000_000)));
        let store = MemoryStore::with_clock(Arc::clone(&theirs) as Arc<dyn Clock>);
        let clock = StoreClock::open(store.upkeep).await.unwrap();
        let now = clock.now();
        let moment = clock.moment();
        assert!(now >= theirs.now() && moment >= theirs.moment());
        theirs.pass(Span::from_secs(3_600));
        assert!(clock.now() < theirs.now(), "it goes by itself in between");
        clock.refresh().await.unwrap();
        assert!(clock.now() >= theirs.now() && clock.moment() >= theirs.moment());
    }
}
