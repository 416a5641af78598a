//! Mailboxes, the store, tokens, schedules that are added, values, searching, over HTTP.

use serde_json::{Value as Json, json};

use super::fixture::Ground;
use super::fixture::http::Request;

const ECHO: &str = "name: echo
steps:
  done: { return: \"${{ input }}\" }
";

const FUSSY: &str = "name: fussy
steps:
  check: { raise: { type: \"${{ input.kind }}\", message: no }, when: \"${{ input.fail }}\" }
";

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_sent_looked_at_replayed_and_dropped() {
    let ground = Ground::open().await;
    let send = |body: Json| ground.post("/api/mailboxes/7/messages", body);
    let first = send(json!({ "payload": "one", "id": "m-1" })).await;
    assert_eq!(first.status, 201, "{}", first.text());
    assert_eq!(first.json()["message_id"], "m-1");
    let later = send(json!({ "payload": "later", "at": "1h" })).await.json();
    assert!(later["due"].is_string());
    let bad = send(json!({ "payload": "x", "ack": true })).await;
    assert_eq!(bad.status, 400, "{}", bad.text());
    assert_eq!(send(json!({ "payload": 7 })).await.status, 400);

    let listed = ground.get("/api/mailboxes/7/messages?limit=1").await.json();
    assert_eq!(
        (&listed["messages"][0]["payload"], &listed["next"]),
        (&json!("one"), &json!(null))
    );
    let timers = ground.get("/api/mailboxes/7/timers").await.json();
    assert_eq!(timers["timers"][0]["payload"], "later");
    let stats = ground.get("/api/mailboxes").await.json();
    assert_eq!((&stats["inbox"], &stats["timers"]), (&json!(1), &json!(1)));
    assert_eq!(ground.get("/api/mailboxes/nobody/dead").await.status, 404);

    ground.dead_letters(8, 2).await;
    let dead = ground.get("/api/mailboxes/8/dead?limit=1").await.json();
    assert_eq!(dead["dead_letters"][0]["reason"], "failed: it is broken");
    assert!(dead["next"].is_u64());
    let seq = &dead["dead_letters"][0]["seq"];
    let replay = |body: Json| ground.post("/api/mailboxes/8/replay", body);
    assert_eq!(replay(json!({ "seq": seq })).await.json()["replayed"], 1);
    assert_eq!(replay(json!({ "seq": seq })).await.status, 404);
    assert_eq!(replay(json!({})).await.status, 400);
    assert_eq!(replay(json!({ "all": true })).await.json()["replayed"], 1);

    let drop = |body: Json| ground.post("/api/mailboxes/7/drop", body);
    let seq = &listed["messages"][0]["seq"];
    let dropped = drop(json!({ "seq": seq, "what": "message" })).await.json();
    assert_eq!(dropped["dropped"], 1);
    let timer = &timers["timers"][0]["seq"];
    assert_eq!(
        drop(json!({ "seq": timer, "what": "timer" })).await.status,
        200
    );
    assert_eq!(drop(json!({ "seq": 99 })).await.status, 404);
    assert_eq!(drop(json!({ "all": true })).await.json()["dropped"], 0);
    let stats = ground.get("/api/mailboxes?exact=true").await.json();
    assert_eq!((&stats["inbox"], &stats["timers"]), (&json!(2), &json!(0)));
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_found_by_what_they_are_and_counted() {
    let ground = Ground::open().await;
    ground.deploy(ECHO).await;
    ground.deploy(FUSSY).await;
    for (plan, key) in [("pro", "a"), ("free", "b"), ("pro", "c")] {
        let body = json!({ "workflow": "echo", "input": { "user": { "plan": plan } }, "key": key });
        let run = ground.post("/api/runs", body).await.json()["run_id"].clone();
        ground.ended(run.as_str().unwrap()).await;
    }
    for kind in ["Broken", "Late"] {
        let run = ground
            .start("fussy", json!({ "fail": true, "kind": kind }))
            .await;
        assert_eq!(ground.ended(&run).await["error"]["type"], kind);
    }
    let keys = async |query: &str| {
        let page = ground.get(&format!("/api/runs?{query}")).await.json();
        let runs = page["runs"].as_array().unwrap().iter();
        runs.map(|it| it["key"].as_str().unwrap_or("-").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys("input=user.plan:pro").await, ["c", "a"]);
    assert_eq!(keys("input=user.plan:pro&status=failed").await, [""; 0]);
    assert_eq!(keys("key=b").await, ["b"]);
    assert_eq!(keys("key=b&workflow=other").await, [""; 0]);
    assert_eq!(keys("error=Late").await.len(), 1);
    assert_eq!(keys("error=Nothing").await.len(), 0);
    // A search that stops at its limit goes on from there.
    let first = ground
        .get("/api/runs?input=user.plan:pro&limit=1")
        .await
        .json();
    let next = first["next"].as_str().unwrap();
    assert_eq!(
        keys(&format!("input=user.plan:pro&after={next}")).await,
        ["a"]
    );
    assert!(first["searched"].as_u64().unwrap() <= 5);
    for (query, count) in [("", 5), ("workflow=echo", 3), ("error=Broken", 1)] {
        let counted = ground.get(&format!("/api/count/runs?{query}")).await.json();
        assert_eq!(counted, json!({ "count": count, "more": false }), "{query}");
    }
    assert_eq!(ground.get("/api/runs?input=nothing").await.status, 400);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_come_in_pieces_that_make_the_whole() {
    let ground = Ground::open().await;
    ground.deploy(ECHO).await;
    let input = json!({ "text": "häßlich ".repeat(50) });
    let run = ground.start("echo", input.clone()).await;
    ground.ended(&run).await;
    for of in ["input", "result", "output&execution=done"] {
        let (mut text, mut from) = (String::new(), 0);
        loop {
            let path = format!("/api/runs/{run}/value?of={of}&from={from}&limit=37");
            let piece = ground.get(&path).await.json();
            text.push_str(piece["text"].as_str().unwrap());
            from = piece["to"].as_u64().unwrap();
            if from == piece["total"].as_u64().unwrap() {
                break;
            }
        }
        assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), input, "{of}");
    }
    let bad = ["of=nothing", "of=output", "from=100000", "limit=1"];
    for query in bad {
        let answer = ground.get(&format!("/api/runs/{run}/value?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_added_once_replaced_and_removed() {
    let ground = Ground::open().await;
    ground.deploy(ECHO).await;
    let add = |body: Json| ground.post("/api/schedules", body);
    let nightly = json!({ "name": "nightly", "workflow": "echo", "cron": "30 6 * * *",
        "zone": "Europe/Berlin", "input": 1, "overlap": "cancel-other", "catch_up": "none", "paused": true });
    let added = add(nightly.clone()).await;
    assert_eq!(added.status, 201, "{}", added.text());
    assert_eq!(added.json()["status"], "paused");
    assert_eq!(add(nightly.clone()).await.status, 409);
    let mut again = nightly.clone();
    again["replace"] = json!(true);
    again["paused"] = json!(false);
    assert_eq!(add(again).await.json()["status"], "active");
    for (name, value) in [
        ("cron", json!("every day")),
        ("zone", json!("Moon")),
        ("workflow", json!("none")),
        ("every", json!("1h")),
        ("overlap", json!("push")),
        ("jitter", json!("x")),
        ("name", json!("")),
    ] {
        let mut wrong = nightly.clone();
        wrong["name"] = json!("wrong");
        wrong[name] = value;
        let answer = add(wrong).await;
        assert!(
            [400, 404].contains(&answer.status),
            "{name}: {}",
            answer.text()
        );
    }
    let listed = ground.get("/api/schedules").await.json();
    assert_eq!(listed["schedules"].as_array().unwrap().len(), 1);
    let gone = ground
        .send(Request::new("DELETE", "/api/schedules/nightly"))
        .await;
    assert_eq!(gone.json()["removed"], true);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_checked_backed_up_and_pruned() {
    let ground = Ground::open().await;
    ground.deploy(ECHO).await;
    let run = ground.start("echo", json!(1)).await;
    ground.ended(&run).await;
    let checked = ground.get("/api/store/check").await.json();
    assert_eq!(checked, json!({ "sound": true, "findings": [] }));
    let summary = ground.get("/api/store").await.json();
    assert!(summary["schema"].as_str().unwrap().contains("CREATE TABLE"));

    let copy = ground.get("/api/store/backup").await;
    let file = ground.folder.path().join("copy.db");
    std::fs::write(&file, &copy.body).unwrap();
    let copied = lope::Client::open(&format!("sqlite:{}", file.display()))
        .await
        .unwrap();
    assert!(copied.run(run.parse().unwrap()).await.unwrap().is_some());

    let prune = |body: Json| ground.post("/api/store/prune", body);
    let counted = prune(json!({ "older": "0s", "dry_run": true }))
        .await
        .json();
    assert_eq!(
        (&counted["runs"], &counted["dry_run"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(
        prune(json!({ "older": "0s", "status": ["failed"] }))
            .await
            .json()["runs"],
        0
    );
    assert_eq!(prune(json!({ "older": "soon" })).await.status, 400);
    assert_eq!(prune(json!({ "status": ["running"] })).await.status, 400);
    assert_eq!(prune(json!({ "older": "0s" })).await.json()["runs"], 1);
    assert_eq!(ground.get(&format!("/api/runs/{run}")).await.status, 404);

    let other = ground.start("echo", json!(2)).await;
    ground.ended(&other).await;
    let remove = |id: &str| ground.send(Request::new("DELETE", &format!("/api/runs/{id}")));
    assert_eq!(remove("short").await.status, 400);
    assert_eq!(remove(&other).await.json()["removed"], true);
    assert_eq!(remove(&other).await.status, 404);

    // One that can still end stays while its parent waits for that.
    for yaml in [
        "name: inner\nsteps: { approval: { wait: approved } }\n",
        "name: outer\nsteps: { ask: { workflow: inner } }\n",
    ] {
        ground.deploy(yaml).await;
    }
    let outer = ground.start("outer", json!(null)).await;
    let inner = loop {
        let listed = ground.get("/api/runs?workflow=inner&status=waiting").await;
        if let Some(run) = listed.json()["runs"][0]["run_id"].as_str() {
            break run.to_owned();
        }
    };
    let wanted =
        format!("run {outer} waits for run {inner}; cancel it first: lope runs cancel {inner}");
    let refused = remove(&inner).await;
    assert_eq!(refused.status, 409);
    assert_eq!(
        refused.json()["error"],
        json!({ "kind": "conflict", "message": wanted })
    );
    let cancel = format!("/api/runs/{inner}/cancel");
    assert_eq!(ground.post(&cancel, json!({})).await.status, 200);
    ground.ended(&outer).await;
    loop {
        let removed = remove(&inner).await;
        if removed.status == 200 {
            break;
        }
        // Its owner has not let go of it yet.
        assert_eq!(removed.status, 409, "{}", removed.text());
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_made_listed_and_taken_away_by_admins() {
    let ground = Ground::open().await;
    let add = |body: Json| ground.post("/api/tokens", body);
    let made = add(json!({ "name": "ci", "right": "read" })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let text = made.json()["token"].as_str().unwrap().to_owned();
    assert_eq!(add(json!({ "name": "ci" })).await.status, 409);
    assert_eq!(
        add(json!({ "name": "", "right": "read" })).await.status,
        400
    );
    assert_eq!(
        add(json!({ "name": "x", "right": "all" })).await.status,
        400
    );
    let listed = ground.get("/api/tokens").await;
    assert_eq!(listed.json()["tokens"][0]["name"], "ci");
    assert!(!listed.text().contains(&text));
    let as_reader = |request: Request| ground.send(request.token(&text));
    assert_eq!(as_reader(Request::get("/api/runs")).await.status, 200);
    for request in [
        Request::get("/api/tokens"),
        Request::post("/api/tokens").json(&json!({ "name": "mine", "right": "admin" })),
        Request::new("DELETE", "/api/tokens/ci"),
        Request::post("/api/store/prune").json(&json!({ "older": "0s" })),
    ] {
        assert_eq!(as_reader(request).await.status, 403);
    }
    let gone = ground.send(Request::new("DELETE", "/api/tokens/ci")).await;
    assert_eq!(gone.status, 200);
    assert_eq!(as_reader(Request::get("/api/runs")).await.status, 401);
    ground.close().await;
}
