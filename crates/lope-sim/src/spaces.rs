//! A reactive space in a world made of dice: several processes host it in turn, crash at any write,
//! stand still for longer than their lease, lose answers; senders repeat themselves. Whatever goes
//! wrong, the cells are in the end what they are without it, each event counts once and each effect
//! is recorded once.
//!
//! The machine, the runner, leases, waves and the memory store are the real ones; time, processes
//! and whoever does effects are simulated.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lope_model::{Span, Timestamp};
use lope_reactive::hosting::{HostError, LeaseRequest, SpaceHost, SpaceStore};
use lope_reactive::javascript::JavaScript;
use lope_reactive::machine::{SpaceAction, SpaceCommand, SpaceOutput, StreamEvent};
use lope_reactive::module::Modules;
use lope_reactive::{CellAddress, EntityId, Json, Recipe, RecipeBuilder, RecipeRunner, SpaceName};
use lope_store::faults::{Door, InjectedFault, StoreCall, with_faults};
use lope_store::{MemoryStore, Store, StoreError, Tables};

use crate::dice::Dice;
use crate::world::at_once;

const LEASE: Span = Span::from_secs(15);
/// One of so many events wants an effect.
const ORDERS: i64 = 4;
/// Steps in which things go wrong, at most; then the world is calm and comes to its end.
const ROUGH: u32 = 400;
const STEPS_MAX: u32 = 20_000;

/// Everything that the world of a space follows from.
#[derive(Clone, Copy, Debug)]
pub struct SpaceSetup {
    pub seed: u64,
    pub processes: usize,
    pub events: i64,
    /// Whether anything goes wrong.
    pub is_rough: bool,
}

/// What became of a space.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceEnd {
    pub documents: BTreeMap<EntityId, Json>,
    /// What became of each event.
    pub outcomes: Vec<String>,
    /// How often the cell of each effect was told of its end.
    pub recorded: BTreeMap<EntityId, usize>,
}

/// What happened on the way.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpaceStory {
    pub crashes: u32,
    pub lost_answers: u32,
    pub pauses: u32,
    /// Hosts that found their space taken by another.
    pub fenced: u32,
    pub takings: u32,
    pub effects: u32,
}

impl SpaceSetup {
    pub fn rolled(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        Self {
            seed,
            processes: 1 + usize::try_from(dice.below(3)).unwrap_or_default(),
            events: dice.between(5, 40),
            is_rough: true,
        }
    }
}

/// What is wrong with a world, if anything is.
pub fn space_complaint(setup: &SpaceSetup) -> Option<String> {
    let calm = SpaceSetup {
        is_rough: false,
        ..*setup
    };
    let (expected, _) = simulate_space(&calm);
    let (end, story) = simulate_space(setup);
    let lost = expected.outcomes.iter().any(|outcome| outcome != "handled");
    let twice = end.recorded.values().any(|times| *times != 1);
    if lost || twice {
        return Some(format!(
            "{:?} {:?}\n{story:?}",
            expected.outcomes, end.recorded
        ));
    }
    (end != expected).then(|| format!("ended as {end:?}\ninstead of {expected:?}\n{story:?}"))
}

/// Lives through a world.
pub fn simulate_space(setup: &SpaceSetup) -> (SpaceEnd, SpaceStory) {
    let mut world = SpaceWorld::new(*setup);
    while !world.is_over() {
        world.step();
    }
    (world.end(), world.story)
}

/// A process that may host the space.
struct HostProcess {
    tables: Arc<dyn Tables>,
    host: Option<SpaceHost<RecipeRunner>>,
    /// It stands still until then.
    paused: Timestamp,
    /// Effects that are done, and whose outcome is not told yet.
    done: Vec<SpaceCommand>,
}

struct SpaceWorld {
    setup: SpaceSetup,
    store: Store,
    /// Rolled at each write of a process.
    faults: Arc<Mutex<WriteFaults>>,
    dice: Dice,
    now: Timestamp,
    sent: i64,
    steps: u32,
    processes: Vec<HostProcess>,
    story: SpaceStory,
    attempts: u64,
}

struct WriteFaults {
    dice: Dice,
    is_on: bool,
    crashes: u32,
    lost_answers: u32,
}

impl SpaceWorld {
    fn new(setup: SpaceSetup) -> Self {
        let store = MemoryStore::open();
        let faults = Arc::new(Mutex::new(WriteFaults {
            dice: Dice::new(setup.seed ^ 0xfa17),
            is_on: setup.is_rough,
            crashes: 0,
            lost_answers: 0,
        }));
        let started = SpaceCommand {
            id: "run".into(),
            action: SpaceAction::Run {
                result: cell("result"),
                recipe: Some(recipe().document),
                argument: None,
                strict: true,
            },
        };
        at_once(space(&store.tables).ask(&started)).expect("the store is sound");
        let processes = (0..setup.processes).map(|_| HostProcess {
            tables: faulty(&store, &faults),
            host: None,
            paused: Timestamp::EPOCH,
            done: Vec::new(),
        });
        Self {
            processes: processes.collect(),
            dice: Dice::new(setup.seed ^ 0x5eed),
            now: Timestamp::from_millis(1_000_000),
            store,
            faults,
            sent: 0,
            steps: 0,
            story: SpaceStory::default(),
            attempts: 0,
            setup,
        }
    }

    fn is_rough(&self) -> bool {
        self.setup.is_rough && self.steps < ROUGH
    }

    fn step(&mut self) {
        self.steps += 1;
        assert!(
            self.steps < STEPS_MAX,
            "seed {}: it does not come to its end",
            self.setup.seed
        );
        if !self.is_rough() {
            self.rough().is_on = false;
        }
        if self.sent < self.setup.events && self.dice.chance(300) {
            self.send();
        }
        let span = self.dice.below(LEASE.millis() / 4);
        self.now = self.now.plus(Span::from_millis(span));
        let number = self.dice.below(self.processes.len() as u64) as usize;
        if self.is_rough() && self.dice.chance(50) {
            self.story.pauses += 1;
            let long = self.dice.below(3 * LEASE.millis());
            self.processes[number].paused = self.now.plus(Span::from_millis(long));
        }
        if self.processes[number].paused <= self.now {
            self.work(number);
        }
    }

    /// An event, now and then twice.
    fn send(&mut self) {
        let n = self.sent;
        self.sent += 1;
        let event = StreamEvent {
            id: format!("e{n}").into(),
            stream: cell("result/send"),
            payload: n.into(),
        };
        for _ in 0..=u64::from(self.dice.chance(200)) {
            at_once(space(&self.store.tables).send(&event)).expect("the store is sound");
        }
    }

    /// A process does something: tells what came of effects, takes the space, or takes a turn.
    fn work(&mut self, number: usize) {
        let worked = self.try_work(number);
        let process = &mut self.processes[number];
        match worked {
            Ok(()) | Err(HostError::Held { .. } | HostError::Store(StoreError::Unknown { .. })) => {
            }
            Err(HostError::Lost) => {
                self.story.fenced += 1;
                process.host = None;
            }
            Err(HostError::Store(StoreError::Closed)) => {
                // Everything it had in memory is gone; it starts anew.
                process.host = None;
                process.done.clear();
                process.tables = faulty(&self.store, &self.faults);
            }
            Err(error) => panic!("seed {}: {error}", self.setup.seed),
        }
    }

    fn try_work(&mut self, number: usize) -> Result<(), HostError> {
        let process = &mut self.processes[number];
        let store = space(&process.tables);
        while let Some(done) = process.done.last() {
            at_once(store.ask(done))?;
            process.done.pop();
        }
        let host = match &mut process.host {
            Some(host) => host,
            None => {
                let runner = RecipeRunner::new(name(), modules(), Box::new(JavaScript::default()));
                let owner = format!("process {number}");
                let asked = LeaseRequest {
                    identity: &owner.as_str().into(),
                    now: self.now,
                    span: LEASE,
                };
                let taken = at_once(SpaceHost::take(store, runner, asked))?;
                self.story.takings += 1;
                process.host.insert(taken)
            }
        };
        if self.dice.chance(500) {
            at_once(host.renew(self.now, LEASE))?;
        }
        for output in at_once(host.turn(self.now))? {
            let SpaceOutput::Effect(effect) = output else {
                continue;
            };
            self.story.effects += 1;
            self.attempts += 1;
            let n = effect.request.child("request").and_then(Json::as_int);
            process.done.push(SpaceCommand {
                id: format!("effect:{}:{}", effect.key, self.attempts).into(),
                action: SpaceAction::EffectDone {
                    key: effect.key,
                    outcome: Ok((n.unwrap_or(0) * 2).into()),
                },
            });
        }
        Ok(())
    }

    /// Whether everything was sent, handled and recorded.
    fn is_over(&self) -> bool {
        let is_sent =
            self.sent == self.setup.events && self.processes.iter().all(|it| it.done.is_empty());
        if !is_sent || self.is_rough() {
            return false;
        }
        let space = space(&self.store.tables);
        let is_done = |n: i64| {
            let receipt = at_once(space.receipt(&format!("e{n}"))).expect("the store is sound");
            receipt.is_some()
        };
        (0..self.setup.events).all(is_done) && !self.is_pending()
    }

    fn is_pending(&self) -> bool {
        let shown = at_once(space(&self.store.tables).read(&cell("result/orders")));
        let shown = shown.expect("the store is sound").unwrap_or_default();
        let orders = shown
            .as_array()
            .into_iter()
            .flat_map(lope_cells::json::Array::iter);
        let mut pending = orders.map(|order| {
            let order = order
                .child("order")
                .and_then(|order| order.child("pending"));
            order != Some(&Json::Bool(false))
        });
        pending.any(|is_pending| is_pending)
    }

    fn end(&mut self) -> SpaceEnd {
        let faults = self.rough();
        let (crashes, lost_answers) = (faults.crashes, faults.lost_answers);
        drop(faults);
        (self.story.crashes, self.story.lost_answers) = (crashes, lost_answers);
        let space = space(&self.store.tables);
        let spaces = at_once(space.load()).expect("the store is sound");
        let documents = spaces.snapshot().documents(&name()).into_iter();
        let receipt = |n: i64| {
            let receipt = at_once(space.receipt(&format!("e{n}"))).expect("the store is sound");
            receipt.map_or_else(String::new, |receipt| receipt.outcome)
        };
        let mut recorded: BTreeMap<EntityId, usize> = BTreeMap::new();
        for change in at_once(space.history()).expect("the store is sound") {
            let is_end = change.at.path.to_string().ends_with("order/pending");
            if is_end && change.value == Some(Json::Bool(false)) {
                *recorded.entry(change.at.id).or_default() += 1;
            }
        }
        SpaceEnd {
            documents: documents
                .map(|(id, value)| (id.clone(), value.clone()))
                .collect(),
            outcomes: (0..self.setup.events).map(receipt).collect(),
            recorded,
        }
    }

    fn rough(&self) -> std::sync::MutexGuard<'_, WriteFaults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store as a process sees it: any write may be its last, or not be answered.
fn faulty(store: &Store, faults: &Arc<Mutex<WriteFaults>>) -> Arc<dyn Tables> {
    let faults = Arc::clone(faults);
    let hook = move |call: StoreCall| {
        let mut faults = faults.lock().unwrap_or_else(PoisonError::into_inner);
        let is_write = call.door == Door::Tables && call.verb.starts_with("commit");
        if !is_write || !faults.is_on {
            return InjectedFault::None;
        }
        match faults.dice.below(100) {
            0..6 => {
                faults.crashes += 1;
                InjectedFault::CrashBefore
            }
            6..12 => {
                faults.crashes += 1;
                InjectedFault::CrashAfter
            }
            12..20 => {
                faults.lost_answers += 1;
                InjectedFault::LoseAnswer
            }
            _ => InjectedFault::None,
        }
    };
    with_faults(store.clone(), Arc::new(hook)).tables
}

fn space(tables: &Arc<dyn Tables>) -> SpaceStore {
    // The table was made before anything went wrong.
    at_once(SpaceStore::open(Arc::clone(tables), name())).expect("the store is sound")
}

fn name() -> SpaceName {
    "home".parse().expect("a name")
}

fn cell(path: &str) -> CellAddress {
    CellAddress::parse(&format!("home/{path}")).expect("an address")
}

fn modules() -> Modules {
    let int = |value: &Json, key: &str| value.child(key).and_then(Json::as_int).unwrap_or(0);
    let mut modules = Modules::default();
    modules.function("double", move |value| {
        Ok(Some((int(value, "x") * 2).into()))
    });
    modules.function("count", move |value| {
        let n = int(value, "n");
        let orders = value.child("orders").and_then(Json::as_array);
        let mut orders: Vec<Json> =
            orders.map_or(Vec::new(), |list| list.iter().cloned().collect());
        if n % ORDERS == 0 {
            let id = Json::from(format!("o{n}").as_str());
            orders.push(Json::object([("id", id), ("n", n.into())]));
        }
        let state = [
            ("sum", Json::from(int(value, "sum") + n)),
            ("count", Json::from(int(value, "count") + 1)),
            ("orders", Json::array(orders)),
        ];
        Ok(Some(Json::object(state)))
    });
    modules
}

/// Counts and sums what it is sent, shows the sum doubled by a nested recipe, and an effect for
/// each order.
fn recipe() -> Recipe {
    let order = RecipeBuilder::new();
    let n = element("n");
    let out = order.internal("order");
    let mut order = order;
    order.call("effect", [("name", "double".into()), ("request", n)], &out);
    let order = order.result([("order", out)]).build().expect("a recipe");
    let mut nested = RecipeBuilder::new();
    let x = nested.argument("x");
    let out = nested.internal("out");
    nested.native("double", [("x", x)], &out);
    let nested = nested.result([("out", out)]).build().expect("a recipe");
    let mut recipe = RecipeBuilder::new();
    let send = recipe.stream("send");
    for (name, value) in [
        ("sum", 0.into()),
        ("count", 0.into()),
        ("orders", Json::array([])),
    ] {
        recipe.initial(name, value);
    }
    let [sum, count, orders, done, twice] =
        ["sum", "count", "orders", "done", "twice"].map(|name| recipe.internal(name));
    let state = [
        ("sum", sum.clone()),
        ("count", count.clone()),
        ("orders", orders.clone()),
    ];
    let inputs = state.clone().into_iter().chain([("n", send.clone())]);
    recipe.native("count", inputs, &Json::object(state));
    recipe.nested(&nested, [("x", sum.clone())], &twice);
    let each = [("list", orders), ("op", order.document)];
    recipe.call("map", each, &done);
    let shown = [
        ("send", send),
        ("sum", sum),
        ("count", count),
        ("orders", done),
        ("twice", twice),
    ];
    recipe.result(shown).build().expect("a recipe")
}

/// A part of the element that a recipe is mapped over.
fn element(key: &str) -> Json {
    let path = ["argument", "element", key].map(Json::from);
    Json::object([("$alias", Json::object([("path", Json::array(path))]))])
}
