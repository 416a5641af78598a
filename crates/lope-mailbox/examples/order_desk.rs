//! An order desk of three workers: one takes orders, one collects the payment, one ships what is
//! paid.
//!
//! `cargo run -p lope-mailbox --example order_desk` runs it on a store in memory; with a path as
//! its argument it runs on a SQLite file, where it can be killed at any time and started again.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use lope_mailbox::frame::{Flags, Message, MessageKind};
use lope_mailbox::key::WorkerId;
use lope_mailbox::record::Owner;
use lope_mailbox::time::TimeHooks;
use lope_mailbox::{
    ConsumerConfig, ConsumerLoop, ConsumerPool, Context, Handled, Handler, HandlerError, Mailbox,
};
use lope_model::{Clock, Span};
use lope_sqlite::{BootClock, SqliteOptions, SqliteStore};
use lope_store::{MemoryStore, Store};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The three workers, by their ids.
const DESK: i64 = 1;
const CASHIER: i64 = 2;
const SHIPPING: i64 = 3;
/// An order that is not paid by then is cancelled.
const PATIENCE: Span = Span::from_millis(300);

/// Takes orders, and hears what becomes of them.
struct OrderDesk;

#[async_trait]
impl Handler for OrderDesk {
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        match message.kind {
            MessageKind::Command => {
                set(context, message.id, "ordered")?;
                context.emit(&Message::new(
                    MessageKind::Command,
                    CASHIER,
                    message.id,
                    message.payload,
                ))?;
                let due = context.about().now.plus(PATIENCE);
                // Remember when it is due, so that the timer can be found again.
                context.put_state(&due_key(message.id), due.millis().to_le_bytes().to_vec())?;
                Ok(context.arm_own(due, message.id, b"not paid in time")?)
            }
            MessageKind::Event => self.paid(context, message).await,
            MessageKind::Timer => set(context, message.id, "cancelled"),
        }
    }
}

impl OrderDesk {
    async fn paid(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        let due = context
            .state(&due_key(message.id))
            .await?
            .and_then(|bytes| bytes.try_into().ok());
        let due = due.map(|bytes| lope_model::Timestamp::from_millis(i64::from_le_bytes(bytes)));
        let Some(due) = due else {
            return Err(HandlerError::Failed("a payment without an order".into()));
        };
        if !context.cancel_timer(due, message.id).await? {
            return Ok(()); // too late: it is cancelled
        }
        set(context, message.id, "paid")?;
        // Shipping must not send two parcels, even if it is asked twice.
        let flags = Flags::DURABLE | Flags::DEDUPE;
        Ok(context.emit(&Message {
            flags,
            ..Message::new(MessageKind::Command, SHIPPING, message.id, b"")
        })?)
    }
}

/// Collects payments. Some cards need a second try, some never pay, and one order is nonsense.
struct Cashier;

#[async_trait]
impl Handler for Cashier {
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        match message.payload {
            b"slow card" if context.about().attempt == 1 => {
                Err(HandlerError::Busy("the bank is busy".into()))
            }
            b"no card" => Ok(()),
            b"a live dragon" => Err(HandlerError::Failed("we do not sell that".into())),
            _ => Ok(context.emit(&Message::new(MessageKind::Event, DESK, message.id, b"paid"))?),
        }
    }
}

/// Ships, and counts what it shipped.
struct Shipping;

#[async_trait]
impl Handler for Shipping {
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        set(context, message.id, "shipped")?;
        let count = context
            .state(b"shipped")
            .await?
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let count: u32 = count.and_then(|text| text.parse().ok()).unwrap_or(0);
        context.put_state(b"shipped", (count + 1).to_string().into_bytes())
    }
}

fn set(context: &mut Context, order: &[u8], status: &str) -> Handled {
    context.put_state(&[b"order/", order].concat(), status.into())
}

fn due_key(order: &[u8]) -> Vec<u8> {
    [b"due/", order].concat()
}

async fn worker(
    store: &Store,
    id: i64,
    name: &str,
    handler: impl Handler + 'static,
) -> Result<ConsumerLoop, Failure> {
    let config = ConsumerConfig::new(WorkerId::try_from(id)?, Owner::new(name)?);
    let time = TimeHooks::on(Arc::new(BootClock));
    Ok(ConsumerLoop::init(Arc::clone(&store.tables), Arc::new(handler), config, time).await?)
}

/// Take six orders and see them through. Answers with what became of each, and how many parcels
/// left.
pub(crate) async fn run(store: &Store) -> Result<Vec<(String, String)>, Failure> {
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    let mut pool = ConsumerPool::default();
    pool.add(worker(store, DESK, "desk", OrderDesk).await?);
    pool.add(worker(store, CASHIER, "cashier", Cashier).await?);
    pool.add(worker(store, SHIPPING, "shipping", Shipping).await?);

    let orders = [
        "card",
        "slow card",
        "card",
        "no card",
        "a live dragon",
        "card",
    ];
    for (number, payment) in (1..).zip(orders) {
        let id = format!("order-{number}");
        mailbox
            .send(&Message::new(
                MessageKind::Command,
                DESK,
                id.as_bytes(),
                payment.as_bytes(),
            ))
            .await?;
    }
    pool.start()?;
    // Every order ends as shipped or cancelled.
    let mut watch = store.tables.watch();
    loop {
        let orders = statuses(store).await?;
        let is_over = |status: &str| matches!(status, "shipped" | "cancelled");
        if orders.len() == 6 && orders.iter().all(|(_, status)| is_over(status)) {
            break;
        }
        watch.changed().await;
    }
    pool.request_stop();
    tokio::task::spawn_blocking(move || pool.join()).await??;
    statuses(store).await
}

async fn statuses(store: &Store) -> Result<Vec<(String, String)>, Failure> {
    let range =
        lope_store::tables::Range::prefix(lope_store::tables::TableId::APP_STATE, b"order/", 100);
    let rows = store.tables.range(range).await?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(rows
        .into_iter()
        .map(|row| (text(row.key["order/".len()..].to_vec()), text(row.value)))
        .collect())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let store = match std::env::args_os().nth(1) {
        Some(path) => SqliteStore::open(SqliteOptions::new(PathBuf::from(path)))?,
        None => MemoryStore::open(),
    };
    println!(
        "{}: six orders at {}",
        store.upkeep.describe(),
        BootClock.now()
    );
    for (order, status) in run(&store).await? {
        println!("{order}: {status}");
    }
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    for dead in mailbox.dead(WorkerId::try_from(CASHIER)?, None, 10).await? {
        println!(
            "dead letter {} of the cashier after {} attempt: {}",
            dead.seq, dead.attempts, dead.reason
        );
    }
    Ok(store.upkeep.close().await?)
}
