//! An open store: its connections, writers and notifiers. Verbs are methods of it, each in the file
//! of its name.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lope_store::tables::Manifest;
use lope_store::{StoreError, StoreResult};

use crate::batch_writer::BatchWriter;
use crate::claim_cursor::ClaimCursors;
use crate::failure::Sent;
use crate::migrate;
use crate::notify::{self, Notifiers, NotifyTask};
use crate::options::PostgresOptions;
use crate::partition_task::PartitionTask;
use crate::pool::{ConnectionPool, Connector};
use crate::prune_cursor::PruneCursor;
use crate::server_clock::ServerClock;
use crate::versions::Versions;
use crate::writer::{WriterParts, Writers};

/// Connections for what must never wait behind a long read: claims, heartbeats, takeovers.
const CONTROL_CONNECTIONS: usize = 2;
/// How long a store that closes may take to wake the runners of other processes.
const TELL_WITHIN: Duration = Duration::from_secs(1);

/// One open store.
pub(crate) struct PostgresInner {
    pub(crate) options: PostgresOptions,
    pub(crate) reads: ConnectionPool,
    pub(crate) control: ConnectionPool,
    pub(crate) writers: Writers,
    pub(crate) batches: BatchWriter,
    pub(crate) notifiers: Arc<Notifiers>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) manifest: Mutex<Manifest>,
    prune_cursor: Mutex<PruneCursor>,
    cursors: Mutex<ClaimCursors>,
    pub(crate) clock: ServerClock,
    /// The same clock for the board, whose leases are longer.
    pub(crate) board_clock: ServerClock,
    notify_task: NotifyTask,
    partition_task: PartitionTask,
}

/// What the doors hold.
#[derive(Clone)]
pub(crate) struct Handle(pub(crate) Arc<PostgresInner>);

impl PostgresInner {
    pub(crate) async fn open(options: PostgresOptions) -> StoreResult<Self> {
        let (connector, db) = Connector::reach(&options).await?;
        let connector = Arc::new(connector);
        let options = connector.options.clone();
        migrate::check_version(&options, &db).await?;
        drop(db);
        let notifiers = Arc::new(Notifiers::default());
        let versions = Arc::new(Versions::default());
        let context = WriterParts {
            connector: Arc::clone(&connector),
            versions: Arc::clone(&versions),
            notifiers: Arc::clone(&notifiers),
        };
        let inner = Self {
            reads: ConnectionPool::new(Arc::clone(&connector), options.readers),
            control: ConnectionPool::new(Arc::clone(&connector), CONTROL_CONNECTIONS),
            writers: Writers::start(context),
            batches: BatchWriter::start(Arc::clone(&connector), Arc::clone(&notifiers)),
            notify_task: NotifyTask::start(Arc::clone(&connector), Arc::clone(&notifiers)),
            partition_task: PartitionTask::start(connector, options.access),
            notifiers,
            versions,
            manifest: Mutex::new(Manifest::standard()),
            prune_cursor: Mutex::default(),
            cursors: Mutex::default(),
            clock: ServerClock::default(),
            board_clock: ServerClock::default(),
            options,
        };
        inner.stored_manifest().await?;
        Ok(inner)
    }

    pub(crate) fn cursors(&self) -> MutexGuard<'_, ClaimCursors> {
        self.cursors.lock().expect("nobody panics while holding it")
    }

    pub(crate) fn prune_cursor(&self) -> MutexGuard<'_, PruneCursor> {
        self.prune_cursor
            .lock()
            .expect("nobody panics while holding it")
    }

    /// Finish what is under way, then let go of every connection and task.
    pub(crate) async fn close(&self) {
        tokio::join!(self.writers.close(), self.batches.close());
        tokio::join!(self.notify_task.close(), self.partition_task.close());
        self.tell_what_is_untold().await;
        self.reads.close();
        self.control.close();
    }

    /// A command that closes right after its commit would otherwise take the wake-up with it, and
    /// runners would find the work only when they next look.
    async fn tell_what_is_untold(&self) {
        let Some(what) = self.notifiers.take_untold() else {
            return;
        };
        let statement = notify::statement(&self.options, what, "closing");
        let told = async {
            let db = self.control.get().await?;
            db.script(&statement, Sent::Work).await
        };
        match tokio::time::timeout(TELL_WITHIN, told).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => tracing::debug!(error = %fault.error, "runners were not woken"),
            Err(_) => tracing::debug!("runners were not woken in time"),
        }
    }

    pub(crate) fn unless_closed(&self) -> StoreResult<()> {
        if self.reads.is_closed() {
            Err(StoreError::Closed)
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for PostgresInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresInner({})", self.options.describe())
    }
}
