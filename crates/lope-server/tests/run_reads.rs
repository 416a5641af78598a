//! How much of a run is read to show it: a result may have megabytes, and only who shows it reads it,
//! and of it no more than is shown.

use lope::Client;
use lope::config::Config;
use lope::workers::Logs;
use lope_model::Value;
use lope_server::{Listening, ServerParts};
use serde_json::json;

use super::fixture::http::{self, Request};
use super::fixture::metered::ReadMeter;
use super::fixture::{Ground, settings};

/// Bytes of a result that a page reads.
const READ: usize = 64 * 1024;
/// Bytes of the word that a run is given and gives.
const WORD: usize = 3_000_000;

/// A store in a folder, as it is and as one that counts what is read of it.
async fn metered() -> (tempfile::TempDir, Client, ReadMeter, Client) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("lope.db").display());
    let opened = Client::open(&url).await.unwrap();
    let meter = ReadMeter::default();
    let client = Client::new(meter.over(opened.store()));
    (folder, opened, meter, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_pages_that_show_a_result_read_it_and_no_more_of_it_than_they_show() {
    let (folder, _opened, meter, client) = metered().await;
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

/// The same of a run of which something is hidden, unless that is looked for in its result.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_result_in_which_nothing_is_looked_for_no_more_is_read_than_is_shown() {
    let (folder, _opened, meter, client) = metered().await;
    let ground = Ground::over(settings("127.0.0.1:0"), folder, client).await;
    let card = "4111222233334444";
    for (name, paths, is_looked_into) in [
        ("pay", "[input.card]", false),
        ("paid", "[input.card, result.bill]", true),
    ] {
        let yaml = format!(
            "name: {name}\nredact: {paths}\nsteps:\n  \
             all: {{ return: {{ card: \"${{{{ input.card }}}}\", word: \"${{{{ input.word }}}}\" }} }}\n"
        );
        ground.deploy(&yaml).await;
        let input = json!({ "card": card, "word": "ä".repeat(WORD / 2) });
        let run = ground.start(name, input).await;
        assert_eq!(ground.ended(&run).await["status"], "completed");
        for (tab, is_shown) in [("", true), ("/steps", false), ("/logs", false)] {
            meter.take();
            let page = format!("/runs/{run}{tab}");
            let answer = ground.get(&page).await;
            assert_eq!(answer.status, 200, "{page}: {}", answer.text());
            let reads = meter.take();
            let text = answer.text();
            assert!(!text.contains(card), "{page} shows the card");
            if is_looked_into {
                assert!(reads.results > WORD, "{page}: {reads:?}");
                continue;
            }
            let read = if is_shown { READ } else { 0 };
            assert_eq!(reads.results, read, "{page}: {reads:?}");
            assert_eq!(text.contains("This is the beginning of 30"), is_shown);
            assert_eq!(text.contains("&quot;card&quot;: &quot;***&quot;"), is_shown);
        }
    }
    ground.close().await;
}

/// Starts come by the thousand a second: which version is deployed is asked, and the run is stored.
/// Whoever starts a run that is there is told how it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_asks_the_store_twice_and_one_that_is_there_a_third_time() {
    let (folder, opened, meter, client) = metered().await;
    let parts = ServerParts {
        client,
        runner: None,
        logs: Logs::at(folder.path().join("logs")),
        config: Config::default(),
        env: Value::Null,
        commands: None,
    };
    let listening = Listening::bind(settings("127.0.0.1:0")).await.unwrap();
    let server = listening.serve(parts);
    let yaml = "name: quick\nsteps: { a: { let: 1 } }\n";
    let deploy = Request::post("/api/workflows").body("application/yaml", yaml);
    assert_eq!(http::send(server.address(), &deploy).await.status, 201);
    let request =
        |key: &str| Request::post("/api/runs").json(&json!({ "workflow": "quick", "key": key }));
    for (keys, status, calls) in [
        (["a", "b", "c", "d"], 201, 2),
        (["a", "b", "a", "b"], 200, 3),
    ] {
        let mut fewest = u64::MAX;
        for key in keys {
            meter.take();
            let answer = http::send(server.address(), &request(key)).await;
            // Whoever looks for bulk actions asks now and then, too.
            fewest = fewest.min(meter.take().calls);
            let text = answer.text();
            assert_eq!(answer.status, status, "{text}");
            let told = answer.json();
            let told = (&told["workflow"], &told["status"], &told["existed"]);
            let existed = json!(status == 200);
            assert_eq!(
                told,
                (&json!("quick"), &json!("queued"), &existed),
                "{text}"
            );
        }
        assert_eq!(fewest, calls, "{status}");
    }
    server.stop().await;
    opened.close().await.unwrap();
}
