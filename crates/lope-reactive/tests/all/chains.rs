//! Spaces that feed each other without end: after a while each message waits, longer and longer; who
//! they are is told; everything else goes on, and a host that is killed changes nothing of it. And a
//! host that is waited for.

use std::sync::Arc;

use lope_cells::transaction::EffectRequest;
use lope_model::{Clock, Span, Timestamp};
use lope_reactive::hosting::{
    LeaseRequest, NoEffects, PoolOptions, SpaceClient, SpaceHost, SpaceStore,
};
use lope_reactive::javascript::JavaScript;
use lope_reactive::limit::{BACKOFF_MAX, CHAIN_MAX};
use lope_reactive::machine::{SpaceAction, SpaceCommand, SpaceOutput, StreamEvent};
use lope_reactive::{CellAddress, Json, RecipeRunner};
use lope_store::{ManualClock, Tables};

use crate::effects::looping;
use crate::fixture::{cell, json, link, space};
use crate::host::modules;
use crate::stores::{Place, on_every_store};

/// Nobody else takes a space within this time.
const LEASE: Span = Span::from_millis(100);

on_every_store! {
    handlers_that_send_to_each_other_without_end_are_slowed_down_and_told => super::handlers;
    nodes_that_write_to_each_other_without_end_are_slowed_down_and_told => super::nodes;
    nodes_that_read_each_other_without_end_are_slowed_down_and_told => super::readers;
    a_host_that_is_waited_for_comes_to_rest_when_nothing_waits_and_nothing_can_run => super::idle;
    a_cycle_of_a_killed_host_waits_on_under_the_next_one => super::cycle;
    nodes_that_read_each_other_without_end_stay_slow_under_the_next_hosts => super::readers_of_killed_hosts;
    effects_without_end_stay_slow_under_the_next_host => super::effects_of_a_killed_host;
}

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

/// Hands each event on; and counts others, which it keeps.
fn returning() -> serde_json::Value {
    let handler = |source: &str, stream: &str| {
        let cells = json!({"other": alias(&["argument", "other"]), "n": alias(&["internal", "n"]),
            "kept": alias(&["internal", "kept"])});
        let schema = json!({"properties": {"other": {"asCell": true}, "n": {"asCell": true}, "kept": {"asCell": true}}});
        json!({"module": {"type": "javascript", "wrapper": "handler", "implementation": source, "argumentSchema": schema},
            "inputs": {"$event": alias(&["internal", stream]), "$ctx": cells}, "outputs": {}})
    };
    json!({
        "initial": {"internal": {"go": {"$stream": true}, "keep": {"$stream": true}, "n": 0, "kept": 0}},
        "result": alias(&["internal"]),
        "nodes": [
            handler("(event, {other, n}) => { n.increment(1); if (event !== 'end') other.send(event) }", "go"),
            handler("(event, {kept}) => { kept.increment(event) }", "keep")
        ]
    })
}

/// Writes one more than it reads.
fn rising() -> serde_json::Value {
    let module = json!({"type": "javascript", "implementation": "({x}) => x + 1"});
    json!({
        "result": {},
        "nodes": [{"module": module, "inputs": {"x": alias(&["argument", "from"])}, "outputs": alias(&["argument", "to"])}]
    })
}

/// Shows one more than it reads.
fn counting() -> serde_json::Value {
    let module = json!({"type": "javascript", "implementation": "({x}) => (x ?? 0) + 1"});
    json!({
        "result": {"v": alias(&["internal", "v"])},
        "nodes": [{"module": module, "inputs": {"x": alias(&["argument", "from"])}, "outputs": alias(&["internal", "v"])}]
    })
}

/// Two nodes that feed each other.
fn cyclic() -> serde_json::Value {
    let rising = |from: &str, to: &str| {
        let source = format!("({{{from}}}) => ({from} ?? 0) + 1");
        json!({"module": {"type": "javascript", "implementation": source},
            "inputs": {from: alias(&["internal", from])}, "outputs": alias(&["internal", to])})
    };
    json!({
        "result": {"a": alias(&["internal", "a"]), "b": alias(&["internal", "b"])},
        "nodes": [rising("b", "a"), rising("a", "b")]
    })
}

/// Two spaces, and whoever hosts them.
struct Pair {
    tables: Arc<dyn Tables>,
    clock: ManualClock,
    hosts: Vec<SpaceHost<RecipeRunner>>,
    asked: u64,
}

impl Pair {
    async fn new(place: &Place) -> Self {
        let mut pair = Self {
            tables: place.open().await.tables,
            clock: ManualClock::default(),
            hosts: Vec::new(),
            asked: 0,
        };
        pair.take().await;
        pair
    }

    async fn store(&self, name: &str) -> SpaceStore {
        let opened = SpaceStore::open(Arc::clone(&self.tables), space(name));
        opened.await.unwrap()
    }

    /// Somebody hosts both; those who did before are gone without a word.
    async fn take(&mut self) {
        self.hosts.clear();
        for name in ["home", "shop"] {
            let scripts = Box::new(JavaScript::default());
            let runner = RecipeRunner::new(space(name), modules(), scripts);
            let asked = LeaseRequest {
                identity: &"me".into(),
                now: self.clock.now(),
                span: LEASE,
            };
            let taken = SpaceHost::take(self.store(name).await, runner, asked).await;
            self.hosts.push(taken.unwrap());
        }
    }

    async fn ask(&mut self, at: &CellAddress, action: SpaceAction) {
        self.asked += 1;
        let id = format!("ask{}", self.asked).into();
        let store = self.store(at.space.as_str()).await;
        store.ask(&SpaceCommand { id, action }).await.unwrap();
    }

    async fn run(&mut self, into: &str, recipe: serde_json::Value, argument: serde_json::Value) {
        let result = cell(into);
        let action = SpaceAction::Run {
            result: result.clone(),
            recipe: Some(recipe.into()),
            argument: Some(argument.into()),
            strict: true,
        };
        self.ask(&result, action).await;
    }

    async fn send(&mut self, stream: &str, payload: impl Into<Json>) {
        self.asked += 1;
        let event = StreamEvent {
            id: format!("event{}", self.asked).into(),
            stream: cell(stream),
            payload: payload.into(),
        };
        let store = self.store(event.stream.space.as_str()).await;
        store.send(&event).await.unwrap();
    }

    /// Turns until both are at rest; time stands still.
    async fn rest(&mut self) {
        for _ in 0..3 * CHAIN_MAX {
            let now = self.clock.now();
            let mut has_waiting = false;
            for host in &mut self.hosts {
                host.turn(now).await.unwrap();
                assert!(host.is_idle(now));
            }
            for name in ["home", "shop"] {
                let store = self.store(name).await;
                has_waiting |= !store.has_empty_queues().await.unwrap();
            }
            if !has_waiting {
                return;
            }
        }
        panic!("they never rest");
    }

    /// Some turns of both; how far they have come. Time stands still.
    async fn rise(&mut self, turns: u32) -> i64 {
        let now = self.clock.now();
        for _ in 0..turns {
            for host in &mut self.hosts {
                host.turn(now).await.unwrap();
            }
        }
        self.get("f/v").await.max(self.get("shop:f/v").await)
    }

    async fn get(&self, at: &str) -> i64 {
        let at = cell(at);
        let read = self.store(at.space.as_str()).await.read(&at).await;
        read.unwrap().and_then(|value| value.as_int()).unwrap_or(0)
    }

    /// The one effect that is asked for in the next turn.
    async fn effect(&mut self) -> EffectRequest {
        let told = self.hosts[0].turn(self.clock.now()).await.unwrap();
        let mut effects = told.into_iter().filter_map(|output| match output {
            SpaceOutput::Effect(effect) => Some(effect),
            _ => None,
        });
        let effect = effects.next().expect("an effect is asked for");
        assert_eq!(effects.next(), None);
        effect
    }

    /// What is told of the first node of what runs in a space.
    async fn told(&self, name: &str) -> Option<(u32, Vec<Arc<str>>, Timestamp)> {
        let (clock, effects) = (Arc::new(ManualClock::default()), Arc::new(NoEffects));
        let options = PoolOptions {
            modules: modules(),
            ..PoolOptions::new("asker".into())
        };
        let client = SpaceClient::open(Arc::clone(&self.tables), clock, effects, options);
        let reports = client.await.unwrap().report(&space(name)).await.unwrap();
        let note = reports[0].nodes[0].unsettled.clone()?;
        let until = Timestamp::from_millis(note.until);
        Some((note.messages, note.cycle, until))
    }
}

async fn handlers(place: Place) {
    let mut pair = Pair::new(&place).await;
    let other = |stream: &str| json!({ "other": link(stream) });
    pair.run("ping", returning(), other("shop:pong/go")).await;
    pair.run("shop:pong", returning(), other("ping/go")).await;
    pair.rest().await;
    pair.send("ping/go", 1).await;
    pair.rest().await;
    // The first one and as many messages as may follow from each other.
    let mut hops = i64::from(CHAIN_MAX) + 1;
    assert_eq!(
        pair.get("ping/n").await + pair.get("shop:pong/n").await,
        hops
    );
    assert_eq!(pair.told("shop").await, None, "the last one is not its own");
    let (messages, cycle, until) = pair.told("home").await.unwrap();
    assert_eq!(i64::from(messages), hops);
    assert_eq!(until, pair.clock.now().plus(Span::from_millis(250)));
    let cycle: Vec<&str> = cycle.iter().map(|node| &node[..8]).collect();
    assert_eq!(cycle, ["home/of:", "shop/of:"]);
    // Whoever hosts next knows as much, and others are handled at once.
    pair.clock.pass(LEASE);
    pair.take().await;
    for (number, wait) in [150, 500, 1_000, 2_000, 2_000].into_iter().enumerate() {
        for stream in ["ping/keep", "shop:pong/keep"] {
            pair.send(stream, 1).await;
        }
        pair.rest().await;
        let kept = number as i64 + 1;
        assert_eq!(pair.get("ping/kept").await, kept);
        assert_eq!(pair.get("shop:pong/kept").await, kept);
        pair.clock.pass(Span::from_millis(wait - 1));
        pair.rest().await;
        let total = pair.get("ping/n").await + pair.get("shop:pong/n").await;
        assert_eq!(total, hops, "not before its time: {wait} ms");
        pair.clock.pass(Span::from_millis(1));
        pair.rest().await;
        hops += 1;
        let total = pair.get("ping/n").await + pair.get("shop:pong/n").await;
        assert_eq!(total, hops, "one more after {wait} ms");
    }
    for name in ["home", "shop"] {
        let (messages, ..) = pair.told(name).await.unwrap();
        assert!(i64::from(messages) >= hops - 1, "{name}: {messages}");
    }
    // A clock that is set back holds it up no longer than it had to wait anyway.
    let back = Timestamp::from_millis(pair.clock.now().millis() - 3_600_000);
    pair.clock.set_wall(back);
    pair.rest().await;
    assert_eq!(
        pair.get("ping/n").await + pair.get("shop:pong/n").await,
        hops + 1
    );
    // Something that begins anew does not wait because of it.
    pair.send("ping/go", "end").await;
    pair.rest().await;
    assert_eq!(
        pair.get("ping/n").await + pair.get("shop:pong/n").await,
        hops + 2
    );
    assert_eq!(
        pair.told("home").await,
        None,
        "its last event was none of these"
    );
}

async fn nodes(place: Place) {
    let mut pair = Pair::new(&place).await;
    for at in ["x", "shop:y"] {
        let action = SpaceAction::Set {
            at: cell(at),
            value: Some(0.into()),
        };
        pair.ask(&cell(at), action).await;
    }
    pair.rest().await;
    let argument = |from: &str, to: &str| json!({ "from": link(from), "to": link(to) });
    pair.run("up", rising(), argument("x", "shop:y")).await;
    pair.rest().await;
    assert_eq!(pair.get("shop:y").await, 1);
    pair.run("shop:up", rising(), argument("shop:y", "x")).await;
    pair.rest().await;
    // What begins with the run itself is the first message.
    let most = i64::from(CHAIN_MAX);
    let highest = pair.get("x").await.max(pair.get("shop:y").await);
    assert!((most..=most + 2).contains(&highest), "{highest}");
    let told = [pair.told("home").await, pair.told("shop").await];
    let told: Vec<_> = told.into_iter().flatten().collect();
    assert!(told.iter().any(|(messages, ..)| *messages == CHAIN_MAX + 1));
    assert!(told.iter().all(|(_, cycle, _)| cycle.len() == 2));
    pair.clock.pass(BACKOFF_MAX);
    pair.rest().await;
    let next = pair.get("x").await.max(pair.get("shop:y").await);
    assert_eq!(next, highest + 1);
}

async fn readers(place: Place) {
    let mut pair = Pair::new(&place).await;
    let other = |cell: &str| json!({ "from": link(cell) });
    pair.run("f", counting(), other("shop:f/v")).await;
    pair.run("shop:f", counting(), other("f/v")).await;
    let most = i64::from(CHAIN_MAX);
    let mut highest = pair.rise(CHAIN_MAX).await;
    assert!((most..=most + 3).contains(&highest), "{highest}");
    assert_eq!(pair.rise(3).await, highest, "the next one waits");
    assert!(pair.told("home").await.is_none() && pair.told("shop").await.is_none());
    for wait in [250, 500, 1_000, 2_000, 2_000] {
        pair.clock.pass(Span::from_millis(wait - 1));
        assert_eq!(
            pair.rise(2).await,
            highest,
            "not before its time: {wait} ms"
        );
        // Everything else goes on.
        let note = cell("note");
        let action = SpaceAction::Set {
            at: note.clone(),
            value: Some(highest.into()),
        };
        pair.ask(&note, action).await;
        assert_eq!(pair.rise(1).await, highest);
        assert_eq!(pair.get("note").await, highest);
        pair.clock.pass(Span::from_millis(1));
        highest += 1;
        assert_eq!(pair.rise(3).await, highest, "one more after {wait} ms");
    }
    let told = [pair.told("home").await, pair.told("shop").await];
    for (messages, cycle, _) in told.into_iter().map(Option::unwrap) {
        assert!(messages > CHAIN_MAX, "{messages}");
        let mut cycle: Vec<&str> = cycle.iter().map(|name| &**name).collect();
        cycle.sort_unstable();
        assert_eq!(cycle, ["space home", "space shop"]);
    }
    // What nobody has looked at before is there at once, also while the rest waits.
    let set = |value: i64| SpaceAction::Set {
        at: cell("shop:other"),
        value: Some(value.into()),
    };
    pair.ask(&cell("shop:other"), set(41)).await;
    pair.run("g", counting(), other("shop:other")).await;
    assert_eq!(pair.rise(2).await, highest);
    assert_eq!(pair.get("g/v").await, 42);
    // A while later, whoever changes something from outside does not wait because of it.
    let from = cell("shop:f");
    let stop = SpaceAction::Stop {
        result: from.clone(),
    };
    pair.ask(&from, stop).await;
    pair.rise(1).await;
    pair.clock.pass(Span::from_secs(5));
    let action = SpaceAction::Set {
        at: cell("shop:f/v"),
        value: Some(5_000.into()),
    };
    pair.ask(&from, action).await;
    assert_eq!(pair.rise(3).await, 5_001);
}

/// Effects are handed to whoever waits, and not waited for.
async fn idle(place: Place) {
    let mut pair = Pair::new(&place).await;
    let clock = ManualClock::default();
    assert_eq!(pair.hosts[0].idle(&clock).await.unwrap(), []);
    let other = json!({ "other": link("shop:pong/go") });
    pair.run("ping", returning(), other).await;
    for n in 0..300 {
        // More than one turn takes in, and each is handed on.
        let event = StreamEvent {
            id: format!("e{n}").into(),
            stream: cell(if n < 150 { "ping/go" } else { "ping/keep" }),
            payload: 1.into(),
        };
        pair.store("home").await.send(&event).await.unwrap();
    }
    let told = pair.hosts[0].idle(&clock).await.unwrap();
    let is_receipt = |output: &&SpaceOutput| matches!(output, SpaceOutput::Receipt(_));
    assert_eq!(told.iter().filter(is_receipt).count(), 301);
    assert_eq!(
        (pair.get("ping/n").await, pair.get("ping/kept").await),
        (150, 150)
    );
    let home = pair.store("home").await;
    assert!(home.has_empty_queues().await.unwrap(), "everything is sent");
    assert!(pair.hosts[0].is_idle(clock.now()));
    // A node that does not settle is not waited for while it has to wait; what it wants is not lost.
    pair.run("cycle", cyclic(), json!({})).await;
    let told = pair.hosts[0].idle(&clock).await.unwrap();
    let is_report = |output: &SpaceOutput| matches!(output, SpaceOutput::NonSettling(_));
    assert!(told.iter().any(is_report));
    let before = pair.get("cycle/a").await;
    clock.pass(Span::from_millis(250));
    pair.hosts[0].idle(&clock).await.unwrap();
    assert!(pair.get("cycle/a").await > before);
    // An effect is handed over and not waited for.
    let effect = json!({
        "result": alias(&["internal", "out"]),
        "nodes": [{"module": {"type": "ref", "implementation": "effect"},
            "inputs": {"name": "any", "request": 1}, "outputs": alias(&["internal", "out"])}]
    });
    pair.run("effect", effect, json!({})).await;
    let told = pair.hosts[0].idle(&clock).await.unwrap();
    let is_effect = |output: &&SpaceOutput| matches!(output, SpaceOutput::Effect(_));
    assert_eq!(told.iter().filter(is_effect).count(), 1);
}

/// Whoever has the space next knows how long a cycle has to wait by now.
async fn cycle(place: Place) {
    let mut pair = Pair::new(&place).await;
    pair.run("cycle", cyclic(), json!({})).await;
    pair.rest().await;
    let mut before = pair.get("cycle/a").await;
    for wait in [250, 500, 1_000, 2_000, 2_000] {
        pair.clock.pass(LEASE);
        pair.take().await;
        for left in [0, wait - 101] {
            pair.clock.pass(Span::from_millis(left));
            pair.rest().await;
            let now = pair.get("cycle/a").await;
            assert_eq!(now, before, "not before its time: {wait} ms");
        }
        pair.clock.pass(Span::from_millis(1));
        pair.rest().await;
        let after = pair.get("cycle/a").await;
        assert!((before + 1..=before + 20).contains(&after), "{after}");
        before = after;
    }
    // A clock that is behind that of the dead host holds it up no longer than it had to wait anyway.
    pair.clock.pass(LEASE);
    pair.take().await;
    let back = Timestamp::from_millis(pair.clock.now().millis() - 3_600_000);
    pair.clock.set_wall(back);
    pair.rest().await;
    assert!(pair.get("cycle/a").await > before);
}

async fn readers_of_killed_hosts(place: Place) {
    let mut pair = Pair::new(&place).await;
    let other = |cell: &str| json!({ "from": link(cell) });
    pair.run("f", counting(), other("shop:f/v")).await;
    pair.run("shop:f", counting(), other("f/v")).await;
    let mut highest = pair.rise(CHAIN_MAX).await;
    for wait in [250, 500] {
        pair.clock.pass(Span::from_millis(wait));
        highest += 1;
        assert_eq!(pair.rise(3).await, highest);
    }
    for name in ["note", "shop:note"] {
        // What the next hosts do first has nothing to do with it.
        let value = Some(1.into());
        let at = cell(name);
        pair.ask(
            &at,
            SpaceAction::Set {
                at: at.clone(),
                value,
            },
        )
        .await;
    }
    pair.clock.pass(LEASE);
    pair.take().await;
    let next = pair.rise(CHAIN_MAX).await;
    assert!((highest..=highest + 2).contains(&next), "{highest} {next}");
}

async fn effects_of_a_killed_host(place: Place) {
    let mut pair = Pair::new(&place).await;
    pair.run("loop", looping(), json!({})).await;
    for round in 1..=CHAIN_MAX + 3 {
        let asked = pair.effect().await;
        assert_eq!(asked.chain.hops, round);
        // Asked for again, it comes as far as before.
        pair.clock.pass(LEASE);
        pair.take().await;
        let again = pair.effect().await;
        assert_eq!((&again.key, again.chain.hops), (&asked.key, round));
        let command = SpaceCommand {
            id: format!("done {round}").into(),
            action: SpaceAction::EffectDone {
                key: again.key,
                outcome: Ok(i64::from(round % 2).into()),
            },
        };
        let home = pair.store("home").await;
        home.ask_after(&command, again.chain).await.unwrap();
    }
}
