//! Workflows, schedules, queues, runners and mailboxes as their pages tell them: when in words, a run at
//! once, how much waits, how much may work at once, and who serves what.

use lope::PreparedRun;
use lope::config::Config;
use lope::runs::RunStartOptions;
use lope::workers::Logs;
use lope_model::{QueueName, Value};
use lope_server::{Listening, ServerParts};
use serde_json::json;

use super::fixture::http::{self, Request};
use super::fixture::{Ground, settings};

const APPROVE: &str = "name: approve\nsteps: { approval: { wait: approved } }\n";

async fn has(ground: &Ground, path: &str, wanted: &[&str]) {
    let answer = ground.get(path).await;
    let text = answer.text();
    assert_eq!(answer.status, 200, "{path}: {text}");
    for wanted in wanted {
        assert!(text.contains(wanted), "{path}: no {wanted} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_queues_runners_and_mailboxes_tell_what_they_do() {
    let ground = Ground::open().await;
    ground.deploy(APPROVE).await;
    has(
        &ground,
        "/workflows/approve",
        &[
            "class=\"lope-graph\"",
            "wait</tspan> approved",
            "It has not run yet.",
        ],
    )
    .await;
    let weekdays = json!({ "name": "weekdays", "workflow": "approve", "cron": "30 6 * * MON-FRI" });
    assert_eq!(ground.post("/api/schedules", weekdays).await.status, 201);
    has(
        &ground,
        "/schedules",
        &[
            "on Monday to Friday at 06:30 UTC",
            "title=\"lope schedules run weekdays\">Run now<",
            "1 active, 0 paused.",
        ],
    )
    .await;
    let now = Request::post("/schedules/weekdays/run").header("sec-fetch-site", "same-origin");
    let started = ground.send(now).await;
    assert_eq!(started.status, 303, "{}", started.text());
    let run = started.header("location").unwrap();
    ground
        .until(run.trim_start_matches("/runs/"), "waiting")
        .await;
    has(&ground, run, &["approve"]).await;
    let how = ["Its last run is waiting, begun <time"];
    has(&ground, "/workflows/approve", &how).await;

    // Nobody serves this queue: its run waits, and the page says since when and for what.
    let body = json!({ "workflow": "approve", "queue": "mail" });
    let queued = ground.post("/api/runs", body).await.json();
    let queued = queued["run_id"].as_str().unwrap();
    let found = ground.get("/api/runs?queue=mail").await.json();
    assert_eq!(found["runs"][0]["run_id"], queued);
    let mut config = Config::default();
    let mail = QueueName::parse("mail").unwrap();
    let limit = config.engine.queue_limits.entry(mail).or_default();
    limit.concurrency = Some(2);
    let limited = Listening::bind(settings("127.0.0.1:0")).await.unwrap();
    let limited = limited.serve(ServerParts {
        client: ground.client.clone(),
        runner: None,
        logs: Logs::at(ground.folder.path().join("logs")),
        config,
        env: Value::Null,
        commands: None,
    });
    for (path, wanted) in [
        (
            "/queues",
            [
                "1 due and waiting for a runner",
                "href=\"/queues/mail\"",
                "2 at once",
            ],
        ),
        (
            "/queues/mail",
            ["1 due and waiting for a runner", "data-ago>", "2 at once"],
        ),
    ] {
        let page = http::send(limited.address(), &Request::get(path)).await;
        for wanted in wanted {
            assert!(
                page.text().contains(wanted),
                "{path}: no {wanted} in {}",
                page.text()
            );
        }
    }
    let page = http::send(limited.address(), &Request::get("/queues/mail")).await;
    assert!(page.text().contains(&format!("href=\"/runs/{queued}\"")));
    limited.stop().await;

    has(
        &ground,
        "/runners",
        &[
            "1 runner is up.",
            "queue default",
            "data-th=\"owns\"",
            "data-th=\"heartbeat\"",
        ],
    )
    .await;
    ground.dead_letters(8, 2).await;
    let later = json!({ "payload": "tea", "at": "2h" });
    assert_eq!(
        ground.post("/api/mailboxes/7/messages", later).await.status,
        201
    );
    has(
        &ground,
        "/mailboxes",
        &[
            "0 messages wait, 1 timers are armed, 2 dead letters.",
            "href=\"/mailboxes/8\"",
        ],
    )
    .await;
    ground.close().await;
}

/// More wait than a page reads: how many more there are is what was counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_queue_tells_how_many_more_wait() {
    let ground = Ground::open().await;
    ground.deploy(APPROVE).await;
    let none = ["No run waits for a runner, and none is in the hands of one."];
    has(&ground, "/queues", &none).await;
    let client = &ground.client;
    let plan = client.latest_plan("approve").await.unwrap().unwrap();
    for _ in 0..510 {
        let options = RunStartOptions {
            queue: QueueName::parse("long").unwrap(),
            input: Some(Value::Null),
            ..RunStartOptions::default()
        };
        let run = PreparedRun::new(&plan, options, client.queue_limits()).unwrap();
        client.start(run).await.unwrap();
    }
    let all = ["510 due and waiting for a runner, 0 in the hands of one."];
    has(&ground, "/queues", &all).await;
    has(&ground, "/queues/long", &[all[0], "and 460 more"]).await;
    ground.close().await;
}
