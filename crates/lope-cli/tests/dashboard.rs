//! The dashboard of a real runner in a real browser: pages that stay open while the runner is killed
//! and started again.

use crate::fixture::browser::{Browser, wanted};
use crate::server::Up;
use crate::stage::Home;

const APPROVE: &str = "name: approve
steps:
  approval: { wait: approved }
  done: { return: \"${{ approval }}\" }
";

fn killed(mut up: Up) -> String {
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    up.address.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_goes_on_by_itself_when_its_runner_was_killed_and_started_again() {
    if !wanted() {
        return;
    }
    let home = Home::new();
    let file = home.file("approve.yaml", APPROVE);
    home.lope(&["workflows", "deploy", &file]).done();
    home.lope(&["start", "approve", "--key", "first"]).done();
    let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    let browser = Browser::open(up.address.parse().unwrap()).await;

    // The page of a run, which ends while nobody serves it.
    browser.go("/runs/first").await;
    browser.sees("approved").await;
    browser.sees("live").await;
    browser.script("window.untouched = true").await;
    let address = killed(up);
    browser.sees("reconnecting…").await;
    home.lope(&["runs", "signal", "first", "approved", "\"yes\""])
        .done();
    let up = Up::start(&home, &["--http", &address]);
    browser.sees("Completed in").await;
    browser.sees("yes").await;
    browser.sees("ended").await;
    assert_eq!(browser.script("return window.untouched").await, true);

    // The list of runs, which has one more when the runner is back.
    browser.go("/").await;
    browser.sees("live").await;
    browser.script("window.untouched = true").await;
    killed(up);
    browser.sees("reconnecting…").await;
    home.lope(&["start", "approve", "--key", "second"]).done();
    let up = Up::start(&home, &["--http", &address]);
    browser.sees("second").await;
    browser.sees("live").await;
    // And from there on it is told of what happens, as before.
    home.lope(&["start", "approve", "--key", "third"]).done();
    browser.sees("third").await;
    assert_eq!(browser.script("return window.untouched").await, true);
    browser.close().await;
    killed(up);
}
