//! What the threads and doors of one open store hold together: its place, limits, clock, bells, seats of its runners, and
//! what it knows of the log and the manifest.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, RwLock};

use lope_store::tables::Manifest;
use lope_store::watch::Bell;

use crate::options::Options;
use crate::place::Place;
use crate::seats::Seats;

/// The common ground of one open store.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) place: Place,
    pub(crate) options: Options,
    pub(crate) bells: Bells,
    pub(crate) seats: Seats,
    pub(crate) log: Log,
    /// The manifest as this process read it last; it only grows.
    pub(crate) manifest: RwLock<Option<Arc<Manifest>>>,
}

/// One bell for each door.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    pub(crate) runs: Bell,
    pub(crate) tables: Bell,
}

/// What is known of the write-ahead log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Its length in pages after this process's last commit.
    pub(crate) pages: AtomicU32,
    /// Nearly all of it is in the database: the next writer may start it over.
    pub(crate) spent: AtomicBool,
}

impl House {
    pub(crate) fn new(place: Place, options: Options) -> Self {
        let seats = Seats::new(&place);
        Self { place, options, bells: Bells::default(), seats, log: Log::default(), manifest: RwLock::new(None) }
    }
}

impl Bells {
    pub(crate) fn ring_all(&self) {
        self.runs.ring();
        self.tables.ring();
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.runs.is_watched() || self.tables.is_watched()
    }
}
