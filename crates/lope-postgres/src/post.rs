//! Messages that go with the commits of runs: rows of inboxes and timers. In: appends; out: the parameters of the statements
//! that number and write them, in the transaction of the commits.

use std::collections::BTreeSet;

use lope_store::runs::RunCommit;

use crate::batch::{LOCK_SEQUENCES, MAKE_SEQUENCES};
use crate::failure::Worked;
use crate::link::{Flight, Link, Ready};
use crate::statement::Statement;

pub(crate) static POST: Statement =
    Statement { name: "post", text: include_str!("post.sql"), types: "shorts bytes bytes bytes" };

/// The parameters of `post.sql`, and the sequences to be locked before it.
#[derive(Default)]
pub(crate) struct PostColumns<'a> {
    table: Vec<i16>,
    prefix: Vec<&'a [u8]>,
    sequence: Vec<&'a [u8]>,
    value: Vec<&'a [u8]>,
    /// Sorted, each once: everybody locks in this order.
    names: Vec<&'a [u8]>,
}

impl<'a> PostColumns<'a> {
    pub(crate) fn of(commits: &[&'a RunCommit]) -> Self {
        let mut columns = Self::default();
        for post in commits.iter().flat_map(|commit| &commit.posts) {
            columns.table.push(post.table.0.cast_signed());
            columns.prefix.push(&post.prefix);
            columns.sequence.push(&post.sequence);
            columns.value.push(&post.value);
        }
        columns.names = columns.sequence.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        columns
    }

    /// The statements, if there is anything to write.
    pub(crate) async fn ready(&self, link: &Link) -> Worked<Option<[Ready; 3]>> {
        if self.names.is_empty() {
            return Ok(None);
        }
        let mut ready = Vec::with_capacity(3);
        for statement in [&MAKE_SEQUENCES, &LOCK_SEQUENCES, &POST] {
            ready.push(Box::pin(link.ready(statement)).await?);
        }
        Ok(ready.try_into().ok())
    }

    /// Make and lock the sequences, then write. How many statements were sent.
    pub(crate) fn send<'b>(&'b self, ready: Option<[Ready; 3]>, flight: &mut Flight<'b>) -> usize {
        let Some([make, lock, post]) = ready else { return 0 };
        flight.query(make, vec![&self.names]);
        flight.query(lock, vec![&self.names]);
        flight.query(post, vec![&self.table, &self.prefix, &self.sequence, &self.value]);
        3
    }
}
