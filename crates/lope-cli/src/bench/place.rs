//! A store to be measured, made for it and taken away afterwards.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use lope::stores::{self, Create, StoreUrl};
use lope_engine::Settings;
use lope_postgres::{Meter, Options};
use lope_store::Store;
use lope_store::bench::{fsync_probe, fsync_times};

use super::figure::Reading;
use crate::error::{CliError, CliResult};

/// Flushes that tell how slow the slow ones are.
const FLUSHES: u32 = 300;

/// Kinds of stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
    Postgres,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// An empty store and what is needed to measure on it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) url: StoreUrl,
    pub(crate) store: Store,
    /// How engines on it are set.
    pub(crate) engine: Settings,
    folder: PathBuf,
    meter: Option<Meter>,
}

impl Place {
    /// A new, empty store of this kind; files go under `folder`.
    pub(crate) async fn make(kind: Kind, engine: Settings, folder: &Path, server: Option<&str>) -> CliResult<Self> {
        let unique = uuid::Uuid::now_v7().simple().to_string();
        let url = match kind {
            Kind::Memory => StoreUrl::Memory,
            Kind::Sqlite => StoreUrl::Sqlite(folder.join(format!("{unique}.db"))),
            Kind::Postgres => StoreUrl::Postgres(in_schema(server, &format!("lope_bench_{}", &unique[20..]))?),
        };
        let store = stores::open(&url, Create::IfMissing).await?;
        let meter = match &url {
            StoreUrl::Postgres(url) => Some(Meter::open(&Options::new(url)?).await?),
            StoreUrl::Memory | StoreUrl::Sqlite(_) => None,
        };
        Ok(Self { kind, url, store, engine, folder: folder.to_owned(), meter })
    }

    pub(crate) async fn read(&self) -> CliResult<Reading> {
        let Some(meter) = &self.meter else { return Ok(Reading::now(None, None)) };
        Ok(Reading::now(meter.server_time(), Some(meter.log().await?)))
    }

    /// Transactions of the server so far, if there is one.
    pub(crate) async fn transactions(&self) -> CliResult<Option<u64>> {
        match &self.meter {
            Some(meter) => Ok(Some(meter.transactions().await?)),
            None => Ok(None),
        }
    }

    /// The mean time of a flush beside this store, in milliseconds.
    pub(crate) fn flush_millis(&self) -> CliResult<f64> {
        let probe = fsync_probe(&self.folder);
        let probe = probe.map_err(|error| CliError::usage(format!("{}: {error}", self.folder.display())))?;
        Ok(probe.as_secs_f64() * 1e3)
    }

    /// The time of a flush beside this store that only the rest is above, in milliseconds: 0.99 for the worst in a hundred.
    pub(crate) fn flush_share(&self, share: f64) -> CliResult<f64> {
        let times = fsync_times(&self.folder, FLUSHES);
        let times = times.map_err(|error| CliError::usage(format!("{}: {error}", self.folder.display())))?;
        let index = ((times.len() - 1) as f64 * share) as usize;
        Ok(times[index].as_secs_f64() * 1e3)
    }

    /// Close the store and take it away.
    pub(crate) async fn leave(self) -> CliResult<()> {
        self.store.upkeep.close().await?;
        if let Some(meter) = &self.meter {
            meter.erase().await?;
        }
        Ok(())
    }
}

pub(crate) fn no_server() -> CliError {
    CliError::usage("no Postgres server is named").hint("give --postgres postgres://USER@HOST/DATABASE")
}

fn in_schema(server: Option<&str>, schema: &str) -> CliResult<String> {
    let server = server.ok_or_else(no_server)?;
    let mark = if server.contains('?') { '&' } else { '?' };
    Ok(format!("{server}{mark}schema={schema}"))
}
