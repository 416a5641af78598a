//! What goes wrong in a world, and how often.

use crate::dice::Dice;

/// Chances are of a thousand cases, times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Nothing goes wrong after this time: what stands still goes on, what is down comes back.
    pub until: i64,
    /// Of a process, at any point between two effects.
    pub crash: u64,
    /// Most crashes, so that no attempt is lost more often than its budget allows.
    pub crashes_max: u32,
    /// Crash at this point, counted over the whole world, and nowhere else.
    pub crash_at: Option<u64>,
    /// A request never arrives.
    pub lose_request: u64,
    /// A request is served, its answer never arrives.
    pub lose_answer: u64,
    /// A request arrives after its sender has given it up.
    pub late_request: u64,
    /// An answer takes many seconds, and its sender waits for it.
    pub slow: u64,
    /// A notification is not heard.
    pub lose_notification: u64,
    /// An outcome comes twice.
    pub twice: u64,
    /// A shard panics at what it takes in: what that led to may be lost, and the run it was at is
    /// given up; of ten such falls one costs the shard everything it holds.
    pub fall: u64,
    /// A worker outlives its process, and answers to the next.
    pub late_outcome: u64,
    /// Processes that stand still for a while, often for longer than their lease.
    pub pauses: u32,
    /// Threads or tasks of a process that stand still while the others go on.
    pub stalls: u32,
    /// Processes that do not reach the store for a while: heartbeats are slow first, and of some
    /// the session task stands still for longer.
    pub outages: u32,
    /// Processes that are asked to end, and start anew.
    pub shutdowns: u32,
    /// The wall clocks of processes differ from the store's by at most this.
    pub skew: i64,
    /// How long an answer takes, at most, when nothing goes wrong.
    pub latency: i64,
}

impl Faults {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self {
            latency: 3,
            ..Self::default()
        }
    }

    /// The same when nothing goes wrong.
    pub(crate) fn calm(&self) -> Self {
        Self {
            latency: self.latency,
            ..Self::none()
        }
    }

    /// A mixture out of dice: each fault is absent in some worlds, rare in others, frequent in a
    /// few.
    pub fn rolled(dice: &mut Dice) -> Self {
        let mut rate = |most: u64| match dice.below(4) {
            0 => 0,
            1 => dice.below(most / 10 + 1),
            _ => dice.below(most),
        };
        let crash = rate(20);
        let lose_request = rate(150);
        let lose_answer = rate(150);
        let late_request = rate(60);
        let slow = rate(150);
        let (lose_notification, twice, late_outcome) = (rate(900), rate(200), rate(500));
        let fall = rate(40);
        Self {
            until: dice.between(5_000, 40_000),
            crash,
            crashes_max: 12,
            crash_at: None,
            lose_request,
            lose_answer,
            late_request,
            slow,
            lose_notification,
            twice,
            late_outcome,
            fall,
            pauses: u32::try_from(dice.below(5)).unwrap_or_default(),
            stalls: u32::try_from(dice.below(12)).unwrap_or_default(),
            outages: u32::try_from(dice.below(4)).unwrap_or_default(),
            shutdowns: u32::try_from(dice.below(3)).unwrap_or_default(),
            skew: *dice.pick(&[0, 0, 50, 2_000, 20_000]),
            latency: dice.between(0, 80),
        }
    }
}
