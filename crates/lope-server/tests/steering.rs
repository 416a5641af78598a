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
