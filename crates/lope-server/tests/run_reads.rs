//! How much of a run is read to show it: a result may have megabytes, and only who shows it reads it,
//! and of it no more than is shown.

use lope::Client;
use serde_json::json;

use super::fixture::metered::ReadMeter;
use super::fixture::{Ground, settings};

/// Bytes of a result that a page reads.
const READ: usize = 64 * 1024;
/// Bytes of the word that a run is given and gives.
const WORD: usize = 3_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn only_the_pages_that_show_a_result_read_it_and_no_more_of_it_than_they_show() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("lope.db").display());
    let opened = Client::open(&url).await.unwrap();
    let meter = ReadMeter::default();
    let client = Client::new(meter.over(opened.store()));
    let ground = Ground::over(settings("127.0.0.1:0"), folder, client).await;
    let yaml = "name: echo\nsteps:\n  say: { run: \"echo hello\" }\n  \
                all: { return: { first: 1, word: \"${{ input }}\" }, needs: [say] }\n";
    ground.deploy(yaml).await;
    let run = ground.start("echo", json!("ä".repeat(WORD / 2))).await;
    assert_eq!(ground.ended(&run).await["status"], "completed");
    let key = &run[..20];
    for (page, times) in [
        (format!("/runs/{run}"), 1),
        (format!("/runs/{run}?at=1"), 0),
        (format!("/runs/{run}/steps"), 0),
        (format!("/runs/{run}/steps?execution=say"), 0),
        (format!("/runs/{run}/logs"), 0),
        (format!("/runs/{run}/journal"), 0),
        (format!("/runs/{run}/compare"), 0),
        (format!("/runs/{run}/compare?with={run}"), 2),
        (format!("/runs/{key}/journal"), 0),
    ] {
        meter.take();
        let answer = ground.get(&page).await;
        assert_eq!(answer.status, 200, "{page}: {}", answer.text());
        let reads = meter.take();
        assert_eq!(reads.results, times * READ, "{page}: {reads:?}");
        if page.ends_with("/logs") || page.ends_with("/journal") {
            assert_eq!(reads.blobs, 0, "{page}: {reads:?}");
        }
        let text = answer.text();
        let told = text.matches("This is the beginning of 30").count();
        assert_eq!(told, times, "{page}");
    }
    // What is short is shown whole.
    let short = ground.start("echo", json!("short")).await;
    ground.ended(&short).await;
    let text = ground.get(&format!("/runs/{short}")).await.text();
    assert!(text.contains("short") && !text.contains("This is the beginning"));
    ground.close().await;
}
