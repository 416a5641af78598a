//! Each rule with what fits it and what does not.

#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]

use lope_model::value::from_json;

use super::*;

fn validated(schema: &str, input: &str) -> Result<(), String> {
    validate(&from_json(schema).unwrap(), &from_json(input).unwrap())
        .map_err(|misfit| misfit.to_string())
}

#[test]
fn each_rule_lets_what_fits_through_and_names_what_does_not() {
    for (schema, good, bad, says) in [
        (
            "{\"type\": \"integer\"}",
            "1",
            "\"1\"",
            "input: expected integer, found string",
        ),
        ("{\"type\": \"integer\"}", "1.0", "1.5", "found number"),
        (
            "{\"type\": [\"null\", \"object\"]}",
            "null",
            "[]",
            "null or object",
        ),
        ("{\"const\": 1}", "1.0", "2", "expected 1"),
        (
            "{\"const\": {\"a\": [1]}}",
            "{\"a\": [1.0]}",
            "{\"a\": [1, 1]}",
            "expected",
        ),
        ("{\"enum\": [\"a\", 2]}", "2", "\"b\"", "one of"),
        ("{\"minimum\": 2}", "2", "1", "at least 2"),
        ("{\"exclusiveMaximum\": 2.5}", "2", "2.5", "less than 2.5"),
        ("{\"multipleOf\": 3}", "9", "10", "multiple of 3"),
        ("{\"multipleOf\": 0.1}", "0.3", "0.35", "multiple of 0.1"),
        ("{\"multipleOf\": 0.01}", "19.99", "19.999", "of 0.01"),
        ("{\"multipleOf\": 0.0001}", "0.0075", "0.00751", "of 0.0001"),
        ("{\"multipleOf\": 0.1}", "-7", "1e-30", "multiple of 0.1"),
        (
            "{\"multipleOf\": 2.5}",
            "1e300",
            "1e-300",
            "multiple of 2.5",
        ),
        ("{\"multipleOf\": 3}", "9.0", "1e20", "multiple of 3"),
        (
            "{\"minLength\": 2}",
            "\"äö\"",
            "\"ä\"",
            "at least 2 long, found 1",
        ),
        ("{\"maxItems\": 1}", "[1]", "[1, 2]", "at most 1 long"),
        (
            "{\"required\": [\"a\"]}",
            "{\"a\": null}",
            "{}",
            "'a' is missing",
        ),
        (
            "{\"properties\": {\"a\": {\"type\": \"string\"}}}",
            "{\"b\": 1}",
            "{\"a\": 1}",
            "input.a: expected string",
        ),
        (
            "{\"additionalProperties\": false, \"properties\": {\"a\": true}}",
            "{\"a\": 1}",
            "{\"b\": 1}",
            "'b' is not known",
        ),
        (
            "{\"additionalProperties\": {\"type\": \"null\"}}",
            "{\"a\": null}",
            "{\"a\": 1}",
            "input.a",
        ),
        (
            "{\"propertyNames\": {\"maxLength\": 1}}",
            "{\"a\": 1}",
            "{\"ab\": 1}",
            "input.ab",
        ),
        (
            "{\"items\": {\"type\": \"integer\"}}",
            "[1]",
            "[1, \"x\"]",
            "input[1]: expected integer",
        ),
        (
            "{\"prefixItems\": [{\"type\": \"null\"}], \"items\": false}",
            "[null]",
            "[null, 1]",
            "input[1]",
        ),
        ("{\"contains\": {\"const\": 5}}", "[1, 5]", "[1]", "no item"),
        ("{\"uniqueItems\": true}", "[1, 2]", "[1, 1.0]", "twice"),
        (
            "{\"allOf\": [{\"minimum\": 1}, {\"maximum\": 3}]}",
            "2",
            "4",
            "at most 3",
        ),
        (
            "{\"anyOf\": [{\"type\": \"null\"}, {\"minimum\": 3}]}",
            "4",
            "1",
            "none of the forms",
        ),
        (
            "{\"oneOf\": [{\"minimum\": 1}, {\"minimum\": 3}]}",
            "2",
            "4",
            "2 of the forms",
        ),
        ("{\"not\": {\"type\": \"null\"}}", "1", "null", "must not"),
        (
            "{\"pattern\": \"^a+$\"}",
            "\"aa\"",
            "\"ab\"",
            "fits the pattern ^a+$",
        ),
        (
            "{\"patternProperties\": {\"^x\": {\"type\": \"null\"}}, \"additionalProperties\": false}",
            "{\"x1\": null}",
            "{\"x1\": 1}",
            "input.x1: expected null",
        ),
        (
            "{\"patternProperties\": {\"^x\": true}, \"additionalProperties\": false}",
            "{\"x\": 1}",
            "{\"y\": 1}",
            "'y' is not known",
        ),
        (
            "{\"dependentRequired\": {\"a\": [\"b\"]}}",
            "{\"c\": 1}",
            "{\"a\": 1}",
            "missing beside 'a'",
        ),
        (
            "{\"contains\": {\"const\": 1}, \"maxContains\": 1}",
            "[1, 2]",
            "[1, 1]",
            "2 items",
        ),
        (
            "{\"format\": \"date-time\"}",
            "\"2026-11-17T00:00:00Z\"",
            "\"yesterday\"",
            "format date-time",
        ),
        (
            "{\"format\": \"date\"}",
            "\"2026-02-28\"",
            "\"2026-02-30\"",
            "format date",
        ),
        (
            "{\"format\": \"email\"}",
            "\"a@b.c\"",
            "\"a b@c\"",
            "format email",
        ),
        ("{\"format\": \"ipv4\"}", "\"1.2.3.4\"", "\"1.2.3\"", "ipv4"),
        ("{\"format\": \"ipv6\"}", "\"::1\"", "\"1.2.3.4\"", "ipv6"),
        ("{\"format\": \"regex\"}", "\"a*\"", "\"(\"", "regex"),
        (
            "{\"format\": \"uri\"}",
            "\"https://a/b?c#d\"",
            "\"a b\"",
            "uri",
        ),
        (
            "{\"format\": \"uuid\"}",
            "\"01a1e6d3-7b13-75a2-919a-9359c110e68f\"",
            "\"01a1e6d37b1375a2919a9359c110e68f\"",
            "uuid",
        ),
        (
            "{\"if\": {\"minimum\": 10}, \"then\": {\"multipleOf\": 10}, \"else\": {\"minimum\": 5}}",
            "20",
            "11",
            "multiple",
        ),
        (
            "{\"$ref\": \"#/$defs/n\", \"$defs\": {\"n\": {\"type\": \"integer\"}}}",
            "1",
            "null",
            "expected integer",
        ),
        (
            "{\"properties\": {\"next\": {\"$ref\": \"#\"}}, \"required\": [\"v\"]}",
            "{\"v\": 1, \"next\": {\"v\": 2}}",
            "{\"v\": 1, \"next\": {}}",
            "input.next: 'v' is missing",
        ),
    ] {
        assert_eq!(validated(schema, good), Ok(()), "{schema} {good}");
        let said = validated(schema, bad).expect_err(schema);
        assert!(said.contains(says), "{schema} {bad}: {said}");
    }
}

#[test]
fn everything_fits_no_schema_and_endless_or_broken_references_are_told() {
    assert_eq!(validate(&Value::Null, &Value::Int(1)), Ok(()));
    assert_eq!(validated("true", "1"), Ok(()));
    assert!(validated("false", "1").is_err());
    assert!(
        validated("{\"$ref\": \"#\"}", "1")
            .unwrap_err()
            .contains("without end")
    );
    assert!(
        validated("{\"$ref\": \"#/x\"}", "1")
            .unwrap_err()
            .contains("refers to nothing")
    );
    assert!(
        validated("{\"$ref\": \"https://example.com\"}", "1")
            .unwrap_err()
            .contains("outside")
    );
}
