//! The stores that a promise is tried on: memory, SQLite, Postgres.

use std::sync::atomic::{AtomicU32, Ordering};

use lope_store::{MemoryStore, Store};

/// How many schemas this process has asked for.
static SCHEMAS: AtomicU32 = AtomicU32::new(0);

/// A store that can be opened again; what was written stays.
pub(crate) enum Place {
    Memory(Store),
    Sqlite(tempfile::TempDir),
    Postgres(Box<lope_postgres::PostgresOptions>),
}

impl Place {
    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryStore::open())
    }

    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    /// A schema of its own on the server for tests; none if the caller goes without.
    pub(crate) fn postgres(name: &str) -> Option<Self> {
        if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
            println!("left out: LOPE_TEST_NO_POSTGRES is set");
            return None;
        }
        let url = std::env::var("LOPE_TEST_POSTGRES");
        let url = url.expect("LOPE_TEST_POSTGRES names a server for tests: `cargo xtask test`, or `cargo xtask with COMMAND`");
        let options = lope_postgres::PostgresOptions::new(&url).unwrap();
        // Names are cut short: those of two tests may begin alike.
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        let schema = format!("{name}_{}_{number}", std::process::id());
        Some(Self::Postgres(Box::new(
            options.in_schema(&schema).unwrap(),
        )))
    }

    pub(crate) async fn open(&self) -> Store {
        match self {
            Self::Memory(store) => store.clone(),
            Self::Sqlite(folder) => {
                let file = folder.path().join("lope.db");
                lope_sqlite::SqliteStore::open(lope_sqlite::SqliteOptions::new(&file)).unwrap()
            }
            Self::Postgres(options) => lope_postgres::PostgresStore::open(*options.clone())
                .await
                .unwrap(),
        }
    }
}

/// Each on memory, SQLite and Postgres.
macro_rules! on_every_store {
    ($($name:ident => $work:path;)*) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                $work($crate::stores::Place::memory()).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                $work($crate::stores::Place::sqlite()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                let name = stringify!($name);
                let name = &name[..name.len().min(24)];
                if let Some(place) = $crate::stores::Place::postgres(name) {
                    $work(place).await;
                }
            })*
        }
    };
}
pub(crate) use on_every_store;
