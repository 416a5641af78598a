//! The timeline of a run as a page draws it: bars in SVG, the time in which nobody is at work hatched,
//! and ways to narrow the time that is shown. What is drawn, `lope::workflows` decides.

use lope::workflows::{Spread, Timeline, TimelineBar, TimelineRow, Zoom};
use lope_model::Span;
use maud::{Markup, html};

use super::parts::{cut, lasted};

/// The width of a bar, at least, in percent.
const LEAST: f64 = 0.4;

/// A timeline on the page with this address, which may say what else it shows.
pub(crate) fn draw(timeline: &Timeline, address: &str) -> Markup {
    let shown = timeline.zoom();
    if timeline.rows.is_empty() && timeline.elsewhere == 0 {
        return html! { p.dim { "No step has begun." } };
    }
    html! {
        div.timeline aria-label="Timeline of steps" data-from=(shown.from) data-to=(shown.to) {
            span {} svg.axis aria-hidden="true" { (hatching()) @for part in 0..=4_i64 { (moment(shown, part)) } }
            @for row in &timeline.rows {
                span.label title=(row.step) { (cut_label(&row.step)) @if let Some((count, _)) = row.many { span.dim { " ×" (count) } } }
                svg.bars role="img" aria-label=(told(row)) { @for bar in &row.bars { (drawn(timeline, row, bar)) } @if let Some((_, spread)) = row.many { (ticks(timeline.shown, spread)) } }
            }
        }
        @if timeline.left_out > 0 { p.dim { "and " (timeline.left_out) " more steps; the tab Steps lists them all" } }
        @if timeline.elsewhere > 0 { p.dim { (timeline.elsewhere) @if timeline.elsewhere == 1 { " step has" } @else { " steps have" } " nothing in this time." } }
        nav.presets aria-label="Time shown" {
            @for (word, zoom) in timeline.ways() { a href=(way(address, zoom)) { (word) } }
        }
    }
}

fn way(address: &str, zoom: Option<Zoom>) -> String {
    let joint = if address.contains('?') { '&' } else { '?' };
    zoom.map_or_else(
        || address.to_owned(),
        |zoom| format!("{address}{joint}zoom={}", zoom.text()),
    )
}

/// What time looks like in which nobody is at work.
fn hatching() -> Markup {
    html! {
        defs { pattern id="waits" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
            rect.hatch width="3" height="6" {}
        } }
    }
}

/// What a row shows, in words.
fn told(row: &TimelineRow) -> String {
    let name = &row.step;
    match row.bars.as_slice() {
        [only] => format!("{name}: {}", only.kind.word()),
        several => format!("{name}: {} bars", several.len()),
    }
}

/// What a quarter of the width stands for.
fn moment(shown: Zoom, part: i64) -> Markup {
    let passed = |part: i64| lasted(span(shown.from + shown.length() * part / 4));
    // Of a very short time several quarters would say the same.
    if part > 0 && passed(part) == passed(part - 1) {
        return html! {};
    }
    let class = if part % 2 == 0 { "half" } else { "quarter" };
    let anchor = match part {
        0 => "start",
        4 => "end",
        _ => "middle",
    };
    html! { text class=(class) x=(format!("{}%", 25 * part)) y="14" text-anchor=(anchor) { "+" (passed(part)) } }
}

fn span(millis: i64) -> Span {
    Span::from_millis(millis.unsigned_abs())
}

fn drawn(timeline: &Timeline, row: &TimelineRow, bar: &TimelineBar) -> Markup {
    let shown = timeline.shown;
    // What took no time is seen all the same, also at the end.
    let width = (shown.x(bar.to) - shown.x(bar.from)).max(LEAST);
    let x = shown.x(bar.from).min(100.0 - width);
    // A pattern is no colour of a style sheet: what it is called is sought in the page.
    let fill = bar.kind.is_waiting().then_some("url(#waits)");
    html! {
        rect class={ "bar " (bar.kind.word()) } fill=[fill] x=(format!("{x:.2}%")) y="5" width=(format!("{width:.2}%")) height="14" rx="3" { title { (title(timeline, row, bar)) } }
    }
}

fn title(timeline: &Timeline, row: &TimelineRow, bar: &TimelineBar) -> String {
    let word = bar.kind.word();
    let took = lasted(span(bar.to - bar.from));
    match row.many {
        Some((count, spread)) if bar.count == count => {
            let ends = [spread.first, spread.median, spread.last];
            let [first, median, last] = ends.map(|at| lasted(span(at - timeline.whole.from)));
            format!(
                "{count} executions in {took}: the first was over after {first}, half of them after {median}, the last after {last}"
            )
        }
        Some(_) if bar.count > 1 => format!("{} {word} within {took}", bar.count),
        Some(_) | None => format!("{word}, {took}"),
    }
}

/// Where the first, half and the last of many were over.
fn ticks(shown: Zoom, spread: Spread) -> Markup {
    let within = |at: &i64| (shown.from..=shown.to).contains(at);
    let moments = [spread.first, spread.median, spread.last];
    html! {
        @for at in moments.iter().filter(|at| within(at)) {
            @let x = format!("{:.2}%", shown.x(*at));
            line.tick x1=(x) x2=(x) y1="2" y2="22" {}
        }
    }
}

fn cut_label(step: &str) -> String {
    let letters: Vec<char> = step.chars().collect();
    if letters.len() <= 24 {
        return cut(step, 200);
    }
    let end: String = letters[letters.len() - 23..].iter().collect();
    format!("…{end}")
}
