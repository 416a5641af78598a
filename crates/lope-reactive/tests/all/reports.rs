//! What runs, told: what fails in everything that a process started, and what handlers did.

use lope_reactive::Json;
use lope_reactive::machine::EventOutcome;
use lope_reactive::runner::ProcessReport;

use crate::fixture::{cell, json};
use crate::host::Host;

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

fn report_of(host: &mut Host, result: &str) -> ProcessReport {
    let process = host.process(result).id.to_string();
    let report = |report: &ProcessReport| report.process == process;
    let all = host
        .machine
        .with_program(|runner, spaces, nodes| runner.report(spaces, nodes));
    all.into_iter().find(report).unwrap()
}

/// A map whose second child fails, and a nested recipe with a node that fails and one without a
/// module.
fn recipe() -> serde_json::Value {
    let half = json!({"result": alias(&["internal", "y"]), "nodes": [
        {"module": {"type": "native", "implementation": "positive"}, "inputs": {"x": alias(&["argument", "element"])}, "outputs": alias(&["internal", "y"])}]});
    let nested = json!({"result": alias(&["internal", "z"]), "nodes": [
        {"module": {"type": "native", "implementation": "positive"}, "inputs": {"x": alias(&["argument", "x"])}, "outputs": alias(&["internal", "z"])},
        {"module": {"type": "ref", "implementation": "nosuch"}, "inputs": {}, "outputs": alias(&["internal", "w"])}]});
    json!({
        "initial": {"internal": {"list": [1, -1]}},
        "result": {"all": alias(&["internal", "all"]), "kid": alias(&["internal", "kid"]), "list": alias(&["internal", "list"])},
        "nodes": [
            {"module": {"type": "ref", "implementation": "map"}, "inputs": {"list": alias(&["internal", "list"]), "op": half}, "outputs": alias(&["internal", "all"])},
            {"module": {"type": "recipe", "implementation": nested}, "inputs": {"x": -5}, "outputs": alias(&["internal", "kid"])}
        ]
    })
}

#[test]
fn what_fails_below_is_told_with_the_way_to_it() {
    let mut host = Host::new();
    host.run(Some(recipe()), None, "result").unwrap();
    let report = report_of(&mut host, "result");
    let lines: Vec<(usize, &str, &str)> = report
        .nodes
        .iter()
        .map(|line| (line.node, line.module.as_str(), line.role))
        .collect();
    assert_eq!(lines, [(0, "ref", "computation"), (1, "recipe", "recipe")]);
    assert!(report.nodes[1].into.is_some() && !report.nodes[1].writes.is_empty());
    let mut failures: Vec<(&str, String)> = report
        .failures
        .iter()
        .map(|failing| (failing.path.as_str(), failing.why.to_string()))
        .collect();
    failures.sort();
    let failed = "{\"message\":\"below zero\",\"type\":\"Negative\"}";
    let left_out = "\"'nosuch' is no module; the node is left out\"";
    assert_eq!(
        failures,
        [
            ("0/0", failed.to_owned()),
            ("1/0", failed.to_owned()),
            ("1/1", left_out.to_owned())
        ]
    );
    assert_eq!(report.failing, 3);
    let nested = report.failures.iter().find(|failing| failing.path == "1/0");
    assert_eq!(Some(&nested.unwrap().cell), report.nodes[1].into.as_ref());
    host.set("result/list", json!([1, 2]));
    let report = report_of(&mut host, "result");
    assert_eq!(report.failing, 2, "the child of the map has recovered");
}

#[test]
fn what_a_handler_did_is_told() {
    let mut host = Host::scripted();
    let handler =
        "({n, sum}) => { if (n < 0) throw new RangeError('below zero'); sum.increment(n) }";
    let recipe = json!({
        "initial": {"internal": {"stream": {"$stream": true}, "sum": 0}},
        "result": {"send": alias(&["internal", "stream"]), "sum": alias(&["internal", "sum"])},
        "nodes": [{"module": {"type": "javascript", "implementation": handler, "argumentSchema": {"properties": {"n": true, "sum": {"asCell": true}}}},
            "inputs": {"n": alias(&["internal", "stream"]), "sum": alias(&["internal", "sum"])}, "outputs": {}}]
    });
    host.run(Some(recipe), None, "result").unwrap();
    let stream = cell("result/send");
    assert_eq!(host.send(&stream, 2), EventOutcome::Handled);
    assert!(matches!(host.send(&stream, -1), EventOutcome::Failed(_)));
    assert_eq!(host.send(&stream, 3), EventOutcome::Handled);
    let report = report_of(&mut host, "result");
    let line = &report.nodes[0];
    assert_eq!((line.role, line.runs), ("handler", 3));
    assert_eq!(line.event.as_deref(), Some("event 3"));
    assert!(
        line.writes[0].ends_with("/internal/sum"),
        "{:?}",
        line.writes
    );
    let failure = line.last_failure.as_ref().unwrap();
    assert_eq!(failure.child("event"), Some(&Json::from("event 2")));
    let error = failure.child("error").unwrap();
    assert_eq!(error.child("message"), Some(&Json::from("below zero")));
    assert_eq!(
        (report.failing, &line.error),
        (0, &None),
        "the next event went on"
    );
}

#[test]
fn whoever_reads_what_a_handler_wrote_comes_after_it_and_the_handler_after_its_stream() {
    let mut host = Host::scripted();
    let script = |source: &str, inputs: serde_json::Value, outputs: serde_json::Value| json!({"module": {"type": "javascript", "implementation": source, "argumentSchema": {"properties": {"n": true, "to": {"asCell": true}, "x": true}}}, "inputs": inputs, "outputs": outputs});
    let recipe = json!({
        "initial": {"internal": {"first": {"$stream": true}, "second": {"$stream": true}, "n": 0}},
        "result": {"send": alias(&["internal", "first"]), "twice": alias(&["internal", "twice"])},
        "nodes": [
            script("({n, to}) => { to.send(n + 1) }", json!({"n": alias(&["internal", "first"]), "to": alias(&["internal", "second"])}), json!({})),
            script("({n}) => n", json!({"n": alias(&["internal", "second"])}), alias(&["internal", "n"])),
            script("({x}) => 2 * x", json!({"x": alias(&["internal", "n"])}), alias(&["internal", "twice"])),
        ]
    });
    host.run(Some(recipe), None, "result").unwrap();
    let wiring = |host: &mut Host| {
        let lines = report_of(host, "result").nodes.into_iter();
        let last = |cell: &String| cell.rsplit('/').next().unwrap_or_default().to_owned();
        let parts = lines.map(|line| (line.role, line.stream.as_ref().map(last), line.after));
        parts.collect::<Vec<_>>()
    };
    let first = ("handler", Some("first".to_owned()), vec![]);
    let computing = ("computation", None, vec![1]);
    let second = |after: Vec<usize>| ("handler", Some("second".to_owned()), after);
    assert_eq!(
        wiring(&mut host),
        [first.clone(), second(vec![]), computing.clone()]
    );
    assert_eq!(host.send(&cell("result/send"), 1), EventOutcome::Handled);
    assert_eq!(
        wiring(&mut host),
        [first, second(vec![0]), computing],
        "it has sent something"
    );
}
