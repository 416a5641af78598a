//! Everything is bounded: length, depth, steps, bytes, and the size and depth of what comes out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lope_expr::{DEPTH_MAX, Expr, Fuel, NODES_MAX, NoNames, Node, SOURCE_MAX, Unary, eval, parse};
use lope_model::{Map, Value};

fn limit(text: &str) -> String {
    let expr = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let error = eval(&expr, &NoNames, &mut Fuel::new(3_000_000)).expect_err(text);
    assert_eq!(error.kind.name(), "Limit", "{text}: {error}");
    error.message
}

fn refused(text: &str) -> String {
    parse(text).expect_err("too deep or too long").message
}

#[test]
fn deep_text_is_refused_without_a_deep_stack() {
    let nested = [
        ("(", "1", ")"),
        ("[", "n", "]"),
        ("-", "n", ""),
        ("!", "n", ""),
        ("a ? 1 : ", "1", ""),
        ("a ? (", "1", ") : 2"),
        ("size(", "n", ")"),
        ("{'a': ", "n", "}"),
        ("x[", "n", "]"),
        ("a.map(x, ", "n", ")"),
    ];
    let chained = [
        ("", "n", ".a"),
        ("", "n", "[0]"),
        ("", "n", " + n"),
        ("", "n", " == n"),
        ("", "n", ".size()"),
    ];
    for (levels, table) in [(100, &nested[..]), (200, &chained)] {
        for (open, middle, close) in table {
            let text =
                |levels: usize| format!("{}{middle}{}", open.repeat(levels), close.repeat(levels));
            let message = format!("an expression nested deeper than {levels} levels");
            assert!(parse(&text(levels - 5)).is_ok(), "{open}{middle}{close}");
            assert_eq!(refused(&text(levels + 1)), message, "{open}{middle}{close}");
            assert_eq!(refused(&text(5_000)), message, "{open}{middle}{close}");
        }
    }
    assert!(
        parse(&vec!["n"; 5_000].join(" && ")).is_ok(),
        "many operands of one && are not deep"
    );
}

#[test]
fn long_text_is_refused() {
    assert_eq!(
        refused(&"1".repeat(SOURCE_MAX + 1)),
        "an expression of more than 65536 bytes"
    );
}

#[test]
fn the_deepest_trees_evaluate_and_travel() {
    let expr = (1..DEPTH_MAX).fold(Expr::name("n"), |inner, _| {
        Expr::new(Node::List(vec![inner]))
    });
    let packed = rmp_serde::to_vec(&expr).unwrap();
    assert_eq!(rmp_serde::from_slice::<Expr>(&packed).unwrap(), expr);
    let json = serde_json::to_string(&expr).unwrap();
    assert_eq!(serde_json::from_str::<Expr>(&json).unwrap(), expr);
    let scope = Map::from_iter([("n".into(), Value::Int(1))]);
    let error = eval(&expr, &scope, &mut Fuel::default()).unwrap_err();
    assert_eq!(error.message, "the result is nested deeper than 128 levels");
}

#[test]
fn trees_made_by_hand_are_bounded_too() {
    let mut expr = Expr::literal(true);
    for _ in 0..DEPTH_MAX + 10 {
        expr = Expr::unary(Unary::Not, expr);
    }
    let error = eval(&expr, &NoNames, &mut Fuel::default()).unwrap_err();
    assert_eq!(error.message, "an expression nested deeper than 200 levels");
    let stored = Expr::from_value(&expr.to_value()).unwrap_err();
    assert_eq!(
        stored.to_string(),
        "not an expression: nested deeper than 200 levels"
    );
    let wide = Expr::new(Node::List(vec![Expr::name("n"); NODES_MAX]));
    assert!(Expr::from_value(&wide.to_value()).is_err());
}

#[test]
fn work_and_memory_are_paid_for() {
    assert_eq!(
        limit("range(9223372036854775807)"),
        "the expression takes more than 3000000 steps"
    );
    let large =
        "bind(s, range(4000).map(i, 'aaaaaaaaaaaaaaaa').join(''), range(9000).all(i, s + s != s))";
    assert_eq!(
        limit(large),
        "the expression makes more than 134217728 bytes"
    );
    limit("range(100).all(a, range(1000).all(b, range(1000).all(c, true)))");
    limit(
        "bind(s, 'xxxxxxxxxxxxxxxx'.replace('x', 'xxxxxxxxxxxxxxxx'), bind(t, s.replace('x', s), t.replace('x', t)))",
    );
    limit("bind(s, range(5000).map(i, 'aaaaaaaaaa').join(''), s.replace('', s))");
    // A list that holds itself many times over is small in memory and huge once it is written down.
    let doubled = (0..40).fold("[1]".to_owned(), |inner, _| {
        format!("bind(x, {inner}, [x, x])")
    });
    assert_eq!(limit(&doubled), "the result is larger than 16777216 bytes");
    limit(&format!("toJson({doubled})"));
    limit(&format!("bind(a, {doubled}, bind(b, {doubled}, a == b))"));
}

#[test]
fn a_budget_may_be_shared_and_says_what_was_used() {
    let expr = parse("range(10).map(x, x + 1)").unwrap();
    let mut fuel = Fuel::new(100);
    assert!(eval(&expr, &NoNames, &mut fuel).is_ok());
    let used = fuel.spent();
    assert!((40..60).contains(&used), "{used} steps");
    assert_eq!(fuel.left(), 100 - used);
    assert!(eval(&expr, &NoNames, &mut fuel).is_ok());
    assert!(
        eval(&expr, &NoNames, &mut fuel).is_err(),
        "the third does not fit"
    );
    assert_eq!(fuel.left(), 0);
}

#[test]
fn every_function_has_a_name_of_its_own_and_parameters() {
    let mut seen = std::collections::HashSet::new();
    for entry in lope_expr::functions::all() {
        assert!(seen.insert(entry.name), "{} stands twice", entry.name);
        assert!(entry.arity.0 <= entry.arity.1, "{}", entry.name);
    }
    assert!(seen.len() > 50, "{} functions", seen.len());
}
