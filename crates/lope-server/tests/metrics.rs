//! Metrics, and the dashboard for Grafana that shows them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::fixture::Ground;

const DASHBOARD: &str = include_str!("../../../docs/grafana.json");

/// The families of a text in the form of OpenMetrics, as queries name them.
fn families(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            match kind {
                "counter" => format!("{name}_total"),
                "histogram" => format!("{name}_bucket"),
                _ => name.to_owned(),
            }
        })
        .collect()
}

/// Every metric that the queries of a dashboard name.
fn named(dashboard: &Json) -> BTreeSet<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    queries
        .flat_map(|query| query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with("lope_"))
        .map(str::to_owned)
        .collect()
}

/// The metrics once these families are there: whoever waits for a run may hear of its end before
/// the runner has counted it, and a family that has counted nothing is not served.
async fn counted(ground: &Ground, wanted: &BTreeSet<String>) -> String {
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        let served = ground.get("/metrics").await.text();
        if wanted.is_subset(&families(&served)) || Instant::now() > patience {
            return served;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_for_grafana_names_what_is_measured_and_all_of_it() {
    let ground = Ground::open().await;
    ground
        .deploy("name: one\nsteps: { a: { run: [echo, hi] } }\n")
        .await;
    for _ in 0..3 {
        let run = ground.start("one", json!(null)).await;
        ground.ended(&run).await;
    }
    let dashboard: Json = serde_json::from_str(DASHBOARD).unwrap();
    let served = counted(&ground, &named(&dashboard)).await;
    assert!(served.ends_with("# EOF\n"), "{served}");
    assert_eq!(served.matches("# EOF").count(), 1);
    assert_eq!(named(&dashboard), families(&served));
    for part in [
        "lope_runs{status=\"completed\"} 3\n",
        "lope_runners 1\n",
        "lope_store_up 1\n",
        "lope_mailbox_messages{table=\"dead_letters\"} 0\n",
        "lope_schedule_lateness_seconds 0\n",
    ] {
        assert!(served.contains(part), "no {part} in {served}");
    }
    // Each of them was taken up once, however often it was claimed.
    let started = served.lines().find_map(|line| {
        let (_, count) = line
            .strip_prefix("lope_workflows_started_total{")?
            .split_once("} ")?;
        Some(count.to_owned())
    });
    assert_eq!(started.as_deref(), Some("3"), "{served}");
    ground.close().await;
}
