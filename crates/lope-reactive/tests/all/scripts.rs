//! JavaScript: what scripts can do, what they cannot, and what happens when they try.

use std::sync::Arc;

use lope_model::Failure;
use lope_reactive::javascript::{JavaScript, ScriptHost, ScriptLimits};
use lope_reactive::machine::EventOutcome;
use lope_reactive::{Cell, Json, Projected, Spaces, Transaction};

use crate::fixture::{cell, get, json, link, set};
use crate::host::Host;

fn call(
    scripts: &mut JavaScript,
    source: &str,
    argument: serde_json::Value,
) -> Result<Option<Json>, Failure> {
    let arguments = [Projected::Plain(argument.into())];
    scripts.call(&Arc::from(source), &arguments, &mut Transaction::default())
}

fn js(source: &str) -> Result<Option<Json>, Failure> {
    call(&mut JavaScript::default(), source, json!({"x": 20}))
}

fn value(source: &str) -> Json {
    js(source).unwrap().unwrap()
}

#[test]
fn a_function_is_called_with_its_argument_and_undefined_is_no_value() {
    assert_eq!(value("({x}) => x * 2 + 2"), 42.into());
    assert_eq!(
        value("function named(a) { return { list: [a.x, 'é', null, 1.5] } }"),
        json!({"list": [20, "é", null, 1.5]}).into()
    );
    assert_eq!(js("() => undefined"), Ok(None));
    assert_eq!(js("() => {}"), Ok(None));
    assert_eq!(value("() => null"), Json::Null);
    assert_eq!(value("() => [0/0, 1/0]"), json!([null, null]).into());
}

#[test]
fn async_functions_are_driven_to_their_end() {
    assert_eq!(
        value(
            "async ({x}) => { const y = await x; await null; return (await Promise.all([y, 2])).length }"
        ),
        2.into()
    );
    let failure = js("async () => { throw new RangeError('far') }").unwrap_err();
    assert_eq!(
        (&*failure.kind, failure.message.as_str()),
        ("RangeError", "far")
    );
    let failure = js("() => new Promise(() => {})").unwrap_err();
    assert!(failure.message.contains("never settles"), "{failure:?}");
}

#[test]
fn what_is_thrown_keeps_its_type() {
    let failure = js("() => { throw new TypeError('no') }").unwrap_err();
    assert_eq!(
        (&*failure.kind, failure.message.as_str()),
        ("TypeError", "no")
    );
    assert!(failure.traceback.is_some());
    assert_eq!(js("() => { throw 'plain' }").unwrap_err().message, "plain");
    assert_eq!(&*js("1 +").unwrap_err().kind, "SyntaxError");
    assert!(js("42").unwrap_err().message.contains("no function"));
    assert_eq!(&*js("() => nobody").unwrap_err().kind, "ReferenceError");
}

#[test]
fn there_is_no_clock_no_chance_and_no_compiler() {
    for name in [
        "Date",
        "performance",
        "eval",
        "Function",
        "WeakRef",
        "FinalizationRegistry",
        "BigInt",
        "SharedArrayBuffer",
        "Atomics",
        "setTimeout",
        "fetch",
        "require",
        "process",
        "std",
        "os",
        "console",
    ] {
        assert_eq!(
            value(&format!("() => typeof {name}")),
            "undefined".into(),
            "{name}"
        );
    }
    assert_eq!(value("() => typeof Math.random"), "undefined".into());
    for way in [
        "() => (() => {}).constructor('return 1')()",
        "() => (async () => {}).constructor('return 1')()",
        "() => (function* () {}).constructor('yield 1')()",
        "() => (async function* () {}).constructor('yield 1')()",
        "() => [].map.constructor('return 1')()",
        "() => class {}.constructor('return 1')()",
        "() => Object.getPrototypeOf(run).constructor('return 1')()",
        "() => Reflect.construct(Object.getPrototypeOf(Math.max).constructor, ['return 1'])()",
    ] {
        assert!(js(way).is_err(), "{way}");
    }
}

#[test]
fn built_ins_are_frozen_and_nothing_outlives_a_call() {
    let mut scripts = JavaScript::default();
    for tampering in [
        "() => { Array.prototype.map = () => 'mine' }",
        "() => { Object.prototype.polluted = 1 }",
        "() => { JSON.stringify = () => '\"mine\"' }",
        "() => { globalThis.leak = 1 }",
        "() => { Object.defineProperty(Object.prototype, 'toJSON', { value: () => 'mine' }) }",
        "() => { run.extra = 1 }",
        "() => { Promise.prototype.then = null }",
        "() => { RegExp.prototype.exec = null }",
        "() => { Object.setPrototypeOf(Array.prototype, {}) }",
        "() => { (function* () {})().__proto__.__proto__.next = null }",
    ] {
        let failure = call(&mut scripts, tampering, json!({})).unwrap_err();
        assert_eq!(&*failure.kind, "TypeError", "{tampering}");
    }
    assert_eq!(
        call(
            &mut scripts,
            "() => [[1].map(x => x + 1), ({}).polluted === undefined, typeof leak]",
            json!({})
        ),
        Ok(Some(json!([[2], true, "undefined"]).into()))
    );
    let counting = "(() => { let n = 0; const kept = {}; return () => { kept[n] = 1; return [++n, Object.keys(kept).length] } })()";
    for _ in 0..3 {
        assert_eq!(
            call(&mut scripts, counting, json!({})),
            Ok(Some(json!([1, 1]).into()))
        );
    }
    let regex = "(() => { const r = /a/g; return () => r.test('aa') && r.lastIndex })()";
    for _ in 0..2 {
        assert_eq!(call(&mut scripts, regex, json!({})), Ok(Some(1.into())));
    }
    assert_eq!(
        call(
            &mut scripts,
            "() => { Promise.resolve().then(() => { throw 1 }); return 1 }",
            json!({})
        ),
        Ok(Some(1.into()))
    );
    assert_eq!(call(&mut scripts, "() => 2", json!({})), Ok(Some(2.into())));
}

#[test]
fn a_script_that_exceeds_a_limit_is_an_error_and_the_next_one_runs() {
    let mut scripts = JavaScript::new(ScriptLimits {
        fuel: 50,
        memory: 16 * 1024 * 1024,
        ..ScriptLimits::default()
    });
    for (hostile, kind) in [
        ("() => { for (;;) {} }", "Limit"),
        (
            "() => { for (;;) { try { for (;;) {} } catch {} finally { for (;;) {} } } }",
            "Limit",
        ),
        ("async () => { for (;;) await null }", "Limit"),
        (
            "() => { const again = () => Promise.resolve().then(again); return again() }",
            "any",
        ),
        ("() => { const f = () => f() + 1; return f() }", "Limit"),
        (
            "() => { const a = []; for (;;) a.push(new Array(100000).fill(0)) }",
            "Limit",
        ),
        ("() => 'x'.repeat(2 ** 29)", "Limit"),
        ("() => { let s = 'x'; for (;;) s += s + 'y'; }", "any"),
        ("() => /^(a+)+$/.test('a'.repeat(50) + 'b')", "Limit"),
        (
            "() => [].indexOf.call({ length: 2 ** 53 - 1 }, 1)",
            "RangeError",
        ),
        (
            "() => { const a = []; a.length = 2 ** 32 - 1; return a.indexOf(1) }",
            "RangeError",
        ),
        ("() => { let n = 9n; for (;;) n *= n }", "SyntaxError"),
        ("() => new Uint8Array(2 ** 30)", "any"),
        ("() => [...Array(1e9).keys()]", "any"),
        ("() => { while (true) JSON.parse('[' .repeat(1e5)) }", "any"),
    ] {
        let failure = call(&mut scripts, hostile, json!({})).unwrap_err();
        assert!(
            kind == "any" || &*failure.kind == kind,
            "{hostile}: {failure:?}"
        );
        assert_eq!(
            call(&mut scripts, "({x}) => x", json!({"x": 7})),
            Ok(Some(7.into())),
            "after {hostile}"
        );
    }
}

#[test]
fn fuel_is_counted_in_steps_so_that_a_call_ends_alike_everywhere() {
    let mut scripts = JavaScript::new(ScriptLimits {
        fuel: 10,
        ..ScriptLimits::default()
    });
    let looping = "({n}) => { let s = 0; for (let i = 0; i < n; i++) s += i; return s }";
    for _ in 0..3 {
        assert!(call(&mut scripts, looping, json!({"n": 20_000})).is_ok());
        assert!(call(&mut scripts, looping, json!({"n": 200_000})).is_err());
    }
}

#[test]
fn cells_are_read_and_written_in_the_transaction_of_the_call() {
    let mut spaces = Spaces::default();
    set(
        &mut spaces,
        "doc",
        json!({"n": 1, "list": [1], "o": {"a": 1}, "far": link("doc/n")}),
    );
    let mut transaction = spaces.begin();
    let argument =
        Projected::Object([("doc".into(), Projected::Cell(Cell::new(cell("doc"))))].into());
    let source = "({doc}) => {
        const n = doc.key('n');
        n.set(n.get() + 1);
        n.increment(10);
        doc.key('list').push(2, 3);
        doc.key('list').addUnique(3);
        doc.key('list').removeValue(1);
        doc.key('o').update({ b: 2 });
        doc.key('made').set({ deep: true });
        let refused;
        try { n.push(1) } catch (error) { refused = error.name }
        return { seen: doc.get(), n, refused };
    }";
    let mut scripts = JavaScript::default();
    let result = scripts
        .call(&Arc::from(source), &[argument], &mut transaction)
        .unwrap()
        .unwrap();
    assert_eq!(result.child("refused"), Some(&"TypeError".into()));
    assert_eq!(
        result.child("n"),
        Some(&link("doc/n")),
        "a cell in a result is a link"
    );
    let seen =
        json!({"n": 12, "list": [2, 3], "o": {"a": 1, "b": 2}, "made": {"deep": true}, "far": 12});
    assert_eq!(
        result.child("seen"),
        Some(&seen.into()),
        "it sees its own writes"
    );
    assert_eq!(get(&spaces, "doc/n"), Some(1.into()), "nobody else does");
    spaces.commit(transaction).unwrap();
    assert_eq!(get(&spaces, "doc/list"), Some(json!([2, 3]).into()));
}

/// "Async functions are driven to their end inside the same transaction and limits"
#[test]
fn an_async_function_reads_and_writes_in_the_transaction_of_its_call() {
    let mut spaces = Spaces::default();
    set(&mut spaces, "doc", json!({"n": 1}));
    let mut transaction = spaces.begin();
    let argument =
        || Projected::Object([("n".into(), Projected::Cell(Cell::new(cell("doc/n"))))].into());
    let source = "async ({n}) => {
        const seen = [n.get()];
        n.set(2);
        await null;
        seen.push(n.get());
        await Promise.all([1, 2].map(async (x) => { await null; n.increment(x) }));
        seen.push(n.get());
        return seen;
    }";
    let mut scripts = JavaScript::default();
    let seen = scripts.call(&Arc::from(source), &[argument()], &mut transaction);
    assert_eq!(seen, Ok(Some(json!([1, 2, 5]).into())));
    assert_eq!(
        get(&spaces, "doc/n"),
        Some(1.into()),
        "nothing before the commit"
    );
    spaces.commit(transaction).unwrap();
    assert_eq!(get(&spaces, "doc/n"), Some(5.into()));
    let mut transaction = spaces.begin();
    let failing = "async ({n}) => { n.set(9); await null; throw new RangeError('late') }";
    let failure = scripts.call(&Arc::from(failing), &[argument()], &mut transaction);
    assert_eq!(&*failure.unwrap_err().kind, "RangeError");
    transaction.abort();
    assert_eq!(get(&spaces, "doc/n"), Some(5.into()));
}

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

#[test]
fn a_script_node_with_a_stream_is_a_handler() {
    let mut host = Host::scripted();
    let recipe = json!({
        "initial": {"internal": {"evt": {"$stream": true}}},
        "result": {"send": alias(&["internal", "evt"]), "out": alias(&["internal", "out"])},
        "nodes": [{
            "module": {"type": "javascript",
                "argumentSchema": {"type": "object", "properties": {"evt": {}, "foo": {}}},
                "resultSchema": {"type": "object", "properties": {"out": {}}},
                "implementation": "({ evt, foo }) => ({ out: `${foo}:${evt.payload}` })"},
            "inputs": {"evt": alias(&["internal", "evt"]), "foo": alias(&["argument", "foo"])},
            "outputs": {"out": alias(&["internal", "out"])}
        }]
    });
    host.run(Some(recipe), Some(json!({"foo": "X"})), "result")
        .unwrap();
    assert_eq!(host.get("result/out"), None, "nothing was sent yet");
    assert_eq!(
        host.send(&cell("result/send"), json!({"payload": "E"})),
        EventOutcome::Handled
    );
    assert_eq!(host.get("result/out"), Some("X:E".into()));
    host.run(None, Some(json!({"foo": "Y"})), "result").unwrap();
    assert_eq!(
        host.get("result/out"),
        Some("X:E".into()),
        "an input that changes is no event"
    );
    host.send(&cell("result/send"), json!({"payload": "F"}));
    assert_eq!(host.get("result/out"), Some("Y:F".into()));
    let failed = host.send(&cell("result/send"), Json::Null);
    assert!(matches!(failed, EventOutcome::Failed(failure) if &*failure.kind == "TypeError"));
    assert_eq!(
        host.get("result/out"),
        Some("Y:F".into()),
        "a throwing handler leaves no writes"
    );
}

/// "`wrapper: "handler"` calls `fn(event, context)`", with and without a context of its own.
#[test]
fn a_wrapped_script_gets_the_event_and_the_other_inputs() {
    let mut host = Host::scripted();
    let handler = |inputs: serde_json::Value| {
        json!({"module": {"type": "javascript", "wrapper": "handler",
                "argumentSchema": {"properties": {"log": {"asCell": true}, "by": true}},
                "implementation": "(event, {log, by}) => { log.push([event, by]) }"},
            "inputs": inputs, "outputs": {}})
    };
    let recipe = json!({
        "initial": {"internal": {"s": {"$stream": true}, "t": {"$stream": true}, "log": []}},
        "result": {"s": alias(&["internal", "s"]), "t": alias(&["internal", "t"]), "log": alias(&["internal", "log"])},
        "nodes": [
            handler(json!({"$event": alias(&["internal", "s"]), "$ctx": {"log": alias(&["internal", "log"]), "by": "context"}})),
            handler(json!({"$event": alias(&["internal", "t"]), "log": alias(&["internal", "log"]), "by": "inputs"}))
        ]
    });
    host.run(Some(recipe), None, "result").unwrap();
    for (stream, payload) in [("s", json!({"n": 1})), ("t", json!(2)), ("s", json!(null))] {
        let outcome = host.send(&cell(&format!("result/{stream}")), payload);
        assert_eq!(outcome, EventOutcome::Handled);
    }
    let expected = json!([[{"n": 1}, "context"], [2, "inputs"], [null, "context"]]);
    assert_eq!(host.get("result/log"), Some(expected.into()));
}

#[test]
fn a_hostile_script_is_an_error_on_its_node_and_the_others_are_unharmed() {
    let mut host = Host::scripted();
    let node = |source: &str, to: &str| {
        json!({"module": {"type": "javascript", "implementation": source}, "inputs": {"x": alias(&["argument", "x"])},
            "outputs": alias(&["internal", to])})
    };
    let recipe = json!({
        "result": {"bad": alias(&["internal", "bad"]), "good": alias(&["internal", "good"])},
        "nodes": [node("({x}) => { while (x > 1) {} return x }", "bad"), node("({x}) => x + 1", "good")]
    });
    host.run(Some(recipe), Some(json!({"x": 5})), "result")
        .unwrap();
    assert_eq!(host.get("result"), Some(json!({"good": 6}).into()));
    let error = host.stored("result", "errors").unwrap();
    assert_eq!(
        error.child("0").and_then(|error| error.child("type")),
        Some(&"Limit".into())
    );
    host.run(None, Some(json!({"x": 1})), "result").unwrap();
    assert_eq!(
        host.get("result"),
        Some(json!({"good": 2, "bad": 1}).into()),
        "it recovers when its inputs change"
    );
}

#[test]
fn what_leads_back_in_a_result_or_a_written_value_becomes_a_link() {
    let mut host = Host::scripted();
    let source = "({cell}) => {
        const tree = { name: 'root', kids: [{ name: 'kid' }] };
        tree.kids[0].parent = tree;
        tree.kids.push(tree.kids[0]);
        cell.set(tree);
        return { tree, n: 1 };
    }";
    let recipe = json!({
        "result": {"tree": alias(&["internal", "tree"]), "written": alias(&["internal", "written"])},
        "nodes": [{"module": {"type": "javascript", "implementation": source, "argumentSchema": {"properties": {"cell": {"asCell": true}}}},
            "inputs": {"cell": alias(&["internal", "written"])}, "outputs": {"tree": alias(&["internal", "tree"])}}]
    });
    host.run(Some(recipe), None, "result").unwrap();
    for part in ["tree", "written"] {
        let mut transaction = host.machine.spaces().begin();
        let name = transaction.get(&cell(&format!(
            "result/{part}/kids/0/parent/kids/0/parent/name"
        )));
        assert_eq!(name, Some("root".into()), "{part}");
        let twice = transaction.get(&cell(&format!("result/{part}/kids/1/name")));
        assert_eq!(
            twice,
            Some("kid".into()),
            "a part that stands twice is written twice"
        );
    }
}

#[test]
fn a_script_starts_recipes_with_run() {
    let mut host = Host::scripted();
    let child = json!({
        "result": {"text": alias(&["internal", "text"])},
        "nodes": [{"module": {"type": "javascript", "implementation": "({name}) => 'hello ' + name"},
            "inputs": {"name": alias(&["argument", "name"])}, "outputs": alias(&["internal", "text"])}]
    });
    let recipe = json!({
        "result": {"list": alias(&["internal", "list"])},
        "nodes": [{"module": {"type": "javascript", "implementation": "({names, child}) => names.map(name => run(child, {name}, name))"},
            "inputs": {"names": alias(&["argument", "names"]), "child": child}, "outputs": alias(&["internal", "list"])}]
    });
    host.run(
        Some(recipe),
        Some(json!({"names": ["ada", "bob"]})),
        "result",
    )
    .unwrap();
    assert_eq!(
        host.get("result/list"),
        Some(json!([{"text": "hello ada"}, {"text": "hello bob"}]).into())
    );
    host.run(None, Some(json!({"names": ["bob", "cy"]})), "result")
        .unwrap();
    assert_eq!(
        host.get("result/list"),
        Some(json!([{"text": "hello bob"}, {"text": "hello cy"}]).into())
    );
    assert_eq!(host.running(), 3);
}

/// Reaches everything that a script can reach: from the names it has and from what syntax makes, by
/// prototypes, properties, calls, constructions and methods. What two ways to make it give as the same
/// object is no script's own; each of those has to be frozen. Gives how many there are and which are
/// not.
const REACH: &str = r#"() => {
  const { apply, construct, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const attempt = (make) => { try { return make() } catch { return undefined } };
  const isObject = (it) => (typeof it === "object" && it !== null) || typeof it === "function";
  const givens = [() => [], () => [(x) => x], () => ["a"], () => [/a/g], () => [[1]], () => [2], () => [{ next() { return { done: true } } }, {}]];
  const open = ownKeys(globalThis).map((name) => [String(name), () => globalThis[name], 0]);
  const made = {
    list: () => [1], object: () => ({}), text: () => Object("a"), number: () => Object(1), symbol: () => Object(Symbol()),
    plain: () => function () {}, arrow: () => () => 1, later: () => async () => 1, generator: () => function* () {},
    generated: () => (function* () { yield 1 })(), generatorLater: () => async function* () {},
    generatedLater: () => (async function* () {})(), promise: () => (async () => 1)(), given: () => (function () { return arguments })(1),
    pattern: () => /a/g, matched: () => /(?<x>a)/.exec("a"), matches: () => "aa".matchAll(/a/g), made: () => class { static x = 1 },
    template: () => ((parts) => parts)`a`, thrown: () => { try { null.x } catch (error) { return error } },
    deep: () => { try { (function f() { f() })() } catch (error) { return error } },
    bound: () => (function () {}).bind(null), proxy: () => new Proxy({}, {}), list_of: () => [1].values(), map_of: () => new Map([[1, 1]]).entries(),
    set_of: () => new Set([1]).entries(), letters: () => "a"[Symbol.iterator](), numbers: () => new Uint8Array(1),
  };
  for (const name of ownKeys(made)) open.push([name, made[name], 0]);
  const shared = new Set(), expanded = new Set(), thawed = [];
  while (open.length > 0) {
    const [path, way, depth] = open.pop();
    const one = attempt(way), other = attempt(way);
    if (!isObject(one)) continue;
    const isShared = one === other;
    const make = isShared ? () => one : way;
    if (isShared) {
      if (shared.has(one)) continue;
      shared.add(one);
      if (!Object.isFrozen(one)) thawed.push(path);
    } else {
      const kind = getPrototypeOf(one);
      if (depth > 2 || (depth > 0 && expanded.has(kind))) continue;
      expanded.add(kind);
      for (let at = one; at !== null; at = getPrototypeOf(at)) {
        for (const key of ownKeys(at)) {
          for (const given of givens) open.push([`${path}.${String(key)}()`, () => { const it = make(); return it[key](...given()) }, depth + 1]);
        }
      }
    }
    const next = isShared ? 1 : depth + 1;
    open.push([`${path}.__proto__`, () => getPrototypeOf(make()), next]);
    for (const key of ownKeys(one)) {
      open.push([`${path}.${String(key)}`, () => make()[key], next]);
      for (const part of ["value", "get", "set"]) open.push([`${path}.${String(key)} ${part}`, () => getOwnPropertyDescriptor(make(), key)[part], next]);
    }
    if (typeof one === "function") {
      for (const given of givens) {
        open.push([`${path}()`, () => apply(make(), undefined, given()), next]);
        open.push([`new ${path}`, () => construct(make(), given()), next]);
      }
    }
  }
  return { thawed, shared: shared.size };
}"#;

#[test]
fn everything_that_scripts_have_in_common_is_frozen() {
    let mut scripts = JavaScript::new(ScriptLimits {
        fuel: 1_000_000,
        ..ScriptLimits::default()
    });
    let reached = call(&mut scripts, REACH, json!({})).unwrap().unwrap();
    assert_eq!(reached.child("thawed"), Some(&json!([]).into()));
    let shared = reached.child("shared").and_then(Json::as_int).unwrap();
    assert!(shared > 500, "{shared} objects were reached");
}

#[test]
fn a_script_that_changes_how_lists_are_gone_through_changes_nothing_for_others() {
    let stealth = "() => { const P = Object.getPrototypeOf([][Symbol.iterator]()); const next = P.next; P.next = function () { const r = next.call(this); if (!r.done && r.value && typeof r.value === 'object' && 'n' in r.value) return {done: false, value: {n: 1000}}; return r }; return 'ok' }";
    let ending =
        "() => { Object.getPrototypeOf([][Symbol.iterator]()).next = () => ({done: true}) }";
    let stacks = "() => { Error.prepareStackTrace = () => 'mine'; Error.stackTraceLimit = 0 }";
    let mut scripts = JavaScript::default();
    for tampering in [stealth, ending, stacks] {
        let failure = call(&mut scripts, tampering, json!({"n": 5})).unwrap_err();
        assert_eq!(&*failure.kind, "TypeError", "{tampering}");
        let sum = "({n}) => { let s = 0; for (const v of [n, 10, 100]) s += v; return [s, n * 2, [...new Set([n, 2])].length] }";
        assert_eq!(
            call(&mut scripts, sum, json!({"n": 5})),
            Ok(Some(json!([115, 10, 2]).into()))
        );
    }
    let stack = call(&mut scripts, "() => { null.x }", json!({})).unwrap_err();
    assert!(stack.traceback.is_some_and(|stack| stack.contains("at ")));
}

#[test]
fn a_source_is_checked_without_being_called_as_often_as_one_likes() {
    let mut scripts = JavaScript::default();
    for _ in 0..2 {
        for (source, refused) in [
            ("() => { throw new Error('called') }", None),
            ("(", Some("SyntaxError")),
            ("() => 12n", Some("SyntaxError")),
            ("({x}) => x * 2", None),
        ] {
            let kind = scripts.check(source).err().map(|failure| failure.kind);
            assert_eq!(kind.as_deref(), refused, "{source}");
        }
    }
}

/// There are no numbers without bound; whatever else looks like one is what it is.
#[test]
fn texts_that_look_like_big_integers_are_texts() {
    for (source, expected) in [
        ("() => '15min'", "15min"),
        ("() => 'takes 12n'", "takes 12n"),
        ("() => `takes 0x1Fn` /* 7n */ // 8n", "takes 0x1Fn"),
        ("() => /12n/.source", "12n"),
        ("() => { const a12n = 'a name'; return a12n }", "a name"),
    ] {
        assert_eq!(value(source), expected.into(), "{source}");
        assert_eq!(JavaScript::default().check(source), Ok(()), "{source}");
    }
    for source in [
        "() => 12n",
        "() => 1_000n * 2n",
        "() => `${12n}`",
        "() => /'/.test('a') || 9n + '\''",
        "() => ({ 'a': 0x1Fn })",
    ] {
        assert_eq!(&*js(source).unwrap_err().kind, "SyntaxError", "{source}");
        let checked = JavaScript::default().check(source);
        assert_eq!(&*checked.unwrap_err().kind, "SyntaxError", "{source}");
    }
}
