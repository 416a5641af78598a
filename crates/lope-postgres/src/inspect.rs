//! What the server says about itself, for whoever looks after it.

use lope_store::StoreResult;

use crate::options::PostgresOptions;
use crate::pool::Connector;

/// Settings that durability, speed and room depend on.
const SETTINGS: &str =
    "select name, setting from pg_settings where name in ('server_version', 'fsync', 'full_page_writes',
    'synchronous_commit', 'autovacuum', 'max_connections') order by name";

/// The server's settings by name.
pub async fn server_settings(options: &PostgresOptions) -> StoreResult<Vec<(String, String)>> {
    let (_, db) = Connector::reach(options).await?;
    let rows = db.read_once(SETTINGS, "", vec![]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
