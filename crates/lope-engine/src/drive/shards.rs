//! The threads that advance runs. A run belongs to one of them by its id; `advance` runs there and nowhere else.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use lope_model::{Epoch, RunId, RunnerId};

use super::clock::ProcessClock;
use super::inbox::Inbox;
use super::supervisor::words;
use crate::shard::{Input, Output, Shard, ShardSettings};

/// Longest wait of a shard with nothing to do.
const IDLE: Duration = Duration::from_mins(1);
/// Most inputs taken in before outputs are handed on.
const TURN: usize = 1_024;

/// The lines in which inputs wait for their thread.
#[derive(Debug)]
pub(crate) struct Shards {
    lines: Vec<Inbox<Input>>,
}

impl Shards {
    pub(crate) fn new(count: usize) -> Self {
        Self { lines: (0..count.max(1)).map(|_| Inbox::new()).collect() }
    }

    /// The number of the shard that a run belongs to.
    pub(crate) fn shard_of(&self, run: RunId) -> usize {
        let bytes = run.as_bytes();
        u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize % self.lines.len()
    }

    pub(crate) fn send(&self, run: RunId, input: Input) {
        self.lines[self.shard_of(run)].send([input]);
    }

    pub(crate) fn send_all(&self, inputs: impl IntoIterator<Item = (RunId, Input)>) {
        let mut sorted: Vec<Vec<Input>> = self.lines.iter().map(|_| Vec::new()).collect();
        inputs.into_iter().for_each(|(run, input)| sorted[self.shard_of(run)].push(input));
        self.lines.iter().zip(sorted).for_each(|(line, inputs)| line.send(inputs));
    }

    /// The same to every shard.
    pub(crate) fn tell(&self, make: impl Fn() -> Input) {
        self.lines.iter().for_each(|line| line.send([make()]));
    }

    /// No more inputs: the threads end when they have taken in what is there.
    pub(crate) fn close(&self) {
        self.lines.iter().for_each(Inbox::close);
    }
}

/// What a thread does with its shard's outputs, a turn's worth at a time. It takes all of them.
pub(crate) trait Hands: Send + Sync + 'static {
    fn take(&self, outputs: &mut Vec<Output>);
    /// A shard lost everything it held. The runs that are given back, and the pause before it goes on.
    fn lost(&self, shard: usize, why: &str) -> (Vec<(RunId, Epoch)>, Duration);
    /// Does anybody want to hear notices?
    fn listens(&self) -> bool;
}

/// Start a thread per shard. They end when the shards are closed.
pub(crate) fn begin(
    shards: &Arc<Shards>,
    clock: &ProcessClock,
    settings: ShardSettings,
    owner: RunnerId,
    hands: Arc<dyn Hands>,
) -> std::io::Result<()> {
    for number in 0..shards.lines.len() {
        let (shards, attendant) =
            (Arc::clone(shards), Attendant { number, clock: clock.clone(), hands: Arc::clone(&hands) });
        let work = move || attendant.attend(&shards.lines[number], Shard::new(settings, owner));
        std::thread::Builder::new().name(format!("lope-shard-{number}")).spawn(work)?;
    }
    Ok(())
}

/// Whoever works for one shard.
struct Attendant {
    number: usize,
    clock: ProcessClock,
    hands: Arc<dyn Hands>,
}

impl Attendant {
    /// Take inputs, let the machine decide, hand the outputs on; again until the shards are closed. The two lists are used again
    /// and again: they are large, and making them anew each turn would cost more than what is in them.
    fn attend(&self, line: &Inbox<Input>, mut shard: Shard) {
        let (mut inputs, mut out) = (VecDeque::with_capacity(TURN), Vec::with_capacity(TURN));
        while !inputs.is_empty() || line.take(&mut inputs, wait(&shard, &self.clock)) {
            shard.listen(self.hands.listens());
            self.turn(&mut shard, &mut inputs, &mut out);
            if out.is_empty() {
                continue;
            }
            let taken = catch_unwind(AssertUnwindSafe(|| self.hands.take(&mut out)));
            if let Err(panic) = taken {
                out.clear();
                self.begin_again(&mut shard, &words(&*panic));
            }
        }
    }

    /// A panic costs the run that was being worked on its place in memory, and nothing else.
    fn turn(&self, shard: &mut Shard, inputs: &mut VecDeque<Input>, out: &mut Vec<Output>) {
        let now = self.clock.wall();
        let mut inputs = inputs.drain(..inputs.len().min(TURN));
        loop {
            let turn = catch_unwind(AssertUnwindSafe(|| {
                inputs.by_ref().for_each(|input| shard.handle(now, input, out));
                shard.tick(now, out);
            }));
            let Err(panic) = turn else { return };
            let why = words(&*panic);
            let expelled = catch_unwind(AssertUnwindSafe(|| shard.expel(&why, out)));
            if !expelled.unwrap_or(false) {
                self.begin_again(shard, &why);
            }
        }
    }

    /// Nobody knows what is half done: all runs of the shard are given up, and taken up again from the store.
    fn begin_again(&self, shard: &mut Shard, why: &str) {
        let (given_up, pause) = self.hands.lost(self.number, why);
        *shard = shard.emptied(given_up);
        std::thread::sleep(pause);
    }
}

/// How long a shard may sleep.
fn wait(shard: &Shard, clock: &ProcessClock) -> Duration {
    shard.next_deadline().map_or(IDLE, |due| due.since(clock.wall()).to_duration().min(IDLE))
}
