//! The shards and who works on them: each has a thread of its own. A run belongs to one of them by
//! its id, and one at a time works on a shard: its thread, or whoever brings it one input while the
//! thread sleeps and nothing waits, and then takes the turn on the spot.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lope_model::{Epoch, RunId, RunnerId, Timestamp};

use super::clock::ProcessClock;
use super::input_queue::InputQueue;
use super::supervisor::words;
use crate::shard::{Shard, ShardInput, ShardOutput, ShardSettings};

/// Longest wait of a shard with nothing to do.
const IDLE: Duration = Duration::from_mins(1);
/// Most inputs taken in before outputs are handed on.
const INPUTS_MAX: usize = 1_024;
/// Most turns that are taken on the spot, one after the other; then the shard's thread goes on.
const SPOT_ROUNDS: u32 = 4;
/// A turn that takes longer than this is none for other people's threads,
const SPOT_TIME: Duration = Duration::from_millis(2);
/// and so many inputs after it go to the shard's own.
const SPOT_AVOIDED: u32 = 16;

/// The lines in which inputs wait for their shard, and the shards.
#[derive(Debug)]
pub(crate) struct Shards {
    lines: Vec<ShardLine>,
}

#[derive(Debug)]
struct ShardLine {
    queue: InputQueue<ShardInput>,
    /// Gone when the shard's thread has ended.
    place: Mutex<Option<ShardPlace>>,
    /// How many inputs from now on are not for others than the shard's thread.
    avoided: AtomicU32,
}

impl Shards {
    pub(crate) fn new(count: usize) -> Self {
        let line = || ShardLine {
            queue: InputQueue::new(),
            place: Mutex::default(),
            avoided: AtomicU32::new(0),
        };
        Self {
            lines: (0..count.max(1)).map(|_| line()).collect(),
        }
    }

    /// The number of the shard that a run belongs to.
    pub(crate) fn shard_of(&self, run: RunId) -> usize {
        let bytes = run.as_bytes();
        u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize % self.lines.len()
    }

    pub(crate) fn send(&self, run: RunId, input: ShardInput) {
        self.lines[self.shard_of(run)].queue.send([input]);
    }

    /// One input, done on the spot if nobody is at work on its shard and nothing waits there. Only
    /// for those who hold no lock that the outputs of a shard might need, and only on threads of a
    /// runtime: their stacks are large.
    pub(crate) fn bring(&self, run: RunId, input: ShardInput) {
        let line = &self.lines[self.shard_of(run)];
        if tokio::runtime::Handle::try_current().is_err() || !line.invites() {
            return line.queue.send([input]);
        }
        line.work_on_the_spot(input);
    }

    pub(crate) fn send_all(&self, inputs: impl IntoIterator<Item = (RunId, ShardInput)>) {
        let mut sorted: Vec<Vec<ShardInput>> = self.lines.iter().map(|_| Vec::new()).collect();
        inputs
            .into_iter()
            .for_each(|(run, input)| sorted[self.shard_of(run)].push(input));
        self.lines
            .iter()
            .zip(sorted)
            .for_each(|(line, inputs)| line.queue.send(inputs));
    }

    /// The same to every shard.
    pub(crate) fn tell(&self, make: impl Fn() -> ShardInput) {
        let lines = self.lines.iter();
        lines.for_each(|line| line.queue.send([make()]));
    }

    /// No more inputs: the threads end when they have taken in what is there.
    pub(crate) fn close(&self) {
        self.lines.iter().for_each(|line| line.queue.close());
    }
}

impl ShardLine {
    fn place(&self) -> MutexGuard<'_, Option<ShardPlace>> {
        self.place.lock().expect("panics of a shard are caught")
    }

    /// May somebody take the place of the shard's thread? If so, it is taken.
    fn invites(&self) -> bool {
        let less = |count: u32| count.checked_sub(1);
        let avoids = self
            .avoided
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok();
        !avoids && self.queue.try_hold()
    }

    /// The turn of this input, and a few more if others come meanwhile. The place is held.
    fn work_on_the_spot(&self, input: ShardInput) {
        let mut guard = self.place();
        let Some(place) = guard.as_mut() else {
            return self.queue.release(false);
        };
        place.inputs.push_back(input);
        let began = Instant::now();
        for _ in 0..SPOT_ROUNDS {
            place.work();
            self.queue.take_held(&mut place.inputs);
            if place.inputs.is_empty() || place.is_down() {
                break;
            }
        }
        if began.elapsed() > SPOT_TIME {
            self.avoided.store(SPOT_AVOIDED, Ordering::Relaxed);
        }
        // What is left over comes before what waits.
        let stir = !place.inputs.is_empty() || place.is_down() || place.sleeps_too_long();
        drop(guard);
        self.queue.release(stir);
    }
}

/// What becomes of a shard's outputs, a turn's worth at a time. It takes all of them.
pub(crate) trait ShardHost: Send + Sync + 'static {
    fn take(&self, outputs: &mut Vec<ShardOutput>);
    /// A shard lost everything it held. The runs that are given back, and the pause before it goes
    /// on.
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
    host: Arc<dyn ShardHost>,
) -> std::io::Result<()> {
    for number in 0..shards.lines.len() {
        let shards = Arc::clone(shards);
        let place = ShardPlace {
            number,
            clock: clock.clone(),
            host: Arc::clone(&host),
            shard: Shard::new(settings, owner),
            inputs: VecDeque::with_capacity(INPUTS_MAX),
            outputs: Vec::with_capacity(INPUTS_MAX),
            sleeps_until: Timestamp::NEVER,
            pause: Duration::ZERO,
        };
        std::thread::Builder::new()
            .name(format!("lope-shard-{number}"))
            .spawn(move || attend(&shards.lines[number], place))?;
    }
    Ok(())
}

/// Take inputs, let the machine decide, hand the outputs on; again until the shards are closed.
fn attend(line: &ShardLine, place: ShardPlace) {
    let mut inputs = VecDeque::with_capacity(INPUTS_MAX);
    *line.place() = Some(place);
    loop {
        let mut guard = line.place();
        let Some(place) = guard.as_mut() else { return };
        let pause = std::mem::take(&mut place.pause);
        let wait = place.wait();
        drop(guard);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        if !line.queue.take(&mut inputs, wait) {
            break;
        }
        let mut guard = line.place();
        let Some(place) = guard.as_mut() else { return };
        place.inputs.append(&mut inputs);
        place.work_off();
    }
    let place = line.place().take();
    // With its host, which holds on to these lines.
    drop(place);
}

/// Where one at a time works on a shard. The lists are used again and again: they are large, and
/// making them anew each turn would cost more than what is in them.
struct ShardPlace {
    number: usize,
    clock: ProcessClock,
    host: Arc<dyn ShardHost>,
    shard: Shard,
    inputs: VecDeque<ShardInput>,
    outputs: Vec<ShardOutput>,
    /// When the shard's thread wakes up by itself.
    sleeps_until: Timestamp,
    /// How long its thread rests, after a fall, before anything is done.
    pause: Duration,
}

impl ShardPlace {
    /// At least one turn, and more until everything is taken in or the shard falls.
    fn work_off(&mut self) {
        while !self.is_down() {
            self.work();
            if self.inputs.is_empty() {
                return;
            }
        }
    }

    /// Take inputs in, then hand the outputs on.
    fn work(&mut self) {
        self.shard.listen(self.host.listens());
        self.advance();
        if self.outputs.is_empty() {
            return;
        }
        let (host, outputs) = (&self.host, &mut self.outputs);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| host.take(outputs))) {
            self.outputs.clear();
            self.begin_again(&words(&*panic));
        }
    }

    /// A panic costs the run that was being worked on its place in memory, and nothing else.
    fn advance(&mut self) {
        let now = self.clock.wall();
        let (shard, out) = (&mut self.shard, &mut self.outputs);
        let mut inputs = self.inputs.drain(..self.inputs.len().min(INPUTS_MAX));
        let mut fell = None;
        loop {
            let handled = catch_unwind(AssertUnwindSafe(|| {
                inputs
                    .by_ref()
                    .for_each(|input| shard.handle(now, input, out));
                shard.tick(now, out);
            }));
            let Err(panic) = handled else { break };
            let why = words(&*panic);
            let expelled = catch_unwind(AssertUnwindSafe(|| shard.expel(&why, out)));
            if !expelled.unwrap_or(false) {
                fell = Some(why);
                break;
            }
        }
        drop(inputs);
        if let Some(why) = fell {
            self.begin_again(&why);
        }
    }

    /// Nobody knows what is half done: all runs of the shard are given up, and taken up again from
    /// the store.
    fn begin_again(&mut self, why: &str) {
        let (given_up, pause) = self.host.lost(self.number, why);
        self.shard = self.shard.emptied(given_up);
        self.pause = pause;
    }

    /// Has it fallen, and not rested yet?
    fn is_down(&self) -> bool {
        !self.pause.is_zero()
    }

    /// How long its thread may sleep.
    fn wait(&mut self) -> Duration {
        if !self.inputs.is_empty() {
            return Duration::ZERO;
        }
        self.sleeps_until = self.shard.next_deadline().unwrap_or(Timestamp::NEVER);
        let until_due = self.sleeps_until.since(self.clock.wall());
        until_due.to_duration().min(IDLE)
    }

    fn sleeps_too_long(&self) -> bool {
        let next = self.shard.next_deadline();
        next.is_some_and(|due| due < self.sleeps_until)
    }
}

impl std::fmt::Debug for ShardPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardPlace({})", self.number)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::ThreadId;

    use super::*;
    use crate::settings::Settings;

    /// Tells which threads take turns, and what they are to find.
    struct TurnWatcher {
        turns: Mutex<mpsc::Sender<ThreadId>>,
        slow: Mutex<Duration>,
    }

    impl ShardHost for TurnWatcher {
        fn take(&self, outputs: &mut Vec<ShardOutput>) {
            outputs.clear();
        }

        fn lost(&self, _: usize, _: &str) -> (Vec<(RunId, Epoch)>, Duration) {
            (Vec::new(), Duration::ZERO)
        }

        fn listens(&self) -> bool {
            let here = std::thread::current().id();
            // Whoever watches may have gone home.
            let _ = self.turns.lock().unwrap().send(here);
            std::thread::sleep(*self.slow.lock().unwrap());
            false
        }
    }

    fn watched() -> (Arc<Shards>, Arc<TurnWatcher>, mpsc::Receiver<ThreadId>) {
        let (turns, seen) = mpsc::channel();
        let host = Arc::new(TurnWatcher {
            turns: Mutex::new(turns),
            slow: Mutex::default(),
        });
        let shards = Arc::new(Shards::new(1));
        let owner = RunnerId::from_uuid(uuid::Uuid::now_v7());
        let settings = ShardSettings::of(&Settings::default());
        let known: Arc<dyn ShardHost> = Arc::<TurnWatcher>::clone(&host);
        begin(&shards, &ProcessClock::new(), settings, owner, known).unwrap();
        (shards, host, seen)
    }

    fn input() -> ShardInput {
        ShardInput::Latest("nobody asks".into(), None)
    }

    fn run() -> RunId {
        RunId::from_uuid(uuid::Uuid::now_v7())
    }

    /// Wait until the shard's thread sleeps and nothing waits.
    fn until_idle(shards: &Shards) {
        while !shards.lines[0].queue.try_hold() {
            std::thread::yield_now();
        }
        shards.lines[0].queue.release(false);
    }

    #[tokio::test]
    async fn an_input_for_an_idle_shard_is_taken_in_where_it_comes_from() {
        let (shards, _, seen) = watched();
        until_idle(&shards);
        shards.bring(run(), input());
        assert_eq!(seen.recv().unwrap(), std::thread::current().id());
        shards.send(run(), input());
        assert_ne!(seen.recv().unwrap(), std::thread::current().id());
        shards.close();
    }

    #[test]
    fn a_thread_that_is_none_of_a_runtime_leaves_it_to_the_shard() {
        let (shards, _, seen) = watched();
        until_idle(&shards);
        shards.bring(run(), input());
        assert_ne!(seen.recv().unwrap(), std::thread::current().id());
        shards.close();
    }

    #[tokio::test]
    async fn after_a_long_turn_the_shard_goes_back_to_its_thread() {
        let (shards, host, seen) = watched();
        until_idle(&shards);
        *host.slow.lock().unwrap() = SPOT_TIME * 2;
        shards.bring(run(), input());
        assert_eq!(seen.recv().unwrap(), std::thread::current().id());
        *host.slow.lock().unwrap() = Duration::ZERO;
        for _ in 0..3 {
            until_idle(&shards);
            shards.bring(run(), input());
            assert_ne!(seen.recv().unwrap(), std::thread::current().id());
        }
        shards.close();
    }

    /// The thread lets go of everything when the shards are closed.
    #[test]
    fn a_closed_shard_lets_its_host_go() {
        let (shards, host, seen) = watched();
        shards.close();
        drop(host);
        assert!(seen.recv_timeout(Duration::from_mins(1)).is_err());
        assert!(shards.lines[0].place().is_none());
    }
}
