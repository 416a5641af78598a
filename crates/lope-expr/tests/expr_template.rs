//! Templates: what is read, what comes out, where errors point, and that secrets stay references.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lope_expr::{Fuel, NoNames, Origin, PathPart, Template, eval, parse};
use lope_model::{Map, Value, value};

fn json(text: &str) -> Value {
    value::from_json(text).unwrap()
}

fn scope() -> Map {
    json(r#"{"user": {"name": "Ann", "age": 41}, "xs": [1, 2], "b": {"c": "${{ x }}"}}"#)
        .as_map()
        .unwrap()
        .clone()
}

fn fill(text: &str) -> String {
    let template = Template::parse(&json(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
    match template.eval(&scope(), &mut Fuel::default()) {
        Ok(value) => value::to_json(&value),
        Err(error) => error.to_string(),
    }
}

#[test]
fn one_expression_keeps_its_type_and_others_become_text() {
    for (template, expected) in [
        (r#""${{ xs }}""#, "[1,2]"),
        (r#""${{xs}}""#, "[1,2]"),
        (r#"" ${{ xs }}""#, r#"" [1,2]""#),
        (r#""Hello ${{ user.name }}!""#, r#""Hello Ann!""#),
        (r#""${{ user.age }}${{ user.age }}""#, r#""4141""#),
        (
            r#""${{ null }} ${{ true }} ${{ 1.0 }}""#,
            r#""null true 1.0""#,
        ),
        (r#""${{ {'a': {'b': 1}} }}""#, r#"{"a":{"b":1}}"#),
        (r#""${{ '}}' }}""#, r#""}}""#),
        (r#""$${{ x }}""#, r#""${{ x }}""#),
        (r#""a $${{ x }} ${{ xs[0] }}""#, r#""a ${{ x }} 1""#),
        (r#""plain $ {{ }}""#, r#""plain $ {{ }}""#),
        (
            r#"{"a": ["${{ xs }}", 1, {"b": "x"}], "c": null}"#,
            r#"{"a":[[1,2],1,{"b":"x"}],"c":null}"#,
        ),
        (r#""${{ b.c }}""#, r#""${{ x }}""#),
        (r#""${{ nope }}""#, "NameError: name 'nope' is not defined"),
    ] {
        assert_eq!(fill(template), expected, "{template}");
    }
}

#[test]
fn a_value_without_expressions_is_a_literal() {
    let value = json(r#"{"a": [1, "b"]}"#);
    assert_eq!(Template::parse(&value).unwrap().as_literal(), Some(&value));
    assert_eq!(Template::default().as_literal(), Some(&Value::Null));
}

#[test]
fn errors_point_into_the_text_and_name_the_path() {
    let error = Template::parse(&json(r#"{"to": ["ok", "Hi\n ${{ a + }}"]}"#)).unwrap_err();
    assert_eq!(error.path, [PathPart::Key("to".into()), PathPart::Index(1)]);
    assert_eq!((error.error.at.line, error.error.at.column), (2, 10));
    assert_eq!(error.to_string(), "to[1]: a value expected, found '}'");
    let open = Template::parse(&json(r#""a ${{ b""#)).unwrap_err();
    assert_eq!(
        open.to_string(),
        "an operator or '}}' expected, found the end"
    );
}

#[test]
fn positions_follow_the_text_into_its_file() {
    let origin = Origin {
        line: 10,
        column: 8,
        indent: 4,
    };
    let error = Template::parse_text("x\n${{ ? }}", origin).unwrap_err();
    assert_eq!((error.at.line, error.at.column), (11, 9));
    let error = Template::parse_text("${{ ? }}", origin).unwrap_err();
    assert_eq!((error.at.line, error.at.column), (10, 12));
    let template = Template::parse_text("${{ nope }}", origin).unwrap();
    let error = template.eval(&NoNames, &mut Fuel::default()).unwrap_err();
    assert_eq!((error.at.line, error.at.column), (10, 12));
}

#[test]
fn a_secret_is_a_reference_that_nothing_but_a_template_touches() {
    assert_eq!(
        fill(r#""${{ secrets.KEY }}""#),
        r#"{"$tag":["secret","KEY"]}"#
    );
    assert_eq!(
        fill(r#""${{ secrets['a-b'] }}""#),
        r#"{"$tag":["secret","a-b"]}"#
    );
    assert_eq!(
        fill(r#"{"h": "Bearer ${{ secrets.KEY }} ${{ user.name }}"}"#),
        r#"{"h":{"$tag":["secret-text",["Bearer ",{"$tag":["secret","KEY"]}," ","Ann"]]}}"#
    );
    let refused = "TypeError: a secret can only be passed on to an action; no operator or function applies to it";
    for text in [
        "secrets.K == 'x'",
        "'x' == secrets.K",
        "secrets.K == secrets.K",
        "[secrets.K] == ['x']",
        "secrets.K in ['x']",
        "secrets.K in user",
        "string(secrets.K)",
        "size(secrets.K)",
        "toJson([secrets.K])",
        "string({'a': secrets.K})",
        "['a', secrets.K].join(',')",
        "type(secrets.K)",
        "secrets.K.x",
        "has(secrets.K.x)",
        "secrets.K.upper()",
        "[secrets.K, secrets.K].distinct()",
        "toBase64(secrets.K)",
        "text('a', secrets.K).contains('a')",
        "text('a', secrets.K) == 'a'",
    ] {
        let found = eval(&parse(text).unwrap(), &scope(), &mut Fuel::default());
        let found = found.map_or_else(|error| error.to_string(), |value| value.to_string());
        // Operators name the kinds instead, which is as good: nothing of the secret is known here.
        let by_kind = found.contains("does not apply to secret") || found.contains("secret-text");
        assert!(
            found == refused || (by_kind && found.starts_with("TypeError")),
            "{text}: {found}"
        );
    }
}

#[test]
fn every_function_refuses_secrets() {
    use lope_expr::{Expr, Function, Node, functions};
    let secret = || Expr::new(Node::Secret("K".into()));
    // They pass their argument on without looking at it.
    let carriers = ["default", "merge", "zip", "min", "max"];
    for entry in
        functions::all().filter(|entry| !carriers.contains(&entry.name) && entry.arity.0 > 0)
    {
        let call = Node::Call(
            Function::named(entry.name).unwrap(),
            (0..entry.arity.0).map(|_| secret()).collect(),
        );
        let found = eval(&Expr::new(call), &NoNames, &mut Fuel::default());
        assert!(found.is_err(), "{}: {found:?}", entry.name);
    }
}

#[test]
fn templates_are_written_as_they_are_read() {
    for text in [
        "Hello ${{ user.name }}!",
        "${{ xs.map(x, x + 1) }}",
        "$${{ x }}",
        "plain",
    ] {
        let template = Template::parse_text(text, Origin::START).unwrap();
        assert_eq!(template.to_string(), text);
    }
}

#[test]
fn deep_templates_are_refused_before_they_are_stored() {
    let mut value = Value::str(format!(
        "${{{{ {}1{} }}}}",
        "[".repeat(60),
        " + n]".repeat(60)
    ));
    for _ in 0..100 {
        value = Value::list(vec![value]);
    }
    let error = Template::parse(&value).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("a template nested deeper than 200 levels"),
        "{error}"
    );
}
