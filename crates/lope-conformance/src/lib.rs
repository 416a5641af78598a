//! The conformance suite: every promise of the doors as one function, run alike for every store.
//!
//! A store gives a [`Harness`]: how to make an empty place and how to open a store there. [`run`]
//! makes a place for each promise, keeps going when one is broken, and names all that are. What
//! needs several processes is in [`processes`] and [`killed`]; what only one backend can show (a
//! full disk, an index) is that backend's own test.

mod admit;
mod batch;
mod board;
mod child;
mod claim;
mod commit;
mod concurrency;
mod damage;
mod definitions;
mod deliver;
mod ground;
mod heartbeat;
pub mod killed;
mod mailbox_send;
mod marker;
pub mod processes;
mod promise;
mod prune;
mod query;
mod release;
mod schedule;
mod site;
mod suite;
mod tables;
mod takeover;
mod timers;
mod upkeep;
mod watch;

use std::sync::Arc;

pub use child::{OpenStore, Opening};
pub use promise::{Broken, SuiteReport};
pub use site::{Harness, StoreSite};

/// Hold a store to every promise. Panics with the names of all that it breaks.
pub fn run(harness: impl Harness) -> SuiteReport {
    run_only(harness, "")
}

/// Hold a store to the promises whose name (`claim::no_run_goes_to_two_claimers`) contains a text.
pub fn run_only(harness: impl Harness, part: &str) -> SuiteReport {
    let report = suite::report(Arc::new(harness), part);
    println!("{report}");
    assert!(
        report != SuiteReport::default(),
        "no promise is named '{part}'"
    );
    assert!(report.broken.is_empty(), "{report}");
    report
}

/// If this process was started as a child by [`processes::run`] or [`killed::run`]: do its work,
/// and answer true. Then there is nothing else to do here.
pub fn child_entry(open: OpenStore) -> bool {
    let Some(order) = child::order() else {
        return false;
    };
    match order.role {
        child::ChildRole::Worker => processes::child(open, &order),
        child::ChildRole::Writer => killed::child(open, &order),
    }
    true
}

/// The names of all promises.
pub fn names() -> Vec<String> {
    suite::all().map(promise::Promise::name).collect()
}

/// The guide to stores: its example is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/write-your-own-store.md")]
mod guide {}
