//! The outbox: what steps emitted is put into the inboxes of those it is for.
//!
//! A row leaves the outbox in the commit that puts it into an inbox, guarded by being there:
//! however often it is tried, it arrives once. A worker forwards what it emitted at once; rows
//! whose worker died before it came to that are forwarded by whoever finds them.

use lope_store::tables::{Batch, Direction, Range, TableId, Write};
use lope_store::{StoreError, StoreResult};

use super::Consumer;
use crate::context::row_guard;
use crate::counters::Count;
use crate::error::ConsumerError;
use crate::key;
use crate::limit;
use crate::message::validate_sealed;
use crate::record::DeadLetter;

impl Consumer {
    /// Forward rows of the outbox. If the store is out of reach they wait for the next sweep.
    pub(super) async fn forward(
        &mut self,
        emitted: Vec<(u64, Vec<u8>)>,
    ) -> Result<(), ConsumerError> {
        for part in emitted.chunks(limit::FORWARD_MAX) {
            match self.forward_rows(part).await {
                Ok(_) => {}
                Err(error) if error.is_passing() => {
                    self.upkeep.sweep_soon();
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn forward_rows(&self, rows: &[(u64, Vec<u8>)]) -> StoreResult<usize> {
        if rows.is_empty() {
            return Ok(0);
        }
        let batches = rows
            .iter()
            .map(|(seq, frame)| self.forwarding(*seq, frame))
            .collect();
        let replies = self.tables.commit(batches).await?;
        let forwarded = replies.iter().filter(|reply| reply.is_ok()).count();
        (0..forwarded).for_each(|_| self.counters.add(Count::Forwarded));
        Ok(forwarded)
    }

    fn forwarding(&self, seq: u64, frame: &[u8]) -> Batch {
        let at = key::outbox(seq);
        let guards = vec![row_guard(at.clone(), frame)];
        let arrival = match validate_sealed(frame) {
            Ok(to) => key::append_inbox(to, frame.to_vec()),
            // Only somebody else can have put this here; it must not stay in the way.
            Err(error) => key::append_dead_letter(
                self.config.worker,
                self.undeliverable(frame, &error.to_string()),
            ),
        };
        Batch {
            guards,
            writes: vec![Write::Delete(at), arrival],
        }
    }

    fn undeliverable(&self, frame: &[u8], error: &str) -> Vec<u8> {
        let reason = format!("undeliverable: {error}");
        DeadLetter {
            reason,
            attempts: 0,
            failed_at: self.time.clock.now(),
            frame: frame.to_vec(),
        }
        .encode()
    }

    /// Forward what is in the outbox, whoever put it there. Answers with how much it was.
    pub async fn forward_outbox(&mut self) -> StoreResult<usize> {
        let mut forwarded = 0;
        let mut from = Vec::new();
        loop {
            let range = Range {
                table: TableId::OUTBOX,
                from,
                to: None,
                direction: Direction::Forward,
                limit: limit::FORWARD_MAX,
            };
            let page = self.tables.range(range).await?;
            let Some(last) = page.last() else {
                return Ok(forwarded);
            };
            from = [last.key.as_slice(), &[0]].concat();
            let rows = page.into_iter().map(|row| {
                let seq = key::read_outbox(&row.key)
                    .ok_or_else(|| StoreError::corrupt("an outbox key is no number"));
                seq.map(|seq| (seq, row.value))
            });
            let rows: Vec<(u64, Vec<u8>)> = rows.collect::<StoreResult<_>>()?;
            forwarded += self.forward_rows(&rows).await?;
            if rows.len() < limit::FORWARD_MAX {
                return Ok(forwarded);
            }
        }
    }
}
