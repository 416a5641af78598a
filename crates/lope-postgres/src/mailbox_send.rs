//! Messages that go with the commits of runs: rows of inboxes and timers. In: appends; out: the
//! parameters of the statements that number and write them, in the transaction of the commits.

use std::collections::BTreeSet;

use lope_store::runs::RunCommit;

use crate::batch::{LOCK_SEQUENCES, MAKE_SEQUENCES};
use crate::connection::{DbConnection, Pipeline, Ready};
use crate::failure::Worked;
use crate::statement::Statement;

pub(crate) static MAILBOX_SEND: Statement = Statement {
    name: "mailbox_send",
    text: include_str!("mailbox_send.sql"),
    types: "shorts bytes bytes bytes",
};

/// The parameters of `mailbox_send.sql`, and the sequences to be locked before it.
#[derive(Default)]
pub(crate) struct SendColumns<'a> {
    table: Vec<i16>,
    prefix: Vec<&'a [u8]>,
    sequence: Vec<&'a [u8]>,
    value: Vec<&'a [u8]>,
    /// Sorted, each once: everybody locks in this order.
    names: Vec<&'a [u8]>,
}

impl<'a> SendColumns<'a> {
    pub(crate) fn of(commits: &[&'a RunCommit]) -> Self {
        let mut columns = Self::default();
        for send in commits.iter().flat_map(|commit| &commit.mailbox_sends) {
            columns.table.push(send.table.0.cast_signed());
            columns.prefix.push(&send.prefix);
            columns.sequence.push(&send.sequence);
            columns.value.push(&send.value);
        }
        columns.names = columns
            .sequence
            .iter()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        columns
    }

    /// The statements, if there is anything to write.
    pub(crate) async fn ready(&self, db: &DbConnection) -> Worked<Option<[Ready; 3]>> {
        if self.names.is_empty() {
            return Ok(None);
        }
        let mut ready = Vec::with_capacity(3);
        for statement in [&MAKE_SEQUENCES, &LOCK_SEQUENCES, &MAILBOX_SEND] {
            ready.push(Box::pin(db.ready(statement)).await?);
        }
        Ok(ready.try_into().ok())
    }

    /// Make and lock the sequences, then write. How many statements were sent.
    pub(crate) fn send<'b>(
        &'b self,
        ready: Option<[Ready; 3]>,
        pipeline: &mut Pipeline<'b>,
    ) -> usize {
        let Some([make, lock, send]) = ready else {
            return 0;
        };
        pipeline.query(make, vec![&self.names]);
        pipeline.query(lock, vec![&self.names]);
        pipeline.query(
            send,
            vec![&self.table, &self.prefix, &self.sequence, &self.value],
        );
        3
    }
}
