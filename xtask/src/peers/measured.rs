//! What turns took, as values: kept as JSON between a measurement and the page, and brought down to the
//! middle of several rounds.

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// One turn, or the middle of several.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Measured {
    pub(super) peer: String,
    pub(super) work: String,
    pub(super) units: u64,
    /// Seconds; of a resume, those until the next step was done.
    pub(super) wall: f64,
    /// Seconds of the program, with a server of its own.
    pub(super) client_cpu: f64,
    pub(super) database_cpu: f64,
    /// The most that the program ever had, in bytes.
    pub(super) memory: u64,
    pub(super) log: u64,
    /// Each single time in milliseconds, where they were taken.
    pub(super) times: Vec<f64>,
    /// Steps that were done more than once.
    pub(super) repeated: Option<u64>,
}

impl Measured {
    pub(super) fn per_second(&self) -> f64 {
        self.units as f64 / self.wall.max(1e-9)
    }

    /// Microseconds of processors for one unit, of all ends together.
    pub(super) fn cpu_micros(&self) -> f64 {
        self.per_unit(self.client_cpu + self.database_cpu) * 1e6
    }

    pub(super) fn log_bytes(&self) -> f64 {
        self.per_unit(self.log as f64)
    }

    /// Percent of one core.
    pub(super) fn of_a_core(&self) -> f64 {
        (self.client_cpu + self.database_cpu) / self.wall.max(1e-9) * 100.0
    }

    fn per_unit(&self, sum: f64) -> f64 {
        sum / self.units.max(1) as f64
    }

    /// The time that this share of all is not above.
    pub(super) fn time_at(&self, share: f64) -> Option<f64> {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        let index = (times.len().checked_sub(1)? as f64 * share) as usize;
        times.get(index).copied()
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "peer": self.peer,
            "work": self.work,
            "units": self.units,
            "wall": self.wall,
            "client_cpu": self.client_cpu,
            "database_cpu": self.database_cpu,
            "memory": self.memory,
            "log": self.log,
            "times": self.times,
            "repeated": self.repeated,
        })
    }

    pub(super) fn read(value: &Value) -> Result<Self> {
        let text = |name: &str| value[name].as_str().map(ToOwned::to_owned);
        let number = |name: &str| value[name].as_f64().with_context(|| format!("no {name}"));
        let count = |name: &str| value[name].as_u64().with_context(|| format!("no {name}"));
        let times = value["times"].as_array().into_iter().flatten();
        Ok(Self {
            peer: text("peer").context("no peer")?,
            work: text("work").context("no work")?,
            units: count("units")?,
            wall: number("wall")?,
            client_cpu: number("client_cpu")?,
            database_cpu: number("database_cpu")?,
            memory: count("memory")?,
            log: count("log")?,
            times: times.filter_map(Value::as_f64).collect(),
            repeated: value["repeated"].as_u64(),
        })
    }
}

/// The middle of the rounds of one peer at one work: of every quantity its own, and all single times
/// together. Nothing: it has no round.
pub(super) fn middle(all: &[Measured], peer: &str, work: &str) -> Option<Measured> {
    let of_this = |turn: &&Measured| turn.peer == peer && turn.work == work;
    let rounds: Vec<&Measured> = all.iter().filter(of_this).collect();
    let first = *rounds.first()?;
    let of = |quantity: fn(&Measured) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(|round| quantity(round)).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Some(Measured {
        wall: of(|round| round.wall),
        client_cpu: of(|round| round.client_cpu),
        database_cpu: of(|round| round.database_cpu),
        memory: of(|round| round.memory as f64) as u64,
        log: of(|round| round.log as f64) as u64,
        times: rounds
            .iter()
            .flat_map(|round| round.times.clone())
            .collect(),
        repeated: rounds.iter().filter_map(|round| round.repeated).max(),
        ..first.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(wall: f64, times: &[f64]) -> Measured {
        Measured {
            peer: "a".into(),
            work: "runs".into(),
            units: 10,
            wall,
            times: times.to_vec(),
            ..Measured::default()
        }
    }

    #[test]
    fn the_middle_of_three_rounds() {
        let all = [turn(3.0, &[1.0]), turn(1.0, &[3.0]), turn(2.0, &[2.0])];
        let middle = middle(&all, "a", "runs").expect("there are rounds");
        assert!((middle.wall - 2.0).abs() < 1e-9);
        assert_eq!(middle.time_at(0.5), Some(2.0));
        assert!(super::middle(&all, "b", "runs").is_none());
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let turn = turn(1.5, &[0.25]);
        assert_eq!(Measured::read(&turn.json()).expect("it is read"), turn);
    }
}
