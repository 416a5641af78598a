//! Waking whoever waits, here and in other processes. In: what a verb changed; out: notified
//! watchers.
//!
//! In this process watchers are notified at once. Other processes hear of it through `NOTIFY`, sent
//! on a connection of its own after the commit, many changes in one: inside a commit it would cost
//! more than the commit. Lost or late hints are made up for by notifying now and then. One task
//! listens, sends and reconnects; it ends when the store is closed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lope_store::watch::{Hint, Notifier, Watch};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::AsyncMessage;

use crate::connection::DbConnection;
use crate::failure::{self, Sent, Worked};
use crate::options::{Pooler, PostgresOptions};
use crate::pool::{Connector, Wire};

/// Changes within this time go out together.
const GATHER: Duration = Duration::from_millis(10);
/// How long to stay away after the listening connection was lost.
const RECONNECT_AFTER: Duration = Duration::from_millis(250);

/// The notifiers of one store.
#[derive(Debug, Default)]
pub(crate) struct Notifiers {
    runs: Notifier,
    tables: Notifier,
    runs_outbound: AtomicBool,
    tables_outbound: AtomicBool,
    /// Something was taken to be sent, and it is not known yet that it arrived.
    sending: AtomicBool,
    outbound: Notify,
}

impl Notifiers {
    /// Runners of other processes hear of work; of ends only who watches here.
    pub(crate) fn runs_changed(&self, hint: Hint) {
        self.runs.hint(hint);
        if hint == Hint::Work {
            self.runs_outbound.store(true, Ordering::Release);
            self.outbound.notify_one();
        }
    }

    pub(crate) fn tables_changed(&self) {
        self.tables.notify();
        self.tables_outbound.store(true, Ordering::Release);
        self.outbound.notify_one();
    }

    pub(crate) fn watch_runs(&self) -> Watch {
        self.runs.watch()
    }

    pub(crate) fn watch_tables(&self) -> Watch {
        self.tables.watch()
    }

    /// Something may have been missed.
    fn notify_all_doors(&self) {
        self.runs.notify();
        self.tables.notify();
    }

    /// What is to be told to other processes: `r`, `t` or both.
    fn take_outbound(&self) -> Option<&'static str> {
        let runs = self.runs_outbound.swap(false, Ordering::AcqRel);
        let tables = self.tables_outbound.swap(false, Ordering::AcqRel);
        match (runs, tables) {
            (false, false) => None,
            (true, false) => Some("r"),
            (false, true) => Some("t"),
            (true, true) => Some("rt"),
        }
    }

    /// What other processes have not been told for certain; for whoever closes the store.
    pub(crate) fn take_untold(&self) -> Option<&'static str> {
        if self.sending.swap(false, Ordering::AcqRel) {
            return Some("rt");
        }
        self.take_outbound()
    }

    fn receive(&self, payload: &str) {
        if payload.contains('r') {
            self.runs.notify();
        }
        if payload.contains('t') {
            self.tables.notify();
        }
    }
}

/// The task that speaks with other processes.
#[derive(Debug)]
pub(crate) struct NotifyTask(Mutex<Option<JoinHandle<()>>>);

impl NotifyTask {
    pub(crate) fn start(connector: Arc<Connector>, notifiers: Arc<Notifiers>) -> Self {
        Self(Mutex::new(Some(tokio::spawn(listen_for_ever(
            connector, notifiers,
        )))))
    }

    pub(crate) async fn close(&self) {
        let task = self
            .0
            .lock()
            .expect("nobody panics while holding it")
            .take();
        if let Some(task) = task {
            task.abort();
            // Aborted on purpose.
            let _ = task.await;
        }
    }
}

impl Drop for NotifyTask {
    fn drop(&mut self) {
        if let Some(task) = self
            .0
            .lock()
            .expect("nobody panics while holding it")
            .take()
        {
            task.abort();
        }
    }
}

async fn listen_for_ever(connector: Arc<Connector>, notifiers: Arc<Notifiers>) {
    loop {
        if let Err(fault) = listen(&connector, &notifiers).await {
            tracing::debug!(error = %fault.error, "the connection that listens for changes was lost");
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
        notifiers.notify_all_doors();
    }
}

/// Listen on one connection until it is lost.
async fn listen(connector: &Connector, notifiers: &Notifiers) -> Worked<()> {
    let (db, wire) = connector.dial().await?;
    let signature = signature();
    tokio::select! {
        notified = receive(wire, notifiers, &signature) => notified,
        spoken = speak(&db, notifiers, &connector.options, &signature) => spoken,
    }
}

/// What this connection signs with, so that it does not wake itself.
fn signature() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    format!("{:x}.{:x}", std::process::id(), now.as_nanos())
}

/// Drive the connection and notify watchers of what others say.
async fn receive(mut wire: Wire, notifiers: &Notifiers, signature: &str) -> Worked<()> {
    loop {
        match std::future::poll_fn(|context| wire.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                match notification.payload().split_once(' ') {
                    Some((_, from)) if from == signature => {}
                    Some((what, _)) => notifiers.receive(what),
                    None => notifiers.notify_all_doors(),
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(failure::fault(&error, Sent::Work)),
            None => return Ok(()),
        }
    }
}

/// The statement that tells other processes what changed.
pub(crate) fn statement(options: &PostgresOptions, what: &str, signature: &str) -> String {
    format!("notify {}, '{what} {signature}'", channel(options))
}

fn channel(options: &PostgresOptions) -> String {
    format!("lope_{}", options.schema)
}

/// Say what changed here, and notify watchers now and then in case a hint was lost. Behind a pooler
/// nobody can listen, but whoever has a connection of his own still hears us.
async fn speak(
    db: &DbConnection,
    notifiers: &Notifiers,
    options: &PostgresOptions,
    signature: &str,
) -> Worked<()> {
    if options.pooler != Pooler::Transaction {
        db.script(&format!("listen {}", channel(options)), Sent::Work)
            .await?;
    }
    notifiers.notify_all_doors();
    loop {
        match tokio::time::timeout(options.poll, notifiers.outbound.notified()).await {
            Err(_) => notifiers.notify_all_doors(),
            Ok(()) => {
                tokio::time::sleep(GATHER).await;
                notifiers.sending.store(true, Ordering::Release);
                if let Some(what) = notifiers.take_outbound() {
                    db.script(&statement(options, what, signature), Sent::Work)
                        .await?;
                }
                notifiers.sending.store(false, Ordering::Release);
            }
        }
    }
}
