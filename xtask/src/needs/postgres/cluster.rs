//! A throwaway Postgres cluster: made, started, waited for and stopped in this file. In: the
//! programs and whom to run them as; out: variables that lead the tests to it. It listens on a Unix
//! socket in a private folder and nowhere else.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::owner::ServerOwner;
use super::programs::Programs;
use crate::sweeper::{self, Sweeper};

/// Durability is under test, so the server keeps its promise to sync. WAL has room so that
/// checkpoints do not set the pace, and connections suffice for eight processes with a pool each.
const SETTINGS: &str = "
listen_addresses = ''
max_connections = 300
fsync = on
synchronous_commit = on
full_page_writes = on
max_wal_size = 2GB
";

/// Text sorts as people sort it where the build can do that, as in most databases in the wild: a
/// query that leans on the order of bytes without saying so shows itself here and not at a user's.
const LINGUISTIC: &[&str] = &["--locale-provider=icu", "--icu-locale=en-US"];

const USER: &str = "lope";
const START_LIMIT: Duration = Duration::from_mins(1);
const STOP_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// The path of a socket may have about 100 bytes; our folder and the socket's name take half of
/// them.
const PARENT_LIMIT: usize = 50;

#[derive(Debug)]
pub(in crate::needs) struct Cluster {
    programs: Programs,
    owner: Option<ServerOwner>,
    folder: PathBuf,
    order: &'static str,
    server: Option<Child>,
    /// How the tests find a pooler to put before it, or learn that there is none.
    pub(super) pooler: Option<(&'static str, String)>,
}

impl Cluster {
    pub(super) fn start(
        programs: Programs,
        owner: Option<ServerOwner>,
        sweeper: &Sweeper,
    ) -> Result<Self> {
        let folder = sweeper.folder(&parent_folder(owner.as_ref()))?;
        let mut cluster = Self {
            programs,
            owner,
            folder,
            order: "",
            server: None,
            pooler: None,
        };
        cluster.make_folders()?;
        cluster.order = cluster.init()?;
        cluster.launch()?;
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// How the tests reach the server, and what they need to run servers of their own.
    pub(in crate::needs) fn variables(&self) -> Vec<(&'static str, String)> {
        let path = |path: PathBuf| path.display().to_string();
        let mut variables = vec![
            ("LOPE_TEST_POSTGRES", self.url()),
            ("LOPE_TEST_POSTGRES_BIN", path(self.programs.folder.clone())),
            ("LOPE_TEST_POSTGRES_DIR", path(self.folder.join("scratch"))),
        ];
        variables.extend(self.pooler.clone());
        if let Some(owner) = &self.owner {
            variables.push((
                "LOPE_TEST_POSTGRES_OWNER",
                format!("{}:{}", owner.user, owner.group),
            ));
        }
        variables
    }

    fn url(&self) -> String {
        format!(
            "postgres://{USER}@{}/postgres",
            percent_encoded(&self.folder.display().to_string())
        )
    }

    fn make_folders(&self) -> Result<()> {
        std::fs::create_dir(self.folder.join("scratch"))
            .context("cannot make the folder for the tests' own servers")?;
        let Some(owner) = &self.owner else {
            return Ok(());
        };
        owner.give(&self.folder)?;
        owner.give(&self.folder.join("scratch"))
    }

    /// Makes the cluster and says how its texts sort.
    fn init(&self) -> Result<&'static str> {
        let failure = match self.try_init(LINGUISTIC)? {
            None => return self.configure().map(|()| "linguistic order"),
            Some(_) => self.try_init(&[])?,
        };
        match failure {
            None => self.configure().map(|()| "byte order"),
            Some(failure) => bail!("initdb failed: {failure}"),
        }
    }

    fn try_init(&self, options: &[&str]) -> Result<Option<String>> {
        let mut command = self.command("initdb");
        command.args([
            "--username",
            USER,
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]);
        command.args(options).arg("--pgdata").arg(self.pgdata());
        let output = command.output().context("cannot run initdb")?;
        let failure = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok((!output.status.success()).then(failure))
    }

    fn configure(&self) -> Result<()> {
        let path = self.pgdata().join("postgresql.conf");
        let mut file = OpenOptions::new()
            .append(true)
            .open(&path)
            .context("initdb left no postgresql.conf")?;
        let socket = format!("unix_socket_directories = '{}'\n", self.folder.display());
        file.write_all([SETTINGS, &socket].concat().as_bytes())
            .context("cannot write postgresql.conf")
    }

    /// The server is our child, in a group of its own so that Ctrl-C does not reach it before the
    /// tests have ended. When we die without stopping it, the sweeper finds it by its folder.
    fn launch(&mut self) -> Result<()> {
        let log = File::create(self.log()).context("cannot make the server's log")?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.pgdata()).process_group(0);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("cannot share the log")?)
            .stderr(log);
        self.server = Some(command.spawn().context("cannot start postgres")?);
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < START_LIMIT {
            // The server writes its state into the eighth line, as `pg_ctl --wait` knows.
            let status =
                std::fs::read_to_string(self.pgdata().join("postmaster.pid")).unwrap_or_default();
            if status
                .lines()
                .nth(7)
                .is_some_and(|word| word.trim() == "ready")
            {
                return Ok(());
            }
            if let Some(status) = self
                .server
                .as_mut()
                .and_then(|server| server.try_wait().ok().flatten())
            {
                bail!("postgres ended at once ({status}):\n{}", self.log_text());
            }
            std::thread::sleep(POLL);
        }
        bail!(
            "postgres was not ready after {} s:\n{}",
            START_LIMIT.as_secs(),
            self.log_text()
        )
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.programs.command(program);
        command.current_dir(&self.folder);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG"))
        {
            command.env_remove(name);
        }
        if let Some(owner) = &self.owner {
            owner.lend(&mut command);
        }
        command
    }

    fn pgdata(&self) -> PathBuf {
        self.folder.join("pgdata")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("postgres.log")
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = self
            .owner
            .as_ref()
            .map_or("ourselves", |owner| owner.name.as_str());
        let programs = self.programs.folder.display();
        write!(
            formatter,
            "Postgres from {programs} as {owner}, {}, at {}",
            self.order,
            self.url()
        )
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Some(server) = &mut self.server else {
            return;
        };
        sweeper::send("INT", &[server.id().to_string()]);
        let started = Instant::now();
        while started.elapsed() < STOP_LIMIT {
            if !matches!(server.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL);
        }
        let _ = server.kill();
        let _ = server.wait();
    }
}

/// The temporary folder of the system, or `/tmp` where that one does not suit a server or its
/// owner.
fn parent_folder(owner: Option<&ServerOwner>) -> PathBuf {
    let parent = std::env::temp_dir();
    if suits(&parent) && may_enter(&parent, owner) {
        parent
    } else {
        PathBuf::from("/tmp")
    }
}

/// Whether the folder leaves room for the name of a socket and needs no quoting in a configuration
/// file.
fn suits(folder: &Path) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let bytes = folder.as_os_str().as_encoded_bytes();
    bytes.len() <= PARENT_LIMIT && bytes.iter().all(is_plain)
}

fn may_enter(folder: &Path, owner: Option<&ServerOwner>) -> bool {
    let mut command = Command::new("sh");
    command
        .args(["-c", "cd \"$0\" 2>/dev/null"])
        .arg(folder)
        .current_dir("/");
    if let Some(owner) = owner {
        owner.lend(&mut command);
    }
    command.status().is_ok_and(|status| status.success())
}

/// A folder as the host of a URL.
fn percent_encoded(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_becomes_the_host_of_a_url() {
        assert_eq!(
            percent_encoded("/tmp/lope-test-1 a"),
            "%2Ftmp%2Flope-test-1%20a"
        );
    }

    #[test]
    fn folders_that_do_not_suit_are_told_apart() {
        assert!(suits(Path::new("/var/folders/xy/lope_1.2")));
        assert!(!suits(Path::new("/tmp/it's here")) && !suits(Path::new(&"/deep".repeat(11))));
        assert!(may_enter(Path::new("/"), None) && !may_enter(Path::new("/no/such/folder"), None));
    }

    #[test]
    fn programs_that_fail_are_reported_with_their_words() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // A shell under this name takes none of its options, and says so. (A script that we had
        // just written could be busy: another test may be starting a process that still holds it
        // open.)
        std::os::unix::fs::symlink("/bin/sh", folder.path().join("initdb"))
            .expect("a link is made");
        let programs = Programs {
            folder: folder.path().to_path_buf(),
        };
        let cluster = Cluster {
            programs,
            owner: None,
            folder: folder.path().into(),
            order: "",
            server: None,
            pooler: None,
        };
        let error = cluster.init().expect_err("initdb fails").to_string();
        let words = error
            .strip_prefix("initdb failed: ")
            .unwrap_or_else(|| panic!("{error}"));
        assert!(words.contains("option"), "{words}");
    }
}
