//! What drives the machines in production: threads, tasks, store calls, clocks. Nothing here decides.

pub(crate) mod clock;
pub(crate) mod committer;
pub(crate) mod desk;
pub(crate) mod family;
pub(crate) mod inbox;
pub(crate) mod keeping;
pub(crate) mod plans;
pub(crate) mod prune;
pub(crate) mod scheduler;
pub(crate) mod seam;
pub(crate) mod shards;
pub(crate) mod supervisor;

#[cfg(test)]
mod tests;
