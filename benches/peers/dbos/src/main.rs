//! DBOS for Rust: workflows of this process, their steps recorded in Postgres.

use dbos::{Config, DBOS, Error, RunOptions, WorkflowRef};
use peer_protocol::{Order, Peer};

const CONNECTIONS: u32 = 20;
const NAME: &str = "named-sequence";

struct Dbos {
    dbos: DBOS,
    one: WorkflowRef<u64, ()>,
    sequence: WorkflowRef<u64, ()>,
    fan: WorkflowRef<u64, ()>,
}

async fn nothing() -> Result<(), Error> {
    peer_protocol::step();
    Ok(())
}

impl Dbos {
    async fn launch(order: &Order) -> Self {
        let config = Config {
            app_version: Some("1".to_owned()),
            max_connections: CONNECTIONS,
            ..Config::new("peer", &order.url)
        };
        let dbos = DBOS::new(config);
        let one = dbos.register_workflow("one", |_: u64| async move {
            dbos::step("nothing", nothing).await?;
            Ok::<_, Error>(())
        });
        let sequence = dbos.register_workflow("sequence", |steps: u64| async move {
            for _ in 0..steps {
                dbos::step("nothing", nothing).await?;
            }
            Ok::<_, Error>(())
        });
        let fan = dbos.register_workflow("fan", |steps: u64| async move {
            let steps: Vec<_> = (0..steps).map(|_| dbos::step("nothing", nothing)).collect();
            for step in futures::future::join_all(steps).await {
                step?;
            }
            Ok::<_, Error>(())
        });
        let peer = Self {
            one: one.expect("a workflow is registered"),
            sequence: sequence.expect("a workflow is registered"),
            fan: fan.expect("a workflow is registered"),
            dbos,
        };
        peer.dbos.launch().await.expect("DBOS is launched");
        peer
    }
}

impl Peer for Dbos {
    async fn one(&self, number: u64) {
        self.one.run(number).await.expect("the run ends well");
    }

    async fn sequences(&self, runs: u64, steps: u64) {
        let runs = (0..runs).map(|_| async { self.sequence.run(steps).await });
        for run in futures::future::join_all(runs).await {
            run.expect("the run ends well");
        }
    }

    async fn fan(&self, steps: u64) {
        self.fan.run(steps).await.expect("the run ends well");
    }

    async fn named_sequence(&self, steps: u64) {
        let options = RunOptions {
            workflow_id: Some(NAME),
            ..RunOptions::default()
        };
        let run = self.sequence.run_with(steps, options).await;
        run.expect("the run ends well");
    }

    /// Launching has taken it up.
    async fn resume(&self, _steps: u64) {
        let handle = self.dbos.retrieve_workflow::<(), dbos::EngineOnly>(NAME);
        let result = handle.expect("the run is known").result().await;
        result.expect("the run ends well");
    }
}

#[tokio::main]
async fn main() {
    let order = Order::read();
    let peer = Dbos::launch(&order).await;
    peer_protocol::serve(order, peer).await;
}
