//! The forms of the pages are no way around a right: not without a token, not with one that only reads,
//! not from the page of another site. Every page forbids what it does not need.

use lope::tokens::Right;
use lope_server::openapi_document;
use serde_json::json;

use super::fixture::http::Request;
use super::fixture::{Ground, settings};

const WAITS: &str = "name: waits\nsteps: { a: { wait: never } }\n";

/// Every form that a page sends, and what it sends. `RUN` is a run that waits.
const FORMS: [(&str, &str); 22] = [
    ("/runs/RUN/cancel", ""),
    ("/runs/RUN/pause", ""),
    ("/runs/RUN/resume", ""),
    ("/runs/RUN/retry", ""),
    ("/runs/RUN/again", "input=1"),
    ("/runs/RUN/from", "execution=a"),
    ("/runs/RUN/signal", "name=never&value=1"),
    ("/runs/RUN/feed", "input=1"),
    ("/bulk", "operation=cancel&q.workflow=waits"),
    ("/bulk/none/stop", ""),
    ("/workflows/waits/start", "input=1"),
    ("/schedules/nightly/pause", ""),
    ("/schedules/nightly/resume", ""),
    ("/schedules/nightly/run", ""),
    ("/mailboxes/7/replay", ""),
    ("/spaces/home/send", "stream=counter&event=1"),
    ("/agents/tasks", "title=x&project=shop"),
    ("/agents/tasks/none/approve", "text=x"),
    ("/agents/tasks/none/answer", "text=x"),
    ("/agents/tasks/none/reset", ""),
    ("/agents/tasks/none/skip", ""),
    ("/agents/runners/none/stop", ""),
];

const PAGES: [&str; 14] = [
    "/",
    "/runs/RUN",
    "/runs/RUN/steps",
    "/runs/RUN/logs",
    "/runs/RUN/journal",
    "/runs/RUN/compare",
    "/bulk",
    "/workflows",
    "/workflows/waits",
    "/schedules",
    "/queues",
    "/runners",
    "/mailboxes",
    "/login",
];

fn form(path: &str, body: &str) -> Request {
    Request::post(path).body("application/x-www-form-urlencoded", body)
}

/// A run that waits and a schedule.
async fn filled(ground: &Ground, admin: &str) -> String {
    for (path, kind, body) in [
        ("/api/workflows", "application/yaml", WAITS.to_owned()),
        (
            "/api/schedules",
            "application/json",
            json!({ "name": "nightly", "workflow": "waits", "cron": "30 6 * * *" }).to_string(),
        ),
    ] {
        let request = Request::post(path).body(kind, body).token(admin);
        let made = ground.send(request).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let start = Request::post("/api/runs").json(&json!({ "workflow": "waits" }));
    let run = ground.send(start.token(admin)).await.json();
    run["run_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_form_does_what_a_token_may_not_and_every_page_forbids_what_it_does_not_need() {
    let ground = Ground::with(settings("0.0.0.0:0")).await;
    let read = ground.token("reader", Right::Read).await;
    let act = ground.token("actor", Right::Act).await;
    let admin = ground.token("boss", Right::Admin).await;
    let run = filled(&ground, &admin).await;
    let shown = || ground.send(Request::get(&format!("/api/runs/{run}")).token(&read));
    while shown().await.json()["status"] != "waiting" {}
    let cookie = |token: &str| format!("lope_token={token}");
    for (path, body) in FORMS {
        let path = path.replace("RUN", &run);
        let stranger = ground.send(form(&path, body)).await;
        assert_eq!(stranger.status, 303, "{path}: {}", stranger.text());
        let to = stranger.header("location").unwrap();
        assert!(to.starts_with("/login?to="), "{path}: {to}");
        let own = form(&path, body).header("sec-fetch-site", "same-origin");
        for reader in [
            form(&path, body).token(&read),
            own.header("cookie", &cookie(&read)),
        ] {
            let refused = ground.send(reader).await;
            assert_eq!(refused.status, 403, "{path}: {}", refused.text());
        }
        // Whoever may act is not made to by the page of another site.
        for site in ["cross-site", "same-site"] {
            let lured = form(&path, body).header("sec-fetch-site", site);
            let lured = lured.header("cookie", &cookie(&admin));
            assert_eq!(ground.send(lured).await.status, 403, "{path}");
        }
    }
    // Nothing of it was done.
    let get = |path: &str| ground.send(Request::get(path).token(&read));
    assert_eq!(shown().await.json()["status"], "waiting");
    let runs = get("/api/runs").await.json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1);
    let nightly = get("/api/schedules/nightly").await.json();
    assert_eq!(nightly["status"], "active");
    let bulk = get("/api/bulk").await.json();
    assert_eq!(bulk["bulk_actions"], json!([]));

    // What is for admins is not for those who act, whatever it is.
    let document = openapi_document();
    let mut guarded = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if operation["x-right"] != "admin" {
                continue;
            }
            let path = path.replace(['{', '}'], "");
            let request = Request::new(&method.to_uppercase(), &path).token(&act);
            assert_eq!(ground.send(request).await.status, 403, "{method} {path}");
            guarded += 1;
        }
    }
    assert!(guarded >= 8, "{guarded}");
    let metrics = get("/metrics").await;
    assert_eq!(metrics.status, 200, "{}", metrics.text());

    for path in PAGES {
        let page = get(&path.replace("RUN", &run)).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        let policy = page.header("content-security-policy").unwrap();
        for wanted in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
        ] {
            assert!(policy.contains(wanted), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(page.header("x-frame-options"), Some("DENY"), "{path}");
        // A reader is offered the way in and the way out, and nothing else.
        let text = page.text();
        let ways = ["action=\"/logout\"", "action=\"/login\""];
        let ways: usize = ways.iter().map(|it| text.matches(it).count()).sum();
        let forms = text.matches("method=\"post\"").count();
        assert_eq!(forms, ways, "{path}: {text}");
    }
    ground.close().await;
}
