//! The three worked examples of the specification, step by step, on every store; whoever hosts the
//! space goes away between two steps and the store is opened again.

use lope_model::{Span, Timestamp};
use lope_reactive::hosting::{LeaseRequest, SpaceHost, SpaceStore};
use lope_reactive::javascript::JavaScript;
use lope_reactive::machine::{EventOutcome, SpaceOutput, StreamEvent};
use lope_reactive::process::{process_of, source_of};
use lope_reactive::runner::{ProcessReport, RecipeRun};
use lope_reactive::{CellAddress, Json, Link, Reads, Recipe, RecipeRunner, Schema, Transaction};

use crate::fixture::{cell, json, space};
use crate::host::modules;
use crate::stores::{Place, on_every_store};

on_every_store! {
    process_cell_lifecycle => super::lifecycle;
    stream_handler_node => super::stream_handler;
    nested_recipe_wiring => super::nested;
}

const LEASE: Span = Span::from_secs(15);

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

fn parse(document: serde_json::Value) -> Recipe {
    Recipe::parse(&document.into()).unwrap()
}

/// A space that is hosted for one step at a time.
struct Steps {
    place: Place,
    now: Timestamp,
    events: u64,
}

impl Steps {
    fn on(place: Place) -> Self {
        Self {
            place,
            now: Timestamp::from_millis(1_000),
            events: 0,
        }
    }

    async fn host(&mut self) -> SpaceHost<RecipeRunner> {
        let tables = self.place.open().await.tables;
        let store = SpaceStore::open(tables, space("home")).await.unwrap();
        let scripts = Box::new(JavaScript::default());
        let runner = RecipeRunner::new(space("home"), modules(), scripts);
        let asked = LeaseRequest {
            identity: &"me".into(),
            now: self.now,
            span: LEASE,
        };
        SpaceHost::take(store, runner, asked).await.unwrap()
    }

    /// One transaction, committed; then everything that follows from it.
    async fn step(&mut self, work: impl FnOnce(&RecipeRunner, &mut Transaction)) {
        let mut host = self.host().await;
        let mut transaction = host.machine().spaces().begin();
        work(host.machine().program(), &mut transaction);
        host.edit(1, transaction);
        let told = host.turn(self.now).await.unwrap();
        let committed = |output: &SpaceOutput| matches!(output, SpaceOutput::Edited { outcome, .. } if outcome.is_ok());
        assert!(told.iter().any(committed), "{told:?}");
        self.end(host);
    }

    async fn run(&mut self, recipe: Option<&Recipe>, argument: serde_json::Value) {
        let argument = Json::from(argument);
        self.step(|runner, transaction| {
            let demo = cell("demo");
            let mut run = RecipeRun::at(&demo).argument(&argument);
            if let Some(recipe) = recipe {
                run = run.recipe(recipe);
            }
            let returned = runner.run(transaction, run);
            assert_eq!(
                returned.unwrap(),
                cell("demo"),
                "the result cell comes back"
            );
        })
        .await;
    }

    async fn send(&mut self, stream: &str, payload: serde_json::Value) -> EventOutcome {
        let mut host = self.host().await;
        self.events += 1;
        let tables = self.place.open().await.tables;
        let store = SpaceStore::open(tables, space("home")).await.unwrap();
        let event = StreamEvent {
            id: format!("event {}", self.events).as_str().into(),
            stream: cell(stream),
            payload: payload.into(),
        };
        store.send(&event).await.unwrap();
        let told = host.turn(self.now).await.unwrap();
        let receipt = told.into_iter().find_map(|output| match output {
            SpaceOutput::Receipt(receipt) if receipt.event == event.id => Some(receipt.outcome),
            _ => None,
        });
        self.end(host);
        receipt.unwrap()
    }

    /// Gone without a word: whoever is next waits for the lease.
    fn end(&mut self, host: SpaceHost<RecipeRunner>) {
        drop(host);
        self.now = self.now.plus(LEASE);
    }

    async fn query<T>(&self, work: impl Fn(&mut Transaction) -> T) -> T {
        let tables = self.place.open().await.tables;
        let store = SpaceStore::open(tables, space("home")).await.unwrap();
        let spaces = store.load().await.unwrap();
        work(&mut spaces.begin())
    }

    async fn get(&self, at: &str) -> Option<Json> {
        let at = cell(at);
        self.get_at(&at).await
    }

    async fn get_at(&self, at: &CellAddress) -> Option<Json> {
        self.query(|transaction| {
            let value = transaction.project(at, &Schema::any())?;
            Some(value.to_json(at))
        })
        .await
    }

    /// The process cell of the result cell, and what is stored there.
    async fn process(&self) -> (CellAddress, Json) {
        self.query(|transaction| {
            let process = process_of(transaction, &cell("demo"));
            let stored = transaction.document(&process.space, &process.id).unwrap();
            (process, stored)
        })
        .await
    }

    async fn report(&mut self) -> Vec<ProcessReport> {
        let mut host = self.host().await;
        let report = host
            .machine()
            .with_program(|runner, spaces, nodes| runner.report(spaces, nodes));
        self.end(host);
        report
    }
}

fn target(value: Option<&Json>, from: &CellAddress) -> CellAddress {
    Link::from_json(value.unwrap()).unwrap().target(from)
}

fn first() -> Recipe {
    parse(json!({
        "argumentSchema": {"properties": {
            "x": {"default": 10},
            "internal": {"properties": {"a": {"default": 1}, "b": {"default": 1}}, "default": {}}
        }},
        "initial": {"internal": {"b": 2}},
        "result": {"out": alias(&["internal", "out"]), "b": alias(&["internal", "b"])},
        "nodes": [{"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(&["argument", "x"])},
            "outputs": alias(&["internal", "out"])}]
    }))
}

fn second() -> Recipe {
    parse(json!({
        "initial": {"internal": {"c": 3}},
        "result": {"sum": alias(&["internal", "sum"])},
        "nodes": [{"module": {"type": "native", "implementation": "add"},
            "inputs": {"x": alias(&["argument", "y"]), "y": alias(&["internal", "c"])}, "outputs": alias(&["internal", "sum"])}]
    }))
}

async fn lifecycle(place: Place) {
    let mut steps = Steps::on(place);
    let process = first_run(&mut steps).await;
    another_argument(&mut steps, &process).await;
    another_recipe(&mut steps, &process).await;
}

/// 1. First run.
async fn first_run(steps: &mut Steps) -> CellAddress {
    steps.run(Some(&first()), json!({"x": 1})).await;
    let (process, stored) = steps.process().await;
    assert_eq!(
        process.space,
        space("home"),
        "in the space of the result cell"
    );
    assert_eq!(stored.child("TYPE"), Some(&first().id.into()));
    let spell = target(stored.child("spell"), &process);
    assert_eq!(spell.id, Recipe::stored_as(&first().id));
    assert_eq!(
        steps.get_raw(&spell).await,
        Some(first().document),
        "the spell is the recipe"
    );
    assert_eq!(
        stored.child("argument").unwrap().child("x"),
        Some(&1.into())
    );
    assert_eq!(
        stored.child("internal"),
        Some(&json!({"a": 1, "b": 2, "out": 2}).into()),
        "defaults, then initial, then what the node wrote"
    );
    assert_eq!(target(stored.child("resultRef"), &process), cell("demo"));
    let source = source_of(&cell("demo"));
    let linked = steps.get_raw(&source).await;
    assert_eq!(target(linked.as_ref(), &source), process, "for future runs");
    assert_eq!(
        steps.get("demo").await,
        Some(json!({"out": 2, "b": 2}).into())
    );
    let report = steps.report().await;
    assert_eq!(report.len(), 1);
    assert_eq!(report[0].nodes[0].runs, 1);
    process
}

/// 2. Another argument, no restart.
async fn another_argument(steps: &mut Steps, process: &CellAddress) {
    // What was stored counts more than defaults and initial when it goes on.
    steps
        .step(|_, transaction| {
            transaction
                .set(&process.key("internal").key("b"), &7.into())
                .unwrap();
        })
        .await;
    steps.run(None, json!({"x": 2})).await;
    let (same, stored) = steps.process().await;
    assert_eq!(
        (&same, stored.child("TYPE")),
        (process, Some(&first().id.into()))
    );
    assert_eq!(
        stored.child("argument").unwrap().child("x"),
        Some(&2.into())
    );
    assert_eq!(
        steps.get("demo").await,
        Some(json!({"out": 4, "b": 7}).into())
    );
    assert_eq!(
        steps.report().await[0].nodes[0].runs,
        2,
        "its node ran once more, no other"
    );
}

/// 3. Another recipe.
async fn another_recipe(steps: &mut Steps, process: &CellAddress) {
    steps.run(Some(&second()), json!({"y": 3})).await;
    let (same, stored) = steps.process().await;
    assert_eq!(&same, process, "the process cell is reused");
    assert_eq!(stored.child("TYPE"), Some(&second().id.into()));
    assert_eq!(
        target(stored.child("spell"), process).id,
        Recipe::stored_as(&second().id)
    );
    assert_eq!(
        stored.child("internal"),
        Some(&json!({"c": 3, "sum": 6}).into()),
        "seeded anew"
    );
    assert_eq!(steps.get("demo").await, Some(json!({"sum": 6}).into()));
    let report = steps.report().await;
    assert_eq!((report.len(), report[0].nodes.len()), (1, 1));
    assert_eq!(
        report[0].recipe,
        *second().id,
        "nothing of the first one runs"
    );
    steps
        .step(|_, transaction| {
            transaction
                .set(&process.key("argument").key("x"), &50.into())
                .unwrap();
        })
        .await;
    assert_eq!(
        steps.get_at(&process.key("internal").key("out")).await,
        None,
        "nobody listens to x"
    );
}

impl Steps {
    /// What is stored, no link followed.
    async fn get_raw(&self, at: &CellAddress) -> Option<Json> {
        self.query(|transaction| transaction.document(&at.space, &at.id))
            .await
    }
}

async fn stream_handler(place: Place) {
    let mut steps = Steps::on(place);
    let child = json!({
        "result": {"twice": alias(&["internal", "out"])},
        "nodes": [{"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(&["argument", "x"])},
            "outputs": alias(&["internal", "out"])}]
    });
    // With a number as payload the result asks for a recipe of its own.
    let implementation = "({evt, foo, child}) => typeof evt.payload === 'number' ? {out: run(child, {x: evt.payload})} : {out: `${foo}:${evt.payload}`}";
    let recipe = parse(json!({
        "initial": {"internal": {"S": {"$stream": true}}},
        "result": {"S": alias(&["internal", "S"]), "Y": alias(&["internal", "Y"]), "length": alias(&["internal", "length"])},
        "nodes": [
            {"module": {"type": "javascript",
                "argumentSchema": {"type": "object", "properties": {"evt": {}, "foo": {}, "child": true}},
                "resultSchema": {"type": "object", "properties": {"out": {}}}, "implementation": implementation},
             "inputs": {"evt": alias(&["internal", "S"]), "foo": alias(&["argument", "foo"]), "child": child},
             "outputs": {"out": alias(&["internal", "Y"])}},
            {"module": {"type": "javascript", "implementation": "({y}) => y.length"},
             "inputs": {"y": alias(&["internal", "Y"])}, "outputs": alias(&["internal", "length"])}
        ]
    }));
    steps.run(Some(&recipe), json!({"foo": "X"})).await;
    let report = steps.report().await;
    assert_eq!(
        report[0].nodes[0].role, "handler",
        "its input leads to a stream"
    );
    assert_eq!(steps.get("demo/Y").await, None, "no event, no run");
    // An event takes the place of the stream.
    assert_eq!(
        steps.send("demo/S", json!({"payload": "hi"})).await,
        EventOutcome::Handled
    );
    assert_eq!(steps.get("demo/Y").await, Some("X:hi".into()));
    assert_eq!(
        steps.get("demo/length").await,
        Some(4.into()),
        "its output is a cell like others"
    );
    assert_eq!(
        steps.get("demo/S").await,
        Some(json!({"$stream": true}).into()),
        "the inputs were cloned: the stream is a stream still"
    );
    // What it reads besides is as it is now, and a change of it runs nothing.
    steps.run(None, json!({"foo": "Z"})).await;
    assert_eq!(steps.get("demo/Y").await, Some("X:hi".into()));
    steps.send("demo/S", json!({"payload": "again"})).await;
    assert_eq!(steps.get("demo/Y").await, Some("Z:again".into()));
    // A result that asks for a recipe: it runs into a cell of its own, and the output links to it.
    steps.send("demo/S", json!({"payload": 21})).await;
    assert_eq!(steps.get("demo/Y").await, Some(json!({"twice": 42}).into()));
    let (process, stored) = steps.process().await;
    let link = stored.child("internal").unwrap().child("Y");
    let own = target(link, &process);
    assert_ne!(own.id, process.id);
    assert_eq!(steps.get_at(&own.key("twice")).await, Some(42.into()));
    assert_eq!(steps.report().await.len(), 2);
}

async fn nested(place: Place) {
    let mut steps = Steps::on(place);
    let child = json!({
        "argumentSchema": {"type": "object", "properties": {"x": {"type": "number"}}},
        "result": {"out": alias(&["argument", "x"])},
        "nodes": []
    });
    let parent = parse(json!({
        "argumentSchema": {"type": "object", "properties": {"x": {"type": "number"}}},
        "result": {"nested": alias(&["internal", "nested"]), "more": alias(&["internal", "more"])},
        "nodes": [
            {"module": {"type": "recipe", "implementation": child}, "inputs": {"x": alias(&["argument", "x"])},
             "outputs": alias(&["internal", "nested"])},
            {"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(&["internal", "nested", "out"])},
             "outputs": alias(&["internal", "more"])}
        ]
    }));
    steps.run(Some(&parent), json!({"x": 4})).await;
    let (process, stored) = steps.process().await;
    // The output is a link to a fresh result cell in the space of the process.
    let link = stored.child("internal").unwrap().child("nested");
    let result = target(link, &process);
    assert_eq!(result.space, process.space);
    assert!(result.id != process.id && result.id != cell("demo").id);
    // The child runs with its inputs unwrapped relative to the parent's process cell.
    let own = steps
        .query(|transaction| process_of(transaction, &result))
        .await;
    let stored = steps.get_raw(&own).await.unwrap();
    assert_eq!(stored.child("TYPE"), Some(&parse(child).id.into()));
    let argument = Link::from_json(stored.child("argument").unwrap().child("x").unwrap()).unwrap();
    assert!(argument.redirect, "writes flow back, changes are tracked");
    assert_eq!(argument.target(&own), process.key("argument").key("x"));
    // Whoever reads the parent's output reads the child's result.
    assert_eq!(steps.get_at(&result).await, Some(json!({"out": 4}).into()));
    assert_eq!(
        steps.get("demo").await,
        Some(json!({"nested": {"out": 4}, "more": 8}).into())
    );
    steps.run(None, json!({"x": 5})).await;
    assert_eq!(
        steps.get("demo").await,
        Some(json!({"nested": {"out": 5}, "more": 10}).into())
    );
    let (_, stored) = steps.process().await;
    assert_eq!(
        target(stored.child("internal").unwrap().child("nested"), &process),
        result,
        "kept"
    );
    // A write to the child's result goes back to where its value came from.
    steps
        .step(|_, transaction| transaction.set(&result.key("out"), &6.into()).unwrap())
        .await;
    assert_eq!(steps.get("demo/more").await, Some(12.into()));
    assert_eq!(steps.report().await.len(), 2);
    steps
        .step(|runner, transaction| runner.stop(transaction, &cell("demo")).unwrap())
        .await;
    assert!(
        steps.report().await.is_empty(),
        "the child went with its parent"
    );
}
