//! How a store is opened: where it is, what may be done to it, and the limits it works under.
//!
//! Every limit has a default that suits a server shared by a few machines; whoever opens the store
//! may change it. Texts from users (the URL, the schema's name) are checked here and nowhere else.

use std::fmt;
use std::time::Duration;

pub use lope_store::Access;
use lope_store::{StoreError, StoreResult};

use crate::address::Address;

/// The schema that a store lives in unless told otherwise.
pub const DEFAULT_SCHEMA: &str = "lope";
/// Longest name of a schema: the names of channels and partitions are built from it and Postgres
/// cuts names at 63 bytes.
pub const SCHEMA_NAME_MAX: usize = 40;
/// How often watchers look for themselves, and how often where notifications cannot be heard.
const POLL: Duration = Duration::from_secs(5);
const POLL_BEHIND_POOLER: Duration = Duration::from_secs(1);
/// Most calls that wait for a writer; further callers wait before they are let in.
pub(crate) const WRITER_QUEUE_MAX: usize = 4_096;
/// How long an ended runner stays in the registry.
pub(crate) const RUNNER_MEMORY: lope_model::Span = lope_model::Span::from_secs(30 * 24 * 3_600);

/// What may happen to a schema that does not exist yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateSchema {
    IfMissing,
    Never,
}

/// What stands between this process and the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pooler {
    /// Nobody said: it is found out at the first connection.
    Detect,
    /// Nothing, or a pooler that gives each client a server connection of its own.
    None,
    /// A pooler that gives a server connection for one transaction at a time: nothing is kept in a
    /// connection (prepared statements, settings, `LISTEN`), changes by other processes are noticed
    /// by looking.
    Transaction,
}

/// Where one transaction of a writer ends, so that callers are answered and others get their turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLimits {
    /// No further call joins a group that holds this many rows.
    pub rows: usize,
    /// No further call joins a group that holds this many bytes.
    pub bytes: usize,
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub(crate) address: Address,
    pub(crate) schema: SchemaName,
    pub create: CreateSchema,
    pub access: Access,
    pub pooler: Pooler,
    /// Connections for reading.
    pub readers: usize,
    /// Connections that commit runs; while one waits for the disk, another works.
    pub writers: usize,
    pub group: GroupLimits,
    /// How long to wait for a connection before a caller is told `Unavailable`.
    pub connect_timeout: Duration,
    /// How long one statement may take on the server.
    pub statement_timeout: Duration,
    /// How often watchers are woken to look for themselves, in case a notification was lost.
    pub poll: Duration,
}

/// A name that needs no quoting in SQL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SchemaName(String);

impl PostgresOptions {
    /// The store behind a URL as libpq reads it, with two parameters of our own: `schema=NAME` and
    /// `pooler=transaction`.
    pub fn new(url: &str) -> StoreResult<Self> {
        let (address, own) = Address::parse(url)?;
        let pooler = match own.pooler.as_deref() {
            None => Pooler::Detect,
            Some("none") => Pooler::None,
            Some("transaction") => Pooler::Transaction,
            Some(other) => {
                return Err(StoreError::refused(format!(
                    "pooler={other}: write none or transaction"
                )));
            }
        };
        let options = Self {
            address,
            schema: SchemaName::new(own.schema.as_deref().unwrap_or(DEFAULT_SCHEMA))?,
            create: CreateSchema::IfMissing,
            access: Access::ReadWrite,
            pooler: Pooler::Detect,
            readers: 4,
            writers: 2,
            group: GroupLimits::default(),
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            poll: POLL,
        };
        Ok(options.behind(pooler))
    }

    /// The same store with another idea of what stands before the server. Where nobody can listen,
    /// looking has to be more frequent.
    pub(crate) fn behind(self, pooler: Pooler) -> Self {
        let poll = match pooler {
            Pooler::Transaction => self.poll.min(POLL_BEHIND_POOLER),
            Pooler::Detect | Pooler::None => self.poll,
        };
        Self {
            pooler,
            poll,
            ..self
        }
    }

    /// The store behind a URL, which must exist.
    pub fn existing(url: &str) -> StoreResult<Self> {
        Ok(Self {
            create: CreateSchema::Never,
            ..Self::new(url)?
        })
    }

    /// For looking only: the store must exist and is never written.
    pub fn read_only(url: &str) -> StoreResult<Self> {
        Ok(Self {
            access: Access::ReadOnly,
            ..Self::existing(url)?
        })
    }

    /// The same store in another schema: several stores share one database.
    pub fn in_schema(self, name: &str) -> StoreResult<Self> {
        Ok(Self {
            schema: SchemaName::new(name)?,
            ..self
        })
    }

    /// Where the store is, without the password.
    pub fn describe(&self) -> String {
        let url = self.address.to_string();
        if self.schema.0 == DEFAULT_SCHEMA {
            return url;
        }
        let sign = if url.contains('?') { '&' } else { '?' };
        format!("{url}{sign}schema={}", self.schema)
    }

    /// The longest that an answer is waited for: the server gives up before.
    pub(crate) fn answer_timeout(&self) -> Duration {
        self.statement_timeout + Duration::from_secs(5)
    }
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self {
            rows: 10_000,
            bytes: 32 * 1024 * 1024,
        }
    }
}

impl SchemaName {
    fn new(name: &str) -> StoreResult<Self> {
        let fits = name.len() <= SCHEMA_NAME_MAX
            && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && !name.starts_with("pg_");
        if fits {
            return Ok(Self(name.to_owned()));
        }
        let message = format!(
            "'{name}' is no schema name: 1 to {SCHEMA_NAME_MAX} of a-z, 0-9, _, and not pg_…"
        );
        Err(StoreError::refused(message))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// SQL text with the schema's name in its place.
    pub(crate) fn within(&self, sql: &str) -> String {
        sql.replace("{schema}", &self.0)
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_names_need_no_quoting() {
        for name in ["lope", "lope_2", "_x"] {
            assert!(SchemaName::new(name).is_ok(), "{name}");
        }
        let long = "x".repeat(SCHEMA_NAME_MAX + 1);
        for name in [
            "",
            "Lope",
            "a-b",
            "2a",
            "a\"; drop table x",
            "pg_lope",
            long.as_str(),
        ] {
            assert!(SchemaName::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn our_own_parameters_are_read_from_the_url() {
        let options = PostgresOptions::new(
            "postgres://me:secret@db.example/shop?schema=orders&pooler=transaction",
        )
        .unwrap();
        assert_eq!(options.schema.as_str(), "orders");
        assert_eq!(options.pooler, Pooler::Transaction);
        let untold = PostgresOptions::new("postgres://db/x").unwrap();
        assert_eq!(untold.pooler, Pooler::Detect);
        assert!(untold.poll > options.poll);
        assert_eq!(
            options.describe(),
            "postgres://me@db.example/shop?schema=orders"
        );
        assert!(!format!("{options:?}").contains("secret"));
        assert!(PostgresOptions::new("postgres://db/x?pooler=session").is_err());
        assert!(PostgresOptions::new("postgres://db/x?schema=A").is_err());
    }
}
