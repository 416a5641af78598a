//! The server that all peers of Postgres share: a database for each turn, and readings of its log. In:
//! where the server is; out: addresses for programs, and numbers. Everything goes through `psql`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::needs::Setting;

#[derive(Debug)]
pub(super) struct PeerServer {
    psql: PathBuf,
    folder: PathBuf,
    /// The first process, above all others.
    pub(super) process: u32,
}

const USER: &str = "lope";

impl PeerServer {
    pub(super) fn of(setting: &Setting) -> Result<Self> {
        let variable = |name| setting.variable(name).with_context(|| format!("no {name}"));
        let psql = Path::new(variable("LOPE_TEST_POSTGRES_BIN")?).join("psql");
        let scratch = Path::new(variable("LOPE_TEST_POSTGRES_DIR")?);
        let folder = scratch.parent().context("the server has no folder")?;
        let status = std::fs::read_to_string(folder.join("pgdata/postmaster.pid"))
            .context("the server says no process")?;
        let process = status.lines().next().and_then(|line| line.parse().ok());
        Ok(Self {
            psql: if psql.exists() { psql } else { "psql".into() },
            folder: folder.to_path_buf(),
            process: process.context("the server's process is no number")?,
        })
    }

    /// Makes an empty database and says how to reach it.
    pub(super) fn make(&self, name: &str) -> Result<String> {
        self.ask(&format!("create database {name}"))?;
        // What others wrote is on disk, and the first change of every page is logged whole for all.
        self.ask("checkpoint")?;
        let folder = self.folder.display();
        Ok(format!("postgresql:///{name}?host={folder}&user={USER}"))
    }

    pub(super) fn remove(&self, name: &str) -> Result<()> {
        self.ask(&format!("drop database if exists {name} with (force)"))?;
        Ok(())
    }

    /// Bytes of log so far.
    pub(super) fn log(&self) -> Result<u64> {
        self.number("select (pg_current_wal_insert_lsn() - '0/0')::bigint")
    }

    pub(super) fn version(&self) -> Result<String> {
        let text = self.ask("show server_version")?;
        Ok(text
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned())
    }

    fn number(&self, query: &str) -> Result<u64> {
        let text = self.ask(query)?;
        text.parse()
            .with_context(|| format!("'{text}' is no number"))
    }

    fn ask(&self, query: &str) -> Result<String> {
        let output = Command::new(&self.psql)
            .args([
                "-XAtq",
                "-v",
                "ON_ERROR_STOP=1",
                "-U",
                USER,
                "-d",
                "postgres",
            ])
            .arg("-h")
            .arg(&self.folder)
            .args(["-c", query])
            .output()
            .context("cannot run psql")?;
        if !output.status.success() {
            bail!("psql: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
