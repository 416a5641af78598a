//! A host that ends at any of its writes, and its successor: the same final cells as without the
//! kill, each event counted once, each effect asked for at least once and recorded once, each event
//! that is handed on to another space counted there once. One kill in
//! each life of 100 events, and lives (of 2,000 events with `LOPE_CHAOS=full`) in which every host
//! dies soon.
//!
//! What comes before a kill is lived through once: the lives of 100 events part at the writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use lope_cells::json::put;
use lope_model::{Failure, Span, Timestamp};
use lope_reactive::hosting::{HostError, LeaseRequest, SpaceHost, SpaceStore};
use lope_reactive::javascript::JavaScript;
use lope_reactive::machine::{SpaceAction, SpaceCommand, SpaceOutput, StreamEvent};
use lope_reactive::module::Modules;
use lope_reactive::runner::run_request;
use lope_reactive::{CellAddress, EntityId, Json, Projected, RecipeRunner, SpaceName};
use lope_store::faults::{Door, InjectedFault, StoreCall, with_faults};
use lope_store::{Store, StoreError, Tables};

use crate::fixture::json;
use crate::moments::{Moment, Recorder, StoredRows, Together, copied, put_back};
use crate::stores::{Place, on_every_store};

const LEASE: Span = Span::from_secs(15);
/// Events that are sent before the host takes a turn.
const GROUP: i64 = 10;
/// One of so many events is an order, which wants an effect.
const ORDERS: i64 = 10;
/// One of so many events is handed on to another space.
const HANDED_ON: i64 = 20;
/// Groups of events after which the other space has its turn.
const SHOP_GROUPS: i64 = 10;

on_every_store! {
    killed_at_every_write_each_event_counts_once_and_each_effect_is_recorded_once => super::kill_at_every_write;
    a_life_of_kills_ends_like_a_calm_one => super::kill_after_kill;
    a_life_of_kills_in_waves_that_are_cut_ends_like_a_calm_one => super::kill_in_parts;
}

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

fn doubling() -> serde_json::Value {
    json!({
        "result": {"out": alias(&["internal", "out"])},
        "nodes": [{"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(&["argument", "x"])},
            "outputs": alias(&["internal", "out"])}]
    })
}

/// An order: its effect is asked for once it is there.
fn ordering() -> serde_json::Value {
    json!({
        "result": alias(&["internal", "order"]),
        "nodes": [{"module": {"type": "ref", "implementation": "effect"},
            "inputs": {"name": "double", "request": alias(&["argument", "element", "n"])},
            "outputs": alias(&["internal", "order"])}]
    })
}

/// Counts what it is sent and sums it up; shows the sum doubled by a nested recipe, an effect for
/// each order, and a child for each thousand.
fn recipe() -> Json {
    let state = json!({
        "n": alias(&["internal", "stream"]), "sum": alias(&["internal", "sum"]),
        "count": alias(&["internal", "count"]), "orders": alias(&["internal", "orders"]),
        "out": alias(&["argument", "out"])
    });
    let schema = json!({"properties": {"n": true, "sum": true, "count": true, "orders": true, "out": {"asCell": true}}});
    let outputs = json!({
        "sum": alias(&["internal", "sum"]), "count": alias(&["internal", "count"]), "orders": alias(&["internal", "orders"])
    });
    let recipe = json!({
        "initial": {"internal": {"stream": {"$stream": true}, "sum": 0, "count": 0, "orders": []}},
        "result": {
            "send": alias(&["internal", "stream"]), "sum": alias(&["internal", "sum"]), "count": alias(&["internal", "count"]),
            "twice": alias(&["internal", "nested", "out"]), "orders": alias(&["internal", "done"]),
            "children": alias(&["internal", "children"])
        },
        "nodes": [
            {"module": {"type": "native", "implementation": "count", "argumentSchema": schema}, "inputs": state, "outputs": outputs},
            {"module": {"type": "recipe", "implementation": doubling()}, "inputs": {"x": alias(&["internal", "sum"])},
             "outputs": alias(&["internal", "nested"])},
            {"module": {"type": "ref", "implementation": "map"},
             "inputs": {"list": alias(&["internal", "orders"]), "op": ordering()}, "outputs": alias(&["internal", "done"])},
            {"module": {"type": "native", "implementation": "children"}, "inputs": {"sum": alias(&["internal", "sum"])},
             "outputs": alias(&["internal", "children"])}
        ]
    });
    recipe.into()
}

/// Adds up what another space hands on.
fn adding() -> Json {
    let state = json!({
        "n": alias(&["internal", "add"]), "sum": alias(&["internal", "sum"]), "count": alias(&["internal", "count"])
    });
    let outputs =
        json!({"sum": alias(&["internal", "sum"]), "count": alias(&["internal", "count"])});
    let recipe = json!({
        "initial": {"internal": {"add": {"$stream": true}, "sum": 0, "count": 0}},
        "result": {"add": alias(&["internal", "add"]), "sum": alias(&["internal", "sum"]), "count": alias(&["internal", "count"])},
        "nodes": [{"module": {"type": "native", "implementation": "add"}, "inputs": state, "outputs": outputs}]
    });
    recipe.into()
}

fn int(value: &Json, key: &str) -> i64 {
    value.child(key).and_then(Json::as_int).unwrap_or(0)
}

/// How many children a sum has.
fn children_of(sum: i64) -> i64 {
    (sum / 1_000).min(40)
}

fn modules() -> Modules {
    let mut modules = Modules::default();
    modules.function("double", |value| Ok(Some((int(value, "x") * 2).into())));
    modules.function("add", |value| {
        let sum = Json::from(int(value, "sum") + int(value, "n"));
        let count = Json::from(int(value, "count") + 1);
        Ok(Some(Json::object([("sum", sum), ("count", count)])))
    });
    modules.native("count", |argument, transaction| {
        let Projected::Object(parts) = argument else {
            return Err(Failure::new("TypeError", "a cell expected"));
        };
        let plain = parts.iter().filter_map(|(key, part)| match part {
            Projected::Plain(value) => Some((Arc::clone(key), value.clone())),
            _ => None,
        });
        let value = &Json::object(plain);
        let n = int(value, "n");
        if let Some(Projected::Cell(out)) = parts.get("out").filter(|_| n % HANDED_ON == 0) {
            let sent = transaction.send(&out.address, n.into());
            sent.map_err(|error| Failure::new("Write", error.to_string()))?;
        }
        let orders = value.child("orders").and_then(Json::as_array);
        let mut orders: Vec<Json> =
            orders.map_or(Vec::new(), |list| list.iter().cloned().collect());
        if n % ORDERS == 0 {
            orders.push(json!({"id": format!("o{n}"), "n": n}).into());
        }
        let state = [
            ("sum", Json::from(int(value, "sum") + n)),
            ("count", Json::from(int(value, "count") + 1)),
            ("orders", Json::array(orders)),
        ];
        Ok(Some(Json::object(state)))
    });
    modules.function("children", |value| {
        let child = |number| {
            let argument = json!({ "x": number }).into();
            run_request(doubling().into(), argument, Some(Json::from(number)))
        };
        let children = (0..children_of(int(value, "sum"))).map(child);
        Ok(Some(Json::array(children)))
    });
    modules
}

/// One life of a space.
struct Life {
    space: SpaceName,
    events: i64,
    /// Events that are sent before the host takes a turn.
    group: i64,
    /// Nodes that ran before a wave is saved.
    wave_nodes: usize,
    progress: Arc<Mutex<Progress>>,
}

/// How far a life has come, and what its hosts asked for outside.
#[derive(Clone)]
struct Progress {
    /// Events that are sent.
    sent: i64,
    /// How often each effect was asked for.
    requested: BTreeMap<Arc<str>, u64>,
    attempts: u64,
    now: Timestamp,
}

impl Progress {
    /// Notes that an effect was asked for; the number of that.
    fn attempt(&mut self, key: &Arc<str>) -> u64 {
        self.attempts += 1;
        *self.requested.entry(Arc::clone(key)).or_default() += 1;
        self.attempts
    }
}

/// What is left of a life.
struct Remains {
    documents: BTreeMap<EntityId, Json>,
    outcomes: Vec<String>,
    /// How often the cell of each effect was told of its end.
    recorded: BTreeMap<EntityId, usize>,
    effects: Vec<Arc<str>>,
}

impl Life {
    fn new(name: &str, events: i64) -> Self {
        let progress = Progress {
            sent: 0,
            requested: BTreeMap::new(),
            attempts: 0,
            now: Timestamp::from_millis(1_000),
        };
        Self::from(name, events, progress)
    }

    fn from(name: &str, events: i64, progress: Progress) -> Self {
        Self {
            space: name.parse().unwrap(),
            events,
            group: GROUP,
            wave_nodes: usize::MAX,
            progress: Arc::new(Mutex::new(progress)),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap()
    }

    fn now(&self) -> Timestamp {
        self.progress().now
    }

    /// So much later.
    fn pass(&self, span: Span) {
        let mut progress = self.progress();
        progress.now = progress.now.plus(span);
    }

    fn cell(&self, path: &str) -> CellAddress {
        CellAddress::parse(&format!("{}/{path}", self.space)).unwrap()
    }

    async fn store(&self, tables: &Arc<dyn Tables>) -> Result<SpaceStore, HostError> {
        SpaceStore::open(Arc::clone(tables), self.space.clone()).await
    }

    async fn take(&self, tables: &Arc<dyn Tables>) -> Result<SpaceHost<RecipeRunner>, HostError> {
        let scripts = Box::new(JavaScript::default());
        let runner = RecipeRunner::new(self.space.clone(), modules(), scripts);
        let store = self.store(tables).await?;
        let asked = LeaseRequest {
            identity: &"me".into(),
            now: self.now(),
            span: LEASE,
        };
        let mut host = SpaceHost::take(store, runner, asked).await?;
        host.machine().bound_waves(self.wave_nodes);
        Ok(host)
    }

    /// Lives it through: each host on what `next` gives, until that is gone.
    async fn live(
        &self,
        healthy: &Arc<dyn Tables>,
        next: impl FnMut() -> Arc<dyn Tables>,
    ) -> Remains {
        let sender = self.store(healthy).await.unwrap();
        let run = SpaceCommand {
            id: "run".into(),
            action: SpaceAction::Run {
                result: self.cell("result"),
                recipe: Some(recipe()),
                argument: Some(json!({ "out": Self::out() }).into()),
                strict: true,
            },
        };
        sender.ask(&run).await.unwrap();
        self.send(healthy).await;
        self.live_on(healthy, next).await
    }

    /// Sends the next events, some of them twice.
    async fn send(&self, healthy: &Arc<dyn Tables>) {
        let first = self.progress().sent;
        let together = Together::new(healthy);
        let tables: Arc<dyn Tables> = together.clone();
        let sender = self.store(&tables).await.unwrap();
        let last = (first + self.group).min(self.events);
        for n in first..last {
            let event = StreamEvent {
                id: format!("e{n}").into(),
                stream: self.cell("result/send"),
                payload: n.into(),
            };
            sender.send(&event).await.unwrap();
            if n % 7 == 0 {
                sender.send(&event).await.unwrap();
            }
        }
        together.flush().await;
        self.progress().sent = last;
    }

    /// Does what was sent, and sends the rest.
    async fn live_on(
        &self,
        healthy: &Arc<dyn Tables>,
        mut next: impl FnMut() -> Arc<dyn Tables>,
    ) -> Remains {
        let sender = self.store(healthy).await.unwrap();
        let mut shop = None;
        let mut tables = next();
        let mut host = None;
        loop {
            while let Err(error) = self.settle(&tables, &mut host).await {
                match error {
                    // It is not known whether it happened; the host finds out.
                    HostError::Store(StoreError::Unknown { .. }) => {}
                    HostError::Store(StoreError::Closed) => {
                        // Killed. Somebody else takes the space when the lease is over.
                        (host, tables) = (None, next());
                        self.pass(LEASE);
                    }
                    error => panic!("{error}"),
                }
            }
            let sent = self.progress().sent;
            let is_over = sent == self.events;
            // Now and then: the other space has room for more than that.
            if is_over || sent % (SHOP_GROUPS * GROUP) == 0 {
                let shop = match &mut shop {
                    Some(shop) => shop,
                    None => shop.insert(self.open_shop(healthy).await),
                };
                shop.turn(self.now()).await.unwrap();
            }
            self.pass(Span::from_millis(1));
            let started = sender.receipt("run").await.unwrap().unwrap();
            assert_eq!(started.outcome, "handled", "{:?}", started.failure);
            if is_over {
                break;
            }
            self.send(healthy).await;
        }
        let end = copied(&**healthy).await;
        self.check_shop(&end).await;
        self.remains(&end).await
    }

    /// The stream of another space that events are handed on to.
    fn out() -> serde_json::Value {
        let stream = CellAddress::parse("shop/till/add").unwrap();
        json!({"/": {"link@1": {"space": "shop", "id": stream.id.as_str(), "path": ["add"]}}})
    }

    /// The other space; its host lives on.
    async fn open_shop(&self, healthy: &Arc<dyn Tables>) -> SpaceHost<RecipeRunner> {
        let shop = Self::new("shop", self.events);
        let run = SpaceCommand {
            id: "run".into(),
            action: SpaceAction::Run {
                result: shop.cell("till"),
                recipe: Some(adding()),
                argument: None,
                strict: true,
            },
        };
        let store = shop.store(healthy).await.unwrap();
        store.ask(&run).await.unwrap();
        shop.take(healthy).await.unwrap()
    }

    /// Each event that was handed on was counted in the other space, once.
    async fn check_shop(&self, healthy: &Arc<dyn Tables>) {
        let shop = Self::new("shop", self.events);
        let store = shop.store(healthy).await.unwrap();
        let shown = store.read(&shop.cell("till")).await.unwrap().unwrap();
        let count = self.events / HANDED_ON;
        let sum = HANDED_ON * count * (count - 1) / 2;
        assert_eq!((int(&shown, "sum"), int(&shown, "count")), (sum, count));
    }

    /// Turns until nothing is to be done, and does the effects that are asked for.
    async fn settle(
        &self,
        tables: &Arc<dyn Tables>,
        host: &mut Option<SpaceHost<RecipeRunner>>,
    ) -> Result<(), HostError> {
        loop {
            let host = match host {
                Some(host) => host,
                None => host.insert(self.take(tables).await?),
            };
            let told = host.turn(self.now()).await?;
            let mut is_done = true;
            for output in told {
                if let SpaceOutput::Effect(effect) = output {
                    is_done = false;
                    let attempt = self.progress().attempt(&effect.key);
                    let n = int(&effect.request, "request");
                    let command = SpaceCommand {
                        id: format!("effect:{}:{attempt}", effect.key).into(),
                        action: SpaceAction::EffectDone {
                            key: effect.key,
                            outcome: Ok((n * 2).into()),
                        },
                    };
                    let store = self.store(tables).await?;
                    while let Err(error) = store.ask(&command).await {
                        if !matches!(error, HostError::Store(StoreError::Unknown { .. })) {
                            return Err(error);
                        }
                    }
                }
            }
            if is_done {
                return Ok(());
            }
        }
    }

    async fn remains(&self, tables: &Arc<dyn Tables>) -> Remains {
        let store = self.store(tables).await.unwrap();
        let spaces = store.load().await.unwrap();
        let documents = spaces.snapshot().documents(&self.space).into_iter();
        // The ids of what was sent name the hosts that sent it, and are others with every kill.
        let documents = documents.map(|(id, value)| {
            let mut value = Some(value.clone());
            let _cleared = put(&mut value, &["receipts".into()], None);
            (id.clone(), value.unwrap_or_default())
        });
        let mut outcomes = Vec::new();
        for n in 0..self.events {
            let receipt = store.receipt(&format!("e{n}")).await.unwrap();
            outcomes.push(receipt.unwrap().outcome);
        }
        let mut recorded: BTreeMap<EntityId, usize> = BTreeMap::new();
        for change in store.history().await.unwrap() {
            let is_end = change.at.path.to_string().ends_with("order/pending");
            if is_end && change.value == Some(false.into()) {
                *recorded.entry(change.at.id).or_default() += 1;
            }
        }
        Remains {
            documents: documents.collect(),
            outcomes,
            recorded,
            effects: self.progress().requested.keys().cloned().collect(),
        }
    }

    /// What the result cell shows, against what is to be expected.
    async fn check(&self, tables: &Arc<dyn Tables>) {
        let store = self.store(tables).await.unwrap();
        let shown = store.read(&self.cell("result")).await.unwrap().unwrap();
        let sum = self.events * (self.events - 1) / 2;
        assert_eq!(
            (int(&shown, "sum"), int(&shown, "count")),
            (sum, self.events)
        );
        assert_eq!(int(&shown, "twice"), sum * 2, "nested");
        let orders = shown.child("orders").unwrap().as_array().unwrap();
        assert_eq!(orders.len() as i64, self.events / ORDERS);
        for (order, n) in orders.iter().zip((0..).step_by(ORDERS as usize)) {
            assert_eq!(order.child("pending"), Some(&false.into()), "{order}");
            assert_eq!(int(order, "result"), n * 2, "{order}");
        }
        let children = shown.child("children").unwrap().as_array().unwrap();
        assert_eq!(children.len() as i64, children_of(sum));
        assert!(
            children
                .iter()
                .zip(0..)
                .all(|(child, x)| int(child, "out") == x * 2),
            "started by a result"
        );
    }
}

/// `store`, with something happening to some of its writes, by number.
fn faulty(
    store: &Store,
    fault: impl Fn(u64) -> InjectedFault + Send + Sync + 'static,
) -> (Arc<dyn Tables>, Arc<AtomicU64>) {
    let writes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&writes);
    let hook = move |call: StoreCall| {
        let is_write = call.door == Door::Tables && call.verb.starts_with("commit");
        if is_write {
            return fault(counted.fetch_add(1, Ordering::Relaxed));
        }
        InjectedFault::None
    };
    (with_faults(store.clone(), Arc::new(hook)).tables, writes)
}

/// A life in which nothing happens, and how far it had come at each write of its host.
async fn calm(store: &Store, events: i64) -> (Remains, Vec<Moment<Progress>>) {
    let life = Life::new("home", events);
    let recorder = Recorder::new(&store.tables, &life.progress);
    let expected = life.live(&store.tables, || recorder.clone()).await;
    life.check(&store.tables).await;
    assert!(expected.outcomes.iter().all(|outcome| outcome == "handled"));
    assert_eq!(expected.recorded.len() as i64, events / ORDERS);
    assert!(expected.recorded.values().all(|times| *times == 1));
    assert!(life.progress().requested.values().all(|times| *times == 1));
    let moments = recorder.take();
    assert!(moments.len() as i64 >= 3 * events / GROUP);
    (expected, moments)
}

fn compare(remains: &Remains, expected: &Remains, place: &str) {
    assert_eq!(remains.outcomes, expected.outcomes, "{place}");
    assert_eq!(remains.recorded, expected.recorded, "{place}");
    assert_eq!(remains.effects, expected.effects, "{place}");
    assert!(remains.documents == expected.documents, "{place}");
}

async fn kill_at_every_write(place: Place) {
    let events = 100;
    let store = place.open().await;
    let (expected, moments) = calm(&store, events).await;
    let mut asked_again = 0;
    for (number, moment) in moments.iter().enumerate() {
        for (rows, how) in [(&moment.before, "before"), (&moment.behind, "behind")] {
            // Nobody else takes the space before the lease of the host that was killed is over.
            let life = parted(&store, moment, rows).await;
            life.pass(LEASE);
            let healthy = || Arc::clone(&store.tables);
            let remains = life.live_on(&store.tables, healthy).await;
            compare(&remains, &expected, &format!("{how} write {number}"));
            let progress = life.progress();
            asked_again += progress.requested.values().filter(|it| **it > 1).count();
        }
    }
    assert!(asked_again > 0, "a kill while an effect is under way");
    lose_every_answer(&store, &expected, &moments).await;
    let writes = moments.len();
    println!(
        "{events} events, killed before and behind each of {writes} writes, and each not answered"
    );
}

/// The life that goes on from a moment, with these rows; the rest of the events come all at once.
async fn parted(store: &Store, moment: &Moment<Progress>, rows: &StoredRows) -> Life {
    put_back(&*store.tables, rows).await;
    let mut life = Life::from("home", 100, moment.progress.clone());
    life.group = life.events;
    life
}

/// The host of each group of events does not hear of one of its writes, and lives on.
async fn lose_every_answer(store: &Store, expected: &Remains, moments: &[Moment<Progress>]) {
    let mut first = 0;
    for (number, moment) in moments.iter().enumerate() {
        if moment.progress.sent != moments[first].progress.sent {
            first = number;
        }
        let life = parted(store, &moments[first], &moments[first].before).await;
        life.pass(LEASE);
        // One that goes on where another one was takes the space first.
        let lost = (number - first) + usize::from(first > 0);
        let is_lost = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&is_lost);
        let (tables, _) = faulty(store, move |write| {
            if write == lost as u64 {
                noted.store(true, Ordering::Relaxed);
                return InjectedFault::LoseAnswer;
            }
            InjectedFault::None
        });
        let remains = life.live_on(&store.tables, || Arc::clone(&tables)).await;
        compare(&remains, expected, &format!("no answer to write {number}"));
        assert!(is_lost.load(Ordering::Relaxed), "write {number}");
    }
}

/// Every host dies soon: before one of its first writes after it has taken the space, behind one of
/// them, or it never hears of every other one.
async fn kill_after_kill(place: Place) {
    kill_hosts(place, usize::MAX, 2_000).await;
}

/// The same, and no wave has more than two nodes that ran: what follows from one event is in several.
/// The history, in which records are counted, holds the waves of so many events and not of more.
async fn kill_in_parts(place: Place) {
    kill_hosts(place, 2, 200).await;
}

async fn kill_hosts(place: Place, wave_nodes: usize, events_when_full: i64) {
    let full = std::env::var("LOPE_CHAOS").is_ok_and(|word| word == "full");
    let events = if full { events_when_full } else { 40 };
    let store = place.open().await;
    let healthy = Arc::clone(&store.tables);
    let (expected, moments) = calm(&store, events).await;
    let writes = moments.len() as u64;
    let faults: [fn(u64, u64) -> InjectedFault; 3] = [
        |host, write| {
            if write == 3 + host % 3 {
                InjectedFault::CrashBefore
            } else {
                InjectedFault::None
            }
        },
        |host, write| {
            if write == 2 + host % 3 {
                InjectedFault::CrashAfter
            } else {
                InjectedFault::None
            }
        },
        |_, write| match write % 2 {
            1 => InjectedFault::LoseAnswer,
            _ => InjectedFault::None,
        },
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        put_back(&*healthy, &StoredRows::new()).await;
        let mut life = Life::new("home", events);
        life.wave_nodes = wave_nodes;
        let mut hosts = 0;
        let next = || {
            hosts += 1;
            let host = hosts;
            faulty(&store, move |write| fault(host, write)).0
        };
        let remains = life.live(&healthy, next).await;
        compare(&remains, &expected, &format!("way {number}"));
        assert!(
            number == 2 || hosts >= writes / 4,
            "{hosts} hosts, {writes} writes"
        );
        println!("{events} events, {hosts} hosts, one after the other");
    }
}
