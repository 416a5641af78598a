//! Words of a megabyte, and more logs than a page can hold: pages stay small, answers below a megabyte,
//! and what strangers wrote is text.

use serde_json::json;

use super::fixture::Ground;

const LOUD: &str = "name: loud
steps:
  all:
    each: \"${{ range(22) }}\"
    as: n
    parallel: 8
    steps:
      one: { run: \"head -c 70000 /dev/zero | tr '\\\\0' x; echo; echo end ${{ n }}\" }
  long: { run: \"echo '<img src=x onerror=alert(1)>'; head -c 1000000 /dev/zero | tr '\\\\0' x\", needs: [all] }
  bad: { raise: { type: Bad, message: \"${{ input.word }}\" }, needs: [long] }
";
/// Most bytes of a page and of an answer that is no download.
const PAGE_MAX: usize = 100_000;
const ANSWER_MAX: usize = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_answers_stay_small_whatever_a_run_was_given_gave_and_wrote() {
    let ground = Ground::open().await;
    ground.deploy(LOUD).await;
    let word = "<b>".repeat(10) + &"w".repeat(1_000_000);
    let run = ground.start("loud", json!({ "word": word })).await;
    let ended = ground.ended(&run).await;
    assert_eq!(ended["error"]["type"], "Bad", "{}", ended["status"]);
    for path in [
        "/".to_owned(),
        "/workflows/loud".to_owned(),
        format!("/runs/{run}"),
        format!("/runs/{run}/steps?execution=long"),
        format!("/runs/{run}/steps?execution=bad"),
        format!("/runs/{run}/logs"),
        format!("/runs/{run}/journal"),
        format!("/runs/{run}/compare?with={run}"),
    ] {
        let page = ground.get(&path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        let bytes = page.body.len();
        assert!(bytes < PAGE_MAX, "{path} has {bytes} bytes");
        let text = page.text();
        assert!(!text.contains("<img ") && !text.contains("<b>"), "{path}");
    }
    for path in ["", "/executions", "/journal", "/why", "/logs"] {
        let answer = ground.get(&format!("/api/runs/{run}{path}")).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let bytes = answer.body.len();
        assert!(bytes < ANSWER_MAX, "{path} has {bytes} bytes");
    }
    // Every log has its end there, however many there are, and a download has all of it.
    let logs = ground.get(&format!("/api/runs/{run}/logs")).await.json();
    let logs = logs["logs"].as_array().unwrap();
    assert_eq!(logs.len(), 23);
    for number in 0..22 {
        let name = format!("all/{number}/one");
        let log = logs.iter().find(|log| log["execution"] == *name).unwrap();
        let text = log["text"].as_str().unwrap();
        assert!(text.ends_with(&format!(" out end {number}\n")), "{name}");
        assert!(log["from"].as_u64().unwrap() > 0, "{name}");
    }
    let whole = ground.get(&format!("/api/runs/{run}/logs/text")).await;
    assert!(whole.body.len() > 22 * 70_000 + 1_000_000);
    ground.close().await;
}
