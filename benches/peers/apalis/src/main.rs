//! Apalis: a queue of jobs in Postgres, worked on in this process. It has no steps of the kind that is
//! measured: a job is a run of one step, and has ended when its function was called.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use peer_protocol::{Order, Peer};
use tokio::sync::oneshot;

const CONCURRENCY: usize = 20;
const BATCH: usize = 100;
const QUEUE: &str = "peer";

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<()>>>>;

struct Apalis {
    jobs: PostgresStorage<u64>,
    waiting: Waiting,
}

async fn nothing(number: u64, waiting: Data<Waiting>) -> Result<(), BoxDynError> {
    let caller = waiting.lock().expect("nobody panics here").remove(&number);
    if let Some(caller) = caller {
        let _ = caller.send(());
    }
    Ok(())
}

impl Apalis {
    async fn start(order: &Order) -> Self {
        let pool = PgPool::connect(&order.url)
            .await
            .expect("the database is reached");
        PostgresStorage::setup(&pool)
            .await
            .expect("the tables are made");
        let config = Config::default().queue(QUEUE).batch_size(BATCH);
        let jobs = PostgresStorage::new(&pool).with_config(config.clone());
        let waiting = Waiting::default();
        let worker = WorkerBuilder::new("peer")
            .backend(
                PostgresStorage::new(&pool)
                    .with_config(config)
                    .with_pubsub(),
            )
            .data(Arc::clone(&waiting))
            .concurrency(CONCURRENCY)
            .build(nothing);
        tokio::spawn(async move { worker.run().await.expect("the worker works") });
        Self { jobs, waiting }
    }
}

impl Peer for Apalis {
    async fn one(&self, number: u64) {
        let (caller, ended) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock().expect("nobody panics here");
            waiting.insert(number, caller);
        }
        let mut jobs = self.jobs.clone();
        jobs.push(number).await.expect("the job is pushed");
        ended.await.expect("the job is done");
    }
}

#[tokio::main]
async fn main() {
    let order = Order::read();
    let peer = Apalis::start(&order).await;
    peer_protocol::serve(order, peer).await;
}
