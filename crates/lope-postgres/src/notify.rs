//! Waking whoever waits, here and in other processes. In: what a verb changed; out: rung bells.
//!
//! In this process a bell rings at once. Other processes hear of it through `NOTIFY`, sent on a connection of its own after
//! the commit, many changes in one: inside a commit it would cost more than the commit. Lost or late hints are made up
//! for by ringing now and then. One task listens, sends and reconnects; it ends when the store is closed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lope_store::watch::{Bell, Watch};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::AsyncMessage;

use crate::failure::{self, Sent, Worked};
use crate::link::Link;
use crate::options::{Options, Pooler};
use crate::pool::{Connector, Wire};

/// Changes within this time go out together.
const GATHER: Duration = Duration::from_millis(10);
/// How long to stay away after the listening connection was lost.
const RECONNECT_AFTER: Duration = Duration::from_millis(250);

/// The bells of one store.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    runs: Bell,
    tables: Bell,
    runs_outbound: AtomicBool,
    tables_outbound: AtomicBool,
    outbound: Notify,
}

impl Bells {
    pub(crate) fn runs_changed(&self, elsewhere: bool) {
        self.runs.ring();
        if elsewhere {
            self.runs_outbound.store(true, Ordering::Release);
            self.outbound.notify_one();
        }
    }

    pub(crate) fn tables_changed(&self) {
        self.tables.ring();
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
    fn ring_all(&self) {
        self.runs.ring();
        self.tables.ring();
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

    fn hear(&self, payload: &str) {
        if payload.contains('r') {
            self.runs.ring();
        }
        if payload.contains('t') {
            self.tables.ring();
        }
    }
}

/// The task that speaks with other processes.
#[derive(Debug)]
pub(crate) struct Herald(Mutex<Option<JoinHandle<()>>>);

impl Herald {
    pub(crate) fn start(connector: Arc<Connector>, bells: Arc<Bells>) -> Self {
        Self(Mutex::new(Some(tokio::spawn(listen_for_ever(connector, bells)))))
    }

    pub(crate) async fn close(&self) {
        let task = self.0.lock().expect("nobody panics while holding it").take();
        if let Some(task) = task {
            task.abort();
            // Aborted on purpose.
            let _ = task.await;
        }
    }
}

impl Drop for Herald {
    fn drop(&mut self) {
        if let Some(task) = self.0.lock().expect("nobody panics while holding it").take() {
            task.abort();
        }
    }
}

async fn listen_for_ever(connector: Arc<Connector>, bells: Arc<Bells>) {
    loop {
        if let Err(fault) = listen(&connector, &bells).await {
            tracing::debug!(error = %fault.error, "the connection that listens for changes was lost");
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
        bells.ring_all();
    }
}

/// Listen on one connection until it is lost.
async fn listen(connector: &Connector, bells: &Bells) -> Worked<()> {
    let (link, wire) = connector.dial().await?;
    let signature = signature();
    tokio::select! {
        heard = hear(wire, bells, &signature) => heard,
        spoken = speak(&link, bells, &connector.options, &signature) => spoken,
    }
}

/// What this connection signs with, so that it does not wake itself.
fn signature() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}.{:x}", std::process::id(), now.as_nanos())
}

/// Drive the connection and ring for what others say.
async fn hear(mut wire: Wire, bells: &Bells, signature: &str) -> Worked<()> {
    loop {
        match std::future::poll_fn(|context| wire.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => match notification.payload().split_once(' ') {
                Some((_, from)) if from == signature => {}
                Some((what, _)) => bells.hear(what),
                None => bells.ring_all(),
            },
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(failure::fault(&error, Sent::Work)),
            None => return Ok(()),
        }
    }
}

/// Say what changed here, and ring now and then in case a hint was lost. Behind a pooler nobody can listen, but whoever has
/// a connection of his own still hears us.
async fn speak(link: &Link, bells: &Bells, options: &Options, signature: &str) -> Worked<()> {
    let channel = format!("lope_{}", options.schema);
    if options.pooler == Pooler::None {
        link.script(&format!("listen {channel}"), Sent::Work).await?;
    }
    bells.ring_all();
    loop {
        match tokio::time::timeout(options.poll, bells.outbound.notified()).await {
            Err(_) => bells.ring_all(),
            Ok(()) => {
                tokio::time::sleep(GATHER).await;
                if let Some(what) = bells.take_outbound() {
                    link.script(&format!("notify {channel}, '{what} {signature}'"), Sent::Work).await?;
                }
            }
        }
    }
}
