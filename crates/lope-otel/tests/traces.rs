//! One trace a run, spans per execution and attempt, context handed on; metrics; collectors that
//! are away.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lope::runs::RunStartOptions;
use lope::{Client, PreparedRun, RunId, Runner, Settings};
use lope_model::Value;
use lope_model::trace::{SpanId, TraceId, traceparent};
use lope_otel::{ExportSettings, Exporter};
use serde_json::Value as Json;

use crate::collector::Collector;

struct Scene {
    client: Client,
    runner: Runner,
    collector: Collector,
    exporter: Exporter,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn open() -> Self {
        let collector = Collector::open().await;
        let client = Client::open("memory:").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let runner = Runner::builder()
            .client(&client)
            .shared_settings(Settings::default())
            .workers(folder.path())
            .build()
            .await
            .unwrap();
        let settings = ExportSettings {
            endpoint: collector.url.clone(),
            headers: [("x-key".to_owned(), "secret".to_owned())].into(),
            service: "shop".to_owned(),
            interval: Duration::from_millis(50),
        };
        let exporter = Exporter::start(&runner, settings).await.unwrap();
        Self {
            client,
            runner,
            collector,
            exporter,
            _folder: folder,
        }
    }

    async fn ran(&self, workflow: &str, input: Value) -> RunId {
        let plan = lope::workflows::read(workflow, "test.yaml").unwrap();
        self.client.deploy(&plan).await.unwrap();
        let options = RunStartOptions {
            input: Some(input),
            ..RunStartOptions::default()
        };
        let run = PreparedRun::new(&plan, options, &lope::QueueLimits::new()).unwrap();
        let (run, _) = self.client.start(run).await.unwrap();
        self.client.wait(run).await.unwrap().unwrap();
        run
    }

    async fn spans(&self, run: RunId) -> Vec<Json> {
        let of_run = |collector: &Collector| {
            let trace = TraceId::of(run).to_string();
            let mut spans = collector.spans();
            spans.retain(|span| span["traceId"] == trace);
            spans
        };
        let is_there = |collector: &Collector| !of_run(collector).is_empty();
        self.collector.until("the trace came", is_there).await;
        of_run(&self.collector)
    }
}

fn named<'a>(spans: &'a [Json], name: &str) -> &'a Json {
    let mut found = spans.iter().filter(|span| span["name"] == name);
    let one = found
        .next()
        .unwrap_or_else(|| panic!("no span {name}: {spans:#?}"));
    assert!(found.next().is_none(), "two spans {name}");
    one
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_one_trace_and_what_it_calls_is_told_its_span() {
    let scene = Scene::open().await;
    let url = &scene.collector.url;
    let run = scene
        .ran(
            &format!(
                "name: shop\nsteps:\n  each: {{ each: [1, 2], as: n, steps: {{ call: {{ http: {{ url: \"{url}/called/${{{{ n }}}}\" }} }} }} }}\n  show: {{ run: \"printf %s $TRACEPARENT\", needs: [each] }}\n  shaky: {{ run: \"test $LOPE_ATTEMPT = 2\", retries: 1, base_delay: 1ms, needs: [show] }}\n  done: {{ return: \"${{{{ show }}}}\", needs: [shaky] }}\n"
            ),
            Value::Null,
        )
        .await;
    let spans = scene.spans(run).await;
    let root = named(&spans, "run shop");
    assert_eq!(root["spanId"], SpanId::of_run(run).to_string());
    assert_eq!(root["parentSpanId"], Json::Null);
    assert_eq!(root["status"]["code"], 1);
    let outer = named(&spans, "each");
    assert_eq!(outer["parentSpanId"], root["spanId"]);
    let calls: Vec<&Json> = spans
        .iter()
        .filter(|it| it["name"] == "each/call")
        .collect();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|it| it["parentSpanId"] == outer["spanId"]));
    for (index, number) in [(0, 1), (1, 2)] {
        let said = traceparent(run, &format!("each/{index}/call"), 1);
        let came = scene.collector.came(&format!("/called/{number}"));
        assert_eq!(came.len(), 1);
        assert!(
            came[0].head.contains(&format!("traceparent: {said}")),
            "{came:?}"
        );
    }
    // A process finds it in its environment.
    let record = scene.client.run(run).await.unwrap().unwrap();
    let shown = lope::describe::run(&record);
    assert_eq!(shown["result"], traceparent(run, "show", 1));
    // Each attempt is a span below its execution, also one that failed.
    let shaky = named(&spans, "shaky");
    for (number, code) in [(1, 2), (2, 1)] {
        let attempt = named(&spans, &format!("shaky attempt {number}"));
        assert_eq!(attempt["parentSpanId"], shaky["spanId"]);
        assert_eq!(attempt["status"]["code"], code);
    }
    let failed = named(&spans, "shaky attempt 1");
    let message = failed["status"]["message"].as_str().unwrap();
    assert!(message.contains("ExitStatus"), "{message}");
    let ids: std::collections::HashSet<&str> = spans
        .iter()
        .map(|it| it["spanId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), spans.len(), "no span twice");
    for span in &spans {
        let time = |name: &str| span[name].as_str().unwrap().parse::<u128>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    }
    let first = &scene.collector.came("/v1/traces")[0];
    assert!(first.head.contains("x-key: secret"));
    let service = &first.body["resourceSpans"][0]["resource"]["attributes"][0];
    assert_eq!(service["value"]["stringValue"], "shop");
    scene.exporter.stop().await;
    scene.runner.give_back(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_counted_goes_with_it() {
    let scene = Scene::open().await;
    scene
        .ran(
            "name: one\nsteps: { a: { js: \"() => 1\" } }\n",
            Value::Null,
        )
        .await;
    let steps = |collector: &Collector| -> f64 {
        let came = collector.came("/v1/metrics");
        let Some(last) = came.last() else { return 0.0 };
        let metrics = &last.body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let mut all = metrics.as_array().unwrap().iter();
        let steps = all.find(|it| it["name"] == "lope_steps");
        steps.map_or(0.0, |it| {
            it["sum"]["dataPoints"][0]["asDouble"].as_f64().unwrap()
        })
    };
    let counted = |collector: &Collector| steps(collector) >= 1.0;
    scene
        .collector
        .until("an attempt was counted", counted)
        .await;
    scene.exporter.stop().await;
    scene.runner.give_back(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_holds_no_run_up_and_is_told_later() {
    let scene = Scene::open().await;
    scene.collector.away.store(true, Ordering::Release);
    let run = scene
        .ran(
            "name: two\nsteps: { a: { js: \"() => 1\" } }\n",
            Value::Null,
        )
        .await;
    scene.collector.away.store(false, Ordering::Release);
    assert!(!scene.spans(run).await.is_empty());
    // What a workflow redacts is in no message.
    let hidden = "name: hides\nredact: [input.card]\nsteps: { a: { raise: { type: Oops, message: \"no ${{ input.card }}\" } } }\n";
    let card = Value::map([("card", Value::from("4111-2222"))]);
    let run = scene.ran(hidden, card).await;
    let spans = scene.spans(run).await;
    assert_eq!(named(&spans, "run hides")["status"]["code"], 2);
    assert!(!Json::Array(spans).to_string().contains("4111-2222"));
    scene.exporter.stop().await;
    scene.runner.give_back(Duration::ZERO).await.unwrap();
}
