//! Lope as `cargo xtask bench peers` measures it beside others: a runner inside a program that starts
//! runs of its own and waits until they have ended. Not for use by hand.

#![allow(
    clippy::unwrap_used,
    reason = "a figure that cannot be had ends the benchmark"
)]

#[allow(
    unreachable_pub,
    reason = "it is a crate of its own for other programs"
)]
#[path = "../../../benches/peers/protocol/src/lib.rs"]
mod protocol;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lope::runs::{FinalStatus, News, RunFilter, RunStartOptions, RunStatus};
use lope::workers::Functions;
use lope::workflows::{self, Plan};
use lope::{PreparedRun, Runner, executors};
use lope_model::{RunId, Value};
use protocol::{Order, Peer};
use tokio::sync::oneshot;

const ONE: &str = "
name: one
steps:
  only: { action: nothing, with: { number: '${{ input }}' } }
";

const SEQUENCE: &str = "
name: sequence
steps:
  start: { let: 0, set: round }
  rounds:
    while: round < input
    max: 100000000
    needs: [start]
    steps:
      step: { action: nothing, with: { number: '${{ round }}' } }
      next: { let: '${{ round + 1 }}', set: round, needs: [step] }
";

const FAN: &str = "
name: fan
steps:
  all:
    each: ${{ range(input) }}
    as: number
    parallel: max
    steps:
      step: { action: nothing, with: { number: '${{ number }}' } }
";

/// How often it is asked whether all runs have ended.
const POLL: Duration = Duration::from_millis(1);
const NAME: &str = "named-sequence";

struct Lope {
    runner: Runner,
    one: Arc<Plan>,
    sequence: Arc<Plan>,
    fan: Arc<Plan>,
    ends: Option<Arc<Ends>>,
}

/// Who waits for the end of which run, and ends that came before anybody waited.
#[derive(Default)]
struct Ends(Mutex<HashMap<RunId, Waiting>>);

enum Waiting {
    Caller(oneshot::Sender<FinalStatus>),
    Ended(FinalStatus),
}

impl Ends {
    fn ended(&self, run: RunId, status: FinalStatus) {
        let mut waiting = self.0.lock().unwrap();
        match waiting.remove(&run) {
            Some(Waiting::Caller(caller)) => {
                let _ = caller.send(status);
            }
            Some(Waiting::Ended(_)) | None => {
                waiting.insert(run, Waiting::Ended(status));
            }
        }
    }

    async fn wait(&self, run: RunId) -> FinalStatus {
        let told = {
            let mut waiting = self.0.lock().unwrap();
            match waiting.remove(&run) {
                Some(Waiting::Ended(status)) => return status,
                Some(Waiting::Caller(_)) | None => {
                    let (caller, told) = oneshot::channel();
                    waiting.insert(run, Waiting::Caller(caller));
                    told
                }
            }
        };
        told.await.unwrap()
    }
}

impl Lope {
    async fn open(order: &Order) -> Self {
        let functions = Functions::new(tokio::runtime::Handle::current());
        functions.add("nothing", |_| {
            protocol::step();
            std::future::ready(Ok(Value::Null))
        });
        let runner = Runner::builder()
            .url(&order.url)
            .executor(executors::ACTION, Arc::new(functions))
            .without_telemetry()
            .build()
            .await
            .unwrap();
        // What a killed process has left is taken up by the next one.
        let realm = lope_model::Realm::default();
        runner.serve_realm(realm).await.unwrap();
        let plans = [ONE, SEQUENCE, FAN].map(|text| workflows::read(text, "peer").unwrap());
        for plan in &plans {
            runner.client().deploy(plan).await.unwrap();
            runner.keep_at_hand(plan).await.unwrap();
        }
        let [one, sequence, fan] = plans;
        Self {
            runner,
            one,
            sequence,
            fan,
            ends: None,
        }
    }

    /// Hear of the ends of runs. Only where runs are short: whoever listens hears of steps too.
    async fn listen(&mut self) {
        let ends = Arc::new(Ends::default());
        let mut news = self.runner.news().await.unwrap();
        self.ends = Some(Arc::clone(&ends));
        tokio::spawn(async move {
            loop {
                if let News::Ended { run, status, .. } = news.recv().await.unwrap() {
                    ends.ended(run, status);
                }
            }
        });
    }

    async fn start(&self, plan: &Arc<Plan>, input: u64, key: Option<&str>) -> RunId {
        let options = RunStartOptions {
            input: Some(Value::Int(input.cast_signed())),
            key: key.map(Into::into),
            ..RunStartOptions::default()
        };
        let run = PreparedRun::new(plan, options, &lope::QueueLimits::new()).unwrap();
        self.runner.start(run).await.unwrap().0
    }

    /// Until nothing is under way, and all of it ended well.
    async fn rest(&self) {
        while self.runner.resident_runs().await.unwrap() > 0 {
            tokio::time::sleep(POLL).await;
        }
        let others = [FinalStatus::Failed, FinalStatus::Cancelled].map(RunStatus::Final);
        let filter = RunFilter {
            statuses: others.into(),
            limit: 1,
            ..RunFilter::default()
        };
        assert!(self.runner.client().list(filter).await.unwrap().is_empty());
    }
}

impl Peer for Lope {
    async fn one(&self, number: u64) {
        let run = self.start(&self.one, number, None).await;
        match &self.ends {
            Some(ends) => assert_eq!(ends.wait(run).await, FinalStatus::Completed),
            None => self.rest().await,
        }
    }

    async fn sequences(&self, runs: u64, steps: u64) {
        for _ in 0..runs {
            self.start(&self.sequence, steps, None).await;
        }
        self.rest().await;
    }

    async fn fan(&self, steps: u64) {
        self.start(&self.fan, steps, None).await;
        self.rest().await;
    }

    async fn named_sequence(&self, steps: u64) {
        self.start(&self.sequence, steps, Some(NAME)).await;
        self.rest().await;
    }

    async fn resume(&self, _steps: u64) {
        let client = self.runner.client();
        let found = client.find(NAME).await.unwrap();
        let lope::runs::FoundRun::Run(run) = found else {
            panic!("{found:?}");
        };
        let record = client.wait(run).await.unwrap().unwrap();
        assert_eq!(record.status, RunStatus::Final(FinalStatus::Completed));
    }
}

#[tokio::main]
async fn main() {
    let order = Order::read();
    let mut peer = Lope::open(&order).await;
    if matches!(order.work.as_str(), "runs" | "latency") {
        peer.listen().await;
    }
    protocol::serve(order, peer).await;
}
