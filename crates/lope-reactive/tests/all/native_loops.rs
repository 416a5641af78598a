//! Loops inside the engine: what a built-in does in one go is paid for like what a script does itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lope_model::Failure;
use lope_reactive::javascript::{JavaScript, ScriptHost, ScriptLimits};
use lope_reactive::{Json, Projected, Transaction};

use crate::fixture::json;

/// Far more than any of these takes, and far less than they took without a bound: hours.
const PATIENCE: Duration = Duration::from_secs(60);

fn call(scripts: &mut JavaScript, source: &str) -> Result<Option<Json>, Failure> {
    let arguments = [Projected::Plain(json!({"x": 7}).into())];
    scripts.call(&Arc::from(source), &arguments, &mut Transaction::default())
}

/// "a script that exceeds a limit is an error on its node and never harms others"
#[test]
fn what_a_built_in_does_in_one_go_is_paid_for() {
    for hostile in [
        // Lists.
        "() => new Array(1e9).fill(0)",
        "() => { const a = new Array(1e6).fill(0); for (;;) a.fill(1) }",
        "() => { const a = new Array(1e6).fill(0); for (;;) a.reverse() }",
        "() => { const a = new Array(1e6).fill(0); for (;;) a.sort() }",
        "() => { const a = new Array(1e6).fill(0); for (;;) a.copyWithin(0, 1) }",
        "() => { const a = new Array(1e6).fill(0); for (;;) { a.unshift(1); a.pop() } }",
        "() => { const a = new Array(1e7); for (;;) a.slice(0, 1e7) }",
        "() => { const a = new Array(1e6).fill(0); for (;;) { const b = [...a] } }",
        "() => { const a = new Array(1e6).fill(0); for (;;) { const [...b] = a } }",
        "() => { const a = new Array(1e6).fill(0); for (;;) a.join('') }",
        "() => [].concat(new Array(2 ** 32 - 1))",
        "() => [new Array(2 ** 32 - 1)].flat()",
        "() => [1].flatMap(() => new Array(2 ** 32 - 1))",
        "() => [].fill.call({ length: 2 ** 53 - 1, __proto__: null }, 1)",
        "() => { let n = 0; [].reverse.call({ get length() { return n++ === 0 ? 1 : 2 ** 53 - 1 } }) }",
        "() => { let n = 0; [].reverse.call({ length: { valueOf: () => n++ === 0 ? 1 : 2 ** 53 - 1 } }) }",
        // What goes through a list that is long and empty.
        "() => new Set(new Array(2 ** 32 - 1))",
        "() => new WeakSet(new Array(2 ** 32 - 1).fill({}))",
        "() => { const a = [], it = a.values(); a.length = 2 ** 32 - 1; return new Set(it) }",
        "() => { const a = [], it = a.values(); a.length = 2 ** 32 - 1; return it.drop(2 ** 32).next() }",
        "() => { const a = [], it = a.values(); a.length = 2 ** 32 - 1; return new Set([undefined]).isSupersetOf({ size: 1, has() {}, keys: () => it }) }",
        // Texts.
        "() => { for (;;) 'x'.repeat(2 ** 24) }",
        "() => { const s = 'x'.repeat(2 ** 22); for (;;) { const t = s + 'y'; t.at(0) } }",
        "() => 'x'.repeat(2 ** 22).indexOf('x'.repeat(2 ** 21) + 'y')",
        "() => 'x'.repeat(2 ** 22).split('x'.repeat(2 ** 21) + 'y')",
        "() => 'x'.repeat(2 ** 22).replaceAll({ toString: () => 'x'.repeat(2 ** 21) + 'y' }, '')",
        "() => { const s = 'x'.repeat(2 ** 24); for (;;) s.includes('y') }",
        "() => { const s = 'x'.repeat(2 ** 24); for (;;) s.trim() }",
        "() => { const s = 'x'.repeat(2 ** 24); for (;;) s.toUpperCase() }",
        "() => /^(a+)+$/.test('a'.repeat(50) + 'b')",
        "() => /(x+x+)+y/.exec('x'.repeat(60))",
        "() => { const s = 'x'.repeat(2 ** 22); for (;;) s.replace(/x/g, 'y') }",
        // JSON.
        "() => { const a = new Array(1e5).fill(1); for (;;) JSON.stringify(a) }",
        "() => { const s = JSON.stringify(new Array(1e5).fill(1)); for (;;) JSON.parse(s) }",
        "() => { let a = []; for (let i = 0; i < 60; i++) a = [a, a]; return JSON.stringify(a) }",
        // Bytes.
        "() => { for (;;) new Uint8Array(2 ** 24) }",
        "() => { const a = new Uint8Array(2 ** 24); for (;;) a.fill(1) }",
        "() => { const a = new Float64Array(2 ** 20); for (;;) a.sort() }",
        "() => { const a = new Uint8Array(2 ** 24); for (;;) a.indexOf(1) }",
        // Caught again and again.
        "() => { const a = new Array(1e6).fill(0); for (;;) { try { for (;;) a.fill(1) } catch {} } }",
        "() => { for (;;) { try { for (;;) 'x'.repeat(2 ** 24) } catch {} } }",
    ] {
        let mut scripts = JavaScript::new(ScriptLimits {
            fuel: 100,
            ..ScriptLimits::default()
        });
        let begun = Instant::now();
        let failure = call(&mut scripts, hostile).unwrap_err();
        let took = begun.elapsed();
        let kinds = ["Limit", "RangeError", "TypeError"];
        assert!(kinds.contains(&&*failure.kind), "{hostile}: {failure:?}");
        assert!(took < PATIENCE, "{hostile} took {took:?}");
        let seven = call(&mut scripts, "({x}) => x");
        assert_eq!(seven, Ok(Some(7.into())), "after {hostile}");
    }
}

/// What is paid for by size ends a call alike each time, whatever ran before it.
#[test]
fn what_a_built_in_costs_does_not_depend_on_the_machine() {
    let mut scripts = JavaScript::new(ScriptLimits {
        fuel: 20,
        ..ScriptLimits::default()
    });
    let filling = |times: u32| {
        format!(
            "() => {{ const a = new Array(10000).fill(0); for (let i = 0; i < {times}; i++) a.fill(i); return a[0] }}"
        )
    };
    for _ in 0..3 {
        assert_eq!(call(&mut scripts, &filling(20)), Ok(Some(19.into())));
        let failure = call(&mut scripts, &filling(2_000)).unwrap_err();
        assert_eq!(&*failure.kind, "Limit", "{failure:?}");
    }
}

/// Scripts and what they give, here as in any other engine.
const USUAL: &[(&str, &str)] = &[
    (
        "() => [1, [2, [3, [4]]], , 5].flat()",
        "[1, 2, [3, [4]], 5]",
    ),
    ("() => [1, [2, [3, [4]]]].flat(Infinity)", "[1, 2, 3, 4]"),
    ("() => [[1]].flat(0)", "[[1]]"),
    (
        "() => [1, 2].flatMap((x, i) => [x, [i]])",
        "[1, [0], 2, [1]]",
    ),
    (
        "() => [[1, 2].concat(3, [4, [5]]), [].concat('ab')]",
        r#"[[1, 2, 3, 4, [5]], ["ab"]]"#,
    ),
    ("() => [...new Set([1, 2, 1, NaN, NaN])].length", "3"),
    ("() => [...new Set('hello')].join('')", r#""helo""#),
    (
        "() => [new Set().size, new Set(null).size, new Set([1]) instanceof Set, new Set().constructor === Set]",
        "[0, 0, true, true]",
    ),
    (
        "() => [...new Map([['a', 1], ['b', 2]])]",
        r#"[["a", 1], ["b", 2]]"#,
    ),
    (
        "() => { class Tags extends Set { add(x) { return super.add(x + '!') } } const t = new Tags(['a']); return [t instanceof Tags, ...t] }",
        r#"[true, "a!"]"#,
    ),
    (
        "() => { try { return Set() } catch (error) { return error.name } }",
        r#""TypeError""#,
    ),
    (
        "() => { try { return new Set(5) } catch (error) { return error.name } }",
        r#""TypeError""#,
    ),
    (
        "() => { try { return new Map([1]) } catch (error) { return error.name } }",
        r#""TypeError""#,
    ),
    (
        "() => { const key = {}; return [new WeakSet([key]).has(key), new WeakMap([[key, 2]]).get(key)] }",
        "[true, 2]",
    ),
    (
        "() => Object.fromEntries([['a', 1], ['__proto__', 2]])",
        r#"{"a": 1, "__proto__": 2}"#,
    ),
    (
        "() => [...new Set([1, 2, 3]).union(new Set([3, 4]))]",
        "[1, 2, 3, 4]",
    ),
    (
        "() => [...new Set([1, 2]).intersection(new Map([[2, 0]]))]",
        "[2]",
    ),
    (
        "() => new Set([1]).isSubsetOf({ size: 2, has: () => true, keys: () => [1, 2].values() })",
        "true",
    ),
    (
        "() => [Map.groupBy([1, 2, 3], (x) => x % 2).get(1), Map.name, Set.name]",
        r#"[[1, 3], "Map", "Set"]"#,
    ),
    ("() => [...[1, 2, 3, 4].values().drop(2)]", "[3, 4]"),
    (
        "() => ['a-b-c'.split('-'), 'a1b'.split(/[0-9]/), 'abc'.split(''), 'a-b-c'.split('-', 2), 'ab'.split()]",
        r#"[["a", "b", "c"], ["a", "b"], ["a", "b", "c"], ["a", "b"], ["ab"]]"#,
    ),
    (
        "() => ['aXbX'.replace('X', '-'), 'aXbX'.replaceAll('X', (x) => x + x), 'a1'.replace(/[0-9]/, '$&$&'), 'null'.replace(null, 'x')]",
        r#"["a-bX", "aXXbXX", "a11", "x"]"#,
    ),
    (
        "() => ['abcabc'.indexOf('c', 3), 'abcabc'.lastIndexOf('a'), 'abc'.includes('bc'), 'a1'.indexOf(1), ' a '.trim()]",
        r#"[5, 3, true, 1, "a"]"#,
    ),
    (
        "() => { try { return String.prototype.trim.call(null) } catch (error) { return error.name } }",
        r#""TypeError""#,
    ),
    (
        "() => [[3, 1, 10].sort(), [3, 1, 10].sort((a, b) => a - b), [3, 1].toSorted(), [1, 2].reverse()]",
        "[[1, 10, 3], [1, 3, 10], [1, 3], [2, 1]]",
    ),
    (
        "() => [...new Uint8Array([3, 1, 2]).sort(), ...new Uint8Array(2).fill(7)]",
        "[1, 2, 3, 7, 7]",
    ),
    (
        "() => { const a = new Uint8Array(4); a.set([1, 2], 1); return [[...a], a.indexOf(2), Array.prototype.slice.call(a, 1, 2)] }",
        "[[0, 1, 2, 0], 2, [1]]",
    ),
    (
        "() => (function () { return Array.prototype.map.call(arguments, (x) => x + 1) })(1, 2)",
        "[2, 3]",
    ),
    (
        "() => [Array.prototype.slice.call({ length: '2', 0: 'a', 1: 'b' }), Array.prototype.slice.call({}), Array.prototype.join.call('abc', '-')]",
        r#"[["a", "b"], [], "a-b-c"]"#,
    ),
    (
        r#"() => JSON.parse('{"a": [1, 2]}', (key, value) => (key === '1' ? 9 : value))"#,
        r#"{"a": [1, 9]}"#,
    ),
    ("() => Math.sumPrecise ? Math.sumPrecise([1, 2]) : 3", "3"),
];

#[test]
fn what_replaces_a_built_in_does_what_that_did() {
    let mut scripts = JavaScript::default();
    for (source, expected) in USUAL {
        let expected = Json::parse(expected).unwrap();
        assert_eq!(call(&mut scripts, source), Ok(Some(expected)), "{source}");
    }
}

/// The last resort: the time of the processor ends a call that its fuel does not, with an error of its own.
#[test]
fn the_time_of_the_processor_ends_what_nothing_else_ends() {
    let mut scripts = JavaScript::new(ScriptLimits {
        fuel: u64::MAX / 20_000,
        time: Duration::from_millis(50),
        ..ScriptLimits::default()
    });
    for hostile in [
        "() => { for (;;) {} }",
        "() => { for (;;) { try { for (;;) {} } catch {} } }",
    ] {
        let failure = call(&mut scripts, hostile).unwrap_err();
        assert_eq!(&*failure.kind, "Limit");
        assert!(
            failure.message.contains("time of the processor"),
            "{failure:?}"
        );
        assert_eq!(call(&mut scripts, "({x}) => x"), Ok(Some(7.into())));
    }
}
