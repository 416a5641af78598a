//! When the steps of a run were at work: one row a step, its attempts as bars, the time in which
//! nobody was at work on it as bars of their own. In: a run's executions and the time; out: rows. Of
//! many bars remain one, the spread of their ends, and every failure.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use lope_flow::history::{Execution, ExecutionStatus};
use lope_model::Timestamp;

/// Steps shown, in the order in which they first began.
const STEPS: usize = 200;
/// Bars drawn in a row; more become one that spans them.
const BARS: usize = 60;
/// Of what failed in a row of many, what lies in one of so many parts of the width is one bar.
const FAILURES: f64 = 400.0;

/// The longest time that can be asked for, in milliseconds: some three thousand years.
const LONGEST: i64 = 100_000_000_000_000;

/// What a bar stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BarKind {
    /// A try, or an execution that has none.
    Work(ExecutionStatus),
    /// Nobody is at work on it: it waits for a slot, for its next try, for a time or a signal.
    Waits,
    /// The same, and it is over.
    Waited,
}

/// A stretch of time.
#[derive(Clone, Copy, Debug)]
pub struct TimelineBar {
    pub from: i64,
    pub to: i64,
    pub kind: BarKind,
    pub count: usize,
}

/// When the first, half and all of many were over.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub first: i64,
    pub median: i64,
    pub last: i64,
}

#[derive(Clone, Debug)]
pub struct TimelineRow {
    pub step: String,
    pub bars: Vec<TimelineBar>,
    /// How many there are, if they are drawn as one.
    pub many: Option<(usize, Spread)>,
}

/// A stretch of a run's time, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zoom {
    pub from: i64,
    pub to: i64,
}

/// What is to be drawn.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub rows: Vec<TimelineRow>,
    pub left_out: usize,
    /// Steps of which nothing lies in the time that is shown.
    pub elsewhere: usize,
    pub whole: Zoom,
    pub shown: Zoom,
}

impl Zoom {
    /// As it stands in an address; nothing if that makes no sense.
    pub fn read(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        let from = from.parse().ok()?;
        let to = to.parse().ok()?;
        (0 <= from && from < to && to <= LONGEST).then_some(Self { from, to })
    }

    pub fn length(self) -> i64 {
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

    pub fn text(self) -> String {
        format!("{}-{}", self.from, self.to)
    }

    fn meets(self, bar: &TimelineBar) -> bool {
        bar.from <= self.to && bar.to >= self.from
    }

    /// Where a moment stands, in percent of the width that bars have: how wide that is, the screen
    /// says.
    pub fn x(self, at: i64) -> f64 {
        let at = at.clamp(self.from, self.to);
        (at - self.from) as f64 * 100.0 / self.length() as f64
    }
}

impl Timeline {
    pub fn of(executions: &[Cow<'_, Execution>], now: Timestamp, zoom: Option<Zoom>) -> Self {
        let now = now.millis();
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
    pub fn zoom(&self) -> Zoom {
        Zoom {
            from: self.shown.from - self.whole.from,
            to: self.shown.to - self.whole.from,
        }
    }

    /// Where one may go from here: words and stretches of time; none is the whole run.
    pub fn ways(&self) -> Vec<(&'static str, Option<Zoom>)> {
        let here = self.zoom();
        let whole = self.whole.length();
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
fn by_step<'a>(executions: &'a [Cow<'_, Execution>], now: i64) -> Vec<(&'a str, Vec<TimelineBar>)> {
    let mut order: Vec<&str> = Vec::new();
    let mut steps: BTreeMap<&str, Vec<TimelineBar>> = BTreeMap::new();
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
fn bars(execution: &Execution, now: i64) -> Vec<TimelineBar> {
    let end = |at: Option<Timestamp>| at.map_or(now, Timestamp::millis);
    let bar = |from: i64, to: i64, kind| TimelineBar {
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

    pub fn word(self) -> &'static str {
        match self {
            Self::Waits => "waiting",
            Self::Waited => "waited",
            Self::Work(status) => status.as_str(),
        }
    }

    pub fn is_waiting(self) -> bool {
        match self {
            Self::Waits | Self::Waited => true,
            Self::Work(_) => false,
        }
    }
}

/// The row of a step; many bars are one, with those that failed over it.
fn row(step: &str, bars: Vec<TimelineBar>, shown: Zoom) -> Option<TimelineRow> {
    let step = step.to_owned();
    let work = bars.iter().filter(|bar| !bar.kind.is_waiting());
    let mut ends: Vec<i64> = work.map(|bar| bar.to).collect();
    if bars.is_empty() || ends.len() <= BARS && bars.len() <= 2 * BARS {
        let many = None;
        return (!bars.is_empty()).then_some(TimelineRow { step, bars, many });
    }
    // Nothing but waiting.
    if ends.is_empty() {
        ends = bars.iter().map(|bar| bar.to).collect();
    }
    ends.sort_unstable();
    let first = *ends.first()?;
    let last = *ends.last()?;
    let spread = Spread {
        first,
        median: ends[(ends.len() - 1) / 2],
        last,
    };
    let whole = TimelineBar {
        from: bars.iter().map(|bar| bar.from).min()?,
        to: last,
        kind: of_many(&bars),
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

/// What many bars are as one: at work if any is, waiting only if all are.
fn of_many(bars: &[TimelineBar]) -> BarKind {
    let any = |kind: BarKind| bars.iter().any(|bar| bar.kind == kind);
    let running = BarKind::Work(ExecutionStatus::Running);
    if any(running) {
        running
    } else if bars.iter().any(|bar| !bar.kind.is_waiting()) {
        BarKind::Work(ExecutionStatus::Done)
    } else if any(BarKind::Waits) {
        BarKind::Waits
    } else {
        BarKind::Waited
    }
}

/// What failed, each where it did; what cannot be told apart at this size is one bar.
fn failures(bars: &[TimelineBar], shown: Zoom) -> Vec<TimelineBar> {
    let failed = BarKind::Work(ExecutionStatus::Failed);
    let mut places: BTreeMap<i64, TimelineBar> = BTreeMap::new();
    for bar in bars.iter().filter(|bar| bar.kind == failed) {
        let place = (shown.x(bar.to) * FAILURES / 100.0) as i64;
        let known = places
            .entry(place)
            .or_insert(TimelineBar { count: 0, ..*bar });
        known.from = known.from.min(bar.from);
        known.to = known.to.max(bar.to);
        known.count += 1;
    }
    places.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Zoom = Zoom { from: 0, to: 1_000 };

    fn work(from: i64, to: i64, status: ExecutionStatus) -> TimelineBar {
        TimelineBar {
            from,
            to,
            kind: BarKind::Work(status),
            count: 1,
        }
    }

    #[test]
    fn a_stretch_of_time_is_read_or_not() {
        assert_eq!(Zoom::read("0-20"), Some(Zoom { from: 0, to: 20 }));
        for wrong in [
            "",
            "5",
            "5-5",
            "9-3",
            "-1-3",
            "a-b",
            "1-2-3",
            "0-9223372036854775807",
        ] {
            assert_eq!(Zoom::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn many_are_one_with_their_spread_and_every_failure() {
        let failed = [10, 11, 500];
        let bars: Vec<TimelineBar> = (0..1_000)
            .map(|at| {
                let status = if failed.contains(&at) {
                    ExecutionStatus::Failed
                } else {
                    ExecutionStatus::Done
                };
                work(at, at + 1, status)
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
    fn many_that_only_wait_are_shown_as_well() {
        let waits = |kind| {
            let bar = |at| TimelineBar {
                from: at,
                to: 1_000,
                kind,
                count: 1,
            };
            let bars: Vec<TimelineBar> = (0..200).map(bar).collect();
            row("sleeps", bars, WHOLE).unwrap()
        };
        for kind in [BarKind::Waits, BarKind::Waited] {
            let row = waits(kind);
            assert_eq!((row.bars.len(), row.bars[0].kind), (1, kind));
            assert_eq!((row.bars[0].from, row.bars[0].to), (0, 1_000));
            assert_eq!(row.many.unwrap().0, 200);
        }
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
