//! Properties over random trees: nothing panics, fuel always ends, what is written reads back, what
//! is stored loads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lope_expr::{
    Binary, Each, EachKind, Expr, Fuel, Function, Let, Logic, NoNames, Node, Unary, eval,
    functions, parse,
};
use lope_model::{Map, Value, value};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        prop_oneof![Just(0), -3_i64..10, any::<i64>()].prop_map(Value::Int),
        prop_oneof![
            Just(0.0),
            Just(0.5),
            any::<f64>().prop_filter("finite", |f| f.is_finite())
        ]
        .prop_map(Value::Float),
        "[a-c0-9 ,%{}é\"\\\\\n]{0,6}".prop_map(Value::from),
        vec(any::<u8>(), 0..4).prop_map(Value::bytes),
    ]
    .boxed()
}

fn any_value() -> BoxedStrategy<Value> {
    scalar()
        .prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::list),
                vec(("[a-c]", inner.clone()), 0..3).prop_map(Value::map),
                (select(vec!["tuple", "set"]), vec(inner.clone(), 0..3))
                    .prop_map(|(tag, items)| Value::tag(tag, Value::list(items))),
                vec((inner.clone(), inner.clone()), 0..3).prop_map(|pairs| {
                    let pairs = pairs
                        .into_iter()
                        .map(|(key, value)| Value::list(vec![key, value]));
                    Value::tag("dict", Value::list(pairs.collect()))
                }),
                inner
                    .clone()
                    .prop_map(|inside| Value::tag("timestamp", inside)),
                inner
                    .clone()
                    .prop_map(|inside| Value::tag("duration", inside)),
                // Tags whose insides are not what they should be come from outside.
                (
                    select(vec![
                        "tuple",
                        "set",
                        "dict",
                        "exception",
                        "secret",
                        "secret-text",
                        "app:User"
                    ]),
                    inner
                )
                    .prop_map(|(tag, inside)| Value::tag(tag, inside)),
            ]
        })
        .boxed()
}

fn name() -> BoxedStrategy<String> {
    select(vec!["a", "b", "x", "secrets", "send-mail", "in", "r", "é"])
        .prop_map(str::to_owned)
        .boxed()
}

fn each_of(
    kinds: Vec<EachKind>,
    inner: BoxedStrategy<Expr>,
    filtered: bool,
) -> BoxedStrategy<Expr> {
    let when = if filtered {
        proptest::option::of(inner.clone()).boxed()
    } else {
        Just(None).boxed()
    };
    (select(kinds), name(), inner.clone(), when, inner)
        .prop_map(|(kind, name, over, when, body)| {
            let when = when.filter(|_| matches!(kind, EachKind::List | EachKind::Flat));
            Expr::new(Node::Each(Box::new(Each {
                kind,
                name: name.into(),
                over,
                when,
                body,
            })))
        })
        .boxed()
}

/// Calls of functions, with as many arguments as they take.
fn call_of(inner: BoxedStrategy<Expr>) -> BoxedStrategy<Expr> {
    let known: Vec<&'static str> = functions::all().map(|entry| entry.name).collect();
    (select(known), vec(inner, 1..5))
        .prop_map(|(name, mut arguments)| {
            let function = Function::named(name).unwrap();
            let (least, most) = function.entry().arity;
            while arguments.len() < least {
                arguments.push(Expr::literal(1));
            }
            arguments.truncate(most);
            Expr::new(Node::Call(function, arguments))
        })
        .boxed()
}

/// Nothing but literals becomes one literal when it is read.
fn folded_list(items: Vec<Expr>) -> Expr {
    match items
        .iter()
        .map(|item| item.as_literal().cloned())
        .collect()
    {
        Some(values) => Expr::literal(Value::list(values)),
        None => Expr::new(Node::List(items)),
    }
}

fn folded_map(entries: Vec<(String, Expr)>) -> Expr {
    let mut entries: Vec<(Expr, Expr)> = entries
        .into_iter()
        .map(|(key, value)| (Expr::literal(key), value))
        .collect();
    entries.dedup_by(|a, b| a.0 == b.0);
    let literal = |(key, value): &(Expr, Expr)| {
        Some((
            key.as_literal()?.as_str()?.to_owned(),
            value.as_literal()?.clone(),
        ))
    };
    match entries.iter().map(literal).collect::<Option<Vec<_>>>() {
        Some(found) => Expr::literal(Value::map(found)),
        None => Expr::new(Node::Map(entries)),
    }
}

/// Trees that text can say, in the form in which it says them.
fn cel_tree() -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![
        scalar().prop_map(Expr::literal),
        name().prop_map(|name| Expr::name(&name)),
        Just(Expr::new(Node::Secret("KEY".into()))),
    ];
    let operators = Binary::ALL.to_vec();
    leaf.prop_recursive(5, 40, 4, move |inner| {
        let inner = inner.boxed();
        let pair = || (inner.clone(), inner.clone());
        let each = vec![
            EachKind::List,
            EachKind::Flat,
            EachKind::Filter,
            EachKind::All,
            EachKind::Exists,
        ];
        let more = vec![EachKind::ExistsOne, EachKind::SortBy, EachKind::GroupBy];
        prop_oneof![
            (select(operators.clone()), pair()).prop_map(|(op, (a, b))| Expr::binary(op, a, b)),
            (select(vec![Unary::Not, Unary::Neg]), inner.clone())
                .prop_map(|(op, a)| Expr::unary(op, a)),
            (
                select(vec![Logic::And, Logic::Or]),
                vec(inner.clone(), 2..4)
            )
                .prop_map(|(op, items)| Expr::new(Node::Logic(op, items))),
            (pair(), inner.clone())
                .prop_map(|((c, a), b)| Expr::new(Node::Choice(Box::new((c, a, b))))),
            (inner.clone(), name()).prop_map(|(a, field)| a.field(&field)),
            (inner.clone(), name())
                .prop_map(|(a, field)| Expr::new(Node::Has(Box::new(a), field.into()))),
            vec(inner.clone(), 0..3).prop_map(folded_list),
            vec(("[a-d]", inner.clone()), 0..2).prop_map(folded_map),
            vec(inner.clone(), 0..3).prop_map(|parts| Expr::new(Node::Text(parts))),
            (name(), pair()).prop_map(|(name, (value, body))| {
                Expr::new(Node::Let(Box::new(Let {
                    name: name.into(),
                    value,
                    body,
                })))
            }),
            each_of(each, inner.clone(), true),
            each_of(more, inner.clone(), false),
            call_of(inner.clone()),
        ]
    })
    .boxed()
}

/// Trees of every node, operator and function over every kind of value.
fn any_tree() -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![
        4 => any_value().prop_map(|value| Expr::new(Node::Literal(value))),
        2 => name().prop_map(|name| Expr::name(&name)),
        1 => Just(Expr::new(Node::Secret("KEY".into()))),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let inner = inner.boxed();
        let pair = || (inner.clone(), inner.clone());
        prop_oneof![
            (select(Binary::ALL), pair()).prop_map(|(op, (a, b))| Expr::binary(op, a, b)),
            (select(Unary::ALL), inner.clone()).prop_map(|(op, a)| Expr::unary(op, a)),
            (select(Logic::ALL), vec(inner.clone(), 2..4))
                .prop_map(|(op, items)| Expr::new(Node::Logic(op, items))),
            vec(inner.clone(), 0..3).prop_map(|items| Expr::new(Node::List(items))),
            vec(pair(), 0..3).prop_map(|entries| Expr::new(Node::Map(entries))),
            vec(inner.clone(), 0..3).prop_map(|parts| Expr::new(Node::Text(parts))),
            (name(), pair()).prop_map(|(name, (value, body))| {
                Expr::new(Node::Let(Box::new(Let {
                    name: name.into(),
                    value,
                    body,
                })))
            }),
            (
                select(EachKind::ALL),
                name(),
                pair(),
                proptest::option::of(inner.clone())
            )
                .prop_map(|(kind, name, (over, body), when)| {
                    Expr::new(Node::Each(Box::new(Each {
                        kind,
                        name: name.into(),
                        over,
                        when,
                        body,
                    })))
                }),
            call_of(inner.clone()),
            call_of(inner.clone()),
        ]
    })
    .boxed()
}

fn scope() -> Map {
    let text = r#"{"a": [1, 2, {"x": "y"}], "b": {"a": 1, "c": "text"}, "x": 3, "r": 2.5, "é": "a,b", "in": true}"#;
    value::from_json(text).unwrap().as_map().unwrap().clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_written_reads_back(expr in cel_tree()) {
        let text = expr.to_string();
        let read = parse(&text);
        prop_assert_eq!(read.as_ref().ok(), Some(&expr), "{} {:?}", text, read);
    }

    #[test]
    fn random_text_never_panics(text in "[a-z0-9 .,()\\[\\]{}'\"+*/%<>=!?:&|\\\\`é\n-]{0,40}") {
        if let Ok(expr) = parse(&text) {
            let _ = eval(&expr, &scope(), &mut Fuel::new(10_000));
        }
    }

    #[test]
    fn evaluation_never_panics_and_fuel_ends_it(expr in any_tree()) {
        let mut fuel = Fuel::new(20_000);
        let first = eval(&expr, &scope(), &mut fuel);
        prop_assert!(fuel.spent() <= 20_000);
        let second = eval(&expr, &scope(), &mut Fuel::new(20_000));
        prop_assert_eq!(first, second, "the same twice");
    }

    #[test]
    fn every_function_takes_any_values(entry in select(functions::all().map(|e| e.name).collect::<Vec<_>>()), args in vec(any_value(), 5)) {
        let function = Function::named(entry).unwrap();
        let (least, most) = function.entry().arity;
        for count in least..=most.min(5) {
            let args = args[..count].iter().map(|value| Expr::new(Node::Literal(value.clone()))).collect();
            let _ = eval(&Expr::new(Node::Call(function, args)), &NoNames, &mut Fuel::new(50_000));
        }
    }

    #[test]
    fn trees_survive_json_and_messagepack(expr in any_tree(), line in 1_u32..100) {
        let mut placed = expr.clone();
        placed.at = lope_expr::TextLocation::new(line, 3);
        for tree in [&expr, &placed] {
            let packed = rmp_serde::to_vec_named(tree).unwrap();
            let loaded: Expr = rmp_serde::from_slice(&packed).unwrap();
            prop_assert_eq!(&loaded, tree);
            prop_assert_eq!((loaded.at.line, loaded.at.column), (tree.at.line, tree.at.column));
            let json = serde_json::to_string(tree).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Expr>(&json).unwrap(), tree, "{}", json);
        }
        prop_assert_eq!(expr.canonical(), placed.canonical());
    }

    #[test]
    fn damaged_trees_are_refused_or_run(code in vec(prop_oneof![
        scalar(),
        (select(vec!["add", "not", "and", "if", "list", "map", "call", "each", "let", "name", "text", "zzz"]), vec(scalar(), 0..3))
            .prop_map(|(word, rest)| Value::list([Value::str(word)].into_iter().chain(rest).collect())),
    ], 0..8)) {
        if let Ok(expr) = Expr::from_value(&Value::list(code)) {
            let _ = eval(&expr, &scope(), &mut Fuel::new(10_000));
        }
    }
}
