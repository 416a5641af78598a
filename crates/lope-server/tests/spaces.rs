//! Spaces over HTTP: recipes run, cells read and changed, events sent once, watched through cuts; and
//! their pages.

use std::time::Duration;

use lope::tokens::Right;
use serde_json::{Value as Json, json};

use super::events::Listener;
use super::fixture::http::{HttpAnswer, Request};
use super::fixture::{Ground, settings};

pub(super) const COUNTER: &str = include_str!("../../../examples/reactive/counter.yaml");

/// Runs the counter of the examples into `home/counter`.
pub(super) async fn counter(ground: &Ground) {
    let run = ground
        .post(
            "/api/spaces/home/recipes/counter/run",
            json!({ "recipe": COUNTER }),
        )
        .await;
    assert_eq!(run.status, 200, "{}", run.text());
    assert_eq!(run.json()["outcome"], "handled");
}

async fn send(ground: &Ground, event: Json, id: &str) -> HttpAnswer {
    let body = json!({ "path": "add", "event": event, "id": id });
    ground
        .post("/api/spaces/home/streams/counter/send", body)
        .await
}

async fn cell(ground: &Ground, path: &str) -> Json {
    let path = format!("/api/spaces/home/cells/counter?path={path}");
    ground.get(&path).await.json()["value"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_sent_twice_under_its_id_takes_effect_once() {
    let ground = Ground::open().await;
    assert_eq!(ground.get("/api/spaces").await.json()["spaces"], json!([]));
    counter(&ground).await;
    for _ in 0..2 {
        let sent = send(&ground, json!(5), "five").await;
        let receipt = json!({ "event": "five", "outcome": "handled" });
        assert_eq!((sent.status, sent.json()), (200, receipt));
    }
    assert_eq!(cell(&ground, "count").await, 5);
    assert_eq!(cell(&ground, "double").await, 10);
    // What a handler says of a bad event comes back with the receipt, and changes nothing.
    let bad = send(&ground, json!("much"), "bad").await.json();
    assert_eq!(bad["outcome"], "failed", "{bad}");
    assert!(bad["error"]["message"].is_string(), "{bad}");
    assert_eq!(cell(&ground, "count").await, 5);
    for (id, outcome) in [
        ("five", json!("handled")),
        ("bad", json!("failed")),
        ("six", json!(null)),
    ] {
        let known = ground.get(&format!("/api/spaces/home/receipts/{id}")).await;
        assert_eq!(
            (known.status, &known.json()["outcome"]),
            (200, &outcome),
            "{id}"
        );
    }
    let all = ground.get("/api/spaces").await.json();
    assert_eq!(all["spaces"][0]["space"], "home");
    let home = ground.get("/api/spaces/home").await.json();
    let names: Vec<&Json> = home["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|document| &document["name"])
        .collect();
    assert!(names.contains(&&json!("counter")), "{home}");
    assert_eq!(ground.get("/api/spaces/elsewhere").await.status, 404);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_are_set_added_to_appended_to_and_have_links_and_a_history() {
    let ground = Ground::open().await;
    let set = |body: Json| {
        let ground = &ground;
        async move {
            let path = "/api/spaces/home/cells/prices/set";
            ground.post(path, body).await
        }
    };
    let prices = json!({ "value": { "tea": 3, "list": [] } });
    assert_eq!(set(prices).await.json()["outcome"], "handled");
    let more = json!({ "path": "tea", "value": 2, "how": "add", "id": "more" });
    for _ in 0..2 {
        assert_eq!(set(more.clone()).await.status, 200);
    }
    set(json!({ "path": "list", "value": "x", "how": "append" })).await;
    set(json!({ "path": "gone", "value": null })).await;
    let read = ground.get("/api/spaces/home/cells/prices").await.json();
    let expected = json!({ "tea": 5, "list": ["x"], "gone": null });
    assert_eq!(read["value"], expected);
    set(json!({ "path": "gone" })).await;
    let missing = ground.get("/api/spaces/home/cells/prices?path=gone").await;
    assert_eq!(missing.status, 404, "{}", missing.text());
    for bad in [
        json!({ "value": "x", "how": "add" }),
        json!({ "how": "append" }),
        json!({ "how": "shout", "value": 1 }),
    ] {
        assert_eq!(set(bad).await.status, 400);
    }
    let history = ground
        .get("/api/spaces/home/cells/prices/history?path=tea")
        .await
        .json();
    let held: Vec<&Json> = history["changes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|change| change["cell"].as_str().unwrap().ends_with("/tea"))
        .map(|change| &change["value"])
        .collect();
    assert_eq!(held.last(), Some(&&json!(5)), "{history}");
    counter(&ground).await;
    let links = ground
        .get("/api/spaces/home/cells/counter/links")
        .await
        .json();
    let links = links["links"].as_array().unwrap();
    assert!(
        links.iter().any(|link| link["redirect"] == true),
        "{links:?}"
    );
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recipes_are_listed_explained_drawn_stopped_and_bad_ones_refused_with_their_place() {
    let ground = Ground::open().await;
    counter(&ground).await;
    send(&ground, json!(1), "one").await;
    let listed = ground.get("/api/spaces/home/recipes").await.json();
    assert_eq!(listed["processes"][0]["name"], "counter");
    let shown = ground.get("/api/spaces/home/recipes/counter").await.json();
    assert_eq!(shown["nodes"].as_array().unwrap().len(), 2);
    assert!(shown["nodes"][1]["reason"].is_string(), "{shown}");
    let drawn = ground
        .get("/api/spaces/home/recipes/counter/graph")
        .await
        .text();
    assert!(
        drawn.contains("<svg") && drawn.contains("internal/count"),
        "{drawn}"
    );
    let text = ground
        .get("/api/spaces/home/recipes/counter/graph?format=mermaid")
        .await;
    assert!(text.text().contains("flowchart"), "{}", text.text());
    let bad = ground
        .post(
            "/api/spaces/home/recipes/other/run",
            json!({ "recipe": "nodes: 5\n" }),
        )
        .await;
    assert_eq!(bad.status, 400);
    assert!(bad.text().contains("recipe:1"), "{}", bad.text());
    let stopped = ground
        .send(Request::post("/api/spaces/home/recipes/counter/stop"))
        .await;
    assert_eq!(stopped.json()["outcome"], "handled");
    assert_eq!(
        ground.get("/api/spaces/home/recipes/counter").await.status,
        404
    );
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watched_cells_are_told_once_each_also_after_a_cut() {
    let ground = Ground::open().await;
    counter(&ground).await;
    let path = "/api/cells/events?cell=home/counter/count&cell=home/nothing";
    let mut first = Listener::open(&ground, Request::get(path)).await;
    let count = first.next().await.unwrap();
    let expected = json!({ "cell": "home/counter/count", "value": 0, "present": true });
    assert_eq!((&*count.event, count.data), ("value", expected));
    let nothing = first.next().await.unwrap();
    assert_eq!(nothing.data["present"], false);
    send(&ground, json!(2), "two").await;
    let next = first.next().await.unwrap();
    assert_eq!(next.data["value"], 2);
    drop(first);
    // Whoever comes back and has seen everything is told the next change and nothing before it.
    let back = Request::get(path).header("last-event-id", &next.id);
    let mut second = Listener::open(&ground, back).await;
    send(&ground, json!(3), "three").await;
    assert_eq!(second.next().await.unwrap().data["value"], 5);
    drop(second);
    // Whoever missed a change is told what there is now, once.
    send(&ground, json!(4), "four").await;
    let back = Request::get(path).header("last-event-id", &next.id);
    let mut third = Listener::open(&ground, back).await;
    assert_eq!(third.next().await.unwrap().data["value"], 9);
    assert_eq!(ground.get("/api/cells/events").await.status, 400);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_waves_of_a_space_are_told_once_each_and_in_order_also_after_a_cut() {
    let ground = Ground::open().await;
    counter(&ground).await;
    let path = "/api/spaces/home/events";
    let mut first = Listener::open(&ground, Request::get(path)).await;
    send(&ground, json!(1), "one").await;
    let one = first.next().await.unwrap();
    assert_eq!(one.event, "change");
    let told = one.data["changes"].to_string();
    assert!(told.contains("count"), "{told}");
    drop(first);
    send(&ground, json!(1), "two").await;
    send(&ground, json!(1), "three").await;
    let back = Request::get(path).header("last-event-id", &one.id);
    let mut second = Listener::open(&ground, back).await;
    let mut counts = Vec::new();
    while counts.last() != Some(&json!(3)) {
        let wave = second.next().await.unwrap();
        let changes = wave.data["changes"].as_array().unwrap().clone();
        let count = changes
            .into_iter()
            .find(|change| change["cell"].as_str().unwrap().ends_with("internal/count"));
        counts.extend(count.map(|change| change["value"].clone()));
    }
    assert_eq!(counts, [json!(2), json!(3)]);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_reads_and_changes_nothing() {
    let mut guarded = settings("127.0.0.1:0");
    guarded.authentication = lope_server::Authentication::Always;
    let ground = Ground::with(guarded).await;
    let boss = ground.token("boss", Right::Act).await;
    let reader = ground.token("reader", Right::Read).await;
    let run = Request::post("/api/spaces/home/recipes/counter/run");
    let run = run.json(&json!({ "recipe": COUNTER })).token(&boss);
    assert_eq!(ground.send(run).await.status, 200);
    for (path, body) in [
        (
            "/api/spaces/home/streams/counter/send",
            json!({ "path": "add", "event": 1 }),
        ),
        ("/api/spaces/home/cells/counter/set", json!({ "value": 1 })),
        ("/api/spaces/home/recipes/counter/stop", json!({})),
        ("/spaces/home/send", json!({})),
    ] {
        let refused = ground
            .send(Request::post(path).json(&body).token(&reader))
            .await;
        assert_eq!(refused.status, 403, "{path}");
    }
    let read = Request::get("/api/spaces/home/cells/counter?path=count");
    assert_eq!(ground.send(read.token(&reader)).await.json()["value"], 0);
    let page = Request::get("/spaces/home").token(&reader);
    let page = ground.send(page).await.text();
    assert!(page.contains("counter") && !page.contains("Send an event"));
    assert_eq!(ground.get("/lope.js").await.status, 200, "it holds nothing");
    assert_eq!(ground.get("/api/spaces").await.status, 401);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_spaces_teach_show_values_and_errors_and_take_events() {
    let ground = Ground::open().await;
    let empty = ground.get("/spaces").await.text();
    assert!(empty.contains("lope recipes run"), "an empty page teaches");
    counter(&ground).await;
    let form = |path: &str, body: &str| {
        Request::post(path)
            .body("application/x-www-form-urlencoded", body)
            .header("sec-fetch-site", "same-origin")
    };
    let sent = ground
        .send(form("/spaces/home/send", "stream=counter%2Fadd&event=7"))
        .await;
    assert_eq!(sent.status, 303, "{}", sent.text());
    let shown = ground.get(sent.header("location").unwrap()).await.text();
    assert!(shown.contains("has taken effect"), "{shown}");
    assert!(
        shown.contains("data-cell=\"home/counter/count\">7<"),
        "{shown}"
    );
    assert!(shown.contains("lope-graph") && shown.contains("stream=counter%2Fadd"));
    assert!(shown.contains("data-events=\"/api/spaces/home/events?after="));
    let bad = ground
        .send(form("/spaces/home/send", "stream=counter%2Fadd&event=%7B"))
        .await;
    assert_eq!(bad.status, 400);
    let failing = "name: broken\nresult: { x: { $alias: internal/x } }\nnodes:\n  - module: { type: javascript, implementation: \"() => { throw new Error('<script>alert(1)</script>') }\" }\n    inputs: {}\n    outputs: { $alias: internal/x }\n";
    let run = ground
        .post(
            "/api/spaces/home/recipes/broken/run",
            json!({ "recipe": failing }),
        )
        .await;
    assert_eq!(run.status, 200, "{}", run.text());
    let shown = ground.get("/spaces/home").await.text();
    assert!(shown.contains("&lt;script&gt;alert(1)"), "{shown}");
    assert!(!shown.contains("<script>alert(1)"));
    assert_eq!(shown.matches("<script").count(), 1);
    assert_eq!(ground.get("/spaces/nowhere").await.status, 404);
    assert!(ground.get("/spaces").await.text().contains("1 space"));
    ground.close().await;
}

async fn set_cell(ground: &Ground, space: &str, document: &str, value: Json) {
    let path = format!("/api/spaces/{space}/cells/{document}/set");
    let set = ground.post(&path, json!({ "value": value })).await;
    assert_eq!(set.status, 200, "{}", set.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_what_runs_has_a_name_and_a_link_the_history_of_what_it_leads_to() {
    let ground = Ground::open().await;
    counter(&ground).await;
    for (number, id) in [(2, "two"), (3, "three")] {
        send(&ground, json!(number), id).await;
    }
    let state = "/api/spaces/home/cells/process-of-counter";
    let count = ground.get(&format!("{state}?path=internal/count")).await;
    assert_eq!(count.json()["value"], 5, "{}", count.text());
    let watched = "/api/cells/events?cell=home/process-of-counter/internal/count";
    let mut listener = Listener::open(&ground, Request::get(watched)).await;
    let told = listener.next().await.unwrap();
    assert_eq!(told.data["value"], 5, "{:?}", told.data);
    let history = |at: &str| {
        let path = format!("/api/spaces/home/cells/{at}");
        let ground = &ground;
        async move {
            let changes = ground.get(&path).await.json()["changes"].clone();
            let changes = changes.as_array().unwrap().clone().into_iter();
            changes.map(|change| change["value"].clone()).collect()
        }
    };
    let held: Vec<Json> = history("counter/history?path=count").await;
    assert_eq!(held[held.len() - 2..], [json!(2), json!(5)], "{held:?}");
    let same: Vec<Json> = history("process-of-counter/history?path=internal/count").await;
    assert_eq!(held, same);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_tells_of_events_that_had_no_effect_and_of_what_cannot_be_shown() {
    let ground = Ground::open().await;
    counter(&ground).await;
    send(&ground, json!("much"), "bad").await;
    let page = ground.get("/spaces/home").await.text();
    assert!(page.contains("1 node fails"), "{page}");
    assert!(page.contains("had no effect"), "{page}");
    assert!(page.contains("event bad came"), "{page}");
    send(&ground, json!(1), "good").await;
    let page = ground.get("/spaces/home").await.text();
    assert!(!page.contains("fails"), "it works again");
    // A circle of links has no end; the rest of the page is there.
    set_cell(
        &ground,
        "home",
        "circle",
        json!({"/": {"link@1": {"path": []}}}),
    )
    .await;
    let page = ground.get("/spaces/home").await;
    assert_eq!(page.status, 200, "{}", page.text());
    let page = page.text();
    assert!(page.contains("It cannot be shown whole"), "{page}");
    assert!(
        page.contains("data-cell=\"home/counter/count\">1<"),
        "{page}"
    );
    // A link into another space leads there, also if a document here has the same name.
    set_cell(&ground, "far", "prices", json!({"tea": 3})).await;
    let prices = ground.get("/api/spaces/far").await.json();
    let id = prices["documents"][0]["id"].as_str().unwrap().to_owned();
    set_cell(&ground, "home", "prices", json!({"tea": 4})).await;
    let link = json!({"/": {"link@1": {"space": "far", "id": id}}});
    set_cell(&ground, "home", "shelf", json!({ "tea": link })).await;
    let page = ground.get("/spaces/home").await.text();
    assert!(page.contains("another space"), "{page}");
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_of_an_app_is_served_and_nothing_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let app = folder.path().join("app");
    std::fs::create_dir_all(app.join("deep")).unwrap();
    std::fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    std::fs::write(app.join("index.html"), "<p>hello").unwrap();
    std::fs::write(app.join("deep/page.js"), "1").unwrap();
    std::fs::create_dir_all(app.join("two words")).unwrap();
    std::fs::write(app.join("two words/index.html"), "<p>room").unwrap();
    std::fs::write(app.join(".hidden"), "secret").unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret.txt"), app.join("out.txt")).unwrap();
    let mut with = settings("127.0.0.1:0");
    with.app = Some(app);
    let ground = Ground::with(with).await;
    let index = ground.get("/app/").await;
    assert_eq!((index.status, index.text()), (200, "<p>hello".to_owned()));
    // What a page names lies beside it: its address ends with a slash.
    let room = ground.get("/app/two%20words?day=1").await;
    assert_eq!(
        (room.status, room.header("location")),
        (303, Some("two%20words/?day=1"))
    );
    assert_eq!(ground.get("/app/two%20words/").await.text(), "<p>room");
    let script = ground.get("/app/deep/page.js").await;
    assert_eq!(
        script.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    assert!(
        script
            .header("content-security-policy")
            .unwrap()
            .contains("script-src 'self'")
    );
    for path in [
        "/app/../secret.txt",
        "/app/%2e%2e/secret.txt",
        "/app/..%2fsecret.txt",
        "/app/.hidden",
        "/app/out.txt",
        "/app/deep",
        "/app/nothing",
    ] {
        let answer = ground.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_ne!(answer.text(), "secret", "{path}");
    }
    ground.close().await;
    let without = Ground::open().await;
    assert_eq!(without.get("/app/").await.status, 404);
    tokio::time::timeout(Duration::from_secs(60), without.close())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_content_under_an_id_is_a_conflict_and_errors_name_cells_as_they_were_written() {
    let ground = Ground::open().await;
    counter(&ground).await;
    assert_eq!(send(&ground, json!(5), "same").await.status, 200);
    let body = |event: i64, wait: bool| json!({ "path": "add", "event": event, "id": "same", "wait": wait });
    let path = "/api/spaces/home/streams/counter/send";
    for wait in [true, false] {
        let other = ground.post(path, body(6, wait)).await;
        let error = json!({ "kind": "conflict", "hint": "give another id",
            "message": "something else was sent under the id 'same' before" });
        assert_eq!((other.status, &other.json()["error"]), (409, &error));
        let same = ground.post(path, body(5, wait)).await;
        assert_eq!(
            (same.status, &same.json()["outcome"]),
            (200, &json!("handled"))
        );
    }
    assert_eq!(cell(&ground, "count").await, 5);
    let set = async |document: &str, body: Json| {
        let path = format!("/api/spaces/home/cells/{document}/set");
        ground.post(&path, body).await
    };
    let prices = json!({ "value": { "tea": "x", "list": [1, 2] }, "id": "prices" });
    assert_eq!(set("prices", prices).await.status, 200);
    let other = set("prices", json!({ "value": 1, "id": "prices" })).await;
    assert_eq!(other.status, 409, "{}", other.text());
    let removed = set("prices", json!({ "path": "list/0" })).await;
    assert_eq!(removed.status, 200);
    let read = ground.get("/api/spaces/home/cells/prices?path=list").await;
    assert_eq!(read.json()["value"], json!([2]));
    let message = |answer: &HttpAnswer| answer.json()["error"]["message"].clone();
    let add = json!({ "path": "tea", "value": 1, "how": "add" });
    let refused = set("prices", add).await;
    let says = "home/prices/tea is a text, not a number";
    assert_eq!((refused.status, message(&refused)), (409, json!(says)));
    let missing = ground.get("/api/spaces/home/cells/prices?path=milk").await;
    let says = "there is nothing at home/prices/milk";
    assert_eq!((missing.status, message(&missing)), (404, json!(says)));
    let circle = json!({ "value": { "/": { "link@1": { "path": [] } } } });
    assert_eq!(set("circle", circle).await.status, 200);
    let circle = ground.get("/api/spaces/home/cells/circle").await;
    let says = "more than 100 links lead on from home/circle: they lead in a circle, perhaps";
    assert_eq!((circle.status, message(&circle)), (409, json!(says)));
    // A space of which nothing came is in no list.
    let stop = Request::post("/api/spaces/yard/recipes/nobody/stop");
    assert_eq!(ground.send(stop).await.status, 409);
    let all = ground.get("/api/spaces").await.json();
    let names: Vec<&Json> = all["spaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["space"])
        .collect();
    assert_eq!(names, [&json!("home")]);
    assert_eq!(ground.get("/api/spaces/yard").await.status, 404);
    ground.close().await;
}
