//! Behind a proxy: every link, form, script and event stream of every page begins with the base, and
//! leads somewhere.

use std::collections::BTreeSet;

use serde_json::json;

use super::events::Listener;
use super::fixture::http::{HttpAnswer, Request};
use super::fixture::{Ground, settings};

const BASE: &str = "/lope/";

/// The values of an attribute.
fn values(text: &str, attribute: &str) -> Vec<String> {
    let opening = format!(" {attribute}=\"");
    let parts = text.split(&opening).skip(1);
    parts
        .map(|part| part.split('"').next().unwrap().replace("&amp;", "&"))
        .collect()
}

/// The links of a page, which are checked.
fn checked(path: &str, page: &HttpAnswer) -> Vec<String> {
    let text = page.text();
    for attribute in ["href", "src", "action", "data-events", "data-log"] {
        for value in values(&text, attribute) {
            let own = value.starts_with(BASE) || value.starts_with('#') || value == "data:,";
            assert!(own, "{path}: {attribute} leads to {value}");
        }
    }
    let mut links = values(&text, "href");
    links.retain(|link| link.starts_with(BASE) && !link.starts_with("/lope/api/"));
    links
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_behind_a_proxy_leads_only_to_where_the_proxy_does() {
    let mut based = settings("127.0.0.1:0");
    based.base = "/lope".to_owned();
    let ground = Ground::with(based).await;
    let yaml =
        "name: talks\nsteps: { say: { run: \"echo hello\" }, hold: { wait: go, needs: [say] } }\n";
    let deploy = Request::post("/lope/api/workflows").body("application/yaml", yaml);
    assert_eq!(ground.send(deploy).await.status, 201);
    let start = json!({ "workflow": "talks", "key": "k", "tags": { "a": "b" } });
    let run = ground.post("/lope/api/runs", start).await.json();
    let run = run["run_id"].as_str().unwrap().to_owned();
    while ground.get("/lope/api/runs/k").await.json()["status"] != "waiting" {}
    let nightly = json!({ "name": "nightly", "workflow": "talks", "cron": "30 6 * * *" });
    let added = ground.post("/lope/api/schedules", nightly).await;
    assert_eq!(added.status, 201, "{}", added.text());
    let message = json!({ "payload": "hello" });
    let sent = ground.post("/lope/api/mailboxes/7/messages", message).await;
    assert_eq!(sent.status, 201, "{}", sent.text());

    let mut known = BTreeSet::from([BASE.to_owned(), "/lope/login".to_owned()]);
    let mut open: Vec<String> = known.iter().cloned().collect();
    while let Some(path) = open.pop() {
        let page = ground.get(&path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        if page.header("content-type") != Some("text/html; charset=utf-8") {
            continue;
        }
        let links = checked(&path, &page).into_iter();
        // A stretch of time has ever shorter ones in it.
        let links = links.filter(|link| !(path.contains("zoom=") && link.contains("zoom=")));
        open.extend(links.filter(|link| known.insert(link.clone())));
    }
    for path in [
        format!("/lope/runs/{run}/journal"),
        format!("/lope/runs/{run}/steps?after=0&execution=say"),
        "/lope/workflows/talks".to_owned(),
        "/lope/schedules/nightly".to_owned(),
        "/lope/queues/default".to_owned(),
        "/lope/mailboxes/7".to_owned(),
        "/lope/spaces".to_owned(),
        "/lope/agents".to_owned(),
    ] {
        assert!(known.contains(&path), "nothing leads to {path}: {known:?}");
    }
    // Its events are there, and whoever sends a form is led back.
    let page = ground.get(&format!("/lope/runs/{run}")).await.text();
    let events = &values(&page, "data-events")[0];
    Listener::open(&ground, Request::get(events)).await;
    let form = |verb: &str| {
        let request = Request::post(&format!("/lope/runs/{run}/{verb}"));
        request.header("sec-fetch-site", "same-origin")
    };
    let paused = ground.send(form("pause")).await;
    let back = paused.header("location").unwrap();
    assert!(
        back.starts_with(&format!("/lope/runs/{run}?said=")),
        "{back}"
    );
    let login = ground
        .send(Request::post("/lope/logout").header("sec-fetch-site", "same-origin"))
        .await;
    assert_eq!(login.header("location"), Some("/lope/login"));
    let cookie = login.header("set-cookie").unwrap();
    assert!(cookie.contains("Path=/lope/;"), "{cookie}");
    ground.close().await;
}
