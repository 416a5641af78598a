//! The scheduler: starts what schedules say, when it is due by the store's clock.
//!
//! It looks when the next schedule is due, when somebody may have changed one, and now and then in
//! case that was not heard. What is decided is decided in `lope-schedule`; that a tick starts
//! one run however many runners look is the store's promise.

use std::sync::Arc;
use std::time::Duration;

use lope_model::{Digest, Span};
use lope_store::Store;
use tokio::time::Instant;

use super::adopter::Adopter;
use super::seam;
use super::supervisor::SupervisedTask;
use crate::fire::{FiredDue, fire_due};
use crate::settings::Settings;

/// Most schedules dealt with in one look; if there are more, the next look follows at once.
const BATCH: usize = 100;
/// After a look a notification is answered no sooner than this: they come for all kinds of work.
const QUIET: Duration = Duration::from_millis(500);
/// Pause after a store that did not answer: it doubles up to the longest.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);

pub(crate) struct ScheduleTask {
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) adopter: Arc<Adopter>,
}

impl SupervisedTask for ScheduleTask {
    const NAME: &'static str = "scheduler";

    async fn work(&mut self) {
        let mut notification = self.store.runs.watch();
        let mut failures = 0;
        loop {
            seam::pass(&self.settings.name, Self::NAME);
            let pause = match fire_due(&self.store, &self.adopter.plans, BATCH, self.offset()).await
            {
                Ok(looked) => {
                    failures = 0;
                    self.pause(&looked)
                }
                Err(error) => {
                    tracing::warn!(%error, "schedules were not looked at");
                    failures += 1;
                    let doubled = AGAIN.saturating_mul(1 << failures.min(10)).min(AGAIN_MAX);
                    tokio::time::sleep(doubled).await;
                    continue;
                }
            };
            let until = Instant::now() + pause;
            tokio::time::sleep(pause.min(QUIET)).await;
            tokio::select! {
                () = notification.changed() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }
}

impl ScheduleTask {
    /// Where in the line of due schedules this runner begins.
    fn offset(&self) -> usize {
        Digest::of(self.adopter.runner().as_bytes()).short() as usize
    }

    /// How long nothing can be due, as far as is known.
    fn pause(&self, looked: &FiredDue) -> Duration {
        if looked.due > 0 {
            return Duration::ZERO;
        }
        let longest = if looked.waits {
            self.settings.sweep
        } else {
            self.settings.heartbeat
        };
        let due = looked.next_due.map(|due| due.since(looked.now));
        let pause = due.map_or(longest, |due| due.min(longest));
        // A due time is a whole millisecond; to look before it has come would be to look twice.
        (pause + Span::from_millis(1)).to_duration()
    }
}
