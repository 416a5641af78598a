//! One file a command; each takes its arguments and the settings and returns an exit code.

pub(crate) mod agents;
pub(crate) mod begin;
pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod converse;
pub(crate) mod copy;
pub(crate) mod doctor;
pub(crate) mod drawing;
pub(crate) mod drive;
pub(crate) mod mailbox;
pub(crate) mod open;
pub(crate) mod prune;
pub(crate) mod python;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod serving;
pub(crate) mod spaces;
pub(crate) mod start;
pub(crate) mod store;
pub(crate) mod tags;
pub(crate) mod tokens;
pub(crate) mod up;
pub(crate) mod workflow_file;
pub(crate) mod workflows;
