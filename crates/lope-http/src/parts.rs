//! Small pieces that several pages are made of: states, times, JSON, things to copy.

use lope_model::{Span, Timestamp};
use maud::{Markup, PreEscaped, html};
use serde_json::Value as Json;

use crate::call::ApiCall;
use crate::clock;
use crate::context::ServerContext;
use crate::reply::{Reply, to};

/// A value that is longer is cut; the API has all of it.
const SHOWN: usize = 16 * 1024;

/// A drawing that is larger is left out.
const GRAPH_MAX: usize = 300 * 1024;

/// The icon of a state, the same as in the terminal.
pub fn icon(state: &str) -> &'static str {
    match state {
        "completed" | "done" | "active" => "✓",
        "failed" | "dead" => "✗",
        "cancelled" | "skipped" | "ended" | "forgiven" => "⊘",
        "retrying" | "lost" | "hang" | "usage_limit" => "↻",
        "running" | "live" => "●",
        "paused" => "‖",
        "sleeping" => "◷",
        "waiting" | "idle" | "review" | "blocked" => "◌",
        "asks" => "?",
        _ => "○",
    }
}

/// A state as icon and word.
pub fn state(state: &str) -> Markup {
    html! { span class={ "state " (state) } { span.icon aria-hidden="true" { (icon(state)) } (state) } }
}

/// The same, to stand out.
pub fn pill(state: &str) -> Markup {
    html! { span class={ "state pill " (state) } { span.icon aria-hidden="true" { (icon(state)) } (state) } }
}

/// How long ago, with the exact time behind it.
pub fn ago(at: Timestamp) -> Markup {
    let text = format!("{} ago", lasted(clock::now().since(at)));
    html! { time datetime=(at) title=(at) data-ago { (text) } }
}

pub fn exact(at: Timestamp) -> Markup {
    let text = at.to_string().replace('T', " ");
    html! { time.exact datetime=(at) title=(at) { (text) } }
}

/// When something will be.
pub fn ahead(at: Timestamp) -> Markup {
    let now = clock::now();
    let text = if at <= now {
        "now".to_owned()
    } else {
        format!("in {}", lasted(at.since(now)))
    };
    html! { time datetime=(at) title=(at) data-ahead { (text) } }
}

/// A time that passed, short enough for a row.
pub fn lasted(span: Span) -> String {
    let millis = span.millis();
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
        3_600_000..86_400_000 => {
            format!(
                "{} h {} min",
                millis / 3_600_000,
                millis % 3_600_000 / 60_000
            )
        }
        _ => format!(
            "{} d {} h",
            millis / 86_400_000,
            millis % 86_400_000 / 3_600_000
        ),
    }
}

pub fn copy(word: &str, text: &str) -> Markup {
    html! { button.copy type="button" data-copy=(text) { (word) } }
}

/// JSON for people.
pub fn json(value: &Json) -> Markup {
    let text = match value {
        Json::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    html! { pre { (cut(&text, SHOWN)) } }
}

/// As much of a text as a page shows.
pub fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
    let end = end.unwrap_or(0);
    format!(
        "{}… ({} bytes; the API has all of it)",
        &text[..end],
        text.len()
    )
}

/// The beginning of a name or a title.
pub fn brief(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars()
        .take(most.saturating_sub(1))
        .chain(['…'])
        .collect()
}

/// What fills a page that is empty.
pub fn empty(text: &str, command: &str) -> Markup {
    html! {
        div.empty {
            p { (text) }
            pre { (command) } " " (copy("copy", command))
        }
    }
}

/// A drawing inside a page: its style is the page's.
pub fn svg(drawing: Option<String>, otherwise: &str) -> Markup {
    let Some(drawing) = drawing.filter(|it| it.len() < GRAPH_MAX) else {
        return html! { p.dim { (otherwise) } };
    };
    let without = match (drawing.find("<style>"), drawing.find("</style>")) {
        (Some(from), Some(to)) => format!("{}{}", &drawing[..from], &drawing[to + 8..]),
        _ => drawing,
    };
    html! { (PreEscaped(without)) }
}

/// What a form did, told on the page it came from.
pub fn note(context: &ServerContext, call: &ApiCall) -> Markup {
    let said = call.query("said").and_then(|code| context.notes.find(code));
    html! {
        @if let Some(said) = said { div.note role="status" { (said) } }
    }
}

/// Back to a page, which says what was done.
pub fn told(context: &ServerContext, path: &str, said: &str) -> Reply {
    to(&format!("{path}?said={}", context.notes.keep(said)))
}
