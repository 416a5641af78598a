//! When an agent must stop: pure, from what was seen of it so far.
//!
//! Silence is counted by looks, not by the clock: a look that comes late because the machine stood
//! still, or slept, counts no more than one that was on time. Use of a processor is a sign of life.

use std::time::Duration;

use lope_model::Span;

/// A tree that uses less than this part of a processor does nothing: timers of an idle program.
const LIFE_PERCENT: u32 = 2;
/// How many times a processor is looked at during the longest silence.
const LOOKS: u32 = 10;
const TICK_MIN: Duration = Duration::from_millis(20);
const TICK_MAX: Duration = Duration::from_secs(1);

/// What bounds an agent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AgentLimits {
    /// Longest silence.
    pub silence: Span,
    /// Longest time.
    pub wall: Option<Span>,
    /// What is left of a budget of time.
    pub wall_left: Option<Span>,
    /// What is left of a budget of money, in millionths of a dollar.
    pub cost_left: Option<i64>,
    /// How long an agent may take to end when it has told its result.
    pub result_grace: Span,
}

/// Why an agent is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopCause {
    Timeout,
    Hang,
    /// Of time or money.
    Budget,
    /// It has told its result and does not end.
    Lingers,
}

/// What a look sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgentSigns {
    /// Since the agent began.
    pub elapsed: Duration,
    /// Something was said since the last look.
    pub has_spoken: bool,
    pub is_final: bool,
    pub cost_micros: i64,
}

/// Looks at one agent again and again.
#[derive(Clone, Debug)]
pub struct Watchdog {
    limits: AgentLimits,
    last: Duration,
    quiet: Duration,
    /// Since the agent told its result.
    lingering: Option<Duration>,
    sampled: Sample,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    quiet: Duration,
    cpu: Option<Duration>,
}

impl Watchdog {
    pub const fn new(limits: AgentLimits) -> Self {
        Self {
            limits,
            last: Duration::ZERO,
            quiet: Duration::ZERO,
            lingering: None,
            sampled: Sample {
                quiet: Duration::ZERO,
                cpu: None,
            },
        }
    }

    /// How long until the next look.
    pub fn tick(&self) -> Duration {
        let shortest = self.limits.silence.min(self.limits.result_grace);
        (shortest.to_duration() / 20).clamp(TICK_MIN, TICK_MAX)
    }

    /// Should it stop? `cpu` measures what its tree has used of a processor so far; it is asked only
    /// when the agent is silent.
    pub fn observe(
        &mut self,
        signs: &AgentSigns,
        cpu: impl FnOnce() -> Duration,
    ) -> Option<StopCause> {
        let gap = signs.elapsed.saturating_sub(self.last).min(self.tick() * 2);
        self.last = signs.elapsed;
        let over =
            |most: Option<Span>| most.is_some_and(|most| signs.elapsed >= most.to_duration());
        if signs.is_final {
            let lingering = self.lingering.map_or(Duration::ZERO, |before| before + gap);
            self.lingering = Some(lingering);
            let grace = self.limits.result_grace.to_duration();
            return (lingering >= grace).then_some(StopCause::Lingers);
        }
        if over(self.limits.wall_left)
            || self
                .limits
                .cost_left
                .is_some_and(|left| signs.cost_micros > left)
        {
            return Some(StopCause::Budget);
        }
        if over(self.limits.wall) {
            return Some(StopCause::Timeout);
        }
        self.hangs(signs.has_spoken, gap, cpu)
            .then_some(StopCause::Hang)
    }

    fn hangs(&mut self, has_spoken: bool, gap: Duration, cpu: impl FnOnce() -> Duration) -> bool {
        if has_spoken {
            self.quiet = Duration::ZERO;
            self.sampled = Sample {
                quiet: Duration::ZERO,
                cpu: None,
            };
            return false;
        }
        self.quiet += gap;
        let silence = self.limits.silence.to_duration();
        let since = self.quiet.saturating_sub(self.sampled.quiet);
        if since >= silence / LOOKS || self.quiet >= silence {
            let used = cpu();
            let grown = self.sampled.cpu.map(|before| used.saturating_sub(before));
            let lives =
                grown.is_some_and(|grown| grown * 100 >= since * LIFE_PERCENT && !grown.is_zero());
            if lives {
                self.quiet = Duration::ZERO;
            }
            self.sampled = Sample {
                quiet: self.quiet,
                cpu: Some(used),
            };
        }
        self.quiet >= silence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: AgentLimits = AgentLimits {
        silence: Span::from_secs(900),
        wall: Some(Span::from_secs(7_200)),
        wall_left: None,
        cost_left: Some(1_000),
        result_grace: Span::from_secs(10),
    };

    fn signs(seconds: u64) -> AgentSigns {
        AgentSigns {
            elapsed: Duration::from_secs(seconds),
            has_spoken: false,
            is_final: false,
            cost_micros: 0,
        }
    }

    /// When it is stopped, looked at twice a second, with so much use of a processor a second.
    fn stopped(limits: AgentLimits, cpu_percent: u64) -> Option<(u64, StopCause)> {
        let mut dog = Watchdog::new(limits);
        (0..8_000 * 2).find_map(|half| {
            let seen = AgentSigns {
                elapsed: Duration::from_millis(half * 500),
                ..signs(0)
            };
            let cpu = Duration::from_millis(half * 5 * cpu_percent);
            let cause = dog.observe(&seen, || cpu)?;
            Some((half / 2, cause))
        })
    }

    /// "20 minutes of silent CPU work survive; a dead socket with an open pipe does not."
    #[test]
    fn silence_with_work_is_life_and_without_it_is_a_hang() {
        let unbounded = AgentLimits {
            wall: None,
            ..LIMITS
        };
        assert_eq!(stopped(unbounded, 100), None);
        assert_eq!(stopped(unbounded, 5), None);
        let (at, cause) = stopped(unbounded, 0).unwrap();
        assert_eq!(cause, StopCause::Hang);
        assert!((900..=902).contains(&at), "{at}");
        assert_eq!(
            stopped(unbounded, 1).map(|(_, cause)| cause),
            Some(StopCause::Hang)
        );
        assert_eq!(stopped(LIMITS, 100), Some((7_200, StopCause::Timeout)));
    }

    #[test]
    fn a_machine_that_stood_still_has_not_waited() {
        let mut dog = Watchdog::new(LIMITS);
        assert_eq!(dog.observe(&signs(1), || Duration::ZERO), None);
        assert_eq!(
            dog.observe(&signs(4_000), || Duration::ZERO),
            None,
            "a laptop that slept"
        );
        assert_eq!(dog.observe(&signs(4_001), || Duration::ZERO), None);
    }

    #[test]
    fn budgets_end_it_and_a_result_gives_it_a_moment() {
        let mut dog = Watchdog::new(LIMITS);
        let dear = AgentSigns {
            cost_micros: 1_001,
            ..signs(1)
        };
        assert_eq!(
            dog.observe(&dear, || Duration::ZERO),
            Some(StopCause::Budget)
        );
        let told = |seconds| AgentSigns {
            is_final: true,
            ..signs(seconds)
        };
        let mut dog = Watchdog::new(LIMITS);
        let found =
            (1..100).find(|second| dog.observe(&told(*second), || Duration::ZERO).is_some());
        assert!(
            found.is_some_and(|second| (10..=21).contains(&second)),
            "{found:?}"
        );
    }
}
