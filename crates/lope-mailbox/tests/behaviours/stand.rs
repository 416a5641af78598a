//! What the tests stand on: a memory store with a clock moved by hand, messages, and handlers that
//! leave traces.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lope_mailbox::frame::{Message, MessageKind};
use lope_mailbox::key::WorkerId;
use lope_mailbox::record::Owner;
use lope_mailbox::time::{Sleep, TimeHooks};
use lope_mailbox::{Consumer, ConsumerConfig, Handler, Mailbox};
use lope_model::{Clock, Span};
use lope_store::tables::{At, Batch, Range, Row, TableId, Write};
use lope_store::{ManualClock, MemoryStore, Tables};

/// The worker of most tests.
pub(crate) const SEVEN: i64 = 7;

#[derive(Clone)]
pub(crate) struct Stand {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) tables: Arc<dyn Tables>,
    pub(crate) mailbox: Mailbox,
}

/// Sleeping moves the clock.
#[derive(Debug)]
pub(crate) struct HandSleep(Arc<ManualClock>);

#[async_trait]
impl Sleep for HandSleep {
    async fn sleep(&self, span: Span) {
        self.0.pass(span);
        tokio::task::yield_now().await;
    }
}

pub(crate) fn worker(id: i64) -> WorkerId {
    WorkerId::new(id).expect("not negative")
}

pub(crate) fn owner(name: &str) -> Owner {
    Owner::new(name).expect("a name")
}

pub(crate) fn config(id: i64, name: &str) -> ConsumerConfig {
    ConsumerConfig::new(worker(id), owner(name))
}

/// A plain command.
pub(crate) fn command<'a>(to: i64, id: &'a str, payload: &'a str) -> Message<'a> {
    Message::new(MessageKind::Command, to, id.as_bytes(), payload.as_bytes())
}

impl Stand {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let tables = MemoryStore::with_clock(clock.clone()).tables;
        Self {
            clock,
            mailbox: Mailbox::new(Arc::clone(&tables)),
            tables,
        }
    }

    pub(crate) fn time(&self) -> TimeHooks {
        TimeHooks {
            clock: self.clock.clone(),
            sleep: Arc::new(HandSleep(self.clock.clone())),
        }
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.now().millis()
    }

    pub(crate) fn pass(&self, millis: u64) {
        self.clock.pass(Span::from_millis(millis));
    }

    /// A consumer that runs.
    pub(crate) async fn consumer(
        &self,
        id: i64,
        name: &str,
        handler: impl Handler + 'static,
    ) -> Consumer {
        self.runner_with(config(id, name), handler).await
    }

    pub(crate) async fn runner_with(
        &self,
        config: ConsumerConfig,
        handler: impl Handler + 'static,
    ) -> Consumer {
        let mut consumer = Consumer::new(Arc::clone(&self.tables), Arc::new(handler), config);
        consumer.set_time(self.time());
        consumer.boot().await.expect("a fresh store boots");
        consumer
    }

    pub(crate) async fn send(&self, message: &Message<'_>) -> u64 {
        self.mailbox
            .send(message)
            .await
            .expect("a sound message")
            .seq
    }

    /// Commands with these ids for worker seven.
    pub(crate) async fn send_all(&self, ids: &[&str]) {
        for id in ids {
            self.send(&command(SEVEN, id, "")).await;
        }
    }

    pub(crate) async fn state(&self, key: &str) -> Option<String> {
        let value = self
            .tables
            .get(&[At::new(TableId::APP_STATE, key)])
            .await
            .expect("memory answers")
            .remove(0);
        value.map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    pub(crate) async fn put_state(&self, key: &str, value: &str) {
        self.write(vec![Write::Put(
            At::new(TableId::APP_STATE, key),
            value.into(),
        )])
        .await;
    }

    pub(crate) async fn write(&self, writes: Vec<Write>) {
        let batch = Batch {
            guards: vec![],
            writes,
        };
        self.tables
            .commit(vec![batch])
            .await
            .expect("memory answers")[0]
            .clone()
            .expect("no guards");
    }

    pub(crate) async fn rows(&self, table: TableId) -> Vec<Row> {
        let from = vec![];
        let range = Range {
            table,
            from,
            to: None,
            direction: lope_store::tables::Direction::Forward,
            limit: 10_000,
        };
        self.tables.range(range).await.expect("memory answers")
    }

    /// Rows of the lease table but for the heads, which stay for good.
    pub(crate) async fn leases(&self) -> Vec<Row> {
        self.rows(TableId::LEASES)
            .await
            .into_iter()
            .filter(|row| row.key.len() > 8)
            .collect()
    }

    pub(crate) async fn queued(&self, id: i64) -> Vec<u64> {
        let listed = self
            .mailbox
            .list(worker(id), None, 10_000)
            .await
            .expect("memory answers");
        listed.into_iter().map(|queued| queued.seq).collect()
    }
}

/// Remembers what handlers saw, in order.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.0
            .lock()
            .expect("no test panics while noting")
            .push(text.into());
    }

    pub(crate) fn note_id(&self, message: &Message<'_>) {
        self.note(String::from_utf8_lossy(message.id));
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().expect("no test panics while noting").clone()
    }
}
