//! Effects: asked for once a request, after the commit; recorded once.

use lope_cells::transaction::EffectRequest;
use lope_model::Failure;
use lope_reactive::Json;
use lope_reactive::machine::SpaceOutput;

use crate::fixture::json;
use crate::host::Host;

fn fetching() -> serde_json::Value {
    let alias = |path: &[&str]| json!({"$alias": {"path": path}});
    json!({
        "result": {"page": alias(&["internal", "page"])},
        "nodes": [{"module": {"type": "ref", "implementation": "effect"},
            "inputs": {"name": "fetch", "request": alias(&["argument", "url"])}, "outputs": alias(&["internal", "page"])}]
    })
}

/// The effects that were asked for since last looked.
fn asked(host: &mut Host) -> Vec<EffectRequest> {
    let outputs = std::mem::take(&mut host.outputs).into_iter();
    let effect = |output| match output {
        SpaceOutput::Effect(effect) => Some(effect),
        _ => None,
    };
    outputs.filter_map(effect).collect()
}

fn record(host: &mut Host, key: &str, outcome: Result<Json, Failure>) {
    let mut transaction = host.machine.spaces().begin();
    let runner = host.machine.program();
    runner
        .record_effect(key, &outcome, &mut transaction)
        .unwrap();
    host.turn(vec![lope_reactive::machine::SpaceInput::Edit {
        ticket: 0,
        transaction,
    }]);
}

fn part(host: &Host, key: &str) -> Option<Json> {
    host.get(&format!("result/page/{key}"))
}

#[test]
fn an_effect_is_asked_for_once_a_request_and_its_outcome_lands_in_the_cell() {
    let mut host = Host::new();
    host.run(Some(fetching()), Some(json!({"url": "a"})), "result")
        .unwrap();
    let first = asked(&mut host);
    assert_eq!(first.len(), 1, "once, though every computation runs twice");
    assert_eq!(
        first[0].request,
        json!({"name": "fetch", "request": "a"}).into()
    );
    assert_eq!(part(&host, "pending"), Some(true.into()));
    assert_eq!(
        part(&host, "requestHash"),
        Some(Json::from("a").digest().to_string().into())
    );
    record(&mut host, &first[0].key, Ok("page a".into()));
    assert_eq!(
        (part(&host, "pending"), part(&host, "result")),
        (Some(false.into()), Some("page a".into()))
    );
    host.run(None, Some(json!({"url": "a", "other": 1})), "result")
        .unwrap();
    assert!(
        asked(&mut host).is_empty(),
        "the same request is not asked for again"
    );
    record(&mut host, &first[0].key, Ok("again".into()));
    assert_eq!(
        part(&host, "result"),
        Some("page a".into()),
        "recorded once"
    );
}

#[test]
fn a_request_that_changed_meanwhile_drops_the_outcome_of_the_former() {
    let mut host = Host::new();
    host.run(Some(fetching()), Some(json!({"url": "a"})), "result")
        .unwrap();
    let first = asked(&mut host);
    host.run(None, Some(json!({"url": "b"})), "result").unwrap();
    let second = asked(&mut host);
    assert_eq!(second[0].request.child("request"), Some(&"b".into()));
    record(&mut host, &first[0].key, Ok("page a".into()));
    assert_eq!(
        (part(&host, "pending"), part(&host, "result")),
        (Some(true.into()), None)
    );
    record(
        &mut host,
        &second[0].key,
        Err(Failure::new("HttpStatus", "404")),
    );
    assert_eq!(
        part(&host, "error"),
        Some(json!({"type": "HttpStatus", "message": "404"}).into())
    );
    assert_eq!(part(&host, "pending"), Some(false.into()));
    host.stop("result");
    record(&mut host, &second[0].key, Ok("late".into()));
    assert_eq!(part(&host, "result"), None, "nobody waits for it");
}

#[test]
fn what_was_under_way_at_a_crash_is_asked_for_again_and_what_was_done_is_not() {
    let mut host = Host::new();
    host.run(Some(fetching()), Some(json!({"url": "a"})), "result")
        .unwrap();
    let first = asked(&mut host);
    let mut host = host.restarted();
    host.turn(Vec::new());
    let again = asked(&mut host);
    assert_eq!(again, first, "the same request under the same key");
    host.set("elsewhere", 1);
    assert!(
        asked(&mut host).is_empty(),
        "but once for each owner of the space"
    );
    record(&mut host, &again[0].key, Ok("page a".into()));
    let mut host = host.restarted();
    host.turn(Vec::new());
    assert!(asked(&mut host).is_empty());
    assert_eq!(part(&host, "result"), Some("page a".into()));
}

#[test]
fn a_workflow_node_asks_for_a_durable_run_and_shows_its_end() {
    let mut host = Host::new();
    let alias = |path: &[&str]| json!({"$alias": {"path": path}});
    let recipe = json!({
        "result": {"page": alias(&["internal", "order"])},
        "nodes": [{"module": {"type": "workflow", "implementation": "ship"},
            "inputs": {"id": alias(&["argument", "id"]), "fast": true}, "outputs": alias(&["internal", "order"])}]
    });
    host.run(Some(recipe), Some(json!({"id": 17})), "result")
        .unwrap();
    let first = asked(&mut host);
    let request = json!({"name": "workflow", "request": {"workflow": "ship", "input": {"id": 17, "fast": true}}});
    assert_eq!((first.len(), &first[0].request), (1, &request.into()));
    assert_eq!(part(&host, "pending"), Some(true.into()));
    record(&mut host, &first[0].key, Ok(json!({"sent": true}).into()));
    assert_eq!(part(&host, "result"), Some(json!({"sent": true}).into()));
    host.run(None, Some(json!({"id": 18})), "result").unwrap();
    let second = asked(&mut host);
    assert_ne!(second[0].key, first[0].key, "another input is another run");
}
