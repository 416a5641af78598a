//! The threads that advance runs. A run belongs to one of them by its id; `advance` runs there and nowhere else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use lope_model::{RunId, RunnerId};

use super::clock::ProcessClock;
use super::supervisor::words;
use crate::shard::{Input, Output, Shard, ShardSettings};

/// Longest wait of a shard with nothing to do.
const IDLE: Duration = Duration::from_mins(1);
/// Most inputs taken in before outputs are handed on.
const TURN: usize = 1_024;

/// The sending ends.
#[derive(Debug)]
pub(crate) struct Shards {
    senders: Vec<Sender<Input>>,
}

/// The receiving ends, to be given to threads.
#[derive(Debug)]
pub(crate) struct Ears(Vec<Receiver<Input>>);

impl Shards {
    pub(crate) fn new(count: usize) -> (Self, Ears) {
        let (senders, receivers) = (0..count.max(1)).map(|_| channel()).unzip();
        (Self { senders }, Ears(receivers))
    }

    pub(crate) fn send(&self, run: RunId, input: Input) {
        // A shard that is gone has no runs to tell.
        let _ = self.senders[self.shard_of(run)].send(input);
    }

    /// The number of the shard that a run belongs to.
    pub(crate) fn shard_of(&self, run: RunId) -> usize {
        let bytes = run.as_bytes();
        let spread = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
        spread % self.senders.len()
    }

    pub(crate) fn send_all(&self, inputs: impl IntoIterator<Item = (RunId, Input)>) {
        inputs.into_iter().for_each(|(run, input)| self.send(run, input));
    }

    /// The same to every shard.
    pub(crate) fn tell(&self, make: impl Fn() -> Input) {
        for sender in &self.senders {
            let _ = sender.send(make());
        }
    }
}

/// What a thread does with its shard's outputs, a turn's worth at a time. It takes all of them.
pub(crate) trait Hands: Send + Sync + 'static {
    fn take(&self, outputs: &mut Vec<Output>);
    /// A shard lost everything it held. The pause before it goes on.
    fn lost(&self, shard: usize, why: &str) -> Duration;
}

/// Start a thread per shard. They end when the last sender is gone.
pub(crate) fn begin(
    ears: Ears,
    clock: &ProcessClock,
    settings: ShardSettings,
    owner: RunnerId,
    hands: Arc<dyn Hands>,
) -> std::io::Result<Vec<std::thread::JoinHandle<()>>> {
    let threads = ears.0.into_iter().enumerate().map(|(number, ear)| {
        let (hands, clock) = (Arc::clone(&hands), clock.clone());
        let attendant = Attendant { number, clock, hands };
        let work = move || attendant.attend(&ear, Shard::new(settings, owner));
        std::thread::Builder::new().name(format!("lope-shard-{number}")).spawn(work)
    });
    threads.collect()
}

/// Whoever works for one shard.
struct Attendant {
    number: usize,
    clock: ProcessClock,
    hands: Arc<dyn Hands>,
}

impl Attendant {
    /// Take inputs, let the machine decide, hand the outputs on; again until nobody can send any more. The two lists are used again
    /// and again: they are large, and making them anew each turn would cost more than what is in them.
    fn attend(&self, ear: &Receiver<Input>, mut shard: Shard) {
        let (mut inputs, mut out) = (Vec::with_capacity(TURN), Vec::with_capacity(TURN));
        while listen(ear, &shard, &self.clock, &mut inputs) {
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
    fn turn(&self, shard: &mut Shard, inputs: &mut Vec<Input>, out: &mut Vec<Output>) {
        let now = self.clock.wall();
        let mut inputs = inputs.drain(..);
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
        *shard = shard.emptied();
        std::thread::sleep(self.hands.lost(self.number, why));
    }
}

/// Wait for an input or the shard's next deadline; then take what else is there. False: nobody can send any more.
fn listen(ear: &Receiver<Input>, shard: &Shard, clock: &ProcessClock, inputs: &mut Vec<Input>) -> bool {
    let wait = shard.next_deadline().map_or(IDLE, |due| due.since(clock.wall()).to_duration().min(IDLE));
    match ear.recv_timeout(wait) {
        Ok(input) => inputs.push(input),
        Err(RecvTimeoutError::Timeout) => return true,
        Err(RecvTimeoutError::Disconnected) => return false,
    }
    inputs.extend(ear.try_iter().take(TURN - 1));
    true
}
