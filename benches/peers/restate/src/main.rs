//! Restate: a server of its own, whose log is in files, and a service in this process that it calls.
//! Runs are asked for over HTTP, as its users do.

use std::net::TcpListener as Probe;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use peer_protocol::{Order, Peer};
use reqwest::Client;
use restate_sdk::prelude::*;
use serde_json::json;

const NAME: &str = "named-sequence";
const POLL: Duration = Duration::from_millis(50);
const STARTS: usize = 1_200;

struct Steps;

async fn nothing() -> Result<(), HandlerError> {
    peer_protocol::step();
    Ok(())
}

#[service]
impl Steps {
    #[handler]
    async fn one(&self, ctx: Context<'_>, _number: u64) -> HandlerResult<()> {
        ctx.run(nothing).await?;
        Ok(())
    }

    #[handler]
    async fn sequence(&self, ctx: Context<'_>, steps: u64) -> HandlerResult<()> {
        for _ in 0..steps {
            ctx.run(nothing).await?;
        }
        Ok(())
    }

    #[handler]
    async fn fan(&self, ctx: Context<'_>, steps: u64) -> HandlerResult<()> {
        // A closure that is run and recorded cannot be awaited beside another one in this package.
        for _ in 0..steps {
            ctx.run(nothing).await?;
        }
        Ok(())
    }
}

struct Restate {
    client: Client,
    ingress: String,
    _server: Child,
}

/// Ports for ingress, admin, node and service, the same again after a crash.
fn ports(folder: &Path) -> Vec<u16> {
    let file = folder.join("ports");
    if let Ok(text) = std::fs::read_to_string(&file) {
        return text
            .split(' ')
            .filter_map(|port| port.parse().ok())
            .collect();
    }
    let probes: Vec<Probe> = (0..4)
        .map(|_| Probe::bind("127.0.0.1:0").expect("a port is free"))
        .collect();
    let ports: Vec<u16> = probes
        .iter()
        .map(|probe| probe.local_addr().expect("it has a port").port())
        .collect();
    let words: Vec<String> = ports.iter().map(u16::to_string).collect();
    std::fs::write(file, words.join(" ")).expect("the ports are kept");
    ports
}

fn server(folder: &Path, ports: &[u16]) -> Child {
    let address = |port: u16| format!("127.0.0.1:{port}");
    let log = std::fs::File::create(folder.join("server.log")).expect("a log is made");
    Command::new(std::env::var("PEER_SERVER").expect("PEER_SERVER names the server"))
        .arg("--base-dir")
        .arg(folder.join("restate"))
        .env("RESTATE_INGRESS__BIND_ADDRESS", address(ports[0]))
        .env("RESTATE_ADMIN__BIND_ADDRESS", address(ports[1]))
        .env("RESTATE_BIND_ADDRESS", address(ports[2]))
        .env("RESTATE_NODE_NAME", "peer")
        .env("RESTATE_DISABLE_TELEMETRY", "true")
        .env("RESTATE_LOG_FILTER", "warn")
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("the log is shared"))
        .stderr(log)
        .spawn()
        .expect("the server starts")
}

impl Restate {
    async fn start(order: &Order) -> Self {
        let folder = Path::new(&order.folder);
        let ports = ports(folder);
        let server = server(folder, &ports);
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", ports[3])).await;
        let endpoint = Endpoint::builder().bind(Steps).build();
        tokio::spawn(HttpServer::new(endpoint).serve(listener.expect("the port is free")));
        let peer = Self {
            client: Client::new(),
            ingress: format!("http://127.0.0.1:{}", ports[0]),
            _server: server,
        };
        peer.register(&ports, order.work == "resume").await;
        peer
    }

    async fn register(&self, ports: &[u16], is_known: bool) {
        let admin = format!("http://127.0.0.1:{}", ports[1]);
        let health = format!("{}/restate/health", self.ingress);
        self.until_ok(|| self.client.get(&health)).await;
        let deployments = format!("{admin}/deployments");
        if !is_known {
            let service = json!({ "uri": format!("http://127.0.0.1:{}", ports[3]) });
            self.until_ok(|| self.client.post(&deployments).json(&service))
                .await;
        }
    }

    async fn until_ok(&self, request: impl Fn() -> reqwest::RequestBuilder) {
        for _ in 0..STARTS {
            if let Ok(answer) = request().send().await
                && answer.status().is_success()
            {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
        panic!("the server does not come up");
    }

    async fn call(&self, handler: &str, input: u64, key: Option<&str>) {
        let mut request = self
            .client
            .post(format!("{}/Steps/{handler}", self.ingress))
            .json(&input);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = request.send().await.expect("the server answers");
        assert!(answer.status().is_success(), "{answer:?}");
    }
}

impl Peer for Restate {
    async fn one(&self, number: u64) {
        self.call("one", number, None).await;
    }

    async fn sequences(&self, runs: u64, steps: u64) {
        let runs = (0..runs).map(|_| self.call("sequence", steps, None));
        futures::future::join_all(runs).await;
    }

    async fn fan(&self, steps: u64) {
        self.call("fan", steps, None).await;
    }

    async fn named_sequence(&self, steps: u64) {
        self.call("sequence", steps, Some(NAME)).await;
    }

    /// The same key finds the call that is under way.
    async fn resume(&self, steps: u64) {
        self.call("sequence", steps, Some(NAME)).await;
    }
}

#[tokio::main]
async fn main() {
    let order = Order::read();
    let peer = Restate::start(&order).await;
    peer_protocol::serve(order, peer).await;
}
