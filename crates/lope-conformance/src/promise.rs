//! What a promise is, and what a report says of it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use super::ground::Ground;
use lope_store::error::StoreResult;

/// What keeping a promise comes to: an assertion that failed is a panic.
pub(crate) type Kept = StoreResult<()>;

#[derive(Clone, Copy)]
pub(crate) struct Promise {
    pub(crate) module: &'static str,
    pub(crate) function: &'static str,
    pub(crate) keep: fn(Ground) -> Pin<Box<dyn Future<Output = Kept> + Send>>,
}

/// A promise that was not kept, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    pub promise: String,
    pub why: String,
}

/// Which promises a store kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SuiteReport {
    pub kept: Vec<String>,
    pub broken: Vec<Broken>,
    /// Not looked at, since nobody can damage or take away such a store.
    pub left_out: Vec<String>,
}

/// Lists the promises of a file.
macro_rules! promises {
    ($($function:ident),* $(,)?) => {
        pub(crate) const PROMISES: &[crate::promise::Promise] = &[$(
            crate::promise::Promise {
                module: module_path!(),
                function: stringify!($function),
                keep: |ground| Box::pin($function(ground)),
            }
        ),*];
    };
}
pub(crate) use promises;

impl Promise {
    /// `claim::no_run_goes_to_two_claimers`.
    pub(crate) fn name(&self) -> String {
        let group = self.module.split("::").nth(1).unwrap_or(self.module);
        format!("{group}::{}", self.function)
    }
}

impl SuiteReport {
    pub(crate) fn enter(&mut self, promise: Promise, verdict: Result<(), String>) {
        match verdict {
            Ok(()) => self.kept.push(promise.name()),
            Err(why) => self.broken.push(Broken {
                promise: promise.name(),
                why,
            }),
        }
    }
}

impl fmt::Display for SuiteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} promises kept, {} left out, {} broken:",
            self.kept.len(),
            self.left_out.len(),
            self.broken.len()
        )?;
        self.broken
            .iter()
            .try_for_each(|broken| writeln!(f, "  {}\n    {}", broken.promise, broken.why))
    }
}
