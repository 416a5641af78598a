//! What the server says about itself, for whoever looks after it.

use lope_store::StoreResult;

use crate::options::Options;
use crate::pool::Connector;

/// Settings that durability, speed and room depend on.
const SETTINGS: &str =
    "select name, setting from pg_settings where name in ('server_version', 'fsync', 'full_page_writes',
    'synchronous_commit', 'autovacuum', 'max_connections') order by name";
const CLOCK: &str = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";

/// A server's settings by name, and its clock in milliseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerSettings {
    pub settings: Vec<(String, String)>,
    pub clock: i64,
}

/// Ask the server.
pub async fn server_settings(options: &Options) -> StoreResult<ServerSettings> {
    let link = Connector::new(options.clone())?.connect().await?;
    let rows = link.read_once(SETTINGS, "", vec![]).await?;
    let settings = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let clock = link.read_once(CLOCK, "", vec![]).await?.first().map_or(0, |row| row.get(0));
    Ok(ServerSettings { settings, clock })
}
