//! What compiled Python does with objects, exceptions and large collections: things its own answers
//! in `expr_python` cannot show, because they have no literal.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lope_expr::{Expr, Fuel, NoNames, eval, functions};
use lope_model::{Failure, Value, value};

fn run_with(code: &str, fuel: &mut Fuel) -> String {
    let tree = value::from_json(code).unwrap_or_else(|error| panic!("{code}: {error}"));
    let expr = Expr::from_value(&tree).unwrap_or_else(|error| panic!("{code}: {error}"));
    match eval(&expr, &NoNames, fuel) {
        Ok(value) => value::to_json(&value),
        Err(error) => error.to_string(),
    }
}

fn check(table: &[(&str, &str)]) {
    for (code, expected) in table {
        assert_eq!(run_with(code, &mut Fuel::default()), *expected, "{code}");
    }
}

#[test]
fn objects_have_attributes() {
    let user = r#"["lit",{"$tag":["app:User",{"name":"Ann","age":41}]}]"#;
    check(&[
        (&format!(r#"[{user},"name",["py.attr"]]"#), r#""Ann""#),
        (
            &format!(r#"[{user},"zip",["py.attr"]]"#),
            "AttributeError: 'User' object has no attribute 'zip'",
        ),
        (&format!(r#"[{user},["field","age"]]"#), "41"),
        (
            &format!(r#"[{user},"age",5,["call","py.set_attr",3]]"#),
            r#"{"$tag":["app:User",{"name":"Ann","age":5}]}"#,
        ),
        (
            &format!(r#"[{user},"zip",null,["call","py.getattr",3]]"#),
            "null",
        ),
        (
            &format!(r#"[{user},"name",["call","py.hasattr",2]]"#),
            "true",
        ),
        (
            &format!(r#"[{user},["call","py.str",1]]"#),
            r#""User(name='Ann', age=41)""#,
        ),
        (
            &format!(r#"[{user},["lit",["int","app:User"]],["call","py.isinstance",2]]"#),
            "true",
        ),
        (
            &format!(r#"[{user},"dict",["call","py.isinstance",2]]"#),
            "false",
        ),
        (&format!("[{user},{user},[\"py.eq\"]]"), "true"),
        (&format!("[{user},[\"truth\"]]"), "true"),
        (
            &format!("[{user},1,[\"py.add\"]]"),
            "TypeError: unsupported operand type(s) for +: 'User' and 'int'",
        ),
        (
            &format!(r#"[{user},{user},["call","py.set_of",2],["call","py.len",1]]"#),
            "TypeError: unhashable type: 'User'",
        ),
        (
            r#"["app:P",["lit",{"x":1}],["call","py.object",2],"x",["py.attr"]]"#,
            "1",
        ),
        (
            r#"["secret",["lit",{}],["call","py.object",2]]"#,
            "ValueError: the tag 'secret' is reserved",
        ),
        (
            r#"[["lit",{"a":1}],"a",["py.attr"]]"#,
            "AttributeError: 'dict' object has no attribute 'a'",
        ),
        (
            r#"[null,"a",1,["call","py.set_attr",3]]"#,
            "AttributeError: 'NoneType' object has no attribute 'a'",
        ),
    ]);
}

#[test]
fn failures_become_exceptions() {
    let mut failure = Failure::new("KeyError", "'a'");
    failure.bases = vec!["LookupError".into()];
    let failure = serde_json::to_string(&failure).unwrap();
    let caught = format!(r#"["lit",{failure}],["call","py.exception",1]"#);
    check(&[
        (&format!(r#"[{caught},["call","py.str",1]]"#), r#""'a'""#),
        (
            &format!(r#"[{caught},["call","py.repr",1]]"#),
            r#""KeyError(\"'a'\")""#,
        ),
        (
            &format!(r#"[{caught},"LookupError",["call","py.isinstance",2]]"#),
            "true",
        ),
        (
            &format!(r#"[{caught},"Exception",["call","py.isinstance",2]]"#),
            "true",
        ),
        (
            &format!(r#"[{caught},"ValueError",["call","py.isinstance",2]]"#),
            "false",
        ),
        (
            &format!(r#"[{caught},"args",["py.attr"]]"#),
            r#"{"$tag":["tuple",["'a'"]]}"#,
        ),
        (
            &format!(r#"[{caught},"message",["py.attr"]]"#),
            "AttributeError: 'KeyError' object has no attribute 'message'",
        ),
        (
            &format!(r#"[{caught},["call","py.type_name",1]]"#),
            r#""KeyError""#,
        ),
        (
            r#"[5,["call","py.exception",1]]"#,
            "TypeError: a failure expected, not int",
        ),
    ]);
}

/// Frozen dataclasses may be keys and cannot be changed, models and enums write themselves in their
/// own way, a member of an enum that is a text too equals that text.
#[test]
fn objects_behave_as_their_classes_do() {
    let of = |form: &str, fields: &str| {
        format!(r#"["lit",{{"$tag":["app:T",{{"$tag":["{form}",{fields}]}}]}}]"#)
    };
    let frozen = of("frozen", r#"{"x":1}"#);
    let model = of("model", r#"{"x":1,"y":"b"}"#);
    let red = of("enum", r#"{"name":"RED","value":1}"#);
    let word = of("enum.str", r#"{"name":"YES","value":"yes"}"#);
    check(&[
        (
            &format!(r#"[{frozen},{frozen},["call","py.set_of",2],["call","py.len",1]]"#),
            "1",
        ),
        (
            &format!(r#"[{frozen},"x",2,["call","py.set_attr",3]]"#),
            "FrozenInstanceError: cannot assign to field 'x'",
        ),
        (
            &format!(r#"[{frozen},["call","py.repr",1]]"#),
            r#""T(x=1)""#,
        ),
        (
            &format!(r#"[{model},["call","py.str",1]]"#),
            r#""x=1 y='b'""#,
        ),
        (
            &format!(r#"[{model},["call","py.repr",1]]"#),
            r#""T(x=1, y='b')""#,
        ),
        (
            &format!(r#"[{model},"z",2,["call","py.set_attr",3]]"#),
            r#"ValueError: "T" object has no field "z""#,
        ),
        (&format!(r#"[{model},"y",["py.attr"]]"#), r#""b""#),
        (&format!(r#"[{model},["field","y"]]"#), r#""b""#),
        (&format!(r#"[{red},["call","py.str",1]]"#), r#""T.RED""#),
        (
            &format!(r#"[{red},["call","py.repr",1]]"#),
            r#""<T.RED: 1>""#,
        ),
        (&format!(r#"[{red},1,["py.eq"]]"#), "false"),
        (&format!(r#"[{red},"value",["py.attr"]]"#), "1"),
        (&format!(r#"[{word},"yes",["py.eq"]]"#), "true"),
        (
            &format!(r#"[{word},["lit",{{"yes":5}}],["py.in"]]"#),
            "true",
        ),
    ]);
}

#[test]
fn assignment_to_parts_answers_the_changed_value() {
    check(&[
        (r#"[["lit",[1,2]],-1,5,["call","py.set_item",3]]"#, "[1,5]"),
        (
            r#"[["lit",[1,2]],2,5,["call","py.set_item",3]]"#,
            "IndexError: list assignment index out of range",
        ),
        (
            r#"[["lit",{"a":1}],"b",5,["call","py.set_item",3]]"#,
            r#"{"a":1,"b":5}"#,
        ),
        (
            r#"[["lit",{}],1,5,["call","py.set_item",3]]"#,
            r#"{"$tag":["dict",[[1,5]]]}"#,
        ),
        (
            r#"["abc",0,"x",["call","py.set_item",3]]"#,
            "TypeError: 'str' object does not support item assignment",
        ),
        (
            r#"[["lit",[1,2,3,4]],["lit",[9]],1,3,["call","py.set_slice",4]]"#,
            "[1,9,4]",
        ),
        (
            r#"[["lit",[1,2,3,4]],["lit",[8,9]],null,null,2,["call","py.set_slice",5]]"#,
            "[8,2,9,4]",
        ),
        (
            r#"[["lit",[1,2,3,4]],["lit",[8]],null,null,2,["call","py.set_slice",5]]"#,
            "ValueError: attempt to assign sequence of size 1 to extended slice of size 2",
        ),
        (
            r#"["abcd",3,1,["call","py.unpack",3]]"#,
            r#"["a",["b","c"],"d"]"#,
        ),
        (
            r#"["ab",3,["call","py.unpack",2]]"#,
            "ValueError: not enough values to unpack (expected 3, got 2)",
        ),
    ]);
}

/// `[table[k] for k in keys]` and `[k for k in keys if k in known]` over thousands: each look-up
/// must not read it all.
#[test]
fn large_dicts_and_sets_are_looked_up_and_not_searched() {
    let keys = r#"20000,["call","py.range",1]"#;
    let pairs = format!(
        r#"{keys},["name","k"],["name","k"],["call","py.tuple_of",2],["each","list","k",false],["call","py.dict",1]"#
    );
    let join = format!(
        r#"[{pairs},{keys},["name","table"],["name","k"],["py.index"],["each","list","k",false],["call","py.sum",1],["let","table"]]"#
    );
    let mut fuel = Fuel::default();
    assert_eq!(run_with(&join, &mut fuel), "199990000");
    assert!(fuel.spent() < 500_000, "{} steps", fuel.spent());
    let known = format!(r#"{keys},["call","py.set",1]"#);
    let filter = format!(
        r#"[{known},{keys},["name","k"],["name","known"],["py.in"],["name","k"],["each","list","k",true],["call","py.len",1],["let","known"]]"#
    );
    let mut fuel = Fuel::default();
    assert_eq!(run_with(&filter, &mut fuel), "20000");
    assert!(fuel.spent() < 500_000, "{} steps", fuel.spent());
}

#[test]
fn every_line_of_the_table_has_a_name_of_its_own_and_parameters() {
    let mut seen = std::collections::HashSet::new();
    for entry in functions::all() {
        assert!(seen.insert(entry.name), "{} stands twice", entry.name);
        assert!(entry.arity.0 <= entry.arity.1, "{}", entry.name);
        let python = entry.name.starts_with("py.");
        let text = matches!(
            entry.kind,
            functions::FunctionKind::Function | functions::FunctionKind::Method
        );
        assert_ne!(
            python, text,
            "{}: Python's functions are named py.…",
            entry.name
        );
    }
    assert!(seen.len() > 150, "{} functions", seen.len());
}

#[test]
fn damaged_tags_are_errors_and_not_surprises() {
    for tag in ["tuple", "set", "dict"] {
        let value = Value::tag(tag, Value::Int(5));
        let code = Value::list(vec![
            value,
            value::from_json(r#"["call","py.list",1]"#).unwrap(),
        ]);
        let found = eval(
            &Expr::from_value(&code).unwrap(),
            &NoNames,
            &mut Fuel::default(),
        );
        assert!(
            found.is_err() || found.unwrap().to_string() == "[]",
            "{tag}"
        );
    }
}
