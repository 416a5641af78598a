//! The store on Postgres: the doors *Tables* and *Runs* for many machines.
//!
//! A verb is a file of its name, its SQL a `.sql` file beside it. Commands of many callers become
//! arrays of one statement and share a transaction; owner and epoch are compared by the statement
//! that writes. What rows, snapshots and values mean is not known here.

mod address;
mod admit;
mod batch;
mod batch_writer;
mod board;
#[cfg(test)]
mod chaos_plans;
mod claim;
mod claim_cursor;
mod columns;
mod commit;
mod connection;
mod damaged_pages;
mod definition;
mod deliver;
mod failure;
mod group;
mod inner;
mod inspect;
mod list;
mod load;
mod lone_hold;
mod mailbox_send;
mod migrate;
mod notify;
mod options;
mod partition;
mod partition_task;
mod pool;
mod prune;
mod prune_cursor;
mod query;
mod record;
mod runs;
mod schedule;
mod schema;
mod server_clock;
mod server_meter;
mod session;
mod size;
mod statement;
mod store;
mod tables;
mod tls;
mod transfer;
mod upkeep;
mod versions;
mod writer;

pub use inspect::server_settings;
pub use migrate::{GOLDEN_SCHEMA, SCHEMA_VERSION, migrate, schema_version};
pub use options::{
    Access, CreateSchema, DEFAULT_SCHEMA, GroupLimits, Pooler, PostgresOptions, SCHEMA_NAME_MAX,
};
pub use server_meter::ServerMeter;
pub use store::PostgresStore;
