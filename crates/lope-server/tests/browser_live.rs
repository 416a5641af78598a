//! Pages that move, in a real browser: what a person does on them stays, and a page that nobody sees
//! holds no connection.

use std::time::{Duration, Instant};

use serde_json::json;

use super::fixture::Ground;
use super::fixture::browser::{Browser, wanted};

const APPROVE: &str = "name: approve
steps:
  approval: { wait: approved }
  done: { return: \"${{ approval }}\" }
";

#[tokio::test(flavor = "multi_thread")]
async fn ten_tabs_of_one_browser_all_load_and_the_one_that_is_seen_is_live() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    ground.deploy(APPROVE).await;
    let browser = Browser::open(ground.server.address()).await;
    let first = browser.shown_tab().await;
    browser.go("/").await;
    for _ in 0..9 {
        let tab = browser.tab().await;
        browser.show_tab(&tab).await;
        browser.go("/").await;
        browser.sees("No runs yet").await;
        browser.sees("live").await;
    }
    // What happened while nobody looked is there when somebody does.
    let run = ground.start("approve", json!(null)).await;
    ground.until(&run, "waiting").await;
    browser.show_tab(&first).await;
    browser.sees("waiting").await;
    browser.close().await;
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_grows_while_one_looks_and_keeps_its_filter() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    let gate = |name: &str| ground.folder.path().join(name);
    let wait = |name: &str| {
        format!(
            "while ! test -e {}; do sleep 0.05; done",
            gate(name).display()
        )
    };
    let yaml = format!(
        "name: slow\nsteps:\n  work: {{ run: \"echo one; {}; echo two; echo other; {}; echo two again\" }}\n  after: {{ run: \"echo two after\", needs: [work] }}\n",
        wait("first"),
        wait("second")
    );
    ground.deploy(&yaml).await;
    let run = ground.start("slow", json!(null)).await;
    let browser = Browser::open(ground.server.address()).await;
    browser.go(&format!("/runs/{run}/logs")).await;
    browser.sees("out one").await;
    std::fs::write(gate("first"), "").unwrap();
    browser.sees("out other").await;
    browser.fill("#filter", "two").await;
    std::fs::write(gate("second"), "").unwrap();
    // The page is made anew when the run ends, and shows what the box says.
    browser.sees("out two after").await;
    browser.sees("out two again").await;
    let text = browser.text().await;
    assert!(text.contains("out two\n"), "{text}");
    assert!(
        !text.contains("out other") && !text.contains("out one"),
        "{text}"
    );
    browser.close().await;
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_held_still_holds_no_other_page() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    let twice = "name: approve\nsteps: { first: { wait: approved }, second: { wait: again, needs: [first] } }\n";
    ground.deploy(twice).await;
    let run = ground.start("approve", json!(null)).await;
    ground.until(&run, "waiting").await;
    let browser = Browser::open(ground.server.address()).await;
    browser.go("/").await;
    browser.click("#hold").await;
    browser.sees("Follow").await;
    browser.go(&format!("/runs/{run}")).await;
    browser.sees("live").await;
    let signal = json!({ "name": "approved", "value": 5 });
    ground
        .post(&format!("/api/runs/{run}/signal"), signal)
        .await;
    let sentence = "return document.querySelector('.sentence').textContent";
    let from = Instant::now();
    while !browser.script(sentence).await.to_string().contains("again") {
        assert!(from.elapsed() < Duration::from_secs(40), "the page moves");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    browser.close().await;
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_does_outlives_what_happens_meanwhile() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    ground.deploy(APPROVE).await;
    let run = ground.start("approve", json!({ "a": 1 })).await;
    ground.until(&run, "waiting").await;
    let browser = Browser::open(ground.server.address()).await;
    // A form that is open and written in, with the focus elsewhere.
    browser.go(&format!("/runs/{run}")).await;
    browser.sees("live").await;
    browser.click("summary.again").await;
    browser.fill("textarea[name=input]", "{\"a\": 22}").await;
    browser.script("document.activeElement.blur()").await;
    let signal = json!({ "name": "approved", "value": 5 });
    ground
        .post(&format!("/api/runs/{run}/signal"), signal)
        .await;
    browser.sees("Completed in").await;
    let typed = "return document.querySelector('details.menu[open] textarea[name=input]')?.value";
    assert_eq!(browser.script(typed).await, "{\"a\": 22}");
    // The row that one stands on keeps its mark and the focus.
    let second = ground.start("approve", json!(null)).await;
    ground.until(&second, "waiting").await;
    browser.go("/").await;
    browser.sees("live").await;
    browser.key("j").await;
    let stands = "return [document.querySelector('tr.picked a')?.getAttribute('href'), document.activeElement.getAttribute('href')]";
    let here = json!([format!("/runs/{second}"), format!("/runs/{second}")]);
    assert_eq!(browser.script(stands).await, here);
    let third = ground.start("approve", json!(null)).await;
    ground.until(&third, "waiting").await;
    browser
        .sees(&format!("…{}", &third[third.len() - 8..]))
        .await;
    assert_eq!(browser.script(stands).await, here);
    // Text that is marked stays marked; what came meanwhile is shown when it is not any more.
    browser
        .script(
            "getSelection().selectAllChildren(document.querySelector('tbody tr td:nth-child(3)'))",
        )
        .await;
    let fourth = ground.start("approve", json!(null)).await;
    browser.sees("4 runs.").await;
    let marked = "return getSelection().toString()";
    assert_eq!(browser.script(marked).await, "approve");
    let short = format!("…{}", &fourth[fourth.len() - 8..]);
    assert!(!browser.text().await.contains(&short));
    browser.script("getSelection().removeAllRanges()").await;
    browser.sees(&short).await;
    browser.close().await;
    ground.close().await;
}

/// "until TIME (in 2 h)": the time that is left gets less, although nothing happens. The clock of the
/// browser goes forward by an hour.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_that_is_left_gets_less_while_one_looks() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    ground
        .deploy("name: nap\nsteps: { rest: { sleep: 2h } }\n")
        .await;
    let run = ground.start("nap", json!(null)).await;
    ground.until(&run, "sleeping").await;
    let browser = Browser::open(ground.server.address()).await;
    browser.go(&format!("/runs/{run}")).await;
    browser.sees("(in 1 h 5").await;
    let forward = "const Now = Date; window.Date = class extends Now {
        constructor(...given) { if (given.length) super(...given); else super(Now.now() + 3600000); }
    };";
    browser.script(forward).await;
    let from = Instant::now();
    while browser.text().await.contains("(in 1 h") {
        assert!(from.elapsed() < Duration::from_secs(40), "it moves");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    browser.sees("(in 5").await;
    browser.close().await;
    ground.close().await;
}
