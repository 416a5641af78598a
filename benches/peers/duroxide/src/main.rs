//! Duroxide: orchestrations and activities inside this process, on Postgres or on SQLite.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duroxide::OrchestrationStatus;
use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use peer_protocol::{Order, Peer};

/// Orchestrations and activities that are worked on at the same time; the default is two.
const CONCURRENCY: usize = 16;
const PATIENCE: Duration = Duration::from_secs(600);
const NAME: &str = "named-sequence";

struct Duroxide {
    client: Client,
    next: AtomicU64,
    _runtime: Arc<Runtime>,
}

async fn provider(url: &str) -> Arc<dyn Provider> {
    match url.strip_prefix("sqlite:") {
        Some(path) => {
            let store = SqliteProvider::new(&format!("sqlite:{path}?mode=rwc"), None).await;
            Arc::new(store.expect("the file is opened"))
        }
        None => {
            let store = duroxide_pg::PostgresProvider::new(url).await;
            Arc::new(store.expect("the database is reached"))
        }
    }
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "one",
            |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("nothing", input).await
            },
        )
        .register(
            "sequence",
            |ctx: OrchestrationContext, input: String| async move {
                for _ in 0..input.parse().unwrap_or(0_u64) {
                    ctx.schedule_activity("nothing", "").await?;
                }
                Ok(String::new())
            },
        )
        .register(
            "fan",
            |ctx: OrchestrationContext, input: String| async move {
                let steps = 0..input.parse().unwrap_or(0_u64);
                let steps = steps
                    .map(|_| ctx.schedule_activity("nothing", ""))
                    .collect();
                for step in ctx.join(steps).await {
                    step?;
                }
                Ok(String::new())
            },
        )
        .build()
}

impl Duroxide {
    async fn start(order: &Order) -> Self {
        let store = provider(&order.url).await;
        let activities = ActivityRegistry::builder()
            .register("nothing", |_: ActivityContext, _: String| async move {
                peer_protocol::step();
                Ok(String::new())
            })
            .build();
        let options = RuntimeOptions {
            orchestration_concurrency: CONCURRENCY,
            worker_concurrency: CONCURRENCY,
            ..RuntimeOptions::default()
        };
        let runtime =
            Runtime::start_with_options(Arc::clone(&store), activities, orchestrations(), options);
        Self {
            _runtime: runtime.await,
            client: Client::new(store),
            next: AtomicU64::new(0),
        }
    }

    async fn begin(&self, orchestration: &str, input: u64) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("{orchestration}-{}-{number}", std::process::id());
        self.begin_as(&id, orchestration, input).await;
        id
    }

    async fn begin_as(&self, id: &str, orchestration: &str, input: u64) {
        let input = input.to_string();
        let begun = self.client.start_orchestration(id, orchestration, input);
        begun.await.expect("the orchestration is begun");
    }

    async fn end(&self, id: &str) {
        let status = self.client.wait_for_orchestration(id, PATIENCE).await;
        let status = status.expect("the orchestration is known");
        assert!(
            matches!(status, OrchestrationStatus::Completed { .. }),
            "{status:?}"
        );
    }
}

impl Peer for Duroxide {
    async fn one(&self, number: u64) {
        let id = self.begin("one", number).await;
        self.end(&id).await;
    }

    async fn sequences(&self, runs: u64, steps: u64) {
        let mut ids = Vec::new();
        for _ in 0..runs {
            ids.push(self.begin("sequence", steps).await);
        }
        for id in ids {
            self.end(&id).await;
        }
    }

    async fn fan(&self, steps: u64) {
        let id = self.begin("fan", steps).await;
        self.end(&id).await;
    }

    async fn named_sequence(&self, steps: u64) {
        self.begin_as(NAME, "sequence", steps).await;
        self.end(NAME).await;
    }

    async fn resume(&self, _steps: u64) {
        self.end(NAME).await;
    }
}

#[tokio::main]
async fn main() {
    let order = Order::read();
    let peer = Duroxide::start(&order).await;
    peer_protocol::serve(order, peer).await;
}
