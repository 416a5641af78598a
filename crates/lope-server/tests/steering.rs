//! What is asked of runs: a signal that is sent again is taken once, and many runs are paused and
//! resumed together.

use serde_json::{Value as Json, json};

use super::fixture::Ground;
use super::fixture::http::Request;

const TWICE: &str = "name: twice
steps:
  first: { wait: go }
  second: { wait: go, needs: [first] }
  done: { return: \"${{ [first, second] }}\", needs: [second] }
";

/// The bulk action when it is over.
async fn over(ground: &Ground, body: Json) -> Json {
    let asked = ground.post("/api/bulk", body).await;
    assert_eq!(asked.status, 201, "{}", asked.text());
    let path = format!("/api/bulk/{}", asked.json()["id"].as_str().unwrap());
    loop {
        let action = ground.get(&path).await.json();
        if !action["finished_at"].is_null() {
            return action;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_counts_once_under_its_key_and_many_runs_are_paused_and_resumed() {
    let ground = Ground::open().await;
    ground.deploy(TWICE).await;
    let run = ground.start("twice", json!(null)).await;
    ground.until(&run, "waiting").await;
    let signal = |value: u32, key: &str| {
        let body = json!({ "name": "go", "value": value });
        let request = Request::post(&format!("/api/runs/{run}/signal")).json(&body);
        ground.send(request.header("idempotency-key", key))
    };
    assert_eq!(signal(1, "one").await.status, 200);
    // The next step waits for the same signal: one that is taken twice would end it.
    let path = format!("/api/runs/{run}");
    while !ground
        .get(&path)
        .await
        .text()
        .contains("\"step\":\"second\"")
    {}
    assert_eq!(signal(1, "one").await.status, 200);
    assert_eq!(signal(2, "two").await.status, 200);
    assert_eq!(ground.ended(&run).await["result"], json!([1, 2]));

    let mut runs = Vec::new();
    for _ in 0..3 {
        let run = ground.start("twice", json!(null)).await;
        ground.until(&run, "waiting").await;
        runs.push(run);
    }
    for (action, filter, status) in [
        (
            "pause",
            json!({ "workflow": "twice", "status": "waiting" }),
            "paused",
        ),
        ("resume", json!({ "status": "paused" }), "waiting"),
    ] {
        let action = over(&ground, json!({ "action": action, "filter": filter })).await;
        assert_eq!(
            (&action["found"], &action["done"], &action["status"]),
            (&json!(3), &json!(3), &json!("done")),
            "{action}"
        );
        for run in &runs {
            ground.until(run, status).await;
        }
        let id = action["id"].as_str().unwrap();
        let page = ground.get(&format!("/bulk/{id}")).await.text();
        let wanted = "3 of 3 asked: 3 done, 0 skipped, 0 failed.";
        assert!(page.contains(wanted), "{page}");
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_meant_is_refused_and_does_nothing() {
    let ground = Ground::open().await;
    ground.deploy(TWICE).await;
    let run = ground.start("twice", json!(null)).await;
    let head = ground.until(&run, "waiting").await["head"].clone();
    let beyond = format!("at: the run has rows 1 to {head}, not 9999");
    let said = |text: &str| text.replace("RUN", &run);
    let post = |path: &str| Request::post(&said(path));
    let list = json!(["twice", null, null, null, null, null, {}, false]);
    let keyed = json!({ "workflow": "twice", "key": "other" });
    for (request, message) in [
        (
            post("/api/runs").json(&list),
            "body: an object is needed, not a list",
        ),
        (
            post("/api/runs")
                .json(&keyed)
                .header("idempotency-key", "abc"),
            "key: 'other', and the header 'Idempotency-Key' says 'abc'",
        ),
        (
            post("/api/runs/RUN/retry").json(&json!({ "bogus": 1 })),
            "body: this path takes none",
        ),
        (
            post("/api/runs/RUN/resume").body("text/plain", "zzz"),
            "body: this path takes none",
        ),
        (
            Request::get("/api/runs?limit=-1"),
            "limit: '-1' is no number that fits",
        ),
        (
            Request::get(&said("/api/runs/RUN/journal?after=-1")),
            "after: '-1' is no number that fits",
        ),
        (Request::get(&said("/api/runs/RUN/graph?at=9999")), &beyond),
    ] {
        let answer = ground.send(request).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(answer.json()["error"]["message"], message);
    }
    let count = ground.get("/api/count/runs").await.json();
    assert_eq!(count, json!({ "count": 1, "more": false }));
    // The same key twice is one key, and an object with nothing in it is nothing.
    let same = post("/api/runs").json(&keyed);
    let same = ground.send(same.header("idempotency-key", "other")).await;
    assert_eq!(same.status, 201, "{}", same.text());
    let resumed = post("/api/runs/RUN/resume").json(&json!({}));
    assert_eq!(ground.send(resumed).await.status, 200);
    let dry = post("/api/workflows?dry_run=true").body("application/yaml", TWICE);
    assert_eq!(ground.send(dry).await.status, 200);
    ground.close().await;
}
