//! A store to be measured, made for it and taken away afterwards.

use std::path::{Path, PathBuf};

use lope::measure::{ServerMeter, fsync_probe, fsync_times, server_meter};
use lope::stores::{CreateStore, StoreUrl};
use lope::{Client, Settings};

use crate::error::{BenchError, BenchResult};
use crate::figure::CostReading;

/// Flushes that tell how slow the slow ones are.
const FLUSHES: u32 = 300;

/// Kinds of stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    Memory,
    Sqlite,
    Postgres,
}

impl StoreKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// An empty store and what is needed to measure on it.
#[derive(Debug)]
pub struct MeasuredStore {
    pub kind: StoreKind,
    pub url: StoreUrl,
    pub client: Client,
    /// How engines on it are set.
    pub engine: Settings,
    folder: PathBuf,
    meter: Option<ServerMeter>,
}

impl MeasuredStore {
    /// A new, empty store of this kind; files go under `folder`.
    pub async fn make(
        kind: StoreKind,
        engine: Settings,
        folder: &Path,
        server: Option<&str>,
    ) -> BenchResult<Self> {
        let unique = uuid::Uuid::now_v7().simple().to_string();
        let url = match kind {
            StoreKind::Memory => StoreUrl::Memory,
            StoreKind::Sqlite => StoreUrl::Sqlite(folder.join(format!("{unique}.db"))),
            StoreKind::Postgres => {
                StoreUrl::Postgres(in_schema(server, &format!("lope_bench_{}", &unique[20..]))?)
            }
        };
        let client = Client::open_store(&url, CreateStore::IfMissing).await?;
        let meter = server_meter(&url).await?;
        Ok(Self {
            kind,
            url,
            client,
            engine,
            folder: folder.to_owned(),
            meter,
        })
    }

    /// Where files beside it may be made.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub async fn read(&self) -> BenchResult<CostReading> {
        let Some(meter) = &self.meter else {
            return Ok(CostReading::now(None, None));
        };
        Ok(CostReading::now(
            meter.server_time(),
            Some(meter.log().await?),
        ))
    }

    /// Transactions of the server so far, if there is one.
    pub async fn transactions(&self) -> BenchResult<Option<u64>> {
        match &self.meter {
            Some(meter) => Ok(Some(meter.transactions().await?)),
            None => Ok(None),
        }
    }

    /// The mean time of a flush beside this store, in milliseconds.
    pub fn flush_millis(&self) -> BenchResult<f64> {
        let probe = fsync_probe(&self.folder);
        let probe = probe
            .map_err(|error| BenchError::input(format!("{}: {error}", self.folder.display())))?;
        Ok(probe.as_secs_f64() * 1e3)
    }

    /// The time of a flush beside this store that only the rest is above, in milliseconds: 0.99 for
    /// the worst in a hundred.
    pub fn flush_share(&self, share: f64) -> BenchResult<f64> {
        let times = fsync_times(&self.folder, FLUSHES);
        let times = times
            .map_err(|error| BenchError::input(format!("{}: {error}", self.folder.display())))?;
        let index = ((times.len() - 1) as f64 * share) as usize;
        Ok(times[index].as_secs_f64() * 1e3)
    }

    /// Close the store and take it away.
    pub async fn leave(self) -> BenchResult<()> {
        self.client.close().await?;
        if let Some(meter) = &self.meter {
            meter.erase().await?;
        }
        Ok(())
    }
}

fn in_schema(server: Option<&str>, schema: &str) -> BenchResult<String> {
    let server = server.ok_or(BenchError::NoServer)?;
    let mark = if server.contains('?') { '&' } else { '?' };
    Ok(format!("{server}{mark}schema={schema}"))
}
