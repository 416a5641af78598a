//! A host that ends at any of its writes, and its successor: the same final cells as without the
//! kill, each event counted once, each effect asked for at least once and recorded once, each event
//! that is handed on to another space counted there once. One kill in
//! each life of 100 events, and lives (of 2,000 events with `LOPE_CHAOS=full`) in which every host
//! dies soon.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lope_cells::json::put;
use lope_model::{Failure, Span, Timestamp};
use lope_reactive::hosting::{HostError, LeaseRequest, SpaceHost, SpaceStore};
use lope_reactive::javascript::JavaScript;
use lope_reactive::machine::{SpaceAction, SpaceCommand, SpaceOutput, StreamEvent};
use lope_reactive::module::Modules;
use lope_reactive::runner::run_request;
use lope_reactive::{CellAddress, EntityId, Json, Projected, RecipeRunner, SpaceName};
use lope_store::faults::{Door, InjectedFault, StoreCall, with_faults};
use lope_store::tables::{At, Batch, Range, TableId, Write};
use lope_store::{Store, StoreError, Tables};

use crate::fixture::json;
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

/// One life of a space, and what its hosts asked for outside.
struct Life {
    space: SpaceName,
    events: i64,
    /// How often each effect was asked for.
    requested: BTreeMap<Arc<str>, u64>,
    attempts: u64,
    now: Timestamp,
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
        Self {
            space: name.parse().unwrap(),
            events,
            requested: BTreeMap::new(),
            attempts: 0,
            now: Timestamp::from_millis(1_000),
        }
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
            now: self.now,
            span: LEASE,
        };
        SpaceHost::take(store, runner, asked).await
    }

    /// Lives it through: each host on what `next` gives, until that is gone.
    async fn live(
        &mut self,
        healthy: &Arc<dyn Tables>,
        mut next: impl FnMut() -> Arc<dyn Tables>,
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
        let mut shop = None;
        let mut tables = next();
        let mut host = None;
        for group in 0..self.events / GROUP {
            for n in group * GROUP..(group + 1) * GROUP {
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
            while let Err(error) = self.settle(&tables, &mut host).await {
                match error {
                    // It is not known whether it happened; the host finds out.
                    HostError::Store(StoreError::Unknown { .. }) => {}
                    HostError::Store(StoreError::Closed) => {
                        // Killed. Somebody else takes the space when the lease is over.
                        (host, tables) = (None, next());
                        self.now = self.now.plus(LEASE);
                    }
                    error => panic!("{error}"),
                }
            }
            // Now and then: the other space has room for more than that.
            if (group + 1) % SHOP_GROUPS == 0 || group + 1 == self.events / GROUP {
                let shop = match &mut shop {
                    Some(shop) => shop,
                    None => shop.insert(self.open_shop(healthy).await),
                };
                shop.turn(self.now).await.unwrap();
            }
            self.now = self.now.plus(Span::from_millis(1));
            let started = sender.receipt("run").await.unwrap().unwrap();
            assert_eq!(started.outcome, "handled", "{:?}", started.failure);
        }
        self.check_shop(healthy).await;
        self.remains(healthy).await
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
        &mut self,
        tables: &Arc<dyn Tables>,
        host: &mut Option<SpaceHost<RecipeRunner>>,
    ) -> Result<(), HostError> {
        loop {
            let host = match host {
                Some(host) => host,
                None => host.insert(self.take(tables).await?),
            };
            let told = host.turn(self.now).await?;
            let mut is_done = true;
            for output in told {
                if let SpaceOutput::Effect(effect) = output {
                    is_done = false;
                    self.attempts += 1;
                    *self.requested.entry(effect.key.clone()).or_default() += 1;
                    let n = int(&effect.request, "request");
                    let command = SpaceCommand {
                        id: format!("effect:{}:{}", effect.key, self.attempts).into(),
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
            effects: self.requested.keys().cloned().collect(),
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

/// Takes everything away, so that the next life begins in an empty store.
async fn clear(tables: &Arc<dyn Tables>) {
    let cells = tables.manifest().await.unwrap().id_of("cells").unwrap();
    for table in [TableId::INBOX, TableId::DEAD_LETTER, cells] {
        loop {
            let rows = tables
                .range(Range::prefix(table, b"", 1_000))
                .await
                .unwrap();
            if rows.is_empty() {
                break;
            }
            let writes = rows
                .into_iter()
                .map(|row| Write::Delete(At::new(table, row.key)));
            let batch = Batch {
                guards: Vec::new(),
                writes: writes.collect(),
            };
            assert!(tables.commit(vec![batch]).await.unwrap()[0].is_ok());
        }
    }
}

/// A life in which nothing happens, and how many writes its host made.
async fn calm(store: &Store, events: i64) -> (Remains, u64) {
    let (counted, writes) = faulty(store, |_| InjectedFault::None);
    let mut calm = Life::new("home", events);
    let expected = calm.live(&store.tables, || Arc::clone(&counted)).await;
    calm.check(&store.tables).await;
    assert!(expected.outcomes.iter().all(|outcome| outcome == "handled"));
    assert_eq!(expected.recorded.len() as i64, events / ORDERS);
    assert!(expected.recorded.values().all(|times| *times == 1));
    assert!(calm.requested.values().all(|times| *times == 1));
    let writes = writes.load(Ordering::Relaxed);
    assert!(writes as i64 >= 3 * events / GROUP, "{writes}");
    (expected, writes)
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
    let healthy = Arc::clone(&store.tables);
    let (expected, writes) = calm(&store, events).await;
    let faults: [fn() -> InjectedFault; 3] = [
        || InjectedFault::CrashBefore,
        || InjectedFault::CrashAfter,
        || InjectedFault::LoseAnswer,
    ];
    let mut asked_again = 0;
    for number in 0..writes {
        for fault in faults {
            clear(&healthy).await;
            let mut life = Life::new("home", events);
            let at = move |write| {
                if write == number {
                    fault()
                } else {
                    InjectedFault::None
                }
            };
            let mut first = Some(faulty(&store, at).0);
            let next = || first.take().unwrap_or_else(|| Arc::clone(&healthy));
            let remains = life.live(&healthy, next).await;
            let place = format!("write {number}, {:?}", fault());
            compare(&remains, &expected, &place);
            asked_again += life.requested.values().filter(|times| **times > 1).count();
        }
    }
    assert!(asked_again > 0, "a kill while an effect is under way");
    println!("{events} events, killed at each of {writes} writes in three ways");
}

/// Every host dies soon: before one of its first writes after it has taken the space, behind one of
/// them, or it never hears of every other one.
async fn kill_after_kill(place: Place) {
    let full = std::env::var("LOPE_CHAOS").is_ok_and(|word| word == "full");
    let events = if full { 2_000 } else { 40 };
    let store = place.open().await;
    let healthy = Arc::clone(&store.tables);
    let (expected, writes) = calm(&store, events).await;
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
        clear(&healthy).await;
        let mut life = Life::new("home", events);
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
