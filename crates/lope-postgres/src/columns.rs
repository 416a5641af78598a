//! Commands turned on their side: a statement takes an array for each column, so many commands are
//! one statement.
//!
//! What `append.sql` takes is here because three statements share it; the other columns are beside
//! their verbs.

use lope_model::RunId;
use lope_store::runs::{Blob, JournalRow, Snapshot};
use lope_store::tables::TableId;
use uuid::Uuid;

use crate::statement::Params;

/// Journal rows, values and snapshots of several runs.
#[derive(Default)]
pub(crate) struct Appends<'a> {
    rows: RowArrays<'a>,
    blobs: BlobArrays<'a>,
    snapshots: SnapshotArrays<'a>,
}

#[derive(Default)]
struct RowArrays<'a> {
    run: Vec<Uuid>,
    seq: Vec<i64>,
    at: Vec<i64>,
    event: Vec<&'a str>,
    body: Vec<&'a [u8]>,
}

#[derive(Default)]
struct BlobArrays<'a> {
    run: Vec<Uuid>,
    digest: Vec<&'a [u8]>,
    bytes: Vec<&'a [u8]>,
}

#[derive(Default)]
struct SnapshotArrays<'a> {
    run: Vec<Uuid>,
    seq: Vec<i64>,
    law: Vec<i64>,
    body: Vec<&'a [u8]>,
}

impl<'a> Appends<'a> {
    pub(crate) fn add(
        &mut self,
        run: RunId,
        rows: &'a [JournalRow],
        blobs: &'a [Blob],
        snapshot: Option<&'a Snapshot>,
    ) {
        for row in rows {
            self.rows.run.push(run.uuid());
            self.rows.seq.push(row.seq as i64);
            self.rows.at.push(row.at.millis());
            self.rows.event.push(&row.event);
            self.rows.body.push(&row.body);
        }
        for blob in blobs {
            self.blobs.run.push(run.uuid());
            self.blobs.digest.push(blob.digest.as_bytes());
            self.blobs.bytes.push(&blob.bytes);
        }
        if let Some(snapshot) = snapshot {
            self.snapshots.run.push(run.uuid());
            self.snapshots.seq.push(snapshot.seq as i64);
            self.snapshots.law.push(i64::from(snapshot.law));
            self.snapshots.body.push(&snapshot.body);
        }
    }

    /// The first twelve parameters of a statement that holds `{append}`.
    pub(crate) fn params(&self) -> Params<'_> {
        let Self {
            rows,
            blobs,
            snapshots,
        } = self;
        vec![
            &rows.run,
            &rows.seq,
            &rows.at,
            &rows.event,
            &rows.body,
            &blobs.run,
            &blobs.digest,
            &blobs.bytes,
            &snapshots.run,
            &snapshots.seq,
            &snapshots.law,
            &snapshots.body,
        ]
    }
}

/// A table's index as the server keeps it: the same sixteen bits.
pub(crate) fn tbl(table: TableId) -> i16 {
    table.0.cast_signed()
}
