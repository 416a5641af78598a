//! Telling the runners of other processes that something was committed: one datagram to each one's
//! socket.
//!
//! It is a hint: a lost one costs its runner one interval of looking at the file.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lope_store::watch::Hint;

use crate::files::StoreFiles;
use crate::socket::short;
use crate::tx::Notices;

/// A folder that changed less than this long ago may change again without its time stamp showing
/// it: most file systems count milliseconds or less,
const STAMP_FINE: Duration = Duration::from_millis(50);
/// and some whole seconds, or two at a time.
const STAMP_COARSE: Duration = Duration::from_secs(3);
const WORK: u8 = 1;
const TABLES: u8 = 2;
const ENDED: u8 = 4;

impl Notices {
    fn to_byte(self) -> u8 {
        let runs = match self.runs {
            Hint::Nothing => 0,
            Hint::Ended => ENDED,
            Hint::Work => WORK,
        };
        runs | (if self.tables { TABLES } else { 0 })
    }

    pub(crate) fn from_byte(byte: u8) -> Self {
        let runs = if byte & WORK != 0 {
            Hint::Work
        } else if byte & ENDED != 0 {
            Hint::Ended
        } else {
            Hint::Nothing
        };
        Self {
            runs,
            tables: byte & TABLES != 0,
        }
    }
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
    pub(crate) fn new(files: &StoreFiles) -> Self {
        let socket = UnixDatagram::unbound()
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .ok();
        Self {
            folder: files.runners(),
            handle: None,
            socket,
            peers: Vec::new(),
            listed: None,
        }
    }

    /// One datagram to each socket but our own. A full one has a wake-up waiting already; a dead
    /// one is taken away.
    pub(crate) fn announce(&mut self, notices: Notices, own: Option<&Path>) {
        self.refresh(own);
        let (Some(handle), Some(socket)) = (&self.handle, &self.socket) else {
            return;
        };
        let word = [notices.to_byte()];
        for peer in &self.peers {
            let sent = socket.send_to(&word, short(handle, peer));
            if sent.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                let _ = std::fs::remove_file(self.folder.join(peer));
            }
        }
    }

    /// Read the folder again if it has changed.
    fn refresh(&mut self, own: Option<&Path>) {
        let stamp = std::fs::metadata(&self.folder)
            .and_then(|metadata| metadata.modified())
            .ok();
        if stamp == self.listed && stamp.is_some_and(|stamp| is_settled(stamp, SystemTime::now())) {
            return;
        }
        self.listed = stamp;
        self.peers.clear();
        self.handle = File::open(&self.folder).ok();
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return;
        };
        let sockets = entries.filter_map(Result::ok).map(|entry| entry.path());
        let others = sockets.filter(|path| {
            path.extension().is_some_and(|ext| ext == "sock") && Some(path.as_path()) != own
        });
        self.peers
            .extend(others.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)));
    }
}

/// Would a change since then show?
fn is_settled(stamp: SystemTime, now: SystemTime) -> bool {
    let since_epoch = stamp.duration_since(SystemTime::UNIX_EPOCH);
    let is_coarse = since_epoch.is_ok_and(|time| time.subsec_nanos() == 0);
    let needed = if is_coarse { STAMP_COARSE } else { STAMP_FINE };
    now.duration_since(stamp).is_ok_and(|age| age > needed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;

    fn folder(files: &StoreFiles) -> PathBuf {
        files.create_runners().unwrap()
    }

    fn received(socket: &socket::Socket) -> Option<u8> {
        let mut word = [0];
        socket
            .datagrams
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        socket.datagrams.recv(&mut word).ok().map(|_| word[0])
    }

    #[test]
    fn a_stamp_is_believed_when_its_file_system_would_show_another_change() {
        let at = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        for (stamp, now, settled) in [
            (10_001, 10_001, false),
            (10_001, 10_051, false),
            (10_001, 10_052, true),
            // Whole seconds: the file system may know no others.
            (10_000, 10_500, false),
            (10_000, 13_000, false),
            (10_000, 13_001, true),
            // From the future.
            (10_001, 9_000, false),
        ] {
            assert_eq!(is_settled(at(stamp), at(now)), settled, "{stamp} {now}");
        }
    }

    #[test]
    fn every_socket_but_our_own_gets_one_datagram() {
        let outer = tempfile::tempdir().unwrap();
        let deep = outer.path().join("x".repeat(150));
        std::fs::create_dir(&deep).unwrap();
        let files = StoreFiles::find(&deep.join("lope.db")).unwrap();
        let folder = folder(&files);
        let (own, other) = (
            socket::bind(&folder, "own.sock").unwrap(),
            socket::bind(&folder, "other.sock").unwrap(),
        );
        let notices = Notices {
            runs: Hint::Ended,
            tables: false,
        };
        Announcer::new(&files).announce(notices, Some(&own.path));
        assert_eq!(received(&other).map(Notices::from_byte), Some(notices));
        own.datagrams.set_nonblocking(true).unwrap();
        assert!(own.datagrams.recv(&mut [0]).is_err());
    }

    #[test]
    fn a_socket_that_comes_later_is_found_and_a_dead_one_is_taken_away() {
        let outer = tempfile::tempdir().unwrap();
        let files = StoreFiles::find(&outer.path().join("lope.db")).unwrap();
        let folder = folder(&files);
        let mut announcer = Announcer::new(&files);
        let notices = Notices {
            runs: Hint::Nothing,
            tables: true,
        };
        announcer.announce(notices, None);
        let later = socket::bind(&folder, "later.sock").unwrap();
        announcer.announce(notices, None);
        assert_eq!(received(&later).map(Notices::from_byte), Some(notices));
        let path = later.path.clone();
        drop(later);
        announcer.announce(notices, None);
        assert!(!path.exists());
    }
}
