//! A store URL becomes a store: `memory:`, `sqlite:PATH`, `postgres://…`.
//!
//! Everything behind the doors is the backend's; everything before them does not know which one it
//! is.

use std::fmt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use lope_postgres::PostgresStore;
use lope_sqlite::SqliteStore;
pub use lope_store::Migrated;
pub use lope_store::store::Finding;
pub use lope_store::{MemoryStore, Store, StoreError, StoreResult};
use thiserror::Error;

/// Which store, as the user names it.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    Memory,
    Sqlite(PathBuf),
    /// The whole URL; it may hold a password and is never printed.
    Postgres(String),
}

/// A text that names no store.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' names no store: write memory:, sqlite:PATH or postgres://USER@HOST/DATABASE")]
pub struct BadStoreUrl(String);

/// What may happen to a store that does not exist yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateStore {
    IfMissing,
    Never,
}

/// Open the store that a URL names.
pub async fn open(url: &StoreUrl, create: CreateStore) -> StoreResult<Store> {
    match url {
        StoreUrl::Memory => Ok(MemoryStore::open()),
        StoreUrl::Sqlite(path) => {
            let options = sqlite_options(path, create);
            if create == CreateStore::IfMissing {
                make_folder(path)?;
            }
            let opened = blocking(move || SqliteStore::open(options)).await;
            opened.map_err(|error| in_file(path, error))
        }
        StoreUrl::Postgres(url) => PostgresStore::open(postgres_options(url, create)?).await,
    }
}

/// Make a store, or bring it to the schema of this program.
pub async fn migrate(url: &StoreUrl) -> StoreResult<Migrated> {
    let planned = plan_migration(url).await?;
    if planned.from == 0 {
        open(url, CreateStore::IfMissing)
            .await?
            .upkeep
            .close()
            .await?;
        return Ok(planned);
    }
    match url {
        StoreUrl::Memory => Ok(planned),
        StoreUrl::Sqlite(path) => {
            let file = path.clone();
            blocking(move || lope_sqlite::migrate(&file))
                .await
                .map_err(|error| in_file(path, error))
        }
        StoreUrl::Postgres(url) => {
            lope_postgres::migrate(&lope_postgres::PostgresOptions::existing(url)?).await
        }
    }
}

/// What `migrate` would do. Changes nothing.
pub async fn plan_migration(url: &StoreUrl) -> StoreResult<Migrated> {
    let (found, to) = match url {
        StoreUrl::Memory => (Ok(0), 0),
        StoreUrl::Sqlite(path) => {
            let file = path.clone();
            let found = blocking(move || lope_sqlite::schema_version(&file)).await;
            (
                found.map_err(|error| in_file(path, error)),
                lope_sqlite::SCHEMA_VERSION,
            )
        }
        StoreUrl::Postgres(url) => {
            let options = lope_postgres::PostgresOptions::existing(url)?;
            (
                lope_postgres::schema_version(&options).await,
                lope_postgres::SCHEMA_VERSION,
            )
        }
    };
    match found {
        Ok(from) if from > to => Err(StoreError::other_version(from, to)),
        Ok(from) => Ok(Migrated { from, to }),
        Err(StoreError::Missing { .. }) => Ok(Migrated { from: 0, to }),
        Err(error) => Err(error),
    }
}

fn sqlite_options(path: &Path, create: CreateStore) -> lope_sqlite::SqliteOptions {
    match create {
        CreateStore::IfMissing => lope_sqlite::SqliteOptions::new(path),
        CreateStore::Never => lope_sqlite::SqliteOptions::existing(path),
    }
}

fn postgres_options(url: &str, create: CreateStore) -> StoreResult<lope_postgres::PostgresOptions> {
    match create {
        CreateStore::IfMissing => lope_postgres::PostgresOptions::new(url),
        CreateStore::Never => lope_postgres::PostgresOptions::existing(url),
    }
}

/// Damage is told with the file that it is in.
fn in_file(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Corrupt { message } => StoreError::Corrupt {
            message: format!("{}: {message}", path.display()),
        },
        other => other,
    }
}

/// The folder of a new store is private to the user.
fn make_folder(path: &Path) -> StoreResult<()> {
    let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty() && !folder.exists())
    else {
        return Ok(());
    };
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(|error| StoreError::ReadOnly {
        message: format!("{}: {error}", folder.display()),
    })
}

/// Opening and migrating a file reads and locks it; that is no work for a thread that others wait
/// on.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(StoreError::unavailable)?
}

impl FromStr for StoreUrl {
    type Err = BadStoreUrl;

    fn from_str(text: &str) -> Result<Self, BadStoreUrl> {
        let bad = || BadStoreUrl(without_password(text));
        match text.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(sqlite_path(path))),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Self::Postgres(text.to_owned()))
            }
            _ => Err(bad()),
        }
    }
}

/// `sqlite:relative`, `sqlite:/absolute` and `sqlite:///absolute` are all written in the wild.
fn sqlite_path(path: &str) -> PathBuf {
    PathBuf::from(path.strip_prefix("//").unwrap_or(path))
}

/// A URL as it may be shown: whatever stands between `:` and `@` in its authority is left out, and so
/// are parameters that hold a password.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let tail = without_secrets(tail);
    let Some((login, host)) = authority.rsplit_once('@') else {
        return format!("{scheme}://{authority}{tail}");
    };
    let user = login.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}@{host}{tail}")
}

/// A path with its parameters, those left out that hold a password (`password`, `sslpassword`).
fn without_secrets(tail: &str) -> String {
    let Some((path, parameters)) = tail.split_once('?') else {
        return tail.to_owned();
    };
    let shown = parameters.split('&').filter(|parameter| {
        let name = parameter.split('=').next().unwrap_or_default();
        !name.to_ascii_lowercase().contains("password")
    });
    let shown: Vec<&str> = shown.collect();
    if shown.is_empty() {
        return path.to_owned();
    }
    format!("{path}?{}", shown.join("&"))
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => f.write_str(&without_password(url)),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_users_write_them() {
        assert_eq!("memory:".parse(), Ok(StoreUrl::Memory));
        for text in ["sqlite:/tmp/a.db", "sqlite:///tmp/a.db"] {
            assert_eq!(text.parse(), Ok(StoreUrl::Sqlite("/tmp/a.db".into())));
        }
        assert_eq!("sqlite:a.db".parse(), Ok(StoreUrl::Sqlite("a.db".into())));
        for text in ["", "sqlite:", "mysql://x", "postgres:x", "memory:x", "a.db"] {
            assert!(text.parse::<StoreUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url: StoreUrl = "postgres://me:se@cret@db.example/x?sslmode=require"
            .parse()
            .unwrap();
        assert_eq!(
            format!("{url} {url:?}"),
            ["postgres://me@db.example/x?sslmode=require"; 2].join(" ")
        );
        let url: StoreUrl = "postgres:///x?user=me&password=secret&sslpassword=secret&port=1"
            .parse()
            .unwrap();
        assert_eq!(url.to_string(), "postgres:///x?user=me&port=1");
        let url: StoreUrl = "postgres:///x?password=secret".parse().unwrap();
        assert_eq!(url.to_string(), "postgres:///x");
        let error = "mysql://me:secret@db/x".parse::<StoreUrl>().unwrap_err();
        assert!(!error.to_string().contains("secret"));
    }
}
