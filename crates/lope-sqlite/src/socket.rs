//! Sockets for wake-ups, as files in the folder of the runners.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A bound socket and its file.
#[derive(Debug, Clone)]
pub(crate) struct Socket {
    pub(crate) path: PathBuf,
    pub(crate) datagrams: Arc<UnixDatagram>,
}

/// Bind a socket in `folder`, if the system allows; without one, looking at the file has to do.
pub(crate) fn bind(folder: &Path, name: &str) -> Option<Socket> {
    let path = folder.join(name);
    let bound = File::open(folder).and_then(|handle| UnixDatagram::bind(short(&handle, name)));
    match bound {
        Ok(socket) => Some(Socket {
            path,
            datagrams: Arc::new(socket),
        }),
        Err(error) => {
            tracing::debug!(%error, "no socket for wake-ups; the file is looked at instead");
            None
        }
    }
}

/// A name for a file in an open folder that fits into a socket's address however long the folder's
/// own name is.
pub(crate) fn short(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}
