//! The timeline of a run: one row a step, its attempts as bars, the time in which nobody was at work
//! on it hatched. Steps with many attempts show their spread; what failed is always shown. A part of
//! the time may be shown alone (`zoom=FROM-TO`, in milliseconds from the beginning).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use lope::runs::{Execution, ExecutionStatus};
use lope_model::{Span, Timestamp};
use maud::{Markup, html};

use super::parts::{cut, lasted};
use crate::clock;

/// Steps shown, in the order in which they first began.
const STEPS: usize = 200;
/// Bars drawn in a row; more become one that spans them.
const BARS: usize = 60;
/// Of what failed in a row of many, what lies in one of so many parts of the width is one bar.
const FAILURES: f64 = 400.0;

/// The width of a bar, at least, in percent.
const LEAST: f64 = 0.4;

/// What a bar stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BarKind {
    /// A try, or an execution that has none.
    Work(ExecutionStatus),
    /// Nobody is at work on it: it waits for a slot, for its next try, for a time or a signal.
    Waits,
    /// The same, and it is over.
    Waited,
}

/// A stretch of time.
#[derive(Clone, Copy, Debug)]
struct Bar {
    from: i64,
    to: i64,
    kind: BarKind,
    count: usize,
}

/// When the first, half and all of many were over.
#[derive(Clone, Copy, Debug)]
struct Spread {
    first: i64,
    median: i64,
    last: i64,
}

struct TimelineRow {
    step: String,
    bars: Vec<Bar>,
    /// How many there are, if they are drawn as one.
    many: Option<(usize, Spread)>,
}

/// A stretch of a run's time, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Zoom {
    from: i64,
    to: i64,
}

/// What is to be drawn.
pub(crate) struct Timeline {
    rows: Vec<TimelineRow>,
    left_out: usize,
    /// Steps of which nothing lies in the time that is shown.
    elsewhere: usize,
    whole: Zoom,
    shown: Zoom,
}

impl Zoom {
    /// As it stands in an address; nothing if that makes no sense.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        let (from, to) = (from.parse().ok()?, to.parse().ok()?);
        (0 <= from && from < to).then_some(Self { from, to })
    }

    fn length(self) -> i64 {
        self.to - self.from
    }

    /// As long as this, but no shorter than a millisecond, and within the whole.
    fn within(from: i64, length: i64, whole: i64) -> Self {
        let length = length.clamp(1, whole.max(1));
        let from = from.clamp(0, (whole - length).max(0));
        Self {
            from,
            to: from + length,
        }
    }

    fn text(self) -> String {
        format!("{}-{}", self.from, self.to)
    }

    fn meets(self, bar: &Bar) -> bool {
        bar.from <= self.to && bar.to >= self.from
    }

    /// Where a moment stands, in percent of the width that bars have: how wide that is, the screen
    /// says.
    fn x(self, at: i64) -> f64 {
        let at = at.clamp(self.from, self.to);
        (at - self.from) as f64 * 100.0 / self.length() as f64
    }
}

impl Timeline {
    pub(crate) fn of(
        executions: &[Cow<'_, Execution>],
        finished_at: Option<Timestamp>,
        zoom: Option<Zoom>,
    ) -> Self {
        let now = finished_at.unwrap_or_else(clock::now).millis();
        let steps = by_step(executions, now);
        let all = || steps.iter().flat_map(|(_, bars)| bars);
        let from = all().map(|bar| bar.from).min().unwrap_or(now);
        let to = all().map(|bar| bar.to).max().unwrap_or(now).max(from + 1);
        let whole = Zoom { from, to };
        let shown = zoom.map_or(whole, |zoom| Zoom {
            from: from + zoom.from,
            to: from + zoom.to,
        });
        let known = steps.len();
        let rows = steps.into_iter().filter_map(|(step, bars)| {
            let bars = bars.into_iter().filter(|bar| shown.meets(bar)).collect();
            row(step, bars, shown)
        });
        let mut rows: Vec<TimelineRow> = rows.collect();
        let elsewhere = known - rows.len();
        let left_out = rows.len().saturating_sub(STEPS);
        rows.truncate(STEPS);
        Self {
            rows,
            left_out,
            elsewhere,
            whole,
            shown,
        }
    }

    /// The time that is shown, as addresses have it.
    fn zoom(&self) -> Zoom {
        Zoom {
            from: self.shown.from - self.whole.from,
            to: self.shown.to - self.whole.from,
        }
    }

    /// Where one may go from here: words and stretches of time; none is the whole run.
    fn ways(&self) -> Vec<(&'static str, Option<Zoom>)> {
        let (here, whole) = (self.zoom(), self.whole.length());
        let length = here.length();
        let half = (length / 2).max(1);
        let to = |from: i64, length: i64| Some(Zoom::within(from, length, whole));
        let is_part = length < whole;
        let mut ways = Vec::new();
        if length > 1 {
            ways.push(("Zoom in", to(here.from + length / 4, half)));
        }
        if is_part {
            ways.push(("Zoom out", to(here.from - half, length * 2)));
        }
        if here.from > 0 {
            ways.push(("Earlier", to(here.from - half, length)));
        }
        if here.to < whole {
            ways.push(("Later", to(here.from + half, length)));
        }
        if is_part {
            ways.push(("Whole run", None));
        }
        ways
    }
}

/// The bars of each step, in the order in which steps began.
fn by_step<'a>(executions: &'a [Cow<'_, Execution>], now: i64) -> Vec<(&'a str, Vec<Bar>)> {
    let mut order: Vec<&str> = Vec::new();
    let mut steps: BTreeMap<&str, Vec<Bar>> = BTreeMap::new();
    for execution in executions {
        let row = steps.entry(&execution.step).or_default();
        if row.is_empty() {
            order.push(&execution.step);
        }
        row.extend(bars(execution, now));
    }
    // What holds other steps works through them.
    let below = order.iter().copied();
    let holders: BTreeSet<&str> = below
        .flat_map(|step| step.match_indices('/').map(move |(end, _)| &step[..end]))
        .collect();
    for step in holders {
        let held = steps.get_mut(step).into_iter().flatten();
        held.for_each(|bar| bar.kind = bar.kind.at_work());
    }
    let rows = order.into_iter();
    rows.map(|step| (step, steps.remove(step).unwrap_or_default()))
        .collect()
}

/// Attempts as bars of their own with what was waited between them; what has none is one.
fn bars(execution: &Execution, now: i64) -> Vec<Bar> {
    let end = |at: Option<Timestamp>| at.map_or(now, Timestamp::millis);
    let bar = |from: i64, to: i64, kind| Bar {
        from,
        to: to.max(from),
        kind,
        count: 1,
    };
    let opened = execution.opened_at.millis();
    let closed = end(execution.finished_at);
    if execution.attempts.is_empty() {
        return vec![bar(opened, closed, without_attempts(execution, closed))];
    }
    let mut found = Vec::with_capacity(execution.attempts.len());
    let mut over = opened;
    for attempt in &execution.attempts {
        let began = attempt.started_at.unwrap_or(attempt.dispatched_at).millis();
        if began > over {
            found.push(bar(over, began, BarKind::Waited));
        }
        let ended = end(attempt.finished_at);
        found.push(bar(began, ended, BarKind::Work(attempt.status)));
        over = over.max(ended);
    }
    if execution.finished_at.is_none() && closed > over {
        found.push(bar(over, closed, BarKind::Waits));
    }
    found
}

/// What nobody tries and takes time is waited for.
fn without_attempts(execution: &Execution, closed: i64) -> BarKind {
    let lasted = closed > execution.opened_at.millis();
    match execution.status {
        ExecutionStatus::Running => BarKind::Waits,
        ExecutionStatus::Done if lasted => BarKind::Waited,
        status => BarKind::Work(status),
    }
}

impl BarKind {
    /// Of what holds other steps: they are at work.
    fn at_work(self) -> Self {
        match self {
            Self::Waits => Self::Work(ExecutionStatus::Running),
            Self::Waited => Self::Work(ExecutionStatus::Done),
            Self::Work(status) => Self::Work(status),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Waits => "waiting",
            Self::Waited => "waited",
            Self::Work(status) => status.as_str(),
        }
    }

    fn is_waiting(self) -> bool {
        match self {
            Self::Waits | Self::Waited => true,
            Self::Work(_) => false,
        }
    }
}

/// The row of a step; many bars are one, with those that failed over it.
fn row(step: &str, bars: Vec<Bar>, shown: Zoom) -> Option<TimelineRow> {
    let step = step.to_owned();
    let work = bars.iter().filter(|bar| !bar.kind.is_waiting());
    let mut ends: Vec<i64> = work.map(|bar| bar.to).collect();
    if bars.is_empty() || ends.len() <= BARS && bars.len() <= 2 * BARS {
        let many = None;
        return (!bars.is_empty()).then_some(TimelineRow { step, bars, many });
    }
    ends.sort_unstable();
    let (first, last) = (*ends.first()?, *ends.last()?);
    let spread = Spread {
        first,
        median: ends[(ends.len() - 1) / 2],
        last,
    };
    let running = BarKind::Work(ExecutionStatus::Running);
    let kind = match bars.iter().any(|bar| bar.kind == running) {
        true => ExecutionStatus::Running,
        false => ExecutionStatus::Done,
    };
    let whole = Bar {
        from: bars.iter().map(|bar| bar.from).min()?,
        to: last,
        kind: BarKind::Work(kind),
        count: ends.len(),
    };
    Some(TimelineRow {
        step,
        many: Some((ends.len(), spread)),
        bars: std::iter::once(whole)
            .chain(failures(&bars, shown))
            .collect(),
    })
}

/// What failed, each where it did; what cannot be told apart at this size is one bar.
fn failures(bars: &[Bar], shown: Zoom) -> Vec<Bar> {
    let failed = BarKind::Work(ExecutionStatus::Failed);
    let mut places: BTreeMap<i64, Bar> = BTreeMap::new();
    for bar in bars.iter().filter(|bar| bar.kind == failed) {
        let place = (shown.x(bar.to) * FAILURES / 100.0) as i64;
        let known = places.entry(place).or_insert(Bar { count: 0, ..*bar });
        known.from = known.from.min(bar.from);
        known.to = known.to.max(bar.to);
        known.count += 1;
    }
    places.into_values().collect()
}

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

fn drawn(timeline: &Timeline, row: &TimelineRow, bar: &Bar) -> Markup {
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

fn title(timeline: &Timeline, row: &TimelineRow, bar: &Bar) -> String {
    let (word, took) = (bar.kind.word(), lasted(span(bar.to - bar.from)));
    match row.many {
        Some((count, spread)) if bar.count == count => {
            let after = |at: i64| lasted(span(at - timeline.whole.from));
            let (first, median, last) = (
                after(spread.first),
                after(spread.median),
                after(spread.last),
            );
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

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Zoom = Zoom { from: 0, to: 1_000 };

    fn work(from: i64, to: i64, status: ExecutionStatus) -> Bar {
        Bar {
            from,
            to,
            kind: BarKind::Work(status),
            count: 1,
        }
    }

    #[test]
    fn a_stretch_of_time_is_read_or_not() {
        assert_eq!(Zoom::read("0-20"), Some(Zoom { from: 0, to: 20 }));
        for wrong in ["", "5", "5-5", "9-3", "-1-3", "a-b", "1-2-3"] {
            assert_eq!(Zoom::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn many_are_one_with_their_spread_and_every_failure() {
        let failed = [10, 11, 500];
        let bars: Vec<Bar> = (0..1_000)
            .map(|at| match failed.contains(&at) {
                true => work(at, at + 1, ExecutionStatus::Failed),
                false => work(at, at + 1, ExecutionStatus::Done),
            })
            .collect();
        let row = row("many", bars, WHOLE).unwrap();
        let (count, spread) = row.many.unwrap();
        assert_eq!(
            (count, spread.first, spread.median, spread.last),
            (1_000, 1, 500, 1_000)
        );
        let red = row.bars.iter().skip(1);
        assert_eq!(red.clone().map(|bar| bar.count).sum::<usize>(), 3);
        assert!(red.clone().any(|bar| bar.from == 500));
    }

    #[test]
    fn one_can_go_through_the_whole_run_and_no_further() {
        let at = |from, to| Timeline {
            rows: Vec::new(),
            left_out: 0,
            elsewhere: 0,
            whole: WHOLE,
            shown: Zoom { from, to },
        };
        let words = |timeline: &Timeline| {
            let ways = timeline.ways().into_iter();
            ways.map(|(word, zoom)| format!("{word} {}", zoom.map_or_else(String::new, Zoom::text)))
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&at(0, 1_000)), ["Zoom in 250-750"]);
        assert_eq!(
            words(&at(0, 400)),
            [
                "Zoom in 100-300",
                "Zoom out 0-800",
                "Later 200-600",
                "Whole run "
            ]
        );
        assert_eq!(
            words(&at(999, 1_000)),
            ["Zoom out 998-1000", "Earlier 998-999", "Whole run "]
        );
    }
}
