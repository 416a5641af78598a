//! Reactive spaces: what a node costs in memory, whether chains and fans are linear, what one change
//! in a large graph runs, how many events a counter takes, and how soon a large space is taken up.

use std::time::Instant;

use lope::reactive::javascript::JavaScript;
use lope::reactive::{
    CellAddress, Json, LeaseRequest, Modules, Recipe, RecipeBuilder, RecipeRun, RecipeRunner,
    SpaceHost, SpaceInput, SpaceMachine, SpaceName, SpaceOutput, SpaceStore, Spaces, StreamEvent,
    Transaction,
};
use lope_model::{Span, Timestamp};
use tokio::task::JoinSet;

use crate::error::{BenchError, BenchResult};
use crate::figure::{BenchFigure, Cost};
use crate::footprint::resident;
use crate::measured_store::{MeasuredStore, StoreKind};

/// Events in one wave.
const WAVE: u64 = 256;
/// Documents written at a time when a large space is made.
const FILL: u64 = 5_000;
const LEASE: Span = Span::from_secs(60);

pub(crate) async fn reactive(
    scale: u64,
    measured: &MeasuredStore,
) -> BenchResult<Vec<BenchFigure>> {
    let scaled = |usual: u64| (usual * scale / 100).max(1);
    if measured.kind == StoreKind::Memory {
        return Ok(vec![
            chain("native", NATIVE, scaled(1_000), 20)?,
            chain("javascript", SCRIPT, scaled(1_000), 5)?,
            chain("native", NATIVE, scaled(10_000), 3)?,
            fan(scaled(1_000))?,
            fan(scaled(10_000))?,
            leaf(scaled(100_000))?,
        ]);
    }
    let counted = events(scaled(100) * WAVE, measured).await?;
    Ok(vec![counted, take_up(scaled(100_000), measured).await?])
}

const NATIVE: &str = "next";
const SCRIPT: &str = "({x}) => x + 1";

fn modules() -> Modules {
    let mut modules = Modules::default();
    modules.function(NATIVE, |value| {
        let x = value.child("x").and_then(Json::as_int).unwrap_or(0);
        Ok(Some((x + 1).into()))
    });
    modules
}

fn name() -> BenchResult<SpaceName> {
    let name = "bench".parse();
    name.map_err(|error| BenchError::broken(format!("{error}")))
}

fn at(path: &str) -> BenchResult<CellAddress> {
    CellAddress::parse(&format!("bench/{path}"))
        .map_err(|error| BenchError::broken(error.to_string()))
}

fn broken(error: impl std::fmt::Display) -> BenchError {
    BenchError::broken(error.to_string())
}

/// Nodes of one process: a recipe is a document, and a document has at most 16 MiB.
const AT_ONCE: usize = 50_000;

/// A space in memory whose waves are saved at once.
struct InMemory {
    machine: SpaceMachine<RecipeRunner>,
    failed: u64,
}

impl InMemory {
    fn new() -> BenchResult<Self> {
        let scripts = Box::new(JavaScript::default());
        let runner = RecipeRunner::new(name()?, modules(), scripts);
        let machine = SpaceMachine::new(name()?, Spaces::default(), runner);
        Ok(Self { machine, failed: 0 })
    }

    fn run(&mut self, recipe: &Recipe, argument: &Json) -> BenchResult<()> {
        self.run_at("result", recipe, argument)
    }

    fn run_at(&mut self, result: &str, recipe: &Recipe, argument: &Json) -> BenchResult<()> {
        let mut transaction = self.machine.spaces().begin();
        let result = at(result)?;
        let runner = self.machine.program();
        let run = RecipeRun::at(&result).recipe(recipe).argument(argument);
        let ran = runner.run(&mut transaction, run);
        ran.map_err(broken)?;
        self.settle(transaction);
        Ok(())
    }

    /// Commits, and runs what follows until nothing is to be done.
    fn settle(&mut self, transaction: Transaction) {
        let now = Timestamp::from_millis(1_000);
        let mut inputs = vec![SpaceInput::Edit {
            ticket: 1,
            transaction,
        }];
        let mut outputs = Vec::new();
        while !inputs.is_empty() {
            self.machine.handle(now, &mut inputs, &mut outputs);
            for output in outputs.drain(..) {
                match output {
                    SpaceOutput::Save(wave) => inputs.push(SpaceInput::Saved { wave: wave.number }),
                    SpaceOutput::Failed { .. } | SpaceOutput::NonSettling(_) => self.failed += 1,
                    _ => {}
                }
            }
        }
    }

    /// Sets an argument so many times; how long that took.
    fn change(&mut self, key: &str, times: u64) -> BenchResult<Cost> {
        let process =
            lope::reactive::process::process_of(&self.machine.spaces().begin(), &at("result")?);
        let cell = process.key("argument").key(key);
        let began = Instant::now();
        let ours = lope::measure::cpu_time();
        for number in 1..=times {
            let mut edit = self.machine.spaces().begin();
            edit.set(&cell, &Json::from(1_000_000 + number as i64))
                .map_err(broken)?;
            self.settle(edit);
        }
        Ok(Cost {
            wall: began.elapsed(),
            ours: lope::measure::cpu_time().saturating_sub(ours),
            ..Cost::default()
        })
    }

    fn get(&self, path: &str) -> BenchResult<Option<i64>> {
        let value = self.machine.spaces().begin().get(&at(path)?);
        Ok(value.and_then(|value| value.as_int()))
    }
}

fn figure(unit: &'static str, units: u64, cost: Cost) -> BenchFigure {
    let figure = BenchFigure {
        bench: "reactive",
        store: StoreKind::Memory.name(),
        unit,
        units,
        cost,
        notes: Vec::new(),
    };
    let micros = figure.cpu_micros();
    figure.note("each", format!("{micros:.1} µs"))
}

/// Nodes that each read what the one before wrote.
fn chain(kind: &'static str, code: &str, nodes: u64, times: u64) -> BenchResult<BenchFigure> {
    let mut builder = RecipeBuilder::new();
    let mut from = builder.argument("x");
    for number in 0..nodes {
        let inputs = [("x", from)];
        let to = builder.internal(&format!("c{number}"));
        match kind {
            "native" => builder.native(code, inputs, &to),
            _ => builder.javascript(code, inputs, &to),
        }
        from = to;
    }
    let recipe = builder.result([("out", from)]).build().map_err(broken)?;
    let mut space = InMemory::new()?;
    let argument = Json::object([("x", Json::from(0))]);
    space.run(&recipe, &argument)?;
    let cost = space.change("x", times)?;
    let expected = 1_000_000 + times as i64 + nodes as i64;
    if space.failed > 0 || space.get("result/out")? != Some(expected) {
        return Err(BenchError::broken("the end of the chain is wrong"));
    }
    let figure = figure("node runs", nodes * times, cost);
    Ok(figure.note("chain of", nodes).note("kind", kind))
}

/// Nodes that all read one cell.
fn fan(nodes: u64) -> BenchResult<BenchFigure> {
    let times = 3;
    let mut builder = RecipeBuilder::new();
    let from = builder.argument("x");
    for number in 0..nodes {
        let to = builder.internal(&format!("f{number}"));
        builder.native(NATIVE, [("x", from.clone())], &to);
    }
    let all = builder.all_internal();
    let recipe = builder.result([("all", all)]).build().map_err(broken)?;
    let mut space = InMemory::new()?;
    space.run(&recipe, &Json::object([("x", Json::from(0))]))?;
    let cost = space.change("x", times)?;
    let last = format!("result/all/f{}", nodes - 1);
    if space.get(&last)? != Some(1_000_001 + times as i64) {
        return Err(BenchError::broken("a node of the fan is wrong"));
    }
    Ok(figure("node runs", nodes * times, cost).note("fan of", nodes))
}

/// A graph in which each node has an input of its own: one of them changes. A large graph is several
/// processes of its space.
fn leaf(nodes: u64) -> BenchResult<BenchFigure> {
    let mut space = InMemory::new()?;
    for first in (0..nodes).step_by(AT_ONCE) {
        let part = (nodes - first).min(AT_ONCE as u64);
        let mut builder = RecipeBuilder::new();
        for number in 0..part {
            let from = builder.argument(&format!("a{number}"));
            let to = builder.internal(&format!("b{number}"));
            builder.native(NATIVE, [("x", from)], &to);
        }
        let all = builder.all_internal();
        let recipe = builder.result([("all", all)]).build().map_err(broken)?;
        let inputs = (0..part).map(|number| (format!("a{number}"), Json::from(0)));
        let result = match first {
            0 => "result".to_owned(),
            first => format!("result-{first}"),
        };
        space.run_at(&result, &recipe, &Json::object(inputs))?;
    }
    if space.failed > 0 {
        return Err(BenchError::broken("the graph does not run"));
    }
    let times = 200;
    let middle = nodes.min(AT_ONCE as u64) / 2;
    let cost = space.change(&format!("a{middle}"), times)?;
    if space.get(&format!("result/all/b{middle}"))? != Some(1_000_001 + times as i64) {
        return Err(BenchError::broken("the reader of the leaf is wrong"));
    }
    Ok(figure("changes", times, cost).note("of a graph of", nodes))
}

fn counter() -> BenchResult<Recipe> {
    let mut builder = RecipeBuilder::new();
    let add = builder.stream("add");
    let count = builder.internal("count");
    builder.initial("count", 0);
    builder.native("sum", [("x", add.clone()), ("y", count.clone())], &count);
    let recipe = builder.result([("add", add), ("count", count)]);
    recipe.build().map_err(broken)
}

async fn taken(store: SpaceStore, now: Timestamp) -> BenchResult<SpaceHost<RecipeRunner>> {
    let mut modules = modules();
    modules.function("sum", |value| {
        let int = |key: &str| value.child(key).and_then(Json::as_int).unwrap_or(0);
        Ok(Some((int("x") + int("y")).into()))
    });
    let runner = RecipeRunner::new(name()?, modules, Box::new(JavaScript::default()));
    let asked = LeaseRequest {
        identity: &"bench".into(),
        now,
        span: LEASE,
    };
    let host = SpaceHost::take(store, runner, asked).await;
    host.map_err(broken)
}

async fn space(measured: &MeasuredStore) -> BenchResult<SpaceStore> {
    let tables = std::sync::Arc::clone(&measured.client.store().tables);
    SpaceStore::open(tables, name()?).await.map_err(broken)
}

/// Events that wait, handled in waves of so many; sending them is not counted.
async fn events(count: u64, measured: &MeasuredStore) -> BenchResult<BenchFigure> {
    let now = Timestamp::from_millis(1_000);
    let store = space(measured).await?;
    let mut host = taken(store.clone(), now).await?;
    let mut start = host.machine().spaces().begin();
    let result = at("result")?;
    let recipe = counter()?;
    let run = RecipeRun::at(&result).recipe(&recipe);
    let ran = host.machine().program().run(&mut start, run);
    ran.map_err(broken)?;
    host.edit(1, start);
    host.turn(now).await.map_err(broken)?;
    let mut cost = Cost::default();
    for wave in 0..count / WAVE {
        let mut sending = JoinSet::new();
        for number in 0..WAVE {
            let store = store.clone();
            let event = StreamEvent {
                id: format!("{wave}-{number}").into(),
                stream: at("result/add")?,
                payload: 1.into(),
            };
            sending.spawn(async move { store.send(&event).await });
        }
        while let Some(sent) = sending.join_next().await {
            sent.map_err(broken)?.map_err(broken)?;
        }
        let before = measured.read().await?;
        host.turn(now).await.map_err(broken)?;
        cost = add(cost, before.until(measured.read().await?));
    }
    let counted = host.machine().spaces().begin().get(&at("result/count")?);
    if counted.and_then(|counted| counted.as_int()) != Some((count / WAVE * WAVE) as i64) {
        return Err(BenchError::broken("an event was not counted"));
    }
    host.release().await.map_err(broken)?;
    let figure = BenchFigure {
        bench: "reactive",
        store: measured.kind.name(),
        unit: "events",
        units: count / WAVE * WAVE,
        cost,
        notes: Vec::new(),
    };
    Ok(figure.note("to a counter, a wave", WAVE))
}

fn add(one: Cost, other: Cost) -> Cost {
    if one.wall.is_zero() {
        return other;
    }
    one.and(other)
}

/// A space of many documents, taken up.
async fn take_up(cells: u64, measured: &MeasuredStore) -> BenchResult<BenchFigure> {
    let mut now = Timestamp::from_millis(1_000_000);
    let store = space(measured).await?;
    let mut host = taken(store.clone(), now).await?;
    let mut made = 0;
    while made < cells {
        let mut edit = host.machine().spaces().begin();
        for number in made..(made + FILL).min(cells) {
            let value = Json::object([("value", Json::from(number as i64))]);
            edit.set(&at(&format!("cell-{number}"))?, &value)
                .map_err(broken)?;
        }
        made += FILL;
        host.edit(1, edit);
        host.turn(now).await.map_err(broken)?;
    }
    host.release().await.map_err(broken)?;
    now = now.plus(LEASE);
    let before = measured.read().await?;
    let mut host = taken(store, now).await?;
    let cost = before.until(measured.read().await?);
    // What filling it left behind is in it, too: the space itself needs no more than that.
    let memory = resident(std::process::id()).unwrap_or_default();
    let last = host
        .machine()
        .spaces()
        .begin()
        .get(&at(&format!("cell-{}/value", cells - 1))?);
    if last.is_none() {
        return Err(BenchError::broken("a cell is missing"));
    }
    host.release().await.map_err(broken)?;
    let figure = BenchFigure {
        bench: "reactive",
        store: measured.kind.name(),
        unit: "cells",
        units: cells,
        cost,
        notes: Vec::new(),
    };
    let took = figure.cost.wall.as_secs_f64() * 1e3;
    Ok(figure.note("taken up in", format!("{took:.0} ms")).note(
        "memory of the process",
        format!("{:.0} MB", memory as f64 / 1024.0),
    ))
}
