//! The conformance suite: every promise of the doors as one function, run alike for every store.
//!
//! A store gives a [`Harness`]: how to make an empty place and how to open a store there. [`run`] makes a place for each
//! promise, keeps going when one is broken, and names all that are. What needs several processes is in [`processes`] and
//! [`killed`]; what only one backend can show (a full disk, an index) is that backend's own test.

mod admit;
mod batch;
mod claim;
mod commit;
mod concurrency;
mod definitions;
mod deliver;
mod ground;
mod heartbeat;
mod marker;
mod promise;
mod prune;
mod query;
mod release;
mod tables;
mod takeover;
mod upkeep;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;
use lope_model::Span;

pub use promise::{Broken, Report};

use crate::store::Store;

/// How a backend makes places for stores.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// A place without a store: a new folder, database or schema. It is removed when the place is dropped.
    async fn fresh(&self) -> Arc<dyn Place>;
}

/// Where one store lives.
#[async_trait]
pub trait Place: Send + Sync + 'static {
    /// Open the store here, as a process of its own would; the first call finds nothing and creates it.
    async fn open(&self) -> Store;

    /// Let the store's clock go on by `span`: a clock moved by hand moves, any other is waited for.
    async fn pass(&self, span: Span) {
        tokio::time::sleep(span.to_duration()).await;
    }
}

/// Hold a store to every promise. Panics with the names of all that it breaks.
pub fn run(harness: impl Harness) {
    run_only(harness, "");
}

/// Hold a store to the promises whose name (`claim::no_run_goes_to_two_claimers`) contains a text.
pub fn run_only(harness: impl Harness, part: &str) {
    let report = promise::report(Arc::new(harness), part);
    println!("{} promises kept", report.kept.len());
    assert!(!report.kept.is_empty() || !report.broken.is_empty(), "no promise is named '{part}'");
    assert!(report.broken.is_empty(), "{report}");
}

/// The names of all promises.
pub fn names() -> Vec<String> {
    promise::all().map(promise::Promise::name).collect()
}
