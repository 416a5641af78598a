//! `lope store check|copy|backup|prune` know the rows of reactive spaces, on SQLite and on Postgres.

use lope::Client;
use lope::reactive::javascript::JavaScript;
use lope::reactive::{
    CellAddress, Json, LeaseRequest, Modules, RecipeRunner, SpaceHost, SpaceName,
};
use lope_model::{Span, Timestamp};
use lope_store::tables::{At, Batch, Range, Row, TableId, Tables, Write};
use serde_json::{Value, json};

use crate::fixture::spaces::{SpaceRig, block_on, example, on_both_stores, schema};
use crate::stage::until;

on_both_stores! {
    check_finds_what_is_wrong_with_spaces => super::check;
    prune_forgets_old_receipts_and_changes => super::prune;
    a_copy_has_the_spaces_and_nobody_hosts_them => super::copy;
}

fn counter(rig: &SpaceRig) {
    rig.lope(&[
        "recipes",
        "run",
        &example("counter.yaml"),
        "--into",
        "home/counter",
    ]);
    rig.lope(&["streams", "send", "home/counter/add", "5", "--id", "five"]);
}

/// The rows of spaces, as they are stored.
struct Rows {
    client: Client,
    table: TableId,
}

impl Rows {
    async fn open(rig: &SpaceRig) -> Self {
        let client = Client::open(&rig.url).await.unwrap();
        let manifest = client.store().tables.manifest().await.unwrap();
        let table = manifest.id_of("cells").unwrap();
        Self { client, table }
    }

    fn tables(&self) -> &dyn Tables {
        &*self.client.store().tables
    }

    async fn all(&self, kind: &str) -> Vec<Row> {
        let range = Range::prefix(self.table, kind.as_bytes(), 1_000);
        self.tables().range(range).await.unwrap()
    }

    async fn write(&self, key: &[u8], value: Option<&[u8]>) {
        let at = At::new(self.table, key);
        let write = match value {
            Some(value) => Write::Put(at, value.to_vec()),
            None => Write::Delete(at),
        };
        let batch = Batch {
            guards: Vec::new(),
            writes: vec![write],
        };
        let replies = self.tables().commit(vec![batch]).await.unwrap();
        assert!(replies[0].is_ok());
    }
}

/// Every kind of row is damaged, and each time the check says so; then it is mended.
fn check(rig: SpaceRig) {
    counter(&rig);
    assert!(rig.lope(&["store", "check"]).contains("is sound"));
    block_on(async {
        let rows = Rows::open(&rig).await;
        let complaint = || {
            let said = rig.said(&["--json", "store", "check"]);
            assert_eq!(said.code, 1, "{said:?}");
            let told: Value = serde_json::from_str(&said.out).unwrap();
            let findings = told["findings"].as_array().unwrap().iter();
            let of_spaces = findings.filter(|finding| finding["rule"] == "spaces");
            let messages = of_spaces.map(|finding| finding["message"].as_str().unwrap().to_owned());
            messages.collect::<Vec<_>>().join("\n")
        };
        for (kind, expected) in [
            ("d", "cannot be read"),
            ("l", "its lease"),
            ("e", "its fence"),
            ("r", "a receipt"),
            ("n", "the record of a node"),
            ("v", "a record of its nodes or changes"),
            ("h", "a record of its nodes or changes"),
            ("i", "the name of a space"),
        ] {
            let row = rows.all(kind).await.swap_remove(0);
            // No MessagePack, no text.
            rows.write(&row.key, Some(&[0xc1, 0xff])).await;
            let told = complaint();
            assert!(told.contains(expected), "{kind}: {told}");
            assert!(
                kind == "i" || told.contains("space 'home'"),
                "{kind}: {told}"
            );
            rows.write(&row.key, Some(&row.value)).await;
        }
        let entry = rows.all("i").await.swap_remove(0);
        rows.write(&entry.key, None).await;
        assert!(complaint().contains("it is not in the list of spaces"));
        rows.write(&entry.key, Some(&entry.value)).await;
        rows.write(b"?x", Some(b"")).await;
        assert!(complaint().contains("a row belongs to no space"));
        rows.write(b"?x", None).await;
        // Without the document of its recipe nothing runs.
        let spell = rows.all("d").await.into_iter();
        let mut spell = spell.filter(|row| row.value.windows(5).any(|part| part == b"nodes"));
        let spell = spell.next().unwrap();
        rows.write(&spell.key, None).await;
        assert!(complaint().contains("is missing"), "{}", complaint());
        rows.write(&spell.key, Some(&spell.value)).await;
        rows.client.close().await.unwrap();
    });
    assert!(rig.lope(&["store", "check"]).contains("is sound"));
}

/// A space with 1,100 changes, made in 2001, and a receipt of then.
async fn old_space(rig: &SpaceRig) {
    let client = Client::open(&rig.url).await.unwrap();
    let directory = client.spaces().await.unwrap().unwrap();
    let name: SpaceName = "old".parse().unwrap();
    let then = Timestamp::from_millis(1_000_000_000_000);
    let at = CellAddress::parse("old/sheet/x").unwrap();
    // A host forgets its own changes beyond a thousand; those of a former one are left to pruning.
    for numbers in [0..550_i64, 550..1_100] {
        let scripts = Box::new(JavaScript::default());
        let runner = RecipeRunner::new(name.clone(), Modules::default(), scripts);
        let asked = LeaseRequest {
            identity: &"then".into(),
            now: then,
            span: Span::from_secs(60),
        };
        let store = directory.space(name.clone());
        let mut host = SpaceHost::take(store, runner, asked).await.unwrap();
        for number in numbers {
            let mut edit = host.machine().spaces().begin();
            edit.set(&at, &Json::from(number)).unwrap();
            host.edit(1, edit);
            host.turn(then).await.unwrap();
        }
        host.release().await.unwrap();
    }
    client.close().await.unwrap();
}

fn prune(rig: SpaceRig) {
    counter(&rig);
    let count = || {
        block_on(async {
            let rows = Rows::open(&rig).await;
            let found = (rows.all("h").await.len(), rows.all("r").await.len());
            rows.client.close().await.unwrap();
            found
        })
    };
    let (changes, receipts) = count();
    block_on(old_space(&rig));
    // Receipts of 2001: as old as can be.
    block_on(async {
        let rows = Rows::open(&rig).await;
        let row = rows.all("r").await.swap_remove(0);
        let mut receipt: lope::reactive::StoredReceipt = rmp_serde::from_slice(&row.value).unwrap();
        receipt.at = 1_000_000_000_000;
        let mut key = row.key.clone();
        *key.last_mut().unwrap() ^= 1;
        let value = rmp_serde::to_vec_named(&receipt).unwrap();
        rows.write(&key, Some(&value)).await;
        rows.client.close().await.unwrap();
    });
    let pruned = |args: &[&str]| -> Value {
        let args = [&["--json", "store", "prune", "--older", "1h"], args].concat();
        serde_json::from_str(&rig.lope(&args)).unwrap()
    };
    assert_eq!(
        pruned(&["--workflow", "any"])["space_rows"],
        json!(0),
        "runs alone"
    );
    let old = json!(changes.saturating_sub(1_000) + 100 + 1);
    assert_eq!(pruned(&["--dry-run"])["space_rows"], old);
    assert_eq!(pruned(&[])["space_rows"], old);
    assert_eq!(pruned(&[])["space_rows"], json!(0), "they are gone");
    assert_eq!(count().1, receipts, "those of today stay");
    rig.lope(&["streams", "send", "home/counter/add", "5", "--id", "five"]);
    assert_eq!(rig.get("home/counter/count"), json!(5), "it is known still");
    let history = rig.lope(&[
        "--json",
        "cells",
        "history",
        "old/sheet/x",
        "--limit",
        "2000",
    ]);
    let history: Vec<Value> = serde_json::from_str(&history).unwrap();
    assert_eq!(history.len(), 1_000);
    assert_eq!(history[999]["value"], json!(1_099), "the newest stay");
    assert!(rig.lope(&["store", "check"]).contains("is sound"));
}

/// From one kind of store into the other, after a runner was killed.
fn copy(mut rig: SpaceRig) {
    counter(&rig);
    let target = if rig.url.starts_with("sqlite:") {
        schema("space_copy")
    } else {
        Some(format!("sqlite:{}", rig.path("copy.db").display()))
    };
    let target = target.unwrap_or_else(|| format!("sqlite:{}", rig.path("copy.db").display()));
    let runner = rig.up(&[]);
    rig.lope(&["streams", "send", "home/counter/add", "1", "--id", "hosted"]);
    until("the runner hosts the space", || {
        let listed = rig.lope(&["--json", "recipes", "list"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        if listed[0]["host"].is_null() {
            rig.lope(&["streams", "send", "home/counter/add", "0"]);
        }
        !listed[0]["host"].is_null()
    });
    let refused = rig.said(&["store", "copy", &rig.url, &target]);
    assert_eq!(refused.code, 3, "{refused:?}");
    rig.kill(runner);
    let copied = until_copied(&rig, &target);
    assert!(copied.contains("compared and equal"), "{copied}");
    let there = SpaceRig::new(Some(&target));
    assert!(there.lope(&["store", "check"]).contains("is sound"));
    let listed: Value = serde_json::from_str(&there.lope(&["--json", "recipes", "list"])).unwrap();
    assert_eq!(listed[0]["host"], Value::Null, "nobody hosts a copy");
    there.lope(&["streams", "send", "home/counter/add", "5", "--id", "five"]);
    assert_eq!(
        there.get("home/counter/count"),
        json!(6),
        "it was counted before"
    );
    there.lope(&["streams", "send", "home/counter/add", "4"]);
    assert_eq!(there.get("home/counter/double"), json!(20));
    assert_eq!(
        rig.get("home/counter/count"),
        json!(6),
        "the source is as it was"
    );
}

/// Runs of a killed runner are free when its session is over: a copy waits for that.
fn until_copied(rig: &SpaceRig, target: &str) -> String {
    let mut told = String::new();
    until("nobody works on the source", || {
        let said = rig.said(&["store", "copy", &rig.url, target]);
        told = said.out;
        said.code == 0
    });
    told
}

#[test]
fn a_backup_has_the_spaces() {
    let rig = SpaceRig::new(None);
    counter(&rig);
    let file = rig.path("backup.db").display().to_string();
    rig.lope(&["store", "backup", &file]);
    rig.lope(&["streams", "send", "home/counter/add", "1"]);
    let backup = SpaceRig::new(Some(&format!("sqlite:{file}")));
    assert!(backup.lope(&["store", "check"]).contains("is sound"));
    backup.lope(&["streams", "send", "home/counter/add", "5", "--id", "five"]);
    assert_eq!(backup.get("home/counter/count"), json!(5));
    backup.lope(&["streams", "send", "home/counter/add", "2"]);
    assert_eq!(backup.get("home/counter/double"), json!(14));
}
