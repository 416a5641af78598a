//! The files of a store: the database, its lock files, the folder of its runners; all private to
//! the user, none on a network file system.
//!
//! Knows names and permissions, not what is inside.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use lope_store::{StoreError, StoreResult};

use crate::failure;

/// File systems that other machines share. Their locks and shared memory do not hold what SQLite
/// needs of them.
const NETWORK: [(u32, &str); 11] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB2"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
];

/// Where the files of one store are.
#[derive(Clone, Debug)]
pub(crate) struct StoreFiles {
    database: PathBuf,
}

impl StoreFiles {
    /// The files of the store at `path`, symbolic links resolved, so that two names of one file
    /// meet at the same locks.
    pub(crate) fn find(path: &Path) -> StoreResult<Self> {
        let name = path
            .file_name()
            .ok_or_else(|| StoreError::refused(format!("{} names no file", path.display())))?;
        let folder = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let folder = folder
            .canonicalize()
            .map_err(|error| failure::file(folder, error))?;
        let database = match path.canonicalize() {
            Ok(database) => database,
            Err(error) if error.kind() == io::ErrorKind::NotFound => folder.join(name),
            Err(error) => return Err(failure::file(path, error)),
        };
        if database.is_dir() {
            return Err(StoreError::refused(format!(
                "{} is a folder",
                database.display()
            )));
        }
        refuse_network(&database)?;
        Ok(Self { database })
    }

    pub(crate) fn database(&self) -> &Path {
        &self.database
    }

    /// Which file stands at the place now; nothing if none does.
    pub(crate) fn file(&self) -> Option<FileId> {
        FileId::at(&self.database)
    }

    /// How long the file is that stands there now.
    pub(crate) fn length(&self) -> u64 {
        std::fs::metadata(&self.database).map_or(0, |metadata| metadata.len())
    }

    /// Is there a file with anything in it?
    pub(crate) fn is_empty(&self) -> bool {
        self.length() == 0
    }

    /// A file beside the database: its name with `suffix` behind it.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.database.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    }

    /// The folder where runners keep their locks and sockets.
    pub(crate) fn runners(&self) -> PathBuf {
        self.beside("-runners")
    }

    /// Make the empty database file, readable by this user alone; SQLite gives the files beside it
    /// the same permissions. A file that is there is not even opened: closing it again would drop
    /// the locks that SQLite holds on it in this process.
    pub(crate) fn create(&self) -> StoreResult<()> {
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.database)
        {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(failure::file(&self.database, error)),
        }
    }

    pub(crate) fn create_runners(&self) -> StoreResult<PathBuf> {
        let folder = self.runners();
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder);
        made.map_err(|error| failure::file(&folder, error))?;
        Ok(folder)
    }
}

/// What a file is known by, whatever its name: another file at the same place has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Which file stands at a place now; nothing if none does.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

/// A file that only this user may read or write, made if it is missing, never emptied.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn refuse_network(database: &Path) -> StoreResult<()> {
    let folder = database.parent().unwrap_or(Path::new("/"));
    let found = rustix::fs::statfs(folder).map_err(|error| failure::file(folder, error.into()))?;
    match network_name(found.f_type as u32) {
        Some(name) => Err(StoreError::refused(format!(
            "{} is on a network file system ({name}), whose locks do not hold; use a local disk, or Postgres for several machines",
            database.display()
        ))),
        None => Ok(()),
    }
}

fn network_name(magic: u32) -> Option<&'static str> {
    NETWORK
        .iter()
        .find(|(known, _)| *known == magic)
        .map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(0xef53), None);
    }

    #[test]
    fn two_names_of_one_file_are_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let files = StoreFiles::find(&folder.path().join("a.db")).unwrap();
        files.create().unwrap();
        std::os::unix::fs::symlink(folder.path().join("a.db"), folder.path().join("b.db")).unwrap();
        let other = StoreFiles::find(&folder.path().join("b.db")).unwrap();
        assert_eq!(other.beside("-writer.lock"), files.beside("-writer.lock"));
        let mode = std::fs::metadata(files.database())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_folder_or_a_missing_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            StoreFiles::find(folder.path()),
            Err(StoreError::Refused { .. })
        ));
        assert!(matches!(
            StoreFiles::find(&folder.path().join("none/a.db")),
            Err(StoreError::Missing { .. })
        ));
    }
}
