//! What drives the machines in production: threads, tasks, store calls, clocks. Nothing here
//! decides.

pub(crate) mod adopter;
pub(crate) mod clock;
pub(crate) mod committer;
pub(crate) mod descendants;
pub(crate) mod dispatcher;
pub(crate) mod executor_handle;
pub(crate) mod input_queue;
pub(crate) mod limit_input;
pub(crate) mod limits_task;
mod look_ups;
pub(crate) mod prune;
pub(crate) mod rated_claim;
pub(crate) mod schedule_task;
pub(crate) mod seam;
pub(crate) mod session_task;
pub(crate) mod shards;
pub(crate) mod supervisor;

#[cfg(test)]
mod tests;
