//! The store in one SQLite file: the doors of `lope-store` for every process of one machine that
//! opens the file.
//!
//! One thread writes and groups what waits into one transaction; a few threads read. A verb is a
//! file and works on a `Tx`, such a transaction; `doors` hands it to the right thread. What
//! processes need of each other beside the file (whose turn it is, who lives, who wakes whom, who
//! checkpoints) is in `locks`, `holder`, `runner_locks`, `listener`, `checkpoint`. This crate never looks at
//! what a journal row means, and nothing outside it knows SQL.

mod admit;
mod announce;
mod backup;
mod board;
mod check;
mod checkpoint;
mod claim;
mod clock;
mod columns;
mod commit;
mod connection;
mod damaged_run;
mod definition;
mod deliver;
mod doors;
mod failure;
mod files;
mod holder;
mod inner;
mod list;
mod listener;
mod locks;
mod migrate;
mod named_page;
mod open_file;
mod options;
#[cfg(test)]
mod plans;
mod prune;
mod prune_pace;
mod query;
mod readers;
mod runner_locks;
mod schedule;
mod session;
mod socket;
mod tables;
mod transfer;
mod tx;
mod upkeep;
mod writer;

pub use clock::BootClock;
pub use doors::SqliteStore;
pub use migrate::{GOLDEN_SCHEMA, SCHEMA_VERSION, migrate, schema_version};
pub use options::{Access, CreateFile, SqliteOptions, TransactionLimits, WalLimits};
