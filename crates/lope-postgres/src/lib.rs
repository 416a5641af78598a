//! The store on Postgres: the doors *Tables* and *Runs* for many machines.
//!
//! A verb is a file of its name, its SQL a `.sql` file beside it. Commands of many callers become arrays of one statement
//! and share a transaction; owner and epoch are compared by the statement that writes. What rows, snapshots and values mean is
//! not known here.

mod address;
mod admit;
mod batch;
mod batch_writer;
mod caretaker;
#[cfg(test)]
mod chaos_plans;
mod claim;
mod columns;
mod commit;
mod definition;
mod deliver;
mod failure;
mod floor;
mod fold;
mod group;
mod inner;
mod inspect;
mod link;
mod list;
mod load;
mod meter;
mod migrate;
mod moving;
mod notify;
mod options;
mod partition;
mod pool;
mod post;
mod prune;
mod query;
mod record;
mod runs;
mod schedule;
mod schema;
mod session;
mod size;
mod statement;
mod store;
mod tables;
mod tls;
mod upkeep;
mod versions;
mod walked;
mod writer;

pub use inspect::server_settings;
pub use meter::Meter;
pub use migrate::{GOLDEN_SCHEMA, Migrated, SCHEMA_VERSION, migrate, schema_version};
pub use options::{Access, Create, DEFAULT_SCHEMA, GroupLimits, Options, Pooler, SCHEMA_NAME_MAX};
pub use store::PostgresStore;
