//! Wall clocks that are set, here or on the server, neither end the lease of a host that lives nor
//! keep that of a dead one.

use std::sync::Arc;
use std::time::Duration;

use lope_model::{Clock, Moment, Span, Timestamp};
use lope_reactive::hosting::{
    LeaseRequest, NoEffects, PoolOptions, SpaceClient, SpaceHost, SpacePool,
};
use lope_reactive::javascript::JavaScript;
use lope_reactive::machine::{Arrival, SpaceAction, SpaceCommand};
use lope_reactive::runner::RecipeRunner;
use lope_store::{MemoryStore, Store, SystemClock};

use crate::fixture::{cell, space};
use crate::host::modules;

/// Long enough for a machine that stands still, shorter than the step.
const PATIENCE: Duration = Duration::from_secs(120);
const STEP: i64 = 3_600_000;

/// A wall clock that was set by so much before this process looked at it.
#[derive(Debug, Default)]
struct SteppedClock {
    clock: SystemClock,
    step: i64,
}

impl SteppedClock {
    fn by(step: i64) -> Arc<Self> {
        let clock = SystemClock::default();
        Arc::new(Self { clock, step })
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.now().millis() + self.step)
    }

    fn moment(&self) -> Moment {
        self.clock.moment()
    }
}

fn options(owner: &str, lease: Span) -> PoolOptions {
    PoolOptions {
        modules: modules(),
        lease,
        ..PoolOptions::new(owner.into())
    }
}

async fn pool(store: &Store, clock: Arc<SteppedClock>, options: PoolOptions) -> SpacePool {
    let tables = Arc::clone(&store.tables);
    let started = SpacePool::start(tables, clock, Arc::new(NoEffects), options);
    started.await.unwrap()
}

async fn client(store: &Store, clock: Arc<SteppedClock>, options: PoolOptions) -> SpaceClient {
    let tables = Arc::clone(&store.tables);
    let opened = SpaceClient::open(tables, clock, Arc::new(NoEffects), options);
    opened.await.unwrap()
}

fn increment(id: &str) -> Arrival {
    let action = SpaceAction::Increment {
        at: cell("sum"),
        by: 1.into(),
    };
    let id = id.into();
    Arrival::Command(SpaceCommand { id, action })
}

/// Whoever hosts the space does it.
async fn count(client: &SpaceClient, id: &str) {
    let home = client.space(&space("home"));
    home.deliver(&increment(id)).await.unwrap();
    let done = async {
        while home.receipt(id).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, done).await.unwrap();
}

async fn owner(client: &SpaceClient) -> String {
    let home = client.space(&space("home"));
    home.held(Timestamp::EPOCH).await.unwrap().unwrap().0
}

/// A host that lives keeps its space, whatever time others believe it is.
#[tokio::test(flavor = "multi_thread")]
async fn no_step_takes_a_space_from_a_host_that_lives() {
    for step in [STEP, -STEP] {
        let store = MemoryStore::open();
        let lease = Span::from_secs(600);
        let first = pool(&store, SteppedClock::by(0), options("first", lease)).await;
        let before = client(&store, SteppedClock::by(0), options("before", lease)).await;
        count(&before, "one").await;
        let host = owner(&before).await;
        assert!(host.starts_with("first"), "{host}");
        let stepped = SteppedClock::by(step);
        let second = pool(&store, Arc::clone(&stepped), options("second", lease)).await;
        let after = client(&store, stepped, options("after", lease)).await;
        for number in 0..20 {
            // One that would host the space itself if it were free.
            let id = format!("n{number}");
            let arrival = increment(&id);
            let home = space("home");
            let asked = tokio::time::timeout(PATIENCE, after.request(&home, &arrival));
            assert_eq!(asked.await.unwrap().unwrap().outcome, "handled");
            assert_eq!(owner(&after).await, host, "step {step}");
        }
        second.stop().await;
        first.stop().await;
    }
}

/// A dead host keeps its space for as long as its lease runs, whatever time it wrote.
#[tokio::test(flavor = "multi_thread")]
async fn no_step_keeps_the_space_of_a_dead_host() {
    for step in [STEP, 0, -STEP] {
        let store = MemoryStore::open();
        let lease = Span::from_millis(300);
        let theirs = SteppedClock::by(step);
        let client = client(&store, SteppedClock::by(0), options("client", lease)).await;
        let scripts = Box::new(JavaScript::default());
        let runner = RecipeRunner::new(space("home"), modules(), scripts);
        let asked = LeaseRequest {
            identity: &"dead".into(),
            now: theirs.now(),
            span: lease,
        };
        let dead = SpaceHost::take(client.space(&space("home")), runner, asked).await;
        drop(dead.unwrap());
        assert_eq!(owner(&client).await, "dead");
        let next = pool(&store, SteppedClock::by(0), options("next", lease)).await;
        count(&client, "one").await;
        let host = owner(&client).await;
        assert_ne!(host, "dead", "step {step}");
        next.stop().await;
    }
}
