//! Being woken by what other processes commit: datagrams to this process's socket, and a look at
//! the file a few times a second behind them, while somebody watches.

use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use lope_store::{StoreError, StoreResult};

use crate::inner::SqliteInner;
use crate::options::POLL_EVERY;
use crate::tx::Notices;

/// After a datagram nobody is woken again for so long: what comes meanwhile is one wake-up.
const HEAR_AGAIN: Duration = Duration::from_millis(2);

/// The thread that hears datagrams and looks at the file; it sleeps while nobody watches.
#[derive(Debug)]
pub(crate) struct Listener {
    gate: Arc<ListenerGate>,
}

#[derive(Debug, Default)]
struct ListenerGate {
    state: Mutex<ListenerState>,
    moved: Condvar,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum ListenerState {
    #[default]
    NotStarted,
    Running,
    Stopped,
}

impl Listener {
    pub(crate) fn new() -> Self {
        Self {
            gate: Arc::default(),
        }
    }

    /// Somebody watches now: start the thread, or wake it. `poll` looks at the file. It ends in
    /// `stop`, or when `poll` says that the store is gone.
    pub(crate) fn watch(
        &self,
        inner: &Arc<SqliteInner>,
        poll: impl FnMut() -> PollOutcome + Send + 'static,
    ) -> StoreResult<()> {
        let mut state = self
            .gate
            .state
            .lock()
            .expect("nobody panics while holding the gate");
        if *state == ListenerState::NotStarted {
            let gate = Arc::clone(&self.gate);
            let inner = Arc::clone(inner);
            let named = thread::Builder::new().name("lope-sqlite-listener".to_owned());
            named
                .spawn(move || listen(&gate, &inner, poll))
                .map_err(StoreError::unavailable)?;
            *state = ListenerState::Running;
        }
        self.gate.moved.notify_all();
        Ok(())
    }

    pub(crate) fn stop(&self) {
        *self
            .gate
            .state
            .lock()
            .expect("nobody panics while holding the gate") = ListenerState::Stopped;
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
pub(crate) enum PollOutcome {
    Open,
    Gone,
}

fn listen(gate: &ListenerGate, inner: &SqliteInner, mut poll: impl FnMut() -> PollOutcome) {
    while gate.pass(inner) {
        match inner.runner_locks.socket() {
            Some(socket) => hear(&socket.datagrams, inner),
            None => gate.rest(),
        }
        if poll() == PollOutcome::Gone {
            return;
        }
    }
}

/// Wait for a datagram, no longer than until the next look, and notify the watchers of the doors it
/// names.
fn hear(socket: &UnixDatagram, inner: &SqliteInner) {
    let mut word = [0];
    if socket.set_read_timeout(Some(POLL_EVERY)).is_err() || socket.recv(&mut word).is_err() {
        return;
    }
    let mut received = word[0];
    if socket.set_nonblocking(true).is_ok() {
        while socket.recv(&mut word).is_ok() {
            received |= word[0];
        }
        let _ = socket.set_nonblocking(false);
    }
    notify(Notices::from_byte(received), inner);
    thread::sleep(HEAR_AGAIN);
}

/// Notify the watchers of the doors that are named.
pub(crate) fn notify(notices: Notices, inner: &SqliteInner) {
    inner.notifiers.runs.hint(notices.runs);
    if notices.tables {
        inner.notifiers.tables.notify();
    }
}

impl ListenerGate {
    /// Wait until somebody watches; false when it is over.
    fn pass(&self, inner: &SqliteInner) -> bool {
        let state = self
            .state
            .lock()
            .expect("nobody panics while holding the gate");
        let asleep = |state: &mut ListenerState| {
            *state == ListenerState::Running && !inner.notifiers.is_watched()
        };
        let state = self
            .moved
            .wait_while(state, asleep)
            .expect("nobody panics while holding the gate");
        *state == ListenerState::Running
    }

    fn rest(&self) {
        let state = self
            .state
            .lock()
            .expect("nobody panics while holding the gate");
        let running = |state: &mut ListenerState| *state == ListenerState::Running;
        drop(self.moved.wait_timeout_while(state, POLL_EVERY, running));
    }
}
