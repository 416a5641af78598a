//! Waking other processes after a commit, and being woken: one datagram to each runner's socket, and a look at the file a few
//! times a second behind it, while somebody watches.
//!
//! All of it is a hint: whoever is woken looks for itself, and a lost datagram costs one interval of looking.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use lope_store::{StoreError, StoreResult};

use crate::desk::Rings;
use crate::house::House;
use crate::options::POLL_EVERY;
use crate::place::Place;
use crate::seats::{Seats, Socket};

/// A folder that changed less than this long ago may change again without its time stamp showing it.
const STAMP_COARSE: Duration = Duration::from_secs(1);
const RUNS: u8 = 1;
const TABLES: u8 = 2;

/// Bind a socket in `folder`, if the system allows; without one, looking at the file has to do.
pub(crate) fn bind(folder: &Path, name: &str) -> Option<Socket> {
    let path = folder.join(name);
    let bound = File::open(folder).and_then(|handle| UnixDatagram::bind(short(&handle, name)));
    match bound {
        Ok(socket) => Some(Socket { path, datagrams: Arc::new(socket) }),
        Err(error) => {
            tracing::debug!(%error, "no socket for wake-ups; the file is looked at instead");
            None
        }
    }
}

/// A name for a file in an open folder that fits into a socket's address however long the folder's own name is.
fn short(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

/// Tells the runners of other processes that something was committed.
#[derive(Debug)]
pub(crate) struct Announcer {
    folder: PathBuf,
    handle: Option<File>,
    socket: Option<UnixDatagram>,
    peers: Vec<String>,
    listed: Option<SystemTime>,
}

impl Announcer {
    pub(crate) fn new(place: &Place) -> Self {
        let socket = UnixDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket)).ok();
        Self { folder: place.runners(), handle: None, socket, peers: Vec::new(), listed: None }
    }

    /// One datagram to each socket but our own. A full one has a wake-up waiting already; a dead one is taken away.
    pub(crate) fn announce(&mut self, rings: Rings, seats: &Seats) {
        self.refresh(seats);
        let (Some(handle), Some(socket)) = (&self.handle, &self.socket) else { return };
        let word = [if rings.runs { RUNS } else { 0 } | if rings.tables { TABLES } else { 0 }];
        for peer in &self.peers {
            let sent = socket.send_to(&word, short(handle, peer));
            if sent.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                let _ = std::fs::remove_file(self.folder.join(peer));
            }
        }
    }

    /// Read the folder again if it has changed.
    fn refresh(&mut self, seats: &Seats) {
        let stamp = std::fs::metadata(&self.folder).and_then(|metadata| metadata.modified()).ok();
        if stamp == self.listed && stamp.is_some_and(|stamp| stamp.elapsed().is_ok_and(|age| age > STAMP_COARSE)) {
            return;
        }
        self.listed = stamp;
        self.peers.clear();
        self.handle = File::open(&self.folder).ok();
        let own = seats.socket().map(|socket| socket.path);
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let sockets = entries.filter_map(Result::ok).map(|entry| entry.path());
        let others =
            sockets.filter(|path| path.extension().is_some_and(|ext| ext == "sock") && Some(path) != own.as_ref());
        self.peers.extend(others.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)));
    }
}

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
    if heard & RUNS != 0 {
        house.bells.runs.ring();
    }
    if heard & TABLES != 0 {
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
