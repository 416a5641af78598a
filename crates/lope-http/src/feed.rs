//! Feeds: what changed of something, as events with numbers, for whoever watches.
//!
//! One task looks for everybody, and only while somebody watches. What differs from the last look is
//! an event, also if nobody watched between the two. A watcher that comes back with the id of its
//! last event is given what came after it, each once; if that is not known any more, it is told
//! `reset`: read the list anew. What is looked at, and what of it is an event, its kind knows.

mod named;
mod runs;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lope::{Client, Runner};
use serde_json::Value as Json;
use tokio::sync::{broadcast, watch};

pub use named::{NamedChanges, SeenThings};
pub use runs::{RunChanges, SeenRuns};

use crate::api_error::ApiError;
use crate::clock;
use crate::event_frame::event_frame;

/// Events kept for those who come back.
const KEPT: usize = 4_096;
/// The time between two looks is at least so many times as long as a look.
const SPACING_TIMES: u32 = 2;

/// Why a feed looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// Something may have happened.
    Told,
    /// Nobody said that anything did, and whoever works elsewhere does not say everything.
    Idle,
}

/// What a feed tells of.
pub trait FeedKind: fmt::Debug + Send + Sync + 'static {
    /// What one look saw.
    type Seen: Send;

    /// How often to look when nobody says that anything happened.
    const IDLE: Duration;
    /// Least time between two looks.
    const SPACING: Duration;
    /// Does the runner of this process tell when something happened?
    const HEARS_RUNNER: bool;

    /// Look at the store. What nobody can change without saying so need not be asked for when idle.
    fn query(
        &self,
        client: &Client,
        look: Look,
    ) -> impl Future<Output = Result<Self::Seen, ApiError>> + Send;

    /// What differs from the look before, as events with their names; the first look tells nothing.
    fn changes(&self, seen: Self::Seen) -> Vec<(&'static str, Json)>;

    /// Is a look due before it is said up to where a page shows everything?
    fn is_due(&self) -> bool;
}

/// What changed, for whoever watches.
#[derive(Debug)]
pub struct Feed<K> {
    kind: K,
    state: Mutex<FeedState>,
    /// The number of the last event.
    last_number: watch::Sender<u64>,
}

#[derive(Debug)]
struct FeedState {
    /// Tells the numbers of this process from those of another.
    origin: String,
    events: VecDeque<FedEvent>,
    looking: bool,
}

impl FeedState {
    /// The id of an event.
    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.origin)
    }
}

/// Something that changed.
#[derive(Clone, Debug)]
pub struct FedEvent {
    pub number: u64,
    /// As every watcher is sent it: made once, however many watch.
    pub frame: Bytes,
}

impl<K: FeedKind> Feed<K> {
    pub fn new(kind: K) -> Self {
        Self {
            kind,
            state: Mutex::new(FeedState {
                origin: format!("{:x}", clock::now().millis()),
                events: VecDeque::new(),
                looking: false,
            }),
            last_number: watch::Sender::new(0),
        }
    }

    /// Where a page that is made after this call goes on: it shows everything up to there.
    pub async fn cursor(&self, client: &Client) -> Result<String, ApiError> {
        if self.kind.is_due() {
            self.refresh(client, Look::Told).await?;
        }
        Ok(self.text(*self.last_number.borrow()))
    }

    /// The id of an event.
    pub fn text(&self, number: u64) -> String {
        self.state().id(number)
    }

    /// What came after a cursor. Nothing: that is not known.
    pub fn since(&self, cursor: &str) -> Option<Vec<FedEvent>> {
        let last = *self.last_number.borrow();
        let state = self.state();
        let (origin, number) = cursor.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        let oldest = state.events.front().map_or(last + 1, |it| it.number);
        if origin != state.origin || number > last || number + 1 < oldest {
            return None;
        }
        // Their numbers follow each other.
        let known = usize::try_from(number + 1 - oldest).ok()?;
        Some(state.events.iter().skip(known).cloned().collect())
    }

    /// Be told of the numbers of new events from now on.
    pub fn subscribe(
        self: &Arc<Self>,
        client: &Client,
        runner: Option<&Runner>,
    ) -> watch::Receiver<u64> {
        let receiver = self.last_number.subscribe();
        let mut state = self.state();
        if !state.looking {
            state.looking = true;
            let runner = runner.filter(|_| K::HEARS_RUNNER).cloned();
            tokio::spawn(poll_while_watched(Arc::clone(self), client.clone(), runner));
        }
        receiver
    }

    async fn refresh(&self, client: &Client, look: Look) -> Result<(), ApiError> {
        let seen = self.kind.query(client, look).await?;
        self.note(seen);
        Ok(())
    }

    /// What differs from the last look becomes events.
    fn note(&self, seen: K::Seen) {
        let mut state = self.state();
        let mut number = *self.last_number.borrow();
        for (name, value) in self.kind.changes(seen) {
            number += 1;
            let frame = event_frame(&state.id(number), name, &value);
            state.events.push_back(FedEvent { number, frame });
        }
        let surplus = state.events.len().saturating_sub(KEPT);
        state.events.drain(..surplus);
        // Two looks may end at once: the number moves with what it counts.
        self.last_number.send_if_modified(|last| {
            let more = *last != number;
            *last = number;
            more
        });
        drop(state);
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// May the task end? Whoever subscribes later starts another one.
    fn ends(&self) -> bool {
        let mut state = self.state();
        let unwatched = self.last_number.receiver_count() == 0;
        state.looking = !unwatched;
        unwatched
    }
}

async fn poll_while_watched<K: FeedKind>(
    feed: Arc<Feed<K>>,
    client: Client,
    runner: Option<Runner>,
) {
    let mut watch = client.watch();
    let mut news = match &runner {
        Some(runner) => runner.news().await.ok(),
        None => None,
    };
    let mut look = Look::Told;
    let mut costs = LookCosts::default();
    while !feed.ends() {
        let began = Instant::now();
        let looked = feed.refresh(&client, look).await;
        if let Err(error) = &looked {
            tracing::debug!(error = error.message, "a feed cannot look");
        }
        let pause = costs.pause_after(began.elapsed());
        tokio::time::sleep(K::SPACING.max(pause)).await;
        look = tokio::select! {
            () = heard(&mut news) => Look::Told,
            () = watch.changed() => Look::Told,
            () = tokio::time::sleep(K::IDLE) => match looked {
                Ok(()) => Look::Idle,
                // What was told is still to be looked at.
                Err(_) => look,
            },
        };
        // What was told while it slept is looked at once.
        while news.as_mut().is_some_and(|news| news.try_recv().is_ok()) {}
    }
}

/// How long looks take, so that they are no more than a share of the time.
#[derive(Default)]
struct LookCosts(Duration);

impl LookCosts {
    /// How long to wait after a look that took so long. One that was held up once does not hold up
    /// the next: of two the shorter counts.
    fn pause_after(&mut self, took: Duration) -> Duration {
        let before = std::mem::replace(&mut self.0, took);
        took.min(before) * SPACING_TIMES
    }
}

/// Until a runner tells something. One that has ended tells nothing more: its channel is forgotten.
async fn heard<T: Clone>(news: &mut Option<broadcast::Receiver<T>>) {
    if let Some(open) = news {
        let told = open.recv().await;
        match told {
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => *news = None,
        }
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn feed() -> Feed<NamedChanges> {
        Feed::new(NamedChanges::new("thing", "name", |_| {
            Box::pin(async { Ok(SeenThings::new()) })
        }))
    }

    fn seen(things: &[(&str, u32)]) -> SeenThings {
        let things = things.iter();
        things
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect()
    }

    #[test]
    fn whoever_comes_back_is_told_each_change_once() {
        let feed = feed();
        feed.note(seen(&[("a", 1), ("b", 1)]));
        let cursor = feed.text(0);
        assert!(feed.since(&cursor).unwrap().is_empty(), "it begins now");
        feed.note(seen(&[("a", 2), ("b", 1)]));
        feed.note(seen(&[("a", 2), ("b", 1)]));
        feed.note(seen(&[("a", 2), ("c", 3)]));
        let told = feed.since(&cursor).unwrap();
        let frames: Vec<&[u8]> = told.iter().map(|it| &*it.frame).collect();
        let expected = [
            ("thing", json!(2)),
            ("thing", json!(3)),
            ("removed", json!({ "name": "b" })),
        ];
        let expected: Vec<String> = (1..)
            .zip(expected)
            .map(|(number, (name, value))| {
                let id = feed.text(number);
                format!("id: {id}\nevent: {name}\ndata: {value}\n\n")
            })
            .collect();
        let expected: Vec<&[u8]> = expected.iter().map(String::as_bytes).collect();
        assert_eq!(frames, expected);
        assert_eq!(feed.since(&feed.text(2)).unwrap().len(), 1);
        assert!(feed.since(&feed.text(3)).unwrap().is_empty());
        for strange in ["", "0", "other-1", "x", &feed.text(4)] {
            assert!(feed.since(strange).is_none(), "{strange}");
        }
    }

    /// A channel that is closed answers at once, for ever: a feed that went on hearing it would never
    /// be idle.
    #[tokio::test]
    async fn a_runner_that_has_ended_is_heard_no_more() {
        let (runner, news) = broadcast::channel(1);
        let mut news = Some(news);
        runner.send("first").unwrap();
        runner.send("second").unwrap();
        heard(&mut news).await;
        heard(&mut news).await;
        drop(runner);
        for _ in 0..2 {
            tokio::select! {
                biased;
                () = heard(&mut news) => panic!("nobody is there to tell anything"),
                () = std::future::ready(()) => {}
            }
            assert!(news.is_none());
        }
    }

    #[test]
    fn looks_are_a_share_of_the_time_and_one_that_was_held_up_is_no_measure() {
        let mut costs = LookCosts::default();
        let pauses = [40, 2, 90, 3, 30, 20, 1].map(|took| {
            let pause = costs.pause_after(Duration::from_millis(took));
            pause.as_millis()
        });
        assert_eq!(pauses, [0, 4, 4, 6, 6, 40, 2]);
    }

    #[test]
    fn what_is_too_long_ago_is_not_known() {
        let feed = feed();
        for value in 0..5_000 {
            feed.note(seen(&[("a", value)]));
        }
        assert!(feed.since(&feed.text(1)).is_none());
        assert_eq!(feed.since(&feed.text(4_990)).unwrap().len(), 9);
    }
}
