//! One turn of one peer: an empty database or folder, a fresh process, the work, and what it took. In:
//! a program and its work; out: one measured line.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::conversation::Conversation;
use super::database::PeerServer;
use super::install::PeerProgram;
use super::measured::Measured;
use super::meter::{TreeUse, read_tree};
use super::roster::{Keeps, PeerEntry, PeerWork};
use crate::sweeper::Sweeper;

/// How often the steps of a sequence that is to be killed are counted.
const COUNT: Duration = Duration::from_millis(1);
/// How long half of such a sequence may take, and how long until it goes on.
const PATIENCE: Duration = Duration::from_mins(5);
const DATABASE: &str = "peer";

pub(super) struct Turn<'all> {
    pub(super) peer: &'all PeerEntry,
    pub(super) program: &'all PeerProgram,
    pub(super) server: &'all PeerServer,
    pub(super) sweeper: &'all Sweeper,
    /// Emptied before every turn.
    pub(super) folder: PathBuf,
}

impl Turn<'_> {
    pub(super) fn take(&self, work: PeerWork, units: u64) -> Result<Measured> {
        let _ = std::fs::remove_dir_all(&self.folder);
        std::fs::create_dir_all(&self.folder).context("no folder for the turn")?;
        let url = self.place()?;
        let measured = match work {
            PeerWork::Resume => self.crash_and_resume(units, &url),
            other => self.measure(other, units, &url),
        };
        if self.peer.keeps == Keeps::Postgres {
            self.server.remove(DATABASE)?;
        }
        measured
    }

    fn place(&self) -> Result<String> {
        match self.peer.keeps {
            Keeps::Postgres => {
                self.server.remove(DATABASE)?;
                self.server.make(DATABASE)
            }
            Keeps::Files => Ok(format!("sqlite:{}", self.folder.join("peer.db").display())),
        }
    }

    fn begin(&self, work: &str, units: u64, url: &str) -> Result<Conversation<'_>> {
        let words = [work, &units.to_string()];
        Conversation::begin(self.sweeper, self.program, words, url, &self.folder)
    }

    fn measure(&self, work: PeerWork, units: u64, url: &str) -> Result<Measured> {
        let mut program = self.begin(work.name(), units, url)?;
        let measured = self.measure_one(&mut program, work, units);
        program.kill()?;
        measured
    }

    fn measure_one(
        &self,
        program: &mut Conversation<'_>,
        work: PeerWork,
        units: u64,
    ) -> Result<Measured> {
        program.await_line("ready")?;
        let log = self.log()?;
        let before = self.read(program.process());
        let began = Instant::now();
        program.go()?;
        let (times, ended) = program.await_line("done")?;
        let after = self.read(program.process());
        let log = self.log()?.zip(log);
        let written = after.client.written.saturating_sub(before.client.written);
        Ok(Measured {
            peer: self.peer.name.to_owned(),
            work: work.name().to_owned(),
            units,
            wall: ended.duration_since(began).as_secs_f64(),
            client_cpu: (after.client.cpu.saturating_sub(before.client.cpu)).as_secs_f64(),
            database_cpu: (after.database.saturating_sub(before.database)).as_secs_f64(),
            memory: after.client.memory,
            log: log.map_or(written, |(end, begin)| end.saturating_sub(begin)),
            times,
            repeated: None,
        })
    }

    fn log(&self) -> Result<Option<u64>> {
        match self.peer.keeps {
            Keeps::Postgres => self.server.log().map(Some),
            Keeps::Files => Ok(None),
        }
    }

    fn read(&self, client: u32) -> Readings {
        let database = match self.peer.keeps {
            Keeps::Postgres => read_tree(self.server.process).cpu,
            Keeps::Files => Duration::ZERO,
        };
        Readings {
            client: read_tree(client),
            database,
        }
    }

    /// Kills it, with all its processes, when half of its steps are done, starts it again, and takes
    /// the time until the next step is done.
    fn crash_and_resume(&self, steps: u64, url: &str) -> Result<Measured> {
        let done = self.folder.join("steps");
        let mut first = self.begin("crash", steps, url)?;
        let reached = first
            .await_line("ready")
            .and_then(|_| first.go())
            .and_then(|()| await_steps(&done, steps / 2));
        first.kill()?;
        reached?;
        let killed_at = counted(&done);
        if killed_at >= steps {
            bail!("it was done before it could be killed");
        }
        let began = Instant::now();
        let mut second = self.begin("resume", steps, url)?;
        let resumed = await_steps(&done, killed_at + 1).map(|()| began.elapsed());
        let ended = second
            .await_line("ready")
            .and_then(|_| second.go())
            .and_then(|()| second.await_line("done"));
        second.kill()?;
        ended?;
        Ok(Measured {
            peer: self.peer.name.to_owned(),
            work: PeerWork::Resume.name().to_owned(),
            units: steps,
            wall: resumed?.as_secs_f64(),
            repeated: Some(counted(&done).saturating_sub(steps)),
            ..Measured::default()
        })
    }
}

struct Readings {
    client: TreeUse,
    database: Duration,
}

/// Steps that were done, again and again counted: one byte each.
fn counted(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |file| file.len())
}

fn await_steps(file: &Path, wanted: u64) -> Result<()> {
    let began = Instant::now();
    while counted(file) < wanted {
        if began.elapsed() > PATIENCE {
            bail!("it does not get to step {wanted}");
        }
        std::thread::sleep(COUNT);
    }
    Ok(())
}
