//! The executions of a long run, page by page: what its whole history says, and no page but the first
//! reads all of it.

use lope::runs::Execution;
use serde_json::{Value as Json, json};

use super::fixture::Ground;

const LONG: &str = "name: long
steps:
  all:
    each: \"${{ input }}\"
    as: number
    parallel: 20
    on_error: collect
    steps:
      one:
        js: \"({ n }) => { if (n % 1000 == 999) throw new Error('odd'); return n; }\"
        with: { n: \"${{ number }}\" }
  hold: { wait: go, needs: [all] }
  done: { return: \"${{ size(all) }}\", needs: [hold] }
";
const STEPS: u32 = 6_000;

/// The pages of a list of executions, from one on to the last.
async fn pages(ground: &Ground, run: &str, asked: &str, from: u64) -> Vec<Json> {
    let (mut all, mut after) = (Vec::new(), Some(from));
    while let Some(number) = after {
        let path = format!("/api/runs/{run}/executions?after={number}&{asked}");
        let answer = ground.get(&path).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let page = answer.json();
        all.extend(page["executions"].as_array().unwrap().iter().cloned());
        after = page["next"].as_u64();
    }
    all
}

async fn folded(ground: &Ground, run: &str) -> Vec<Execution> {
    let record = ground.client.run(run.parse().unwrap()).await;
    let record = record.unwrap().unwrap();
    let plan = ground.client.plan(&record).await.unwrap();
    let history = ground.client.history(record.run, &plan, None).await;
    history.unwrap().executions().cloned().collect()
}

fn same(pages: &[Json], folded: &[Execution]) {
    assert_eq!(pages.len(), folded.len());
    for (page, execution) in pages.iter().zip(folded) {
        let ended = execution.finished_at.map(|at| at.to_string());
        assert_eq!(
            (&page["path"], &page["status"], &page["finished_at"]),
            (
                &json!(&*execution.id),
                &json!(execution.status.as_str()),
                &json!(ended)
            ),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_of_a_long_run_come_page_by_page_as_the_whole_history_tells_them() {
    let ground = Ground::open().await;
    ground.deploy(LONG).await;
    let numbers: Vec<u32> = (0..STEPS).collect();
    let run = ground.start("long", json!(numbers)).await;
    ground.until(&run, "waiting").await;

    // While it lives: the last page first, of which nothing is known, then all from the beginning.
    let all = folded(&ground, &run).await;
    let some = all.len() - 100;
    let last = pages(&ground, &run, "limit=700", some as u64).await;
    same(&last, &all[some..]);
    assert_eq!(last.last().unwrap()["status"], "running");
    same(&pages(&ground, &run, "limit=700", 0).await, &all);
    let block = &pages(&ground, &run, "step=all", 0).await;
    assert_eq!(
        (block.len(), &block[0]["status"]),
        (1, &json!("done")),
        "what was open from the beginning to the end"
    );

    // When it has gone on: what is remembered is brought up to date.
    let signal = format!("/api/runs/{run}/signal");
    let sent = ground.post(&signal, json!({ "name": "go" })).await;
    assert!(sent.status < 300, "{}", sent.text());
    ground.ended(&run).await;
    let all = folded(&ground, &run).await;
    same(&pages(&ground, &run, "limit=1000", 0).await, &all);
    let failed = pages(&ground, &run, "status=failed&limit=2", 0).await;
    assert_eq!(failed.len(), STEPS as usize / 1_000);
    assert!(failed.iter().all(|it| it["step"] == "all/one"));
    assert!(pages(&ground, &run, "status=running", 0).await.is_empty());
    ground.close().await;
}
