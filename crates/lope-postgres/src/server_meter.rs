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

/// What Linux counts the time of ended processes in.
const TICK: Duration = Duration::from_millis(10);

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

    /// CPU time of all processes of the server, those that have ended too, if it runs on this
    /// machine.
    pub fn server_time(&self) -> Option<Duration> {
        let postmaster = self.postmaster?;
        loop {
            let ended = time_of_ended(postmaster)?;
            let living = time_of_living(postmaster)?;
            // One that ended between the two would be counted twice, or not at all.
            if time_of_ended(postmaster)? == ended {
                return Some(ended + living);
            }
        }
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
    fields_of(pid)?.get(1)?.parse().ok()
}

/// What the system tells of a process behind its name: its state, its parent, and more.
fn fields_of(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(fields.map(str::to_owned).collect())
}

/// CPU time of the children of a process that have ended.
fn time_of_ended(parent: u32) -> Option<Duration> {
    let fields = fields_of(parent)?;
    let ticks = fields.get(13..15)?.iter().map(|text| text.parse::<u32>());
    Some(TICK * ticks.sum::<Result<u32, _>>().ok()?)
}

fn time_of_living(parent: u32) -> Option<Duration> {
    let processes = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let children = pids.filter(|pid| parent_of(*pid) == Some(parent));
    Some(children.filter_map(time_of).sum())
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
