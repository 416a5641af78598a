//! Bulk actions: one thing asked of many runs, with a result for each, through restarts.

use std::collections::BTreeMap;

use lope::Client;
use lope::config::Config;
use lope::workers::Logs;
use lope_model::Value;
use lope_server::{Listening, Server, ServerParts};
use serde_json::{Value as Json, json};

use super::fixture::http::{self, Request};
use super::fixture::{Ground, settings};

/// It fails until its flag is there.
const FLAGGED: &str = "name: flagged
steps:
  look: { run: \"test -e $FLAG\", env: { FLAG: \"${{ input.flag }}\" } }
";

const WAITS: &str = "name: waits
steps:
  hold: { wait: go }
";

async fn over(ground: &Ground, id: &str) -> Json {
    loop {
        let action = ground.get(&format!("/api/bulk/{id}")).await.json();
        if !action["finished_at"].is_null() {
            return action;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn outcomes(ground: &Ground, id: &str) -> BTreeMap<String, String> {
    let (mut all, mut path) = (BTreeMap::new(), format!("/api/bulk/{id}/runs?limit=70"));
    loop {
        let page = ground.get(&path).await.json();
        for item in page["runs"].as_array().unwrap() {
            let run = item["run_id"].as_str().unwrap().to_owned();
            let twice = all.insert(run, item["status"].as_str().unwrap().to_owned());
            assert!(twice.is_none(), "a run has two results: {item}");
        }
        let Some(next) = page["next"].as_u64() else {
            return all;
        };
        path = format!("/api/bulk/{id}/runs?limit=70&after={next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_runs_are_retried_together_and_each_has_its_result() {
    let ground = Ground::open().await;
    ground.deploy(FLAGGED).await;
    ground.deploy(WAITS).await;
    let flag = ground.folder.path().join("flag");
    let input = json!({ "flag": flag });
    let mut runs = Vec::new();
    for _ in 0..3 {
        let run = ground.start("flagged", input.clone()).await;
        assert_eq!(ground.ended(&run).await["status"], "failed");
        runs.push(run);
    }
    let waiting = ground.start("waits", json!(null)).await;
    ground.until(&waiting, "waiting").await;
    std::fs::write(&flag, "").unwrap();
    let ask = |body: Json| ground.post("/api/bulk", body);
    let counted =
        ask(json!({ "action": "retry", "filter": { "workflow": "flagged" }, "dry_run": true }))
            .await;
    assert_eq!(
        (&counted.json()["found"], &counted.json()["status"]),
        (&json!(3), &json!("counted"))
    );
    let asked =
        ask(json!({ "action": "retry", "filter": { "workflow": "flagged", "since": "1h" } })).await;
    assert_eq!(asked.status, 201, "{}", asked.text());
    let id = asked.json()["id"].as_str().unwrap().to_owned();
    let action = over(&ground, &id).await;
    assert_eq!(
        (&action["done"], &action["found"], &action["status"]),
        (&json!(3), &json!(3), &json!("done"))
    );
    for run in &runs {
        assert_eq!(ground.ended(run).await["status"], "completed");
    }
    let results = outcomes(&ground, &id).await;
    assert!(runs.iter().all(|run| results[run] == "done"), "{results:?}");

    // What is in no state to be asked is skipped, and says why.
    let again =
        ask(json!({ "action": "cancel", "filter": { "status": ["completed", "waiting"] } })).await;
    let id = again.json()["id"].as_str().unwrap().to_owned();
    let action = over(&ground, &id).await;
    assert_eq!(
        (&action["done"], &action["skipped"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(ground.ended(&waiting).await["status"], "cancelled");
    assert_eq!(
        ground
            .post(&format!("/api/bulk/{id}/stop"), json!({}))
            .await
            .status,
        409
    );
    assert_eq!(ground.get("/api/bulk/none").await.status, 404);
    let listed = ground.get("/api/bulk").await.json();
    assert_eq!(listed["bulk_actions"].as_array().unwrap().len(), 2);
    for bad in [
        json!({ "action": "retry", "filter": {} }),
        json!({ "action": "remove", "filter": { "status": "failed" } }),
        json!({ "action": "retry", "filter": { "status": "broken" } }),
        json!({ "action": "retry", "filter": { "colour": "red" } }),
        json!({ "action": "retry", "filter": { "status": 7 } }),
    ] {
        assert_eq!(ask(bad.clone()).await.status, 400, "{bad}");
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_on_five_hundred_runs_goes_on_after_its_server_ends() {
    let ground = Ground::open().await;
    ground.deploy(WAITS).await;
    for _ in 0..500 {
        ground.start("waits", json!(null)).await;
    }
    // The fixture's server takes part too: it is stopped first, so that others must finish.
    let Ground {
        server,
        runner,
        client,
        folder,
    } = ground;
    server.stop().await;
    let url = format!("sqlite:{}", folder.path().join("lope.db").display());
    let other = Client::open(&url).await.unwrap();
    let ground = Ground {
        server: serve_at(&client, folder.path()).await,
        runner,
        client,
        folder,
    };
    let asked = ground
        .post(
            "/api/bulk",
            json!({ "action": "cancel", "filter": { "workflow": "waits" } }),
        )
        .await;
    let id = asked.json()["id"].as_str().unwrap().to_owned();
    // It ends wherever it is just now, and another one, with another connection, goes on.
    let Ground {
        server,
        runner,
        client,
        folder,
    } = ground;
    server.stop().await;
    let ground = Ground {
        server: serve_at(&other, folder.path()).await,
        runner,
        client,
        folder,
    };
    let action = over(&ground, &id).await;
    assert_eq!(
        (&action["found"], &action["failed"]),
        (&json!(500), &json!(0))
    );
    let results = outcomes(&ground, &id).await;
    assert_eq!(results.len(), 500);
    for run in results.keys() {
        assert_eq!(ground.ended(run).await["status"], "cancelled");
    }
    let ended = http::send(
        ground.server.address(),
        &Request::get("/api/count/runs?status=cancelled"),
    )
    .await;
    assert_eq!(ended.json()["count"], 500);
    ground.close().await;
}

/// A server without a runner, on a store that others also use.
async fn serve_at(client: &Client, folder: &std::path::Path) -> Server {
    let parts = ServerParts {
        client: client.clone(),
        runner: None,
        logs: Logs::at(folder.join("logs")),
        config: Config::default(),
        env: Value::Null,
        commands: None,
    };
    Listening::bind(settings("127.0.0.1:0"))
        .await
        .unwrap()
        .serve(parts)
}

/// Counting asks for the same as doing: what is refused there is refused here.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_says_nothing_is_refused_also_where_it_is_only_counted() {
    let ground = Ground::open().await;
    ground.deploy(WAITS).await;
    ground.start("waits", json!(null)).await;
    let good = json!({ "workflow": "waits" });
    for dry_run in [true, false] {
        for filter in [
            json!({}),
            json!({ "statuss": "failed" }),
            json!({ "workflow": "", "status": ["waiting"] }),
        ] {
            let body = json!({ "action": "pause", "filter": filter, "dry_run": dry_run });
            let answer = ground.post("/api/bulk", body).await;
            assert_eq!(answer.status, 400, "{filter}: {}", answer.text());
        }
    }
    let body = json!({ "action": "pause", "filter": good, "dry_run": true });
    let counted = ground.post("/api/bulk", body).await.json();
    assert_eq!(counted["found"], 1);
    ground.close().await;
}
