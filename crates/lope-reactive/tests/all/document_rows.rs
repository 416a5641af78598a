//! The rows that documents are stored in: what is read is what was written, however often it was
//! changed and whoever hosted the space, and a change of a large document costs as much as the
//! change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lope_model::{Span, Timestamp};
use lope_reactive::hosting::{LeaseRequest, SpaceHost, SpaceStore};
use lope_reactive::javascript::JavaScript;
use lope_reactive::runner::RecipeRun;
use lope_reactive::{Json, RecipeBuilder, RecipeRunner, Transaction};
use lope_store::door::DoorCall;
use lope_store::tables::{TablesAnswer, TablesRequest, Write};
use lope_store::{MemoryStore, Tables, Watch};
use proptest::prelude::*;

use crate::fixture::{cell, json, space};
use crate::host::modules;
use crate::stores::{Place, on_every_store};

const LEASE: Span = Span::from_secs(15);

on_every_store! {
    a_large_document_is_read_as_it_was_written => super::a_long_life;
}

/// Tables that count the bytes of documents written through them.
struct Counting {
    tables: Arc<dyn Tables>,
    bytes: AtomicUsize,
}

impl Tables for Counting {
    fn call(&self, request: TablesRequest) -> DoorCall<'_, TablesAnswer> {
        if let TablesRequest::Commit { batches } = &request {
            for write in batches.iter().flat_map(|batch| &batch.writes) {
                if let Write::Put(at, value) = write
                    && at.key.first() == Some(&b'd')
                {
                    self.bytes.fetch_add(value.len(), Ordering::Relaxed);
                }
            }
        }
        self.tables.call(request)
    }

    fn watch(&self) -> Watch {
        self.tables.watch()
    }
}

/// A space that is taken again and again.
struct Rig {
    tables: Arc<dyn Tables>,
    now: Timestamp,
    host: Option<SpaceHost<RecipeRunner>>,
}

impl Rig {
    fn new(tables: Arc<dyn Tables>) -> Self {
        Self {
            tables,
            now: Timestamp::from_millis(1_000_000),
            host: None,
        }
    }

    async fn store(&self) -> SpaceStore {
        let tables = Arc::clone(&self.tables);
        SpaceStore::open(tables, space("home")).await.unwrap()
    }

    async fn host(&mut self) -> &mut SpaceHost<RecipeRunner> {
        if self.host.is_none() {
            self.now = self.now.plus(LEASE);
            let asked = LeaseRequest {
                identity: &"me".into(),
                now: self.now,
                span: LEASE,
            };
            let scripts = Box::new(JavaScript::default());
            let runner = RecipeRunner::new(space("home"), modules(), scripts);
            let taken = SpaceHost::take(self.store().await, runner, asked).await;
            self.host = Some(taken.unwrap());
        }
        self.host.as_mut().unwrap()
    }

    async fn edit(&mut self, work: impl FnOnce(&RecipeRunner, &mut Transaction)) {
        let host = self.host().await;
        let mut transaction = host.machine().spaces().begin();
        work(host.machine().program(), &mut transaction);
        host.edit(1, transaction);
        let now = self.now;
        self.host().await.turn(now).await.unwrap();
    }

    /// What the host has in memory is what anybody reads, in every way there is.
    async fn check(&mut self) {
        let at = cell("large");
        let host = self.host().await;
        let expected = host.machine().spaces().snapshot().at(&at).cloned();
        let store = self.store().await;
        assert_eq!(store.stored(&at).await.unwrap(), expected);
        let all = store.load().await.unwrap();
        assert_eq!(all.snapshot().at(&at).cloned(), expected);
        let alone = store.documents(&[at.id]).await.unwrap();
        assert_eq!(alone, [expected]);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(usize, i64),
    /// A value under parents that may not be there.
    Deep(usize, i64),
    Remove(usize),
    Append(usize, i64),
    /// The list has so many elements from now on.
    Cut(usize, usize),
    /// The list becomes an object, or the other way round.
    Turn(usize),
    Wide(usize),
    /// All of it is written anew: large, small, or not at all.
    Replace(usize),
    /// The host dies, and another takes the space.
    Die,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..300_usize, any::<i64>()).prop_map(|(place, value)| Step::Set(place, value)),
        4 => (0..20_usize, any::<i64>()).prop_map(|(place, value)| Step::Deep(place, value)),
        3 => (0..300_usize).prop_map(Step::Remove),
        4 => (0..4_usize, any::<i64>()).prop_map(|(place, value)| Step::Append(place, value)),
        2 => (0..4_usize, 0..14_usize).prop_map(|(place, length)| Step::Cut(place, length)),
        1 => (0..4_usize).prop_map(Step::Turn),
        2 => (0..20_usize).prop_map(Step::Wide),
        1 => (0..4_usize).prop_map(Step::Replace),
        2 => Just(Step::Die),
    ]
}

fn large() -> Json {
    let entries =
        (0..300).map(|number| (format!("k{number}"), Json::from("a text of some length")));
    let entries = Json::object(entries);
    let lists = (0..4).map(|number| (format!("l{number}"), json!([1, 2, {"x": 3}]).into()));
    Json::object([
        ("entries", entries),
        ("lists", Json::object(lists)),
        ("deep", json!({}).into()),
    ])
}

fn change(transaction: &mut Transaction, step: &Step) {
    let place = |path: String| cell(&format!("large/{path}"));
    let list = |number: &usize| place(format!("lists/l{number}"));
    match step {
        Step::Set(number, value) => transaction
            .set(&place(format!("entries/k{number}")), &Json::from(*value))
            .unwrap(),
        Step::Deep(number, value) => transaction
            .set(&place(format!("deep/a{number}/b/c")), &Json::from(*value))
            .unwrap(),
        Step::Remove(number) => transaction
            .remove(&place(format!("entries/k{number}")))
            .unwrap(),
        Step::Append(number, value) => {
            let at = list(number);
            if !matches!(transaction.get(&at), Some(Json::Object(_))) {
                transaction.append(&at, &[Json::from(*value)]).unwrap();
            }
        }
        Step::Cut(number, length) => {
            let elements = (0..*length).map(|element| Json::from(element as i64));
            transaction
                .set(&list(number), &Json::array(elements))
                .unwrap();
        }
        Step::Turn(number) => {
            let turned = match transaction.get(&list(number)) {
                Some(Json::Array(_)) => json!({"0": "an object", "x": 1}),
                _ => json!(["a list", {"x": [1]}]),
            };
            transaction.set(&list(number), &turned.into()).unwrap();
        }
        Step::Wide(number) => {
            let entries = (0..40).map(|entry| (format!("w{entry}"), Json::from("another text")));
            let at = place(format!("deep/a{number}"));
            transaction.set(&at, &Json::object(entries)).unwrap();
        }
        Step::Replace(0) => transaction.remove(&cell("large")).unwrap(),
        Step::Replace(1) => transaction
            .set(&cell("large"), &json!({"entries": {"k1": 1}}).into())
            .unwrap(),
        Step::Replace(_) => transaction.set(&cell("large"), &large()).unwrap(),
        Step::Die => {}
    }
}

async fn live(rig: &mut Rig, steps: &[Step]) {
    rig.edit(|_, transaction| transaction.set(&cell("large"), &large()).unwrap())
        .await;
    for step in steps {
        if let Step::Die = step {
            rig.host = None;
        }
        rig.edit(|_, transaction| change(transaction, step)).await;
        rig.check().await;
    }
    rig.host = None;
    rig.check().await;
}

/// The same on every store: enough changes to fill the smaller rows several times.
async fn a_long_life(place: Place) {
    let mut rig = Rig::new(place.open().await.tables);
    rig.edit(|_, transaction| transaction.set(&cell("large"), &large()).unwrap())
        .await;
    for round in 0..400_usize {
        let step = match round % 20 {
            3 => Step::Append(round % 4, round as i64),
            7 => Step::Remove(round % 300),
            11 => Step::Deep(round % 20, round as i64),
            13 => Step::Cut(round % 4, round % 14),
            17 => Step::Wide(round % 20),
            _ => Step::Set(round * 7 % 300, round as i64),
        };
        rig.edit(|_, transaction| change(transaction, &step)).await;
        if round % 50 == 49 {
            rig.check().await;
        }
        if round % 150 == 149 {
            rig.host = None;
            rig.check().await;
        }
    }
}

/// The row before says that it is gone, and the next one what was put into it and taken away again.
#[tokio::test]
async fn an_object_that_was_made_and_emptied_again_is_there() {
    let mut steps: Vec<Step> = (0..4).map(Step::Wide).collect();
    let rest = [Step::Die, Step::Wide(6), Step::Replace(1), Step::Wide(6)];
    steps.extend(rest.into_iter().chain([Step::Replace(3)]));
    let mut rig = Rig::new(Place::memory().open().await.tables);
    live(&mut rig, &steps).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_read_is_what_was_written(steps in prop::collection::vec(any_step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            live(&mut Rig::new(MemoryStore::open().tables), &steps).await;
        });
    }
}

/// The bytes of documents that a hundred changes of one leaf write, in a process of so many nodes.
async fn bytes_of_changes(nodes: usize) -> usize {
    let counting = Arc::new(Counting {
        tables: MemoryStore::open().tables,
        bytes: AtomicUsize::new(0),
    });
    let mut rig = Rig::new(counting.clone());
    let mut builder = RecipeBuilder::new();
    for number in 0..nodes {
        let from = builder.argument(&format!("a{number}"));
        let to = builder.internal(&format!("b{number}"));
        builder.native("double", [("x", from)], &to);
    }
    let all = builder.all_internal();
    let recipe = builder.result([("all", all)]).build().unwrap();
    let inputs = (0..nodes).map(|number| (format!("a{number}"), Json::from(0)));
    let inputs = Json::object(inputs);
    rig.edit(|runner, transaction| {
        let result = cell("result");
        let run = RecipeRun::at(&result).recipe(&recipe).argument(&inputs);
        runner.run(transaction, run).unwrap();
    })
    .await;
    let before = counting.bytes.load(Ordering::Relaxed);
    for number in 1..=100_i64 {
        rig.edit(|_, transaction| {
            let process = lope_reactive::process::process_of(transaction, &cell("result"));
            let leaf = process.key("argument").key("a7");
            transaction.set(&leaf, &Json::from(number)).unwrap();
        })
        .await;
        let doubled = rig.store().await.read(&cell("result/all/b7")).await;
        assert_eq!(doubled.unwrap(), Some(Json::from(2 * number)));
    }
    counting.bytes.load(Ordering::Relaxed) - before
}

/// "changing one leaf of a 100,000-node graph runs only its readers", and writes no more than that.
#[tokio::test]
async fn a_change_of_a_large_process_costs_as_much_as_the_change() {
    let small = bytes_of_changes(500).await;
    let large = bytes_of_changes(4_000).await;
    assert_eq!(small, large, "bytes of documents in a hundred waves");
    assert!(small < 100 * 4_096, "{small}");
}
