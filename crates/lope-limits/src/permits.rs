//! The permits of a concurrency key: who is at work under it.

use lope_model::RunnerId;
use serde::{Deserialize, Serialize};

use crate::holder::{AttemptRef, Holder};

/// Those at work under one key.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Permits {
    pub(crate) holders: Vec<Holder>,
}

/// May one more begin?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Permitted {
    Yes,
    /// In the place of one whose runner is gone; what that one started may still be there.
    Inherited,
    No,
}

impl Permits {
    /// One permit for `holder`, if fewer than `limit` are out. The permit of a dead runner is as
    /// good as free; it is handed on one at a time, so that whoever gets it knows.
    pub(crate) fn take(
        &mut self,
        holder: Holder,
        limit: u32,
        is_live: impl Fn(RunnerId) -> bool,
    ) -> Permitted {
        let has_it = |held: &Holder| held.is(holder.runner, &holder.attempt);
        if self.holders.iter().any(has_it) {
            return Permitted::Yes;
        }
        if self.holders.len() < limit as usize {
            self.holders.push(holder);
            return Permitted::Yes;
        }
        // A limit that was larger once: those above it are not handed on.
        let live = self.holders.iter().filter(|held| is_live(held.runner));
        if live.count() >= limit as usize {
            return Permitted::No;
        }
        match self.holders.iter_mut().find(|held| !is_live(held.runner)) {
            Some(dead) => {
                *dead = holder;
                Permitted::Inherited
            }
            None => Permitted::No,
        }
    }

    pub(crate) fn give_back(&mut self, runner: RunnerId, attempt: &AttemptRef) {
        self.holders.retain(|held| !held.is(runner, attempt));
    }
}

#[cfg(test)]
mod tests {
    use lope_model::{Epoch, RunId, Timestamp};

    use super::*;

    fn holder(runner: u8, attempt: u32) -> Holder {
        let attempt = AttemptRef {
            run: RunId::from_bytes([0; 16]),
            execution: "x".into(),
            attempt,
            epoch: Epoch(1),
        };
        Holder {
            runner: RunnerId::from_bytes([runner; 16]),
            attempt,
            since: Timestamp::from_millis(0),
        }
    }

    /// Who is dead is written in capitals, as it were: runners from 100 on.
    fn is_live(runner: RunnerId) -> bool {
        runner < RunnerId::from_bytes([100; 16])
    }

    #[test]
    fn every_state_and_request() {
        let rows: [(&[Holder], u32, Permitted, usize); 7] = [
            (&[], 1, Permitted::Yes, 1),
            (&[holder(1, 1)], 1, Permitted::No, 1),
            (&[holder(1, 1)], 2, Permitted::Yes, 2),
            (&[holder(100, 1)], 1, Permitted::Inherited, 1),
            (&[holder(100, 1), holder(1, 1)], 2, Permitted::Inherited, 2),
            (
                &[holder(100, 1), holder(1, 1), holder(1, 2)],
                2,
                Permitted::No,
                3,
            ),
            (&[holder(2, 9), holder(1, 1)], 1, Permitted::Yes, 2),
        ];
        for (holders, limit, answer, left) in rows {
            let mut permits = Permits {
                holders: holders.to_vec(),
            };
            assert_eq!(
                permits.take(holder(2, 9), limit, is_live),
                answer,
                "{holders:?}"
            );
            assert_eq!(permits.holders.len(), left, "{holders:?}");
        }
    }

    #[test]
    fn giving_back_what_is_not_held_changes_nothing() {
        let mut permits = Permits {
            holders: vec![holder(1, 1)],
        };
        permits.give_back(holder(1, 2).runner, &holder(1, 2).attempt);
        assert_eq!(permits.holders.len(), 1);
        permits.give_back(holder(1, 1).runner, &holder(1, 1).attempt);
        assert_eq!(permits, Permits::default());
    }
}
