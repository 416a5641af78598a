//! What benchmarks ask of a server: how much log it has written, how long it has worked, and to
//! forget a schema again. Measures only; no verb of a store goes through here.

use std::fmt;
use std::time::Duration;

use lope_store::StoreResult;

use crate::connection::DbConnection;
use crate::failure::Sent;
use crate::options::PostgresOptions;
use crate::pool::Connector;
use crate::statement::Statement;

static LOG: Statement = Statement {
    name: "log",
    text: "select (pg_current_wal_insert_lsn() - '0/0')::bigint",
    types: "",
};
static BACKEND: Statement = Statement {
    name: "backend",
    text: "select pg_backend_pid()",
    types: "",
};
static TRANSACTIONS: Statement = Statement {
    name: "transactions",
    text: "select (xact_commit + xact_rollback)::bigint from pg_stat_database where datname = current_database()",
    types: "",
};

/// A connection beside the store's own.
pub struct ServerMeter {
    db: DbConnection,
    schema: String,
    /// The parent of every process of the server, if it runs on this machine.
    postmaster: Option<u32>,
}

impl ServerMeter {
    pub async fn open(options: &PostgresOptions) -> StoreResult<Self> {
        let schema = options.schema.as_str().to_owned();
        let (_, db) = Connector::reach(options).await?;
        let backend: i32 = db.read(&BACKEND, vec![]).await?[0].get(0);
        let postmaster = parent_of(backend.cast_unsigned())
            .filter(|_| name_of(backend.cast_unsigned()).is_some());
        Ok(Self {
            db,
            schema,
            postmaster,
        })
    }

    /// Bytes of log written so far.
    pub async fn log(&self) -> StoreResult<u64> {
        let position: i64 = self.db.read(&LOG, vec![]).await?[0].get(0);
        Ok(position.cast_unsigned())
    }

    /// Transactions of this database so far, as the server's statistics tell; they come a second
    /// late.
    pub async fn transactions(&self) -> StoreResult<u64> {
        let number: i64 = self.db.read(&TRANSACTIONS, vec![]).await?[0].get(0);
        Ok(number.cast_unsigned())
    }

    /// CPU time of all living processes of the server, if it runs on this machine.
    pub fn server_time(&self) -> Option<Duration> {
        let postmaster = self.postmaster?;
        let processes = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        Some(
            pids.filter(|pid| parent_of(*pid) == Some(postmaster))
                .filter_map(time_of)
                .sum(),
        )
    }

    /// Delete the schema with everything in it.
    pub async fn erase(&self) -> StoreResult<()> {
        self.db
            .script(
                &format!("drop schema if exists \"{}\" cascade", self.schema),
                Sent::Work,
            )
            .await?;
        Ok(())
    }
}

fn name_of(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .ok()
        .filter(|name| name.starts_with("postgres"))
}

fn parent_of(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Time on a processor, as the scheduler counts it.
fn time_of(pid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    Some(Duration::from_nanos(
        text.split_whitespace().next()?.parse().ok()?,
    ))
}

impl fmt::Debug for ServerMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerMeter({})", self.schema)
    }
}
