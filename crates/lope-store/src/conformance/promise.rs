//! What a promise is, and what a report says of it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use super::ground::Ground;
use crate::error::StoreResult;

/// What keeping a promise comes to: an assertion that failed is a panic.
pub(super) type Kept = StoreResult<()>;

#[derive(Clone, Copy)]
pub(super) struct Promise {
    pub(super) module: &'static str,
    pub(super) function: &'static str,
    pub(super) keep: fn(Ground) -> Pin<Box<dyn Future<Output = Kept> + Send>>,
}

/// A promise that was not kept, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    pub promise: String,
    pub why: String,
}

/// Which promises a store kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    pub kept: Vec<String>,
    pub broken: Vec<Broken>,
}

/// Lists the promises of a file.
macro_rules! promises {
    ($($function:ident),* $(,)?) => {
        pub(super) const PROMISES: &[crate::conformance::promise::Promise] = &[$(
            crate::conformance::promise::Promise {
                module: module_path!(),
                function: stringify!($function),
                keep: |ground| Box::pin($function(ground)),
            }
        ),*];
    };
}
pub(super) use promises;

impl Promise {
    /// `claim::no_run_goes_to_two_claimers`.
    pub(super) fn name(&self) -> String {
        let group = self.module.rsplit("::").next().unwrap_or(self.module);
        format!("{group}::{}", self.function)
    }
}

impl Report {
    pub(super) fn enter(&mut self, (promise, verdict): (Promise, Result<(), String>)) {
        match verdict {
            Ok(()) => self.kept.push(promise.name()),
            Err(why) => self.broken.push(Broken { promise: promise.name(), why }),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} promises kept, {} broken:", self.kept.len(), self.broken.len())?;
        self.broken.iter().try_for_each(|broken| writeln!(f, "  {}\n    {}", broken.promise, broken.why))
    }
}
