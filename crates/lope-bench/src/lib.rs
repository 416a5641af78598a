//! What `lope bench` measures: durable runs of several shapes and messages, on each store, beside
//! what that store could do at best in the same minute. Nothing here judges; timings swing, CPU
//! time hardly does.

mod agents;
mod error;
mod figure;
mod filling;
mod footprint;
mod http_client;
mod idle;
mod mailbox;
mod measured_store;
pub mod python;
mod raw;
mod reactive;
mod server;
mod shapes;
mod sleepers;
mod upkeep;
mod work;

pub use error::{BenchError, BenchResult};
pub use figure::{BenchFigure, Cost, CostReading};
pub use measured_store::{MeasuredStore, StoreKind};

/// Something that can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Benchmark {
    pub name: &'static str,
    /// Does it make sense in memory?
    pub in_memory: bool,
}

/// Everything that can be measured.
pub const BENCHMARKS: [Benchmark; 14] = [
    on_every_store("runs"),
    on_every_store("steps"),
    on_every_store("fan"),
    on_every_store("loop"),
    on_every_store("latency"),
    on_every_store("mailbox"),
    on_every_store("reactive"),
    on_every_store(PYTHON),
    on_lasting_stores("server"),
    on_lasting_stores("sleepers"),
    on_lasting_stores("upkeep"),
    on_lasting_stores("agents"),
    on_lasting_stores("idle"),
    on_lasting_stores("footprint"),
];

/// The benchmark that needs a pool: see [`python::measure`].
pub const PYTHON: &str = "python";

const fn on_every_store(name: &'static str) -> Benchmark {
    Benchmark {
        name,
        in_memory: true,
    }
}

const fn on_lasting_stores(name: &'static str) -> Benchmark {
    Benchmark {
        name,
        in_memory: false,
    }
}

/// Measure one of [`BENCHMARKS`] other than [`PYTHON`] on a store; `scale` is in percent of the
/// usual work.
pub async fn measure(
    name: &str,
    scale: u64,
    store: &MeasuredStore,
) -> BenchResult<Vec<BenchFigure>> {
    let scaled = |usual: u64| (usual * scale / 100).max(1);
    let in_memory = store.kind == StoreKind::Memory;
    let plenty = if in_memory { 400_000 } else { 60_000 };
    let load = |bench, text, runs, each: u64| work::Load {
        bench,
        unit: if each == 1 { "runs" } else { "steps" },
        plan: shapes::plan(text),
        runs,
        input: i64::try_from(each).unwrap_or(i64::MAX),
        units: each,
    };
    Ok(match name {
        "runs" => {
            let figure = work::measure(load("runs", shapes::ONE, scaled(plenty), 1), store).await?;
            figure.beside(raw::one_step(scaled(plenty), store).await?)
        }
        "steps" => {
            let load = load("steps", shapes::SEQUENCE, 100, scaled(2_000));
            let figure = work::measure(load, store).await?;
            figure.beside(raw::sequences(100, scaled(2_000), store).await?)
        }
        "fan" => vec![work::measure(load("fan", shapes::FAN, 1, scaled(10_000)), store).await?],
        "loop" => {
            let rounds = if in_memory { 1_000_000 } else { 100_000 };
            vec![work::long_loop(scaled(rounds), store).await?]
        }
        "latency" => work::latency(scaled(500), store)
            .await?
            .beside(raw::one_by_one(scaled(500), store).await?),
        "mailbox" => mailbox::mailbox(scale, store).await?,
        "reactive" => reactive::reactive(scale, store).await?,
        "server" => server::measure(scale, store).await?,
        "sleepers" => vec![sleepers::sleepers(scaled(100_000), store).await?],
        "upkeep" => vec![
            upkeep::prune(scaled(20_000), store).await?,
            upkeep::wakeups(scaled(50), store).await?,
        ],
        "agents" => agents::agents(scale, store).await?,
        "idle" => vec![idle::idle(scaled(20), store).await?],
        "footprint" => vec![footprint::footprint(store)?],
        other => {
            return Err(BenchError::input(format!(
                "there is no benchmark '{other}'"
            )));
        }
    })
}
