//! Effects: asked for once a request, after the commit; recorded once.

use lope_cells::transaction::EffectRequest;
use lope_model::{Failure, Span};
use lope_reactive::Json;
use lope_reactive::limit::CHAIN_MAX;
use lope_reactive::machine::{Arrival, SpaceAction, SpaceCommand, SpaceInput, SpaceOutput};

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
    let hash = first[0].request.digest().to_string();
    assert_eq!(part(&host, "requestHash"), Some(hash.into()));
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

/// "effects (pending/result/error/requestHash; once per request; after commit)", with a cell for each part.
#[test]
fn an_effect_whose_outputs_are_cells_of_their_own_comes_to_its_end() {
    let alias = |path: &[&str]| json!({"$alias": {"path": path}});
    let outputs = json!({"pending": alias(&["internal", "waits"]), "result": alias(&["internal", "page"]), "error": alias(&["internal", "error"])});
    let effect = json!({"module": {"type": "ref", "implementation": "effect"},
        "inputs": {"name": "fetch", "request": alias(&["argument", "url"])}, "outputs": outputs});
    let workflow = json!({"module": {"type": "workflow", "implementation": "ship"},
        "inputs": {"id": alias(&["argument", "url"])}, "outputs": outputs});
    for node in [effect, workflow] {
        let recipe = json!({
            "result": {"page": {"waits": alias(&["internal", "waits"]), "result": alias(&["internal", "page"]), "error": alias(&["internal", "error"])}},
            "nodes": [node]
        });
        let mut host = Host::new();
        host.run(Some(recipe), Some(json!({"url": "a"})), "result")
            .unwrap();
        let first = asked(&mut host);
        assert_eq!(first.len(), 1);
        assert_eq!(part(&host, "waits"), Some(true.into()));
        let mut host = host.restarted();
        host.turn(Vec::new());
        assert_eq!(asked(&mut host), first, "it is under way");
        record(&mut host, &first[0].key, Ok("page a".into()));
        assert_eq!(part(&host, "waits"), Some(false.into()));
        assert_eq!(part(&host, "result"), Some("page a".into()));
        let mut host = host.restarted();
        host.turn(Vec::new());
        assert!(asked(&mut host).is_empty(), "it is done");
        host.run(None, Some(json!({"url": "b"})), "result").unwrap();
        let second = asked(&mut host);
        assert_eq!(second.len(), 1);
        assert_eq!(part(&host, "waits"), Some(true.into()));
        record(&mut host, &first[0].key, Ok("late".into()));
        assert_eq!(part(&host, "result"), None, "it waits for another one");
        record(
            &mut host,
            &second[0].key,
            Err(Failure::new("HttpStatus", "404")),
        );
        let error = json!({"type": "HttpStatus", "message": "404"});
        assert_eq!(part(&host, "error"), Some(error.into()));
        assert_eq!(part(&host, "waits"), Some(false.into()));
    }
}

#[test]
fn an_effect_under_another_name_is_another_one() {
    let alias = |path: &[&str]| json!({"$alias": {"path": path}});
    let recipe = json!({
        "result": {"page": alias(&["internal", "page"])},
        "nodes": [{"module": {"type": "ref", "implementation": "effect"},
            "inputs": {"name": alias(&["argument", "name"]), "request": "a"}, "outputs": alias(&["internal", "page"])}]
    });
    let mut host = Host::new();
    host.run(Some(recipe), Some(json!({"name": "fetch"})), "result")
        .unwrap();
    let first = asked(&mut host);
    host.run(None, Some(json!({"name": "mail"})), "result")
        .unwrap();
    let second = asked(&mut host);
    let request = json!({"name": "mail", "request": "a"});
    assert_eq!(second.first().map(|it| &it.request), Some(&request.into()));
    assert_ne!(first[0].key, second[0].key);
    record(&mut host, &first[0].key, Ok("fetched".into()));
    assert_eq!(part(&host, "pending"), Some(true.into()));
    record(&mut host, &second[0].key, Ok("sent".into()));
    assert_eq!(part(&host, "result"), Some("sent".into()));
}

#[test]
fn an_effect_that_was_done_before_names_counted_is_not_asked_again() {
    let mut host = Host::new();
    host.run(Some(fetching()), Some(json!({"url": "a"})), "result")
        .unwrap();
    asked(&mut host);
    let page = host.process("result").key("internal").key("page");
    let before = Json::from("a").digest().to_string();
    let done = json!({"pending": false, "requestHash": before, "result": "page a"});
    host.edit(|_, transaction| transaction.set(&page, &done.into()).unwrap());
    let mut host = host.restarted();
    host.turn(Vec::new());
    assert!(asked(&mut host).is_empty());
    assert_eq!(part(&host, "result"), Some("page a".into()));
}

fn ask_again(host: &mut Host, effect: &EffectRequest) {
    let (key, request) = (effect.key.clone(), effect.request.clone());
    let command = SpaceCommand {
        id: format!("again {key}").into(),
        action: SpaceAction::EffectAgain { key, request },
    };
    host.turn(vec![SpaceInput::Arrived(Arrival::Command(command))]);
}

#[test]
fn what_cannot_be_begun_yet_says_why_and_is_asked_for_again_if_it_is_still_wanted() {
    let mut host = Host::new();
    let early = || Failure::new("UnknownWorkflow", "no workflow 'ship' is deployed");
    host.run(Some(fetching()), Some(json!({"url": "a"})), "result")
        .unwrap();
    let first = asked(&mut host).remove(0);
    record(&mut host, &first.key, Err(early()));
    let why = json!({"type": "UnknownWorkflow", "message": "no workflow 'ship' is deployed"});
    assert_eq!(
        (part(&host, "pending"), part(&host, "error")),
        (Some(true.into()), Some(why.into()))
    );
    // Whoever takes the space up asks for it by himself.
    let mut next = host.restarted();
    next.turn(Vec::new());
    assert_eq!(asked(&mut next), std::slice::from_ref(&first));
    ask_again(&mut host, &first);
    assert_eq!(
        asked(&mut host),
        [EffectRequest::new(first.key.clone(), first.request.clone())]
    );
    assert_eq!(
        (part(&host, "pending"), part(&host, "error")),
        (Some(true.into()), None)
    );
    record(&mut host, &first.key, Ok("sent".into()));
    assert_eq!(
        (part(&host, "pending"), part(&host, "result")),
        (Some(false.into()), Some("sent".into()))
    );
    // One that is done, one that nobody wants any more, and one of a node that is gone.
    ask_again(&mut host, &first);
    host.run(None, Some(json!({"url": "b"})), "result").unwrap();
    let second = asked(&mut host).remove(0);
    record(&mut host, &second.key, Err(early()));
    host.run(None, Some(json!({"url": "c"})), "result").unwrap();
    asked(&mut host);
    ask_again(&mut host, &second);
    assert!(asked(&mut host).is_empty());
    host.stop("result");
    ask_again(&mut host, &second);
    assert!(asked(&mut host).is_empty());
}

/// Asks for what was answered last, without end.
pub(crate) fn looping() -> serde_json::Value {
    let alias = |path: &[&str]| json!({"$alias": {"path": path}});
    json!({
        "initial": {"internal": {"n": 0}},
        "result": {"page": alias(&["internal", "page"]), "n": alias(&["internal", "n"])},
        "nodes": [
            {"module": {"type": "ref", "implementation": "effect"},
             "inputs": {"name": "flip", "request": {"n": alias(&["internal", "n"])}}, "outputs": alias(&["internal", "page"])},
            {"module": {"type": "javascript", "implementation": "({page, n}) => page?.pending === false ? page.result : n",
                "argumentSchema": {"properties": {"page": true, "n": true}}},
             "inputs": {"page": alias(&["internal", "page"]), "n": alias(&["internal", "n"])}, "outputs": alias(&["internal", "n"])}
        ]
    })
}

#[test]
fn effects_that_follow_from_each_other_without_end_wait_longer_and_longer() {
    let mut host = Host::scripted();
    host.run(Some(looping()), None, "result").unwrap();
    for round in 1..=CHAIN_MAX + 6 {
        let effect = asked(&mut host).remove(0);
        assert_eq!(effect.chain.hops, round, "one hop for each");
        let beyond = round.checked_sub(CHAIN_MAX + 1);
        let wait = beyond.map(|beyond| [250, 500, 1_000, 2_000][beyond.min(3) as usize]);
        assert_eq!(effect.chain.wait(), wait.map(Span::from_millis), "{round}");
        let command = SpaceCommand {
            id: format!("done {round}").into(),
            action: SpaceAction::EffectDone {
                key: effect.key.clone(),
                outcome: Ok(i64::from(round % 2).into()),
            },
        };
        host.turn(vec![SpaceInput::Followed {
            arrival: Arrival::Command(command),
            chain: effect.chain,
        }]);
    }
    // An edit begins anew.
    let n = host.process("result").key("internal").key("n");
    host.edit(|_, transaction| transaction.set(&n, &7.into()).unwrap());
    let effect = asked(&mut host).pop().unwrap();
    assert_eq!(effect.chain.hops, 1);
}
