//! A person at the keyboard: a list that is held still and counts what is new, rows and sections by
//! keys, the clock on the wall, and a graph that moves by itself.

use std::time::{Duration, Instant};

use serde_json::json;

use super::fixture::Ground;
use super::fixture::browser::{Browser, wanted};

const APPROVE: &str = "name: approve
steps:
  approval: { wait: approved }
  done: { return: \"${{ approval }}\" }
";

/// The run that the list marks, and the one that has the focus.
const STANDS: &str = "return [document.querySelector('tr.picked a')?.getAttribute('href'), document.activeElement.getAttribute('href')]";
/// The first exact time of a page: as the server wrote it, and as it is read.
const TIME: &str =
    "const time = document.querySelector('time.exact'); return [time.dateTime, time.textContent]";

/// Start a run and wait until it waits.
async fn waiting(ground: &Ground) -> String {
    let run = ground.start("approve", json!(null)).await;
    ground.until(&run, "waiting").await;
    run
}

/// Two runs are new; the first may have moved meanwhile.
async fn is_counted(browser: &Browser) -> bool {
    let told = browser
        .script("return document.querySelector('#fresh').textContent")
        .await;
    told == "2 new" || told == "3 new"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_holds_still_keys_lead_through_it_and_a_graph_moves() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    ground.deploy(APPROVE).await;
    let first = waiting(&ground).await;
    let browser = Browser::open(ground.server.address()).await;
    browser.place("Asia/Tokyo").await;
    browser.go("/").await;
    browser.sees("live").await;
    browser.click("#hold").await;
    browser.sees("Follow").await;
    // New rows wait until they are asked for, each counted once.
    let second = waiting(&ground).await;
    let third = waiting(&ground).await;
    let from = Instant::now();
    while !is_counted(&browser).await {
        assert!(from.elapsed() < Duration::from_secs(120), "two are new");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let listed = |run: &str| format!("…{}", &run[run.len() - 8..]);
    let text = browser.text().await;
    assert!(text.contains(&listed(&first)), "{text}");
    assert!(
        !text.contains(&listed(&second)) && !text.contains(&listed(&third)),
        "{text}"
    );
    assert!(is_counted(&browser).await, "no run is counted twice");
    browser.click("#fresh").await;
    browser.sees(&listed(&third)).await;
    browser.sees("Follow").await;

    let link = |run: &str| json!([format!("/runs/{run}"), format!("/runs/{run}")]);
    for (key, run) in [("j", &third), ("j", &second), ("j", &first), ("k", &second)] {
        browser.key(key).await;
        assert_eq!(browser.script(STANDS).await, link(run), "{key}");
    }
    browser.key("/").await;
    let focus = "return document.activeElement.name";
    assert_eq!(browser.script(focus).await, "q");
    browser.script("document.activeElement.blur()").await;
    let both = "for (const key of ['g', 'w']) document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))";
    browser.script(both).await;
    browser.sees("1 workflow is deployed.").await;

    // The graph of a run moves without the page being loaded again.
    browser.go(&format!("/runs/{first}")).await;
    browser.sees("live").await;
    browser.script("window.untouched = true").await;
    assert!(browser.has(".lope-graph .running").await);
    assert!(!browser.has(".lope-graph .done").await);
    let signal = json!({ "name": "approved" });
    ground
        .post(&format!("/api/runs/{first}/signal"), signal)
        .await;
    browser.sees("Completed in").await;
    assert!(browser.has(".lope-graph .done").await);
    assert!(!browser.has(".lope-graph .running").await);
    assert_eq!(browser.script("return window.untouched").await, true);

    // Exact times are in UTC, or as the clock on the wall shows them: nine hours later in Tokyo.
    let hour = |text: &serde_json::Value| text.as_str().unwrap()[11..13].parse::<u32>().unwrap();
    let time = browser.script(TIME).await;
    assert_eq!(hour(&time[0]), hour(&time[1]));
    browser.sees("UTC").await;
    browser.click("nav.side .zone").await;
    browser.sees("Local time").await;
    let time = browser.script(TIME).await;
    assert_eq!((hour(&time[0]) + 9) % 24, hour(&time[1]));
    browser.key("4").await;
    browser.sees("Everything that happened to this run.").await;
    assert_eq!(browser.path().await, format!("/runs/{first}/journal"));
    browser.close().await;
    ground.close().await;
}
