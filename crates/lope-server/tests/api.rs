//! The verbs of the command line, over HTTP.

use serde_json::json;

use super::fixture::Ground;
use super::fixture::http::Request;

const SUM: &str = "name: sum
input: { type: object, properties: { a: { type: integer } }, required: [a] }
steps:
  double: { let: \"${{ input.a * 2 }}\" }
  say: { run: \"echo one; echo two >&2\", needs: [double] }
  done: { return: \"${{ double }}\", needs: [say] }
";

const APPROVE: &str = "name: approve
steps:
  approval: { wait: approved }
  done: { return: \"${{ approval }}\" }
";

const FAILING: &str = "name: failing
steps:
  broken: { raise: { type: Broken, message: it broke } }
";

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_deployed_started_and_read() {
    let ground = Ground::open().await;
    ground.deploy(SUM).await;
    let listed = ground.get("/api/workflows").await.json();
    assert_eq!(listed["workflows"][0]["workflow"], "sum");
    let shown = ground.get("/api/workflows/sum").await.json();
    assert_eq!(shown["definition"]["name"], "sum");
    let drawn = ground.get("/api/workflows/sum/graph?format=text").await;
    assert!(drawn.text().contains("double"), "{}", drawn.text());

    let run = ground.start("sum", json!({ "a": 21 })).await;
    let ended = ground.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["result"]),
        (&json!("completed"), &json!(42))
    );

    let shown = ground.get(&format!("/api/runs/{run}")).await.json();
    let steps: Vec<&str> = shown["executions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["step"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["double", "say", "done"]);
    assert_eq!(
        (&shown["steps"], &shown["executions_next"]),
        (&json!(3), &json!(null))
    );
    let page = ground
        .get(&format!("/api/runs/{run}/executions?limit=1&after=1"))
        .await
        .json();
    assert_eq!(page["executions"][0]["step"], "say");
    assert_eq!(page["next"], 2);

    let journal = ground.get(&format!("/api/runs/{run}/journal")).await.json();
    let rows = journal["rows"].as_array().unwrap();
    assert_eq!(rows[0]["event"], "start");
    let first = ground
        .get(&format!("/api/runs/{run}/journal?limit=1"))
        .await
        .json();
    assert_eq!((&first["rows"][0], &first["next"]), (&rows[0], &json!(1)));
    let rest = ground
        .get(&format!("/api/runs/{run}/journal?after=1"))
        .await
        .json();
    assert_eq!(rest["rows"].as_array().unwrap().len(), rows.len() - 1);

    let why = ground.get(&format!("/api/runs/{run}/why")).await.json();
    assert_eq!(why["reasons"][0]["why"], "ended");
    let results = ground.get(&format!("/api/runs/{run}/results")).await.json();
    assert_eq!(results["results"][0]["result"], 42);
    let logs = ground.get(&format!("/api/runs/{run}/logs")).await.json();
    let text = logs["logs"][0]["text"].as_str().unwrap();
    assert!(text.contains("one") && text.contains("two"), "{text}");
    let graph = ground.get(&format!("/api/runs/{run}/graph")).await;
    assert_eq!(graph.header("content-type"), Some("image/svg+xml"));
    assert!(graph.text().contains("done"));
    let export = ground.get(&format!("/api/runs/{run}/export")).await.json();
    assert_eq!(export["run"]["run_id"], run);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_called_like_a_path_is_found_by_its_name() {
    let ground = Ground::open().await;
    ground.deploy(APPROVE).await;
    for name in ["events", "count", "a/b c", "50%"] {
        let encoded = name.replace('%', "%25").replace('/', "%2F");
        let encoded = encoded.replace(' ', "%20");
        let add = json!({ "name": name, "workflow": "approve", "cron": "30 6 * * *" });
        assert_eq!(ground.post("/api/schedules", add).await.status, 201);
        let path = format!("/api/schedules/{encoded}");
        assert_eq!(ground.get(&path).await.json()["name"], name);
        let paused = ground.post(&format!("{path}/pause"), json!({})).await;
        assert_eq!(paused.json()["status"], "paused");
        let gone = ground.send(Request::new("DELETE", &path)).await;
        assert_eq!(gone.status, 200, "{}", gone.text());
        let started = json!({ "workflow": "approve", "key": name });
        assert_eq!(ground.post("/api/runs", started).await.status, 201);
        let run = ground.get(&format!("/api/runs/{encoded}")).await.json();
        assert_eq!(run["key"], name);
    }
    for name in [".", ".."] {
        let add = json!({ "name": name, "workflow": "approve", "cron": "30 6 * * *" });
        let refused = ground.post("/api/schedules", add).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_starts_one_run() {
    let ground = Ground::open().await;
    ground.deploy(APPROVE).await;
    let body = json!({ "workflow": "approve", "key": "order-1" });
    let first = ground.post("/api/runs", body.clone()).await;
    let second = ground.post("/api/runs", body).await;
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(first.json()["run_id"], second.json()["run_id"]);
    assert_eq!(second.json()["existed"], true);
    let named = ground.get("/api/runs/order-1").await.json();
    assert_eq!(named["run_id"], first.json()["run_id"]);
    ground.deploy(FAILING).await;
    let other = json!({ "workflow": "failing", "key": "order-1" });
    let refused = ground.post("/api/runs", other).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(
        refused.text().contains("of the workflow 'approve'"),
        "{}",
        refused.text()
    );
    let body = json!({ "workflow": "approve" });
    let by_header = || {
        Request::post("/api/runs")
            .json(&body)
            .header("idempotency-key", "h")
    };
    let first = ground.send(by_header()).await;
    let second = ground.send(by_header()).await;
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(first.json()["run_id"], second.json()["run_id"]);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_runs_have_no_gap_and_no_double() {
    let ground = Ground::open().await;
    ground.deploy(APPROVE).await;
    ground.deploy(FAILING).await;
    let mut started = Vec::new();
    for number in 0..7 {
        let body = json!({ "workflow": "approve", "tags": { "odd": (number % 2).to_string() } });
        let answer = ground.post("/api/runs", body).await.json();
        started.push(answer["run_id"].as_str().unwrap().to_owned());
    }
    let failed = ground.start("failing", json!(null)).await;
    ground.ended(&failed).await;
    let mut seen = Vec::new();
    let mut path = "/api/runs?workflow=approve&limit=3".to_owned();
    loop {
        let page = ground.get(&path).await.json();
        let ids = page["runs"].as_array().unwrap().iter();
        seen.extend(ids.map(|it| it["run_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/api/runs?workflow=approve&limit=3&after={next}");
    }
    started.reverse();
    assert_eq!(seen, started);
    let ids = |path: &'static str| {
        let ground = &ground;
        async move {
            ground.get(path).await.json()["runs"]
                .as_array()
                .unwrap()
                .len()
        }
    };
    assert_eq!(ids("/api/runs?tag=odd=1").await, 3);
    assert_eq!(ids("/api/runs?status=failed").await, 1);
    assert_eq!(
        ids("/api/runs?status=failed&status=waiting&status=queued&status=running").await,
        8
    );
    assert_eq!(ids("/api/runs?since=1h").await, 8);
    assert_eq!(ids("/api/runs?until=1h").await, 0);
    assert_eq!(ids("/api/runs?queue=other").await, 0);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_steered() {
    let ground = Ground::open().await;
    ground.deploy(APPROVE).await;
    ground.deploy(FAILING).await;
    let run = ground.start("approve", json!(null)).await;
    ground.until(&run, "waiting").await;
    let why = ground.get(&format!("/api/runs/{run}/why")).await.json();
    let message = why["reasons"][0]["message"].as_str().unwrap();
    assert!(message.contains("approved"), "{message}");
    let to = |verb: &str| format!("/api/runs/{run}/{verb}");
    assert_eq!(
        ground
            .post(&to("pause"), json!({ "reason": "lunch" }))
            .await
            .status,
        200
    );
    ground.until(&run, "paused").await;
    assert_eq!(ground.post(&to("resume"), json!({})).await.status, 200);
    ground.until(&run, "waiting").await;
    assert_eq!(
        ground.post(&to("feed"), json!({ "input": 1 })).await.status,
        409
    );
    let signal = json!({ "name": "approved", "value": { "by": "me" } });
    assert_eq!(
        ground.post(&to("signal"), signal.clone()).await.json()["sent"],
        "signal"
    );
    assert_eq!(ground.ended(&run).await["result"], json!({ "by": "me" }));
    assert_eq!(ground.post(&to("signal"), signal).await.status, 409);
    assert_eq!(ground.post(&to("retry"), json!({})).await.status, 409);

    let forked = ground
        .post(&to("fork"), json!({ "at": 1, "key": "copy" }))
        .await;
    assert_eq!(forked.status, 201, "{}", forked.text());
    assert_eq!(
        ground
            .post(&to("fork"), json!({ "at": 1, "key": "copy" }))
            .await
            .status,
        409
    );
    assert_eq!(
        ground.post(&to("fork"), json!({ "at": 99 })).await.status,
        400
    );
    let copy = forked.json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(
        ground
            .post(&format!("/api/runs/{copy}/cancel"), json!({}))
            .await
            .status,
        200
    );
    assert_eq!(ground.ended(&copy).await["status"], "cancelled");

    let failed = ground.start("failing", json!(null)).await;
    let ended = ground.ended(&failed).await;
    assert_eq!(ended["error"]["type"], "Broken");
    let retried = ground
        .post(&format!("/api/runs/{failed}/retry"), json!({}))
        .await;
    assert_eq!(retried.status, 200, "{}", retried.text());

    let body = json!({ "workflow": "approve", "open": true });
    let open = ground.post("/api/runs", body).await.json();
    let open = open["run_id"].as_str().unwrap();
    let fed = ground
        .post(&format!("/api/runs/{open}/feed"), json!({ "input": 1 }))
        .await;
    assert_eq!(fed.status, 200, "{}", fed.text());
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_a_kind_a_message_and_a_status() {
    let ground = Ground::open().await;
    ground.deploy(SUM).await;
    let cases = [
        (
            Request::get("/api/runs?stauts=failed"),
            400,
            "bad_request",
            "stauts",
        ),
        (
            Request::get("/api/runs?status=lost"),
            400,
            "bad_request",
            "lost",
        ),
        (
            Request::get("/api/runs?limit=0"),
            400,
            "bad_request",
            "limit",
        ),
        (
            Request::get("/api/runs?limit=x"),
            400,
            "bad_request",
            "limit",
        ),
        (
            Request::get("/api/runs?limit=1&limit=2"),
            400,
            "bad_request",
            "twice",
        ),
        (
            Request::get("/api/runs?after=x"),
            400,
            "bad_request",
            "after",
        ),
        (
            Request::get("/api/runs?since=tomorrow"),
            400,
            "bad_request",
            "since",
        ),
        (
            Request::get("/api/runs?tag=x"),
            400,
            "bad_request",
            "NAME=VALUE",
        ),
        (Request::get("/api/runs/nobody"), 404, "not_found", "nobody"),
        (
            Request::get("/api/nothing"),
            404,
            "not_found",
            "/api/nothing",
        ),
        (
            Request::get("/api/workflows/none"),
            404,
            "not_found",
            "none",
        ),
        (
            Request::new("DELETE", "/api/runs"),
            405,
            "method_not_allowed",
            "DELETE",
        ),
        (
            Request::post("/api/runs").body("application/json", "{"),
            400,
            "bad_request",
            "line 1",
        ),
        (
            Request::post("/api/runs").json(&json!({})),
            400,
            "bad_request",
            "workflow",
        ),
        (
            Request::post("/api/runs").json(&json!({ "workflow": "sum", "inptu": 1 })),
            400,
            "bad_request",
            "inptu",
        ),
        (
            Request::post("/api/runs").json(&json!({ "workflow": "none" })),
            404,
            "not_found",
            "none",
        ),
        (
            Request::post("/api/runs").json(&json!({ "workflow": "sum" })),
            400,
            "bad_request",
            "does not fit",
        ),
        (
            Request::post("/api/runs").body("text/plain", "{}"),
            415,
            "unsupported_media_type",
            "text/plain",
        ),
        (
            Request::post("/api/runs")
                .json(&json!({ "workflow": "sum", "input": { "a": 1 }, "priority": 10 })),
            400,
            "bad_request",
            "priority",
        ),
        (
            Request::post("/api/workflows")
                .body("application/yaml", "name: x\nsteps: { a: { lett: 1 } }"),
            400,
            "bad_request",
            "lett",
        ),
        (
            Request::post("/api/workflows").body("application/json", "{}"),
            415,
            "unsupported_media_type",
            "json",
        ),
    ];
    for (request, status, kind, word) in cases {
        let answer = ground.send(request.clone()).await;
        assert_eq!(answer.status, status, "{request:?}: {}", answer.text());
        let error = &answer.json()["error"];
        assert_eq!(error["kind"], kind, "{request:?}");
        assert!(error.to_string().contains(word), "{request:?}: {error}");
    }
    // Nothing of it was stored.
    assert_eq!(ground.get("/api/runs").await.json()["runs"], json!([]));
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_readiness_tell_the_truth() {
    let ground = Ground::open().await;
    assert_eq!(ground.get("/healthz").await.text(), "ok\n");
    let ready = ground.get("/readyz").await;
    let told = json!({ "ready": true, "store": "ok", "runner": "ok" });
    assert_eq!((ready.status, ready.json()), (200, told));
    // The runner has ended, and the store is there.
    let grace = std::time::Duration::from_secs(20);
    ground.runner.give_back(grace).await.unwrap();
    let ready = ground.get("/readyz").await;
    let ended = "runner 'default' is shut down";
    let told = json!({ "ready": false, "store": "ok", "runner": ended });
    assert_eq!((ready.status, ready.json()), (503, told));
    assert_eq!(ground.get("/api/runs").await.status, 200);
    // Both are gone.
    ground.client.close().await.unwrap();
    let ready = ground.get("/readyz").await;
    let told = json!({ "ready": false, "store": "the store is closed", "runner": ended });
    assert_eq!((ready.status, ready.json()), (503, told));
    assert_eq!(ground.get("/healthz").await.status, 200);
    assert_eq!(ground.get("/api/runs").await.status, 503);
    ground.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_runners_queues_and_metrics_are_told() {
    use lope::schedules::{Schedule, Timing};
    let ground = Ground::open().await;
    ground.deploy(APPROVE).await;
    let now = ground.client.now().await.unwrap();
    let schedule = Schedule {
        name: "nightly".to_owned(),
        workflow: "approve".to_owned(),
        input: lope_model::Value::Null,
        timing: Timing::cron("30 6 * * *", "UTC").unwrap(),
        jitter: lope_model::Span::ZERO,
        from: None,
        until: None,
        overlap: lope::schedules::Overlap::Skip,
        catch_up: lope::schedules::CatchUp::Last,
        queue: lope_model::QueueName::default(),
        priority: lope_model::Priority::default(),
        tags: std::collections::BTreeMap::new(),
        env: lope_model::Value::Null,
        paused: false,
        added_at: now,
    };
    assert!(
        ground
            .client
            .add_schedule(schedule)
            .await
            .unwrap()
            .is_some()
    );
    let all = ground.get("/api/schedules").await.json();
    assert_eq!(all["schedules"][0]["name"], "nightly");
    let paused = ground
        .post("/api/schedules/nightly/pause", json!({}))
        .await
        .json();
    assert_eq!(paused["status"], "paused");
    let resumed = ground
        .post("/api/schedules/nightly/resume", json!({}))
        .await
        .json();
    assert_eq!(resumed["status"], "active");
    let fired = ground
        .post("/api/schedules/nightly/run", json!({}))
        .await
        .json();
    let run = fired["run_id"].as_str().unwrap().to_owned();
    ground.until(&run, "waiting").await;
    let queues = ground.get("/api/queues").await.json();
    assert_eq!(queues["queues"][0]["queue"], "default");
    assert_eq!(
        ground.get("/api/runners").await.json()["runners"][0]["live"],
        true
    );
    let metrics = ground.get("/metrics").await.text();
    assert!(
        metrics.contains("lope_store_calls") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    let removed = ground
        .send(Request::new("DELETE", "/api/schedules/nightly"))
        .await;
    assert_eq!(removed.status, 200, "{}", removed.text());
    let again = ground
        .send(Request::new("DELETE", "/api/schedules/nightly"))
        .await;
    assert_eq!(again.status, 404);
    ground.close().await;
}

/// A result of megabytes is in no list, no record and no event; whoever waits for it has it whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_is_where_it_is_asked_for() {
    let ground = Ground::open().await;
    let yaml = "name: large\nsteps:\n  say: { run: \"head -c 900000 /dev/zero | tr '\\\\0' x\" }\n  \
                all: { return: \"${{ say + say }}\", needs: [say] }\n";
    ground.deploy(yaml).await;
    let body = json!({ "workflow": "large", "key": "the-large-one" });
    let run = ground.post("/api/runs", body).await.json();
    let run = run["run_id"].as_str().unwrap().to_owned();
    let ended = ground.ended(&run).await;
    assert_eq!(ended["status"], "completed", "{}", ended["error"]);
    assert_eq!(ended["result"].as_str().unwrap().len(), 1_800_000);
    for path in [
        "/api/runs?key=the-large-one".to_owned(),
        format!("/api/runs/{run}"),
        format!("/api/runs/{run}/events"),
    ] {
        let answer = ground.get(&path).await;
        assert!(answer.text().len() < 1_000_000, "{path}");
    }
    let shown = ground.get(&format!("/api/runs/{run}")).await.json();
    assert_eq!(shown["result_bytes"], 1_800_002);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_downloaded_from_beginning_to_end() {
    let ground = Ground::open().await;
    let yaml = "name: talks\nsteps:\n  much: { run: \"seq 1 60000\" }\n  little: { run: \"echo done\", needs: [much] }\n";
    ground.deploy(yaml).await;
    let run = ground.start("talks", json!(null)).await;
    ground.ended(&run).await;
    let all = ground.get(&format!("/api/runs/{run}/logs/text")).await;
    assert!(
        all.header("content-disposition")
            .unwrap()
            .starts_with("attachment")
    );
    let all = all.text();
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines.len(), 60_003, "{:?}", lines.first());
    let ends = [(1, " out 1"), (60_000, " out 60000"), (60_002, " out done")];
    for (line, end) in ends {
        assert!(lines[line].ends_with(end), "{}", lines[line]);
    }
    let one = format!("/api/runs/{run}/logs/text?execution=little&attempt=1");
    let one = ground.get(&one).await.text();
    assert!(
        one.starts_with("== little attempt 1 ==\n") && one.ends_with(" out done\n"),
        "{one}"
    );
    ground.close().await;
}
