//! The supervisor: a part that panics is picked up and begins again after a pause. Parts that keep
//! panicking break the engine: it says so, once, and works no more, so that whoever runs it can end
//! the process instead of leaving it up doing nothing.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use lope_model::{Moment, Span};
use tokio::sync::watch;

use super::clock::ProcessClock;
use crate::breakdown::Breakdown;

/// Falls of one part within the window that break the engine.
pub(crate) const FALLS_MAX: usize = 6;
const WINDOW: Span = Span::from_secs(60);
/// Pause after the first fall; it doubles with every other one in the window.
const PAUSE: Span = Span::from_millis(20);
const PAUSE_MAX: Span = Span::from_secs(5);

/// A part of the engine that works as long as the engine does.
pub(crate) trait SupervisedTask: Send {
    const NAME: &'static str;

    /// Until the engine ends.
    fn work(&mut self) -> impl Future<Output = ()> + Send;

    /// It fell: give up what may be half done, so that it can begin again.
    fn pick_up(&mut self) {}
}

/// Have a part work until the engine ends or is broken.
pub(crate) async fn supervise(mut part: impl SupervisedTask, supervisor: Arc<Supervisor>) {
    loop {
        let Err(why) = caught(part.work()).await else {
            return;
        };
        let Some(pause) = supervisor.fell(part_name(&part), &why) else {
            return;
        };
        tokio::time::sleep(pause).await;
        if catch_unwind(AssertUnwindSafe(|| part.pick_up())).is_err() {
            return supervisor.break_down(Breakdown::Unrecoverable {
                part: part_name(&part),
                panic: why,
            });
        }
    }
}

const fn part_name<P: SupervisedTask>(_: &P) -> &'static str {
    P::NAME
}

/// What a future comes to, or the words of its panic.
pub(crate) async fn caught<F: Future>(work: F) -> Result<F::Output, String> {
    let mut work = Box::pin(work);
    poll_fn(
        |context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(words(&*panic))),
        },
    )
    .await
}

/// What a panic said.
pub(crate) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked without a word".to_owned())
}

/// When a part fell lately.
#[derive(Debug, Default)]
struct Falls(VecDeque<Moment>);

impl Falls {
    /// One more: the pause before it begins again, or `None` if there were too many.
    fn fell(&mut self, now: Moment) -> Option<Span> {
        self.0.push_back(now);
        while self
            .0
            .front()
            .is_some_and(|first| now.since(*first) > WINDOW)
        {
            self.0.pop_front();
        }
        let doubled = PAUSE.times(1 << (self.0.len() - 1).min(8));
        (self.0.len() < FALLS_MAX).then(|| doubled.min(PAUSE_MAX))
    }
}

/// Counts the falls of an engine's parts, and tells when it is broken.
#[derive(Debug)]
pub(crate) struct Supervisor {
    clock: ProcessClock,
    falls: Mutex<BTreeMap<&'static str, Falls>>,
    broken: watch::Sender<Option<Breakdown>>,
}

impl Supervisor {
    pub(crate) fn new(clock: ProcessClock) -> Self {
        Self {
            clock,
            falls: Mutex::default(),
            broken: watch::Sender::new(None),
        }
    }

    /// A part fell: how long to wait before it begins again. `None`: it does not, the engine is
    /// broken.
    pub(crate) fn fell(&self, part: &'static str, why: &str) -> Option<Duration> {
        let mut falls = self.falls.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = falls.entry(part).or_default().fell(self.clock.moment());
        drop(falls);
        match pause {
            Some(pause) => {
                tracing::error!(part, why, pause = %pause, "a part of the engine panicked; it begins again");
            }
            None => self.break_down(Breakdown::Panicking {
                part,
                times: FALLS_MAX,
                panic: why.to_owned(),
            }),
        }
        pause.map(Span::to_duration)
    }

    /// The engine can do no more work. The first reason counts.
    pub(crate) fn break_down(&self, why: Breakdown) {
        let first = |said: &mut Option<Breakdown>| {
            let fresh = said.is_none();
            if fresh {
                tracing::error!(%why, "the engine is broken and works no more");
                *said = Some(why);
            }
            fresh
        };
        self.broken.send_if_modified(first);
    }

    pub(crate) fn why_broken(&self) -> Option<Breakdown> {
        self.broken.borrow().clone()
    }

    /// Waits until the engine is broken, which it may never be.
    pub(crate) fn broken(&self) -> impl Future<Output = Breakdown> + Send + use<> {
        let mut told = self.broken.subscribe();
        async move {
            let why = match told.wait_for(Option::is_some).await {
                Ok(why) => why.clone(),
                Err(_) => None,
            };
            match why {
                Some(why) => why,
                // The engine has ended.
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_too_many_falls_in_a_minute_are_the_end() {
        let mut falls = Falls::default();
        let pauses: Vec<_> = (0..6)
            .map(|second| falls.fell(Moment(second * 1_000)))
            .collect();
        let millis = |millis| Some(Span::from_millis(millis));
        assert_eq!(
            pauses,
            [
                millis(20),
                millis(40),
                millis(80),
                millis(160),
                millis(320),
                None
            ]
        );
    }

    #[test]
    fn falls_that_are_far_apart_are_forgiven() {
        let mut falls = Falls::default();
        assert!((0..100).all(|minute| falls.fell(Moment(minute * 61_000)) == Some(PAUSE)));
    }
}
