//! What is counted and searched ends at a named bound, and says so.

use lope::runs::RunStartOptions;
use lope::{Client, PreparedRun, workflows};
use lope_model::Value;
use serde_json::{Value as Json, json};

use super::fixture::{Ground, many_runs, settings};

/// Runs that the store seems to hold.
const RUNS: u64 = 60_000;

async fn ground() -> Ground {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("lope.db").display());
    let opened = Client::open(&url).await.unwrap();
    let plan = workflows::read("name: quick\nsteps: { a: { let: 1 } }\n", "test").unwrap();
    opened.deploy(&plan).await.unwrap();
    let options = RunStartOptions {
        input: Some(Value::Null),
        ..RunStartOptions::default()
    };
    let prepared = PreparedRun::new(&plan, options, opened.queue_limits()).unwrap();
    let (run, _) = opened.start(prepared).await.unwrap();
    let like = opened.run(run).await.unwrap().unwrap();
    let store = many_runs::over(opened.store(), like, RUNS.cast_signed());
    Ground::over(settings("127.0.0.1:0"), folder, Client::new(store)).await
}

/// "bounded counts ("50,000+"), never an exact count in a list".
#[tokio::test(flavor = "multi_thread")]
async fn runs_are_counted_to_a_bound_and_lists_tell_no_count() {
    let ground = ground().await;
    let counted = ground.get("/api/count/runs").await.json();
    assert_eq!(counted, json!({ "count": 50_000, "more": true }));
    let asked = ground.get("/bulk/ask?status=completed").await.text();
    assert!(asked.contains("50000+"), "{asked}");
    let list = ground.get("/api/runs?limit=5").await.json();
    let fields: Vec<&String> = list.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["runs", "next", "searched"]);
    assert_eq!(list["runs"].as_array().unwrap().len(), 5);
    assert!(list["next"].is_string() && list["searched"].is_null());
    let page = ground.get("/").await.text();
    for count in ["60000", "60,000", "50000", "50,000"] {
        assert!(!page.contains(count), "{count} in {page}");
    }
    ground.close().await;
}

/// "by a path in the input (`input.user.plan:pro`) within a named bound": what is found in none of so
/// many runs is a page that is empty and goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_looks_at_each_run_stops_at_its_bound_and_goes_on_from_there() {
    let ground = ground().await;
    let found = ground.get("/api/runs?input=user.plan:pro").await.json();
    assert_eq!(
        (&found["runs"], &found["searched"]),
        (&json!([]), &json!(2_000))
    );
    assert!(found["next"].is_string());
    let page = ground.get("/?q=input.user.plan:pro").await.text();
    assert!(
        page.contains("2000 runs were looked at; go on with Older"),
        "{page}"
    );
    let mut pages = Vec::new();
    let mut next = String::new();
    loop {
        let found = ground
            .get(&format!("/api/runs?error=Broken{next}"))
            .await
            .json();
        assert_eq!(found["runs"], json!([]));
        pages.push(found["searched"].as_u64().unwrap());
        let Json::String(at) = &found["next"] else {
            break;
        };
        next = format!("&after={at}");
    }
    assert!(
        pages.iter().all(|searched| *searched <= 10_000),
        "{pages:?}"
    );
    assert_eq!(pages.iter().sum::<u64>(), RUNS);
    ground.close().await;
}
