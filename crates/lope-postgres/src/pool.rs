//! Connections: how one is made, and a bounded number of them to be borrowed. The only file that
//! connects.
//!
//! After a failure to connect, callers are told at once until the next attempt is due, so that a
//! server that is down is not stormed when it comes back.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lope_store::{StoreError, StoreResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Config, Connection, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connection::{DbConnection, ReadStatement, View};
use crate::failure::{self, PostgresFault, Sent, Worked};
use crate::options::{Access, Pooler, PostgresOptions};
use crate::statement::{Params, Statement};
use crate::tls;

/// How long to stay away after the first failure, and at most.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Settings of every connection that is ours alone. Our statements are written for one plan each,
/// index by index from arrays, which is right for one row and for a thousand: a plan made while a
/// table was small must not stay behind. Only a walk along an index marks what it found dead, so that
/// the next one steps over it; and no process is started to help with a page of rows.
const SETTINGS: &[&str] = &[
    "default_transaction_isolation=read\\ committed",
    // A runner that stands still between two round trips of a transaction holds its locks no longer.
    "idle_in_transaction_session_timeout=10000",
    "plan_cache_mode=force_generic_plan",
    "enable_seqscan=off",
    "enable_bitmapscan=off",
    "max_parallel_workers_per_gather=0",
    "enable_hashjoin=off",
    "enable_mergejoin=off",
    "jit=off",
];

/// The driver's half of a connection, which must be driven by somebody.
pub(crate) type Wire = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Makes connections.
pub(crate) struct Connector {
    pub(crate) options: PostgresOptions,
    config: Config,
    tls: MakeRustlsConnect,
    pause: Mutex<Pause>,
}

/// When to try again after failures.
#[derive(Default)]
struct Pause {
    failures: u32,
    until: Option<Instant>,
}

impl Connector {
    pub(crate) fn new(options: PostgresOptions) -> StoreResult<Self> {
        let tls = tls::connector(&options.address)?;
        let config = settled(&options);
        Ok(Self {
            options,
            config,
            tls,
            pause: Mutex::default(),
        })
    }

    /// A connector and its first connection. Whether a transaction pooler stands before the server
    /// is found out here unless the options say so: poolers refuse our settings, or lose them.
    pub(crate) async fn reach(options: &PostgresOptions) -> StoreResult<(Self, DbConnection)> {
        let connector = Self::new(options.clone())?;
        let connected = connector.connect().await;
        let is_pooled = match &connected {
            _ if options.pooler != Pooler::Detect => false,
            Ok(db) => !keeps_settings(db).await?,
            Err(error) => failure::is_refused_setting(error),
        };
        if !is_pooled {
            return Ok((connector, connected?));
        }
        tracing::info!("behind a transaction pooler: other processes are noticed by looking");
        let connector = Self::new(options.clone().behind(Pooler::Transaction))?;
        let db = connector.connect().await?;
        Ok((connector, db))
    }

    /// A connection, driven by a task that ends with it.
    pub(crate) async fn connect(&self) -> StoreResult<DbConnection> {
        let (db, wire) = self.dial().await?;
        tokio::spawn(async move {
            if let Err(error) = wire.await {
                tracing::debug!(%error, "a connection to Postgres ended");
            }
        });
        self.settle(&db).await?;
        Ok(db)
    }

    /// A connection that the caller drives, to hear what the server says unasked.
    pub(crate) async fn dial(&self) -> StoreResult<(DbConnection, Wire)> {
        self.may_try()?;
        let dialled = tokio::time::timeout(
            self.options.connect_timeout,
            self.config.connect(self.tls.clone()),
        )
        .await;
        let connected = match dialled {
            Ok(Ok(connected)) => Ok(connected),
            Ok(Err(error)) => Err(failure::connect(&error)),
            Err(_) => Err(StoreError::unavailable(
                "connecting to the server took too long",
            )),
        };
        self.remember(connected.is_ok());
        connected.map(|(client, wire)| (DbConnection::new(client, &self.options), wire))
    }

    async fn settle(&self, db: &DbConnection) -> StoreResult<()> {
        if self.options.pooler != Pooler::Transaction {
            let durable = crate::connection::DURABLE.replace("true", "false");
            db.script(&durable, Sent::Work).await?;
        }
        Ok(())
    }

    fn may_try(&self) -> StoreResult<()> {
        let pause = self.pause.lock().expect("nobody panics while holding it");
        match pause
            .until
            .and_then(|until| until.checked_duration_since(Instant::now()))
        {
            None => Ok(()),
            Some(left) => Err(StoreError::Unavailable {
                message: format!(
                    "the server cannot be reached; next attempt in {} ms",
                    left.as_millis()
                ),
            }),
        }
    }

    fn remember(&self, connected: bool) {
        let mut pause = self.pause.lock().expect("nobody panics while holding it");
        if connected {
            *pause = Pause::default();
            return;
        }
        let wait = BACKOFF_FIRST
            .saturating_mul(1 << pause.failures.min(10))
            .min(BACKOFF_MAX);
        *pause = Pause {
            failures: pause.failures + 1,
            until: Some(Instant::now() + wait),
        };
    }
}

/// Did the settings that we connected with reach the server?
async fn keeps_settings(db: &DbConnection) -> StoreResult<bool> {
    const PROBE: &str = "select current_setting('enable_seqscan') = 'off'";
    let rows = db.read_once(PROBE, "", vec![]).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

fn settled(options: &PostgresOptions) -> Config {
    let mut config = options.address.config.clone();
    if config.get_application_name().is_none() {
        config.application_name("lope");
    }
    config.connect_timeout(options.connect_timeout);
    if options.pooler != Pooler::Transaction {
        let mut settings: Vec<String> = SETTINGS
            .iter()
            .map(|setting| format!("-c {setting}"))
            .collect();
        settings.push(format!(
            "-c statement_timeout={}",
            options.statement_timeout.as_millis()
        ));
        if options.access == Access::ReadOnly {
            settings.push("-c default_transaction_read_only=on".to_owned());
        }
        let theirs = config.get_options().unwrap_or_default().to_owned();
        config.options(format!("{theirs} {}", settings.join(" ")));
    }
    config
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connector({})", self.options.describe())
    }
}

/// A bounded number of connections, made when needed.
pub(crate) struct ConnectionPool {
    connector: Arc<Connector>,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<DbConnection>>>,
}

/// A borrowed connection; it goes back to the pool unless it is spoilt.
pub(crate) struct PooledConnection {
    db: Option<DbConnection>,
    idle: Arc<Mutex<Vec<DbConnection>>>,
    permit: OwnedSemaphorePermit,
}

impl ConnectionPool {
    pub(crate) fn new(connector: Arc<Connector>, size: usize) -> Self {
        Self {
            connector,
            permits: Arc::new(Semaphore::new(size.max(1))),
            idle: Arc::default(),
        }
    }

    pub(crate) async fn get(&self) -> Worked<PooledConnection> {
        let waited = tokio::time::timeout(
            self.connector.options.answer_timeout(),
            self.permits.clone().acquire_owned(),
        );
        let permit = match waited.await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(StoreError::Closed.into()),
            Err(_) => return Err(StoreError::unavailable("every connection is busy").into()),
        };
        let db = match self.idle_connection() {
            Some(db) => db,
            None => self.connector.connect().await?,
        };
        Ok(PooledConnection {
            db: Some(db),
            idle: self.idle.clone(),
            permit,
        })
    }

    fn idle_connection(&self) -> Option<DbConnection> {
        let mut idle = self.idle.lock().expect("nobody panics while holding it");
        idle.retain(DbConnection::is_usable);
        idle.pop()
    }

    /// One statement that only reads.
    pub(crate) async fn read(
        &self,
        statement: &'static Statement,
        params: Params<'_>,
    ) -> Worked<Vec<Row>> {
        let pooled = self.get().await?;
        match pooled.read(statement, params.clone()).await {
            Err(fault) if pooled.lost_it(&fault) => {
                drop(pooled);
                self.get().await?.read(statement, params).await
            }
            done => done,
        }
    }

    /// One statement of its own text, one of few, that only reads.
    pub(crate) async fn read_repeated(
        &self,
        text: &str,
        types: &str,
        params: Params<'_>,
    ) -> Worked<Vec<Row>> {
        let lease = self.get().await?;
        match lease.read_repeated(text, types, params.clone()).await {
            Err(fault) if lease.lost_it(&fault) => {
                drop(lease);
                self.get().await?.read_repeated(text, types, params).await
            }
            done => done,
        }
    }

    /// Several statements that read what is there at one moment; an answer to each.
    pub(crate) async fn read_together(
        &self,
        view: View,
        asked: &[(ReadStatement<'_>, Params<'_>)],
    ) -> Worked<Vec<Vec<Row>>> {
        let pooled = self.get().await?;
        match pooled.read_together(view, asked).await {
            Err(fault) if pooled.lost_it(&fault) => {
                drop(pooled);
                self.get().await?.read_together(view, asked).await
            }
            done => done,
        }
    }

    /// One statement that writes and may be carried out twice without harm.
    pub(crate) async fn write_surely(
        &self,
        statement: &'static Statement,
        params: Params<'_>,
    ) -> Worked<Vec<Row>> {
        let pooled = self.get().await?;
        match pooled.write(statement, params.clone()).await {
            Err(fault) if pooled.lost_it(&fault) => {
                drop(pooled);
                self.get().await?.write(statement, params).await
            }
            done => done,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }

    /// Let go of every idle connection, and lend no more.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle
            .lock()
            .expect("nobody panics while holding it")
            .clear();
    }
}

impl PooledConnection {
    /// Did the connection end under the statement? What may be repeated is worth repeating on
    /// another one then.
    fn lost_it(&self, fault: &PostgresFault) -> bool {
        self.is_cut()
            && matches!(
                fault.error,
                StoreError::Unavailable { .. } | StoreError::Unknown { .. }
            )
    }
}

impl Deref for PooledConnection {
    type Target = DbConnection;

    fn deref(&self) -> &DbConnection {
        self.db
            .as_ref()
            .expect("it has its connection until it is dropped")
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if let Some(db) = self.db.take().filter(DbConnection::is_usable)
            && !self.permit.semaphore().is_closed()
        {
            self.idle
                .lock()
                .expect("nobody panics while holding it")
                .push(db);
        }
    }
}
