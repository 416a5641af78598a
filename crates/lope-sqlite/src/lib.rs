//! The store in one SQLite file: the doors of `lope-store` for every process of one machine that opens the file.
//!
//! One thread writes and groups what waits into one transaction; a few threads read. A verb is a file and works at a `Desk`
//! inside such a transaction; `doors` hands it to the right thread. What processes need of each other beside the file (whose
//! turn it is, who lives, who wakes whom, who checkpoints) is in `locks`, `seats`, `wake`, `checkpoint`. This crate never
//! looks at what a journal row means, and nothing outside it knows SQL.

mod admit;
mod announce;
mod backup;
mod check;
mod checkpoint;
mod claim;
mod clock;
mod columns;
mod commit;
mod connection;
mod definition;
mod deliver;
mod desk;
mod doors;
mod failure;
mod house;
mod list;
mod locks;
mod migrate;
mod moving;
mod options;
mod place;
#[cfg(test)]
mod plans;
mod prune;
mod query;
mod readers;
mod schedule;
mod seats;
mod session;
mod socket;
mod tables;
mod upkeep;
mod wake;
mod writer;

pub use clock::BootClock;
pub use doors::SqliteStore;
pub use migrate::{GOLDEN_SCHEMA, Migrated, SCHEMA_VERSION, migrate, schema_version};
pub use options::{Access, Create, GroupLimits, Options, WalLimits};
