//! The threads that advance runs. A run belongs to one of them by its id; `advance` runs there and nowhere else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use lope_model::{RunId, RunnerId};

use super::clock::ProcessClock;
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
        let bytes = run.as_bytes();
        let spread = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
        // A shard that is gone has no runs to tell.
        let _ = self.senders[spread % self.senders.len()].send(input);
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
}

/// Start a thread per shard. They end when the last sender is gone.
pub(crate) fn begin(
    ears: Ears,
    clock: &ProcessClock,
    settings: ShardSettings,
    owner: RunnerId,
    hands: std::sync::Arc<dyn Hands>,
) -> std::io::Result<Vec<std::thread::JoinHandle<()>>> {
    let threads = ears.0.into_iter().enumerate().map(|(number, ear)| {
        let (hands, clock) = (std::sync::Arc::clone(&hands), clock.clone());
        let work = move || attend(&ear, &clock, settings, owner, &*hands);
        std::thread::Builder::new().name(format!("lope-shard-{number}")).spawn(work)
    });
    threads.collect()
}

/// Take inputs, let the machine decide, hand the outputs on; again until nobody can send any more. A panic costs the runs of
/// this shard their place in memory; the store still says that we own them, and they are adopted again. The two lists are
/// used again and again: they are large, and making them anew each turn would cost more than what is in them.
fn attend(
    ear: &Receiver<Input>,
    clock: &ProcessClock,
    settings: ShardSettings,
    mut owner: RunnerId,
    hands: &dyn Hands,
) {
    let mut shard = Shard::new(settings, owner);
    let (mut inputs, mut out) = (Vec::with_capacity(TURN), Vec::with_capacity(TURN));
    while listen(ear, &shard, clock, &mut inputs) {
        for input in &inputs {
            if let Input::Owner(runner) = input {
                owner = *runner;
            }
        }
        let turn = catch_unwind(AssertUnwindSafe(|| {
            let now = clock.wall();
            inputs.drain(..).for_each(|input| shard.handle(now, input, &mut out));
            shard.tick(now, &mut out);
        }));
        if turn.is_err() {
            tracing::error!("a shard panicked; its runs are taken up again");
            out.clear();
            let mut broken = std::mem::replace(&mut shard, Shard::new(settings, owner));
            broken.handle(clock.wall(), Input::Fence, &mut out);
        }
        if !out.is_empty() {
            hands.take(&mut out);
        }
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
