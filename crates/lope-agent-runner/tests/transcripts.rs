//! What each adapter makes of a transcript: success, limit, error, garbage.

use jiff::tz::TimeZone;
use lope_agent_runner::adapter::{AgentReader, AgentReport, SaidAt, UsageLimit, usage_limit};
use lope_agents::settings::AdapterKind;
use lope_model::Timestamp;

/// 2023-11-14T22:13:20Z
const NOW: i64 = 1_700_000_000_000;

fn read(name: &str, tokens_before: i64) -> AgentReport {
    let kind = match name.split_once('-').unwrap().0 {
        "claude" => AdapterKind::Claude,
        "codex" => AdapterKind::Codex,
        "gemini" => AdapterKind::Gemini,
        "opencode" => AdapterKind::Opencode,
        other => panic!("{other}"),
    };
    let path = format!(
        "{}/tests/transcripts/{name}.jsonl",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut reader = AgentReader::new(kind, TimeZone::UTC, tokens_before);
    for line in std::fs::read_to_string(path).unwrap().lines() {
        reader.line(line, Timestamp::from_millis(NOW));
    }
    reader.report
}

fn until(text: &str) -> UsageLimit {
    UsageLimit {
        reset: Some(text.parse().unwrap()),
    }
}

#[test]
fn successes_tell_session_words_cost_and_tokens() {
    let rows = [
        (
            "claude-success",
            Some("0d1c2b3a-0000-4000-8000-000000000001"),
            "The login works; 12 tests pass.",
            432_100,
            1_230,
            true,
        ),
        ("codex-success", Some("0199-thread"), "done", 0, 400, true),
        ("gemini-success", Some("g-1"), "Final answer", 0, 321, true),
        (
            "opencode-success",
            Some("ses_1"),
            "It is done.",
            250_000,
            17_620,
            false,
        ),
    ];
    for (name, session, text, cost, tokens, is_final) in rows {
        let report = read(name, 600);
        assert_eq!(
            (
                report.session.as_deref(),
                report.text.as_deref(),
                report.cost_micros,
                report.tokens,
                report.is_final
            ),
            (session, Some(text), cost, tokens, is_final),
            "{name}"
        );
        assert_eq!(
            (report.error, report.limit, report.is_over_budget),
            (None, None, false),
            "{name}"
        );
    }
}

#[test]
fn limits_tell_when_they_end() {
    // The event's time is more exact than that of the words.
    assert_eq!(
        read("claude-limit", 0).limit,
        Some(until("2023-11-14T23:13:20Z"))
    );
    assert_eq!(
        read("codex-limit", 0).limit,
        Some(until("2023-11-15T15:05:00Z"))
    );
    assert_eq!(
        read("gemini-limit", 0).limit,
        Some(until("2023-11-14T22:13:32Z"))
    );
    assert_eq!(
        read("opencode-limit", 0).limit,
        Some(until("2025-11-12T13:00:00Z"))
    );
    for name in [
        "claude-limit",
        "codex-limit",
        "gemini-limit",
        "opencode-limit",
    ] {
        assert!(read(name, 0).error.is_some(), "{name}");
    }
}

#[test]
fn errors_are_told_and_are_no_limits() {
    let rows = [
        ("claude-error", "error_during_execution"),
        ("claude-budget", "error_max_budget_usd"),
        ("codex-error", "the model is overloaded"),
        ("gemini-error", "the tool failed"),
        ("opencode-error", "no key"),
    ];
    for (name, words) in rows {
        let report = read(name, 0);
        assert_eq!(
            (report.error.as_deref(), report.limit),
            (Some(words), None),
            "{name}"
        );
        assert_eq!(report.is_over_budget, name == "claude-budget", "{name}");
    }
    assert_eq!(
        read("claude-error", 0).cost_micros,
        200_000,
        "what failed has a price too"
    );
}

/// "An ordinary failure is counted", also one that speaks of limits; a limit that was waited for and
/// a result after it are no limit.
#[test]
fn what_only_speaks_of_a_limit_is_none() {
    let result = |words: &str, is_error: bool| serde_json::json!({"type": "result", "subtype": "success", "is_error": is_error, "result": words});
    let rejected = serde_json::json!({
        "type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_700_003_600}
    });
    let words = "I could not mend 'usage limit reached|1762952400' in limits.rs";
    let rows = [
        (vec![result(words, true)], false),
        (
            vec![result("You've hit your limit · resets 4pm (UTC)", true)],
            true,
        ),
        (
            vec![result("You've hit your limit · resets 4pm (UTC)", false)],
            false,
        ),
        (vec![rejected.clone(), result("All is done.", false)], false),
        (vec![rejected.clone()], true),
        (vec![rejected, result("API Error: 429", true)], true),
    ];
    for (events, is_limit) in rows {
        let mut reader = AgentReader::new(AdapterKind::Claude, TimeZone::UTC, 0);
        for event in &events {
            reader.line(&event.to_string(), Timestamp::from_millis(NOW));
        }
        assert_eq!(reader.report.limit.is_some(), is_limit, "{events:?}");
    }
}

#[test]
fn garbage_is_passed_over() {
    for tool in ["claude", "codex", "gemini", "opencode"] {
        let report = read(&format!("{tool}-garbage"), 0);
        assert_eq!(
            AgentReport {
                is_final: report.is_final,
                ..AgentReport::default()
            },
            AgentReport {
                session: None,
                text: None,
                ..report.clone()
            },
            "{tool}"
        );
        assert!(!report.is_final, "{tool}: nothing whole said that it ended");
    }
}

#[test]
fn limits_in_words_are_read_in_their_zone() {
    let said = SaidAt {
        now: Timestamp::from_millis(NOW),
        zone: TimeZone::get("Europe/Berlin").unwrap(),
    };
    let rows = [
        (
            "You've hit your limit · resets 4pm (Asia/Kuala_Lumpur)",
            "2023-11-15T08:00:00Z",
        ),
        (
            "You've hit your limit · resets Apr 23 at 4pm (UTC)",
            "2024-04-23T16:00:00Z",
        ),
        (
            "You've hit your limit · resets 11:30pm",
            "2023-11-14T22:30:00Z",
        ),
        (
            "You've hit your usage limit. Try again at 12:05 AM.",
            "2023-11-14T23:05:00Z",
        ),
        (
            "You've hit your usage limit. Try again at Nov 23rd, 2026 3:05 PM.",
            "2026-11-23T14:05:00Z",
        ),
        (
            "Claude AI usage limit reached|1762952400",
            "2025-11-12T13:00:00Z",
        ),
        (
            "Error: You have exhausted your daily quota on this model. Please retry in 2m.",
            "2023-11-14T22:15:20Z",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(usage_limit(text, &said), Some(until(expected)), "{text}");
    }
    for text in [
        "You've hit your limit",
        "You've hit your limit · resets soon",
        "usage limit reached|never",
        "You've hit your limit · resets 99pm",
        "You’ve hit your limit · resets Feb 31 at 4pm (UTC)",
    ] {
        assert_eq!(
            usage_limit(text, &said),
            Some(UsageLimit { reset: None }),
            "{text}"
        );
    }
    for text in [
        "the limit of this function",
        "2 tests fail: usage limit reached is not shown to the user",
        "I could not test the page 'You've hit your limit'",
        "The usage limit reached|1762952400 line is parsed wrongly",
    ] {
        assert_eq!(usage_limit(text, &said), None, "{text}");
    }
}
