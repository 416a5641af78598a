//! The dashboard in a real browser: a newcomer's path, logging in and out, and pictures of every
//! page.

use lope::tokens::Right;
use lope_server::Authentication;
use serde_json::json;

use super::fixture::browser::{Browser, Look, SIDEWAYS, wanted};
use super::fixture::http::Request;
use super::fixture::{Ground, settings};

const PARCEL: &str = "name: parcel
input:
  type: object
  properties:
    order: { type: string, title: Order, description: What was ordered }
    count: { type: integer, default: 2 }
    address: { type: string }
    express: { type: boolean }
  required: [order, address]
steps:
  weigh: { run: \"echo weighing ${{ input.count }} of ${{ input.order }}; echo 7\" }
  label:
    run: \"echo looking for ${{ input.address }}; test ${{ input.address }} != nowhere || { echo 'no such street: nowhere' >&2; exit 3; }\"
    needs: [weigh]
  each_box:
    each: \"${{ [1, 2, 3] }}\"
    as: box
    needs: [label]
    steps:
      pack: { let: \"${{ box * 2 }}\" }
  hand_over: { return: \"${{ each_box }}\" }
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

/// How high the highest row of a table is.
const TALLEST_ROW: &str = "return Math.max(0, ...[...document.querySelectorAll('tbody tr')].map((row) => row.offsetHeight))";
/// Bars of a timeline that one would have to look for, or that lie over the names of steps.
const UNSEEN_BARS: &str = "return [...document.querySelectorAll('.timeline .bar')].filter(bar => {
    const box = bar.getBoundingClientRect();
    const label = document.querySelector('.timeline .label').getBoundingClientRect();
    return box.left < label.left + 90 || box.right > innerWidth || box.width < 0.5;
}).length";

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_starts_a_workflow_reads_why_it_failed_and_mends_it() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    ground.deploy(PARCEL).await;
    let browser = Browser::open(ground.server.address()).await;
    browser.go("/").await;
    browser.sees("No runs yet").await;
    browser.click("nav a[href='/workflows']").await;
    browser.click("td a[href='/workflows/parcel']").await;
    browser.fill("input[name='input.order']", "tea").await;
    browser.fill("input[name='input.address']", "nowhere").await;
    browser
        .click("form[action='/workflows/parcel/start'] button.main")
        .await;
    // The page moves by itself: no reload from here on.
    browser.sees("Failed at label").await;
    let text = browser.text().await;
    assert!(
        text.contains("ExitStatus") && text.contains("no such street: nowhere"),
        "{text}"
    );
    assert!(
        browser.has(".lope-graph .failed").await,
        "the graph shows what failed"
    );
    browser.click("summary.again").await;
    browser
        .fill(
            "textarea[name=input]",
            "{\"order\": \"tea\", \"count\": 3, \"address\": \"home\"}",
        )
        .await;
    browser.click("form[action$='/again'] button.main").await;
    browser.sees("Completed in").await;
    let text = browser.text().await;
    assert!(text.contains("2,\n  4,\n  6"), "{text}");
    assert!(browser.has(".lope-graph .done").await);
    // Every panel has an address of its own.
    let run = browser.path().await;
    let run = run
        .trim_start_matches("/runs/")
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    browser
        .go(&format!("/runs/{run}/steps?execution=label"))
        .await;
    browser.sees("looking for home").await;
    browser.go(&format!("/runs/{run}/journal")).await;
    browser.click("tbody tr:nth-child(2) td a").await;
    browser.sees("As it was after row 2").await;
    browser.close().await;
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_logs_in_sees_no_buttons_and_logs_out() {
    if !wanted() {
        return;
    }
    let mut guarded = settings("127.0.0.1:0");
    guarded.authentication = Authentication::Always;
    let ground = Ground::with(guarded).await;
    let (reader, boss) = (
        ground.token("reader", Right::Read).await,
        ground.token("boss", Right::Admin).await,
    );
    let deploy = Request::post("/api/workflows").body("application/yaml", APPROVE);
    assert_eq!(ground.send(deploy.token(&boss)).await.status, 201);
    let start = Request::post("/api/runs").json(&json!({ "workflow": "approve", "key": "k" }));
    assert_eq!(ground.send(start.token(&boss)).await.status, 201);
    let browser = Browser::open(ground.server.address()).await;
    browser.go("/runs/k").await;
    browser.sees("This server needs a token").await;
    browser.fill("input[name=token]", "lope_wrong").await;
    browser.click("button.main").await;
    browser.sees("no such token").await;
    browser.fill("input[name=token]", &reader).await;
    browser.click("button.main").await;
    browser.sees("approve").await;
    assert!(
        browser.path().await.starts_with("/runs/"),
        "it leads to where one wanted to go"
    );
    assert!(
        !browser.has("form[action$='/cancel']").await,
        "a reader has no buttons"
    );
    // No script can read the cookie, and the cookie does not act.
    assert_eq!(browser.script("return document.cookie").await, "");
    let acted = browser.script(
        "return fetch('/api/runs/k/cancel', { method: 'POST' }).then((answer) => answer.status)",
    );
    assert_eq!(acted.await, 403);
    browser.click("form[action='/logout'] button").await;
    browser.sees("This server needs a token").await;
    browser.go("/runs/k").await;
    browser.sees("This server needs a token").await;
    // A page that is open says so when its token is taken away.
    browser.fill("input[name=token]", &reader).await;
    browser.click("button.main").await;
    browser.sees("live").await;
    ground.client.revoke_token("reader").await.unwrap();
    browser
        .sees("logged out: load the page again to log in")
        .await;
    browser.close().await;
    ground.close().await;
}

const MANY: &str = "name: many
steps:
  each_one:
    each: \"${{ input }}\"
    as: number
    parallel: 50
    steps:
      child: { workflow: failing, detach: true }
";

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signals_an_approval_replays_a_dead_letter_and_pauses_a_schedule() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    ground.deploy(APPROVE).await;
    let run = ground.start("approve", json!(null)).await;
    ground.until(&run, "waiting").await;
    ground.dead_letters(7, 2).await;
    let nightly = json!({ "name": "nightly", "workflow": "approve", "cron": "30 6 * * *" });
    assert_eq!(ground.post("/api/schedules", nightly).await.status, 201);
    let browser = Browser::open(ground.server.address()).await;

    browser.go(&format!("/runs/{run}")).await;
    browser.sees("approved").await;
    browser.click("summary.signal").await;
    browser
        .fill("form[action$='/signal'] textarea", "{\"by\": \"Ada\"}")
        .await;
    browser.click("form[action$='/signal'] button.main").await;
    // No reload from here on: the page follows the run to its end.
    browser.sees("Completed in").await;
    browser.sees("\"by\": \"Ada\"").await;
    let ended = ground.ended(&run).await;
    assert_eq!(ended["result"], json!({ "by": "Ada" }));

    browser.go("/mailboxes/7").await;
    browser.sees("it is broken").await;
    browser.click("tbody tr:first-child form button").await;
    browser
        .sees("1 dead letter was put into the inbox again.")
        .await;
    let dead = ground.get("/api/mailboxes/7/dead").await.json();
    let waiting = ground.get("/api/mailboxes/7/messages").await.json();
    let count = |page: &serde_json::Value, of: &str| page[of].as_array().unwrap().len();
    assert_eq!(
        (count(&dead, "dead_letters"), count(&waiting, "messages")),
        (1, 1)
    );

    browser.go("/schedules").await;
    browser.sees("1 active, 0 paused.").await;
    browser
        .click("form[action='/schedules/nightly/pause'] button")
        .await;
    browser.sees("0 active, 1 paused.").await;
    let status = || async { ground.get("/api/schedules/nightly").await.json()["status"].clone() };
    assert_eq!(status().await, "paused");
    browser
        .click("form[action='/schedules/nightly/resume'] button")
        .await;
    browser.sees("1 active, 0 paused.").await;
    assert_eq!(status().await, "active");
    browser.close().await;
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_failed_runs_are_retried_together() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    for yaml in [FAILING, MANY] {
        ground.deploy(yaml).await;
    }
    let numbers: Vec<u32> = (0..500).collect();
    let parent = ground.start("many", json!(numbers)).await;
    assert_eq!(ground.ended(&parent).await["status"], "completed");
    let fits = "workflow=failing&status=failed";
    loop {
        let counted = ground.get(&format!("/api/count/runs?{fits}")).await.json();
        if counted["count"] == 500 {
            break;
        }
    }
    let browser = Browser::open(ground.server.address()).await;
    browser.go(&format!("/?{fits}")).await;
    browser.click("a[href^='/bulk/ask']").await;
    browser.sees("Act on 500 runs").await;
    browser.click("form.asked button.main").await;
    assert_eq!(browser.accept().await, "Retry 500 runs?");
    // The page tells how far it is, by itself.
    browser
        .sees("500 of 500 asked: 500 done, 0 skipped, 0 failed.")
        .await;
    let id = browser.path().await;
    let id = id.trim_start_matches("/bulk/").to_owned();
    let listed = ground
        .get(&format!("/api/bulk/{id}/runs?limit=1000"))
        .await
        .json();
    let runs = listed["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 500);
    assert!(runs.iter().all(|run| run["status"] == "done"), "{listed}");
    // It was done, not only asked: a run has gone on behind its first end.
    let run = runs[0]["run_id"].as_str().unwrap();
    ground.ended(run).await;
    let journal = ground.get(&format!("/api/runs/{run}/journal")).await;
    assert!(journal.text().contains("retr"), "{}", journal.text());
    browser.close().await;
    ground.close().await;
}

/// Pictures of every page for people to look at; what can be judged by a program is: nothing is
/// wider than the screen, no script failed, pages and their files are small.
#[tokio::test(flavor = "multi_thread")]
async fn every_page_fits_its_screen_and_has_its_picture() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    for yaml in [PARCEL, APPROVE, FAILING] {
        ground.deploy(yaml).await;
    }
    let long = format!(
        "name: {}\nsteps: {{ a: {{ let: 1 }} }}\n",
        "long-name-".repeat(19)
    );
    ground.deploy(&long).await;
    let parcel = |address: &str| json!({ "order": "tea", "count": 2, "address": address });
    let failed = ground.start("parcel", parcel("nowhere")).await;
    let good = ground.start("parcel", parcel("home")).await;
    let waiting = ground.post("/api/runs", json!({ "workflow": "approve", "key": "order-17", "tags": { "plan": "pro", "region": "north" } })).await;
    let waiting = waiting.json()["run_id"].as_str().unwrap().to_owned();
    ground.start(&"long-name-".repeat(19), json!(null)).await;
    for _ in 0..12 {
        ground.start("failing", json!(null)).await;
    }
    for run in [&failed, &good] {
        ground.ended(run).await;
    }
    ground.until(&waiting, "waiting").await;
    ground.dead_letters(7, 3).await;
    ground
        .post(
            "/api/mailboxes/9/messages",
            json!({ "payload": "{\"pick\": 17}", "at": "2h" }),
        )
        .await;
    let long = "long-name-".repeat(19);
    for (name, cron) in [
        ("nightly", "30 6 * * *"),
        ("weekdays", "0 9 * * MON-FRI"),
        (&long, "*/5 8-17 * * MON-FRI"),
    ] {
        let schedule = json!({ "name": name, "workflow": "approve", "cron": cron });
        assert_eq!(ground.post("/api/schedules", schedule).await.status, 201);
    }
    let asked = ground
        .post(
            "/api/bulk",
            json!({ "action": "cancel", "filter": { "workflow": "failing" } }),
        )
        .await;
    let bulk = asked.json()["id"].as_str().unwrap().to_owned();
    let runners = ground.get("/api/runners").await.json();
    let runner = runners["runners"][0]["id"].as_str().unwrap();
    let runner = format!("/runners/{runner}");
    let deployed = ground.get("/api/workflows/parcel").await.json();
    let version = deployed["version"].as_str().unwrap();
    let version = format!("/workflows/parcel/versions/{version}");
    let pages = [
        ("runs", "/".to_owned()),
        ("runs-none", "/?status=paused".to_owned()),
        ("run-failed", format!("/runs/{failed}")),
        ("run-completed", format!("/runs/{good}")),
        ("run-waiting", format!("/runs/{waiting}")),
        ("run-steps", format!("/runs/{failed}/steps?execution=label")),
        ("run-logs", format!("/runs/{failed}/logs")),
        ("run-journal", format!("/runs/{good}/journal")),
        ("run-compare", format!("/runs/{failed}/compare?with={good}")),
        ("workflows", "/workflows".to_owned()),
        ("workflow", "/workflows/parcel".to_owned()),
        ("schedules", "/schedules".to_owned()),
        ("queues", "/queues".to_owned()),
        ("queue", "/queues/default".to_owned()),
        ("runners", "/runners".to_owned()),
        ("runner", runner),
        ("schedule", "/schedules/nightly".to_owned()),
        ("version", version),
        ("run-past", format!("/runs/{failed}?at=2")),
        ("missing", "/runs/none".to_owned()),
        ("mailboxes", "/mailboxes".to_owned()),
        ("mailbox", "/mailboxes/7".to_owned()),
        ("mailbox-timers", "/mailboxes/9".to_owned()),
        ("bulk", format!("/bulk/{bulk}")),
        ("bulk-ask", "/bulk/ask?workflow=failing".to_owned()),
        ("login", "/login".to_owned()),
    ];
    let browser = Browser::open(ground.server.address()).await;
    for look in [Look::Light, Look::Dark, Look::Phone] {
        browser.look(look).await;
        for (name, path) in &pages {
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
            let unseen = browser.script(UNSEEN_BARS).await;
            assert_eq!(unseen, 0, "{name}: bars are not seen ({word})");
            let moved = browser.script(SIDEWAYS).await;
            assert_eq!(moved, "", "{name}: tables move sideways ({word})");
            let tall = browser.script(TALLEST_ROW).await;
            let is_list = ["runs", "workflows"].contains(name);
            assert!(
                !is_list || tall.as_i64().unwrap() <= 120,
                "{name}: a row is {tall} high ({word})"
            );
            let size = browser
                .script("return document.documentElement.outerHTML.length")
                .await;
            assert!(
                size.as_i64().unwrap() < 100_000,
                "{name} has {size} letters"
            );
        }
    }
    // What stands below the navigation is below the page on a phone.
    browser.go("/").await;
    let below =
        "return getComputedStyle(document.querySelector('.foot.below a[href=\"/bulk\"]')).display";
    assert_eq!(browser.script(below).await, "inline");
    // What only a script can do is not there without one.
    let without = "const zone = document.querySelector('.zone'); zone.hidden = true; return getComputedStyle(zone).display";
    assert_eq!(browser.script(without).await, "none");
    // The buttons of every row are within reach in a small window, and words are not broken up.
    browser.look(Look::Tablet).await;
    browser.go("/schedules").await;
    browser.picture("schedules-tablet").await;
    assert_eq!(browser.script(SIDEWAYS).await, "");
    let tall = browser.script(TALLEST_ROW).await;
    assert!(tall.as_i64().unwrap() <= 120, "a row is {tall} high");
    browser.look(Look::Light).await;
    browser.go("/").await;
    browser.key("?").await;
    browser.sees("next and previous row").await;
    browser.picture("keys-light").await;
    browser.close().await;
    let (style, script) = (
        ground.get("/assets/app.css").await,
        ground.get("/assets/app.js").await,
    );
    assert!(style.body.len() <= 30_000 && script.body.len() <= 40_000);
    ground.close().await;
}
