//! One measured line: what, where, how much, how fast, and at what cost to both ends.

use std::fmt;
use std::time::Duration;

use lope::measure::cpu_time;
use serde_json::{Value, json};

/// What was measured, for one shape on one store.
#[derive(Clone, Debug)]
pub struct BenchFigure {
    pub bench: &'static str,
    pub store: &'static str,
    /// What is counted: runs, steps.
    pub unit: &'static str,
    pub units: u64,
    pub cost: Cost,
    /// More about it, by name.
    pub notes: Vec<(&'static str, String)>,
}

/// What some work took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub wall: Duration,
    /// CPU time of this process.
    pub ours: Duration,
    /// CPU time of the server, if there is one here.
    pub theirs: Option<Duration>,
    /// Bytes of the server's log.
    pub log: Option<u64>,
}

/// Readings of every clock before some work.
#[derive(Clone, Copy, Debug)]
pub struct CostReading {
    pub began: std::time::Instant,
    pub ours: Duration,
    pub theirs: Option<Duration>,
    pub log: Option<u64>,
}

impl CostReading {
    pub fn now(theirs: Option<Duration>, log: Option<u64>) -> Self {
        Self {
            began: std::time::Instant::now(),
            ours: cpu_time(),
            theirs,
            log,
        }
    }

    /// What was spent between two readings.
    pub fn until(self, end: Self) -> Cost {
        Cost {
            wall: end.began.duration_since(self.began),
            ours: end.ours.saturating_sub(self.ours),
            theirs: end
                .theirs
                .zip(self.theirs)
                .map(|(end, begin)| end.saturating_sub(begin)),
            log: end
                .log
                .zip(self.log)
                .map(|(end, begin)| end.saturating_sub(begin)),
        }
    }
}

impl Cost {
    /// This and other work, taken together.
    pub fn and(self, other: Self) -> Self {
        Self {
            wall: self.wall + other.wall,
            ours: self.ours + other.ours,
            theirs: self
                .theirs
                .zip(other.theirs)
                .map(|(one, another)| one + another),
            log: self.log.zip(other.log).map(|(one, another)| one + another),
        }
    }
}

impl BenchFigure {
    pub fn per_second(&self) -> f64 {
        self.units as f64 / self.cost.wall.as_secs_f64().max(1e-9)
    }

    /// CPU time of both ends for one unit, in microseconds.
    pub fn cpu_micros(&self) -> f64 {
        self.micros(self.cost.ours) + self.cost.theirs.map_or(0.0, |theirs| self.micros(theirs))
    }

    fn micros(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.units.max(1) as f64
    }

    fn log_bytes(&self) -> Option<f64> {
        self.cost
            .log
            .map(|log| log as f64 / self.units.max(1) as f64)
    }

    pub fn note(mut self, name: &'static str, text: impl fmt::Display) -> Self {
        self.notes.push((name, text.to_string()));
        self
    }

    /// Its times in milliseconds as notes, and the one in the middle and the one at 99 of 100.
    pub fn times(self, mut times: Vec<f64>) -> (Self, f64, f64) {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let (half, most) = (at(0.5), at(0.99));
        (
            self.note("p50", format!("{half:.2} ms"))
                .note("p99", format!("{most:.2} ms")),
            half,
            most,
        )
    }

    /// This figure with its share of what the store can do at best, and that.
    pub fn beside(self, raw: Self) -> Vec<Self> {
        let share = self.per_second() / raw.per_second() * 100.0;
        vec![self.note("of the raw store", format!("{share:.0} %")), raw]
    }

    pub fn json(&self) -> Value {
        let mut value = json!({
            "bench": self.bench,
            "store": self.store,
            "unit": self.unit,
            "units": self.units,
            "per_second": self.per_second(),
            "wall_seconds": self.cost.wall.as_secs_f64(),
            "cpu_micros": self.cpu_micros(),
            "server_cpu_micros": self.cost.theirs.map(|theirs| self.micros(theirs)),
            "log_bytes": self.log_bytes(),
        });
        for (name, text) in &self.notes {
            value[*name] = json!(text);
        }
        value
    }
}

impl fmt::Display for BenchFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bench, store, unit) = (self.bench, self.store, self.unit);
        write!(
            f,
            "{bench:<10} {store:<9} {:>9.0} {unit}/s  {:>8.1} µs CPU",
            self.per_second(),
            self.cpu_micros()
        )?;
        if let Some(theirs) = self.cost.theirs {
            write!(f, " ({:.1} of them the server's)", self.micros(theirs))?;
        }
        if let Some(log) = self.log_bytes() {
            write!(f, "  {log:.0} B log")?;
        }
        self.notes
            .iter()
            .try_for_each(|(name, text)| write!(f, "  {name} {text}"))
    }
}
