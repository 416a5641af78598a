//! A commit that is alone in its group and after which its owner simply goes on: rows and a status,
//! nothing else. In: the commit; out: whether it was written. One statement without the machinery
//! for many, which costs the server several times as much as the rows.

use std::collections::HashMap;

use lope_model::RunId;
use lope_store::runs::{RunCommit, Then};
use uuid::Uuid;

use crate::commit;
use crate::connection::DbConnection;
use crate::failure::Worked;
use crate::statement::Statement;

static HOLD: Statement = Statement {
    name: "lone_hold",
    text: include_str!("lone_hold.sql"),
    types: "uuid uuid int int text ints ints texts bytes",
};

/// The parameters of `lone_hold.sql`.
pub(crate) struct LoneHold<'a> {
    run: Uuid,
    owner: Uuid,
    epoch: i64,
    after: Option<i64>,
    status: &'a str,
    seq: Vec<i64>,
    at: Vec<i64>,
    event: Vec<&'a str>,
    body: Vec<&'a [u8]>,
}

impl<'a> LoneHold<'a> {
    /// Nothing: the commit carries more than that.
    pub(crate) fn of(commit: &'a RunCommit) -> Option<Self> {
        let RunCommit {
            blobs,
            snapshot,
            taken,
            children,
            deliveries,
            mailbox_sends,
            ..
        } = commit;
        let Then::Hold(status) = &commit.then else {
            return None;
        };
        let is_plain = blobs.is_empty()
            && snapshot.is_none()
            && taken.is_empty()
            && children.is_empty()
            && deliveries.is_empty()
            && mailbox_sends.is_empty();
        let rows = &commit.rows;
        is_plain.then(|| Self {
            run: commit.run.uuid(),
            owner: commit.owner.uuid(),
            epoch: commit.epoch.0 as i64,
            after: rows.first().map(|row| row.seq as i64 - 1),
            status: status.as_str(),
            seq: rows.iter().map(|row| row.seq as i64).collect(),
            at: rows.iter().map(|row| row.at.millis()).collect(),
            event: rows.iter().map(|row| &*row.event).collect(),
            body: rows.iter().map(|row| row.body.as_slice()).collect(),
        })
    }

    /// The run with its mail counter, or nothing: the guards did not hold.
    pub(crate) async fn write(&self, db: &DbConnection) -> Worked<HashMap<RunId, u64>> {
        let rows = db
            .write(
                &HOLD,
                vec![
                    &self.run,
                    &self.owner,
                    &self.epoch,
                    &self.after,
                    &self.status,
                    &self.seq,
                    &self.at,
                    &self.event,
                    &self.body,
                ],
            )
            .await?;
        Ok(commit::written(&rows).collect())
    }
}
