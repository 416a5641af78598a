//! Being woken by what other processes commit: datagrams to this process's socket, and a look at the file a few times a second
//! behind them, while somebody watches.

use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use lope_store::{StoreError, StoreResult};

use crate::desk::Rings;
use crate::house::House;
use crate::options::POLL_EVERY;

/// After a datagram nobody is woken again for so long: what comes meanwhile is one wake-up.
const HEAR_AGAIN: Duration = Duration::from_millis(2);

/// The thread that hears datagrams and looks at the file; it sleeps while nobody watches.
#[derive(Debug)]
pub(crate) struct Listener {
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum State {
    #[default]
    NotStarted,
    Running,
    Stopped,
}

impl Listener {
    pub(crate) fn new() -> Self {
        Self { gate: Arc::default() }
    }

    /// Somebody watches now: start the thread, or wake it. `look` looks at the file. It ends in `stop`, or when `look` says that
    /// the store is gone.
    pub(crate) fn watch(&self, house: &Arc<House>, look: impl FnMut() -> Looked + Send + 'static) -> StoreResult<()> {
        let mut state = self.gate.state.lock().expect("nobody panics while holding the gate");
        if *state == State::NotStarted {
            let (gate, house) = (Arc::clone(&self.gate), Arc::clone(house));
            let named = thread::Builder::new().name("lope-sqlite-listener".to_owned());
            named.spawn(move || listen(&gate, &house, look)).map_err(StoreError::unavailable)?;
            *state = State::Running;
        }
        self.gate.moved.notify_all();
        Ok(())
    }

    pub(crate) fn stop(&self) {
        *self.gate.state.lock().expect("nobody panics while holding the gate") = State::Stopped;
        self.gate.moved.notify_all();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What a look at the file found about the store that is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Looked {
    Open,
    Gone,
}

fn listen(gate: &Gate, house: &House, mut look: impl FnMut() -> Looked) {
    while gate.pass(house) {
        match house.seats.socket() {
            Some(socket) => hear(&socket.datagrams, house),
            None => gate.rest(),
        }
        if look() == Looked::Gone {
            return;
        }
    }
}

/// Wait for a datagram, no longer than until the next look, and ring what it names.
fn hear(socket: &UnixDatagram, house: &House) {
    let mut word = [0];
    if socket.set_read_timeout(Some(POLL_EVERY)).is_err() || socket.recv(&mut word).is_err() {
        return;
    }
    let mut heard = word[0];
    if socket.set_nonblocking(true).is_ok() {
        while socket.recv(&mut word).is_ok() {
            heard |= word[0];
        }
        let _ = socket.set_nonblocking(false);
    }
    ring(Rings::from_byte(heard), house);
    thread::sleep(HEAR_AGAIN);
}

/// Ring the bells that are named.
pub(crate) fn ring(rings: Rings, house: &House) {
    if rings.runs {
        house.bells.runs.ring();
    }
    if rings.tables {
        house.bells.tables.ring();
    }
}

impl Gate {
    /// Wait until somebody watches; false when it is over.
    fn pass(&self, house: &House) -> bool {
        let state = self.state.lock().expect("nobody panics while holding the gate");
        let asleep = |state: &mut State| *state == State::Running && !house.bells.is_watched();
        let state = self.moved.wait_while(state, asleep).expect("nobody panics while holding the gate");
        *state == State::Running
    }

    fn rest(&self) {
        let state = self.state.lock().expect("nobody panics while holding the gate");
        let running = |state: &mut State| *state == State::Running;
        drop(self.moved.wait_timeout_while(state, POLL_EVERY, running));
    }
}
