//! The pages of spaces and agents in a real browser: values that move while one looks, and pictures.

use std::time::{Duration, Instant};

use serde_json::json;

use super::agents::{begun, project, task, write};
use super::fixture::Ground;
use super::fixture::browser::{Browser, Look, SIDEWAYS, wanted};
use super::spaces::counter;

const BROKEN: &str = "name: broken
result: { x: { $alias: internal/x } }
nodes:
  - module: { type: javascript, implementation: \"() => { throw new Error('the shop is closed') }\" }
    inputs: {}
    outputs: { $alias: internal/x }
";

#[tokio::test(flavor = "multi_thread")]
async fn values_move_while_one_looks_and_events_are_sent_from_the_page() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    counter(&ground).await;
    let browser = Browser::open(ground.server.address()).await;
    browser.go("/spaces").await;
    browser.click("td a[href='/spaces/home']").await;
    browser.click("a[href*='stream=counter']").await;
    browser.fill("textarea[name=event]", "5").await;
    browser
        .click("form[action='/spaces/home/send'] button")
        .await;
    browser.sees("has taken effect").await;
    let count = "return document.querySelector(\"[data-cell='home/counter/double']\").textContent";
    assert_eq!(browser.script(count).await, "10");
    // Somebody else sends an event; the page shows it by itself.
    browser.sees("live").await;
    let event = json!({ "path": "add", "event": 4 });
    let sent = ground
        .post("/api/spaces/home/streams/counter/send", event)
        .await;
    assert_eq!(sent.json()["outcome"], "handled");
    let from = Instant::now();
    while browser.script(count).await != "18" {
        assert!(from.elapsed() < Duration::from_secs(120), "the value moves");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(browser.has(".lope-graph .done").await);
    browser.close().await;
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_spaces_and_agents_fit_their_screens_and_have_their_pictures() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    let browser = Browser::open(ground.server.address()).await;
    let mut pages = vec![
        ("spaces-none", "/spaces".to_owned()),
        ("agents-none", "/agents".to_owned()),
    ];
    pictures(&browser, &pages).await;
    counter(&ground).await;
    ground
        .post(
            "/api/spaces/home/streams/counter/send",
            json!({ "path": "add", "event": 3 }),
        )
        .await;
    let long = json!({ "value": { "tea": 3, "words": "long ".repeat(80), "list": [{ "title": "milk", "done": false }, { "title": "bread", "done": true }] } });
    ground.post("/api/spaces/home/cells/prices/set", long).await;
    let broken = json!({ "recipe": BROKEN });
    ground
        .post("/api/spaces/broken/recipes/shop/run", broken)
        .await;
    let path = project(&ground).await;
    let id = task(&ground, "Write the README", json!({ "priority": 9, "section": "docs", "review": "person", "description": "Say what it is, how it is installed and how one begins.\nAt most 150 lines." })).await;
    let file = begun(&ground, &path).await;
    for line in 0..60 {
        write(
            &file,
            &format!("2026-11-17T07:00:00Z out: reading file {line} of the project\n"),
        );
    }
    for title in [
        "Mend the build",
        "Name things well",
        &"A long title ".repeat(20),
    ] {
        task(&ground, title, json!({})).await;
    }
    for (title, verb, words) in [
        (
            "Choose a colour",
            "ask",
            "Which colour shall the button have, and who decides that?",
        ),
        ("Translate", "done", "translated into four languages"),
        ("Fly to the moon", "fail", "there is no rocket"),
    ] {
        let id = task(&ground, title, json!({ "review": "person" })).await;
        let body = json!({ "text": words });
        let done = ground.post(&format!("/api/tasks/{id}/{verb}"), body).await;
        assert_eq!(done.status, 200, "{}", done.text());
    }
    pages = vec![
        ("spaces", "/spaces".to_owned()),
        ("space", "/spaces/home".to_owned()),
        ("space-broken", "/spaces/broken".to_owned()),
        ("agents", "/agents".to_owned()),
        ("agents-task", format!("/agents/tasks/{id}")),
    ];
    pictures(&browser, &pages).await;
    browser.close().await;
    ground.close().await;
}

async fn pictures(browser: &Browser, pages: &[(&str, String)]) {
    for look in [Look::Light, Look::Dark, Look::Phone] {
        browser.look(look).await;
        for (name, path) in pages {
            browser.go(path).await;
            let word = format!("{look:?}").to_lowercase();
            browser.picture(&format!("{name}-{word}")).await;
            let wide = browser
                .script("return document.documentElement.scrollWidth - window.innerWidth")
                .await;
            assert!(
                wide.as_i64().unwrap() <= 0,
                "{name} is {wide} too wide ({word})"
            );
            let moved = browser.script(SIDEWAYS).await;
            assert_eq!(moved, "", "{name}: tables move sideways ({word})");
            let size = browser
                .script("return document.documentElement.outerHTML.length")
                .await;
            assert!(
                size.as_i64().unwrap() < 100_000,
                "{name} has {size} letters"
            );
        }
    }
}
