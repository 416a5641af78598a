//! Failures in words.

use lope_cells::Json;
use lope_cells::wording::{error_text, undone_text};

#[test]
fn what_a_function_threw_has_its_type_and_what_the_runner_says_has_none() {
    for (kind, message, says) in [
        ("RangeError", "below zero", "RangeError: below zero"),
        ("Error", "no", "Error: no"),
        ("HttpStatus", "404", "HttpStatus: 404"),
        (
            "Write",
            "home/a is a text, not a list",
            "home/a is a text, not a list",
        ),
        ("Limit", "out of memory", "out of memory"),
    ] {
        let error = Json::object([("type", Json::from(kind)), ("message", Json::from(message))]);
        assert_eq!(error_text(&error), says);
    }
    let warning = Json::from("'nosuch' is no module");
    assert_eq!(error_text(&warning), "'nosuch' is no module");
    let bare = Json::object([("message", Json::from("no"))]);
    assert_eq!(error_text(&bare), "no");
    assert_eq!(error_text(&Json::from(5)), "5");
    let receipt = |more: &str| {
        let receipt = format!(r#"{{"to": "shop/till", "outcome": "no handler"{more}}}"#);
        undone_text(&Json::parse(&receipt).unwrap())
    };
    let sent = "sent to shop/till and not done";
    assert_eq!(receipt(""), format!("{sent}: no handler"));
    let why = r#", "error": {"type": "Write", "message": "it is full"}"#;
    assert_eq!(receipt(why), format!("{sent}: it is full"));
}
