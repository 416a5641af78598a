//! An open store: its connections, writers and bells. Verbs are methods of it, each in the file of its name.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use lope_store::tables::Manifest;
use lope_store::{StoreError, StoreResult};

use crate::batch_writer::BatchWriter;
use crate::caretaker::Caretaker;
use crate::floor::Floors;
use crate::migrate;
use crate::notify::{Bells, Herald};
use crate::options::Options;
use crate::pool::{Connector, Pool};
use crate::versions::Versions;
use crate::walked::Walked;
use crate::writer::{Tools, Writers};

/// Connections for what must never wait behind a long read: claims, heartbeats, takeovers.
const CONTROL_LINKS: usize = 2;

/// One open store.
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) reads: Pool,
    pub(crate) control: Pool,
    pub(crate) writers: Writers,
    pub(crate) batches: BatchWriter,
    pub(crate) bells: Arc<Bells>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) manifest: Mutex<Manifest>,
    walked: Mutex<Walked>,
    floors: Mutex<Floors>,
    herald: Herald,
    caretaker: Caretaker,
}

/// What the doors hold.
#[derive(Clone)]
pub(crate) struct Handle(pub(crate) Arc<Inner>);

impl Inner {
    pub(crate) async fn open(options: Options) -> StoreResult<Self> {
        let connector = Arc::new(Connector::new(options.clone())?);
        migrate::check_version(&connector).await?;
        let (bells, versions) = (Arc::new(Bells::default()), Arc::new(Versions::default()));
        let tools =
            Tools { connector: Arc::clone(&connector), versions: Arc::clone(&versions), bells: Arc::clone(&bells) };
        let inner = Self {
            reads: Pool::new(Arc::clone(&connector), options.readers),
            control: Pool::new(Arc::clone(&connector), CONTROL_LINKS),
            writers: Writers::start(tools),
            batches: BatchWriter::start(Arc::clone(&connector), Arc::clone(&bells)),
            herald: Herald::start(Arc::clone(&connector), Arc::clone(&bells)),
            caretaker: Caretaker::start(connector, options.access),
            bells,
            versions,
            manifest: Mutex::new(Manifest::standard()),
            walked: Mutex::default(),
            floors: Mutex::default(),
            options,
        };
        inner.stored_manifest().await?;
        Ok(inner)
    }

    pub(crate) fn floors(&self) -> MutexGuard<'_, Floors> {
        self.floors.lock().expect("nobody panics while holding it")
    }

    pub(crate) fn walked(&self) -> MutexGuard<'_, Walked> {
        self.walked.lock().expect("nobody panics while holding it")
    }

    /// Finish what is under way, then let go of every connection and task.
    pub(crate) async fn close(&self) {
        tokio::join!(self.writers.close(), self.batches.close());
        self.reads.close();
        self.control.close();
        tokio::join!(self.herald.close(), self.caretaker.close());
    }

    pub(crate) fn unless_closed(&self) -> StoreResult<()> {
        if self.reads.is_closed() { Err(StoreError::Closed) } else { Ok(()) }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inner({})", self.options.describe())
    }
}
