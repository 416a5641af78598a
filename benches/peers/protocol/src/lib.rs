//! How `cargo xtask bench peers` talks to the programs that it measures. In: the work and its units
//! as arguments, where to keep things as variables, `go` and the end of its input on stdin; out: `ready`,
//! a line for each time that was taken, `done`. What starts runs and waits for them is a [`Peer`]; how
//! many callers there are and what is timed is here, so that it is the same for all.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Callers that ask for one-step runs at the same time, each for one after the other.
const CALLERS: u64 = 256;
/// Sequences at the same time.
const SEQUENCES: u64 = 16;
/// Steps of one fan-out.
const WIDTH: u64 = 1_000;
/// Before an idle program is measured, so that starting up is over.
const SETTLE: Duration = Duration::from_secs(3);

/// An engine for durable work, as a program uses it. Each call returns when its runs have ended
/// well, and panics if one has not. A queue of jobs has no steps, and is asked for one-step runs alone.
pub trait Peer: Send + Sync + 'static {
    /// One run of one step that does nothing.
    fn one(&self, number: u64) -> impl Future<Output = ()> + Send;

    /// As many runs at the same time, each of so many steps one after the other.
    fn sequences(&self, _runs: u64, _steps: u64) -> impl Future<Output = ()> + Send {
        async { panic!("{STEPLESS}") }
    }

    /// One run of so many steps at once.
    fn fan(&self, _steps: u64) -> impl Future<Output = ()> + Send {
        async { panic!("{STEPLESS}") }
    }

    /// A sequence under a name of its own, which another process can wait for.
    fn named_sequence(&self, _steps: u64) -> impl Future<Output = ()> + Send {
        async { panic!("{STEPLESS}") }
    }

    /// Until the named sequence of so many steps that a killed process had begun has ended.
    fn resume(&self, _steps: u64) -> impl Future<Output = ()> + Send {
        async { panic!("{STEPLESS}") }
    }
}

const STEPLESS: &str = "this one has no runs of several steps";

/// What a program was asked for.
#[derive(Clone, Debug)]
pub struct Order {
    pub work: String,
    pub units: u64,
    /// The database, or the file of one.
    pub url: String,
    /// For whatever else is to be kept.
    pub folder: String,
}

impl Order {
    pub fn read() -> Self {
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("no {name}"));
        let order = Self {
            work: words.next().expect("the work is named"),
            units: words
                .next()
                .and_then(|word| word.parse().ok())
                .expect("the units are a number"),
            url: variable("PEER_URL"),
            folder: variable("PEER_FOLDER"),
        };
        // Before the engine is up: it may go on with what it finds at once.
        if order.counts_steps() {
            count_steps(&order);
        }
        order
    }

    fn counts_steps(&self) -> bool {
        matches!(self.work.as_str(), "crash" | "resume")
    }
}

/// Do what was asked for, with a peer that is up.
pub async fn serve<P: Peer>(order: Order, peer: P) {
    let peer = Arc::new(peer);
    if !order.counts_steps() {
        peer.one(0).await;
    }
    if order.work == "idle" {
        tokio::time::sleep(SETTLE).await;
    }
    say("ready");
    listen();
    let times = work(&order, &peer).await;
    for time in times {
        say(&format!("time {:.4}", time.as_secs_f64() * 1e3));
    }
    say("done");
    listen();
    // Ending in order is not measured, and some take long for it.
    std::process::exit(0);
}

async fn work<P: Peer>(order: &Order, peer: &Arc<P>) -> Vec<Duration> {
    let units = order.units;
    match order.work.as_str() {
        "runs" => runs(units, peer).await,
        "sequence" => peer.sequences(1, units).await,
        "sequences" => peer.sequences(SEQUENCES, units / SEQUENCES).await,
        "fan" => {
            for _ in 0..(units / WIDTH).max(1) {
                peer.fan(WIDTH).await;
            }
        }
        "latency" => return latencies(units, peer).await,
        "idle" => tokio::time::sleep(Duration::from_secs(units)).await,
        "crash" => peer.named_sequence(units).await,
        "resume" => peer.resume(units).await,
        other => panic!("there is no work '{other}'"),
    }
    Vec::new()
}

async fn runs<P: Peer>(units: u64, peer: &Arc<P>) {
    let next = Arc::new(AtomicU64::new(1));
    let callers = (0..CALLERS.min(units)).map(|_| {
        let peer = Arc::clone(peer);
        let next = Arc::clone(&next);
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number > units {
                    return;
                }
                peer.one(number).await;
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("a caller ends well");
    }
}

async fn latencies<P: Peer>(units: u64, peer: &Arc<P>) -> Vec<Duration> {
    let mut times = Vec::new();
    for number in 1..=units {
        let began = Instant::now();
        peer.one(number).await;
        times.push(began.elapsed());
    }
    times
}

static STEPS: OnceLock<File> = OnceLock::new();

/// From now on every step adds a byte to a file, which tells how often steps were done.
fn count_steps(order: &Order) {
    let path = std::path::Path::new(&order.folder).join("steps");
    let file = File::options().create(true).append(true).open(path);
    STEPS
        .set(file.expect("the file of steps opens"))
        .expect("it is opened once");
}

/// What every step does: nothing, or a byte where steps are counted.
pub fn step() {
    if let Some(mut file) = STEPS.get() {
        file.write_all(b".").expect("a step is counted");
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("xtask listens");
}

/// The next line, or the end of the input: then nobody needs us any more.
fn listen() {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap_or_default() == 0 {
        std::process::exit(0);
    }
}
