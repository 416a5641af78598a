//! The row of an idempotency key: who is at work under it, or what came out.

use lope_model::{Failure, RunnerId, Timestamp, Value, value};
use serde::{Deserialize, Serialize};

use crate::codec::{self, UnreadableRow};
use crate::holder::{AttemptRef, Holder};

/// One key.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum OutcomeRow {
    Working(Holder),
    Done {
        at: Timestamp,
        by: AttemptRef,
        /// A failure only where the work was done and its answer cannot be kept.
        outcome: Result<Value, Box<Failure>>,
    },
}

/// What becomes of an attempt with the key.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum KeyEntry {
    Begin,
    /// In the place of one whose runner is gone; what that one started may still be there.
    Inherit,
    Wait,
    Done(Result<Value, Box<Failure>>),
}

/// The row without its value, which stands behind it.
#[derive(Serialize, Deserialize)]
enum Header {
    Working(Holder),
    Done {
        at: Timestamp,
        by: AttemptRef,
    },
    Failed {
        at: Timestamp,
        by: AttemptRef,
        failure: Box<Failure>,
    },
}

/// May an attempt with the key do the work?
pub(crate) fn enter(
    row: Option<&OutcomeRow>,
    runner: RunnerId,
    attempt: &AttemptRef,
    is_live: impl Fn(RunnerId) -> bool,
) -> KeyEntry {
    match row {
        None => KeyEntry::Begin,
        Some(OutcomeRow::Done { outcome, .. }) => KeyEntry::Done(outcome.clone()),
        Some(OutcomeRow::Working(holder)) if holder.is(runner, attempt) => KeyEntry::Begin,
        Some(OutcomeRow::Working(holder)) if is_live(holder.runner) => KeyEntry::Wait,
        Some(OutcomeRow::Working(_)) => KeyEntry::Inherit,
    }
}

impl OutcomeRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Working(holder) => codec::encode(&Header::Working(holder.clone())),
            Self::Done {
                at,
                by,
                outcome: Ok(value),
            } => {
                let at = *at;
                let by = by.clone();
                let mut bytes = codec::encode(&Header::Done { at, by });
                bytes.extend(value::to_msgpack(value));
                bytes
            }
            Self::Done {
                at,
                by,
                outcome: Err(failure),
            } => codec::encode(&Header::Failed {
                at: *at,
                by: by.clone(),
                failure: failure.clone(),
            }),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, UnreadableRow> {
        let (header, rest) = codec::decode::<Header>(bytes)?;
        Ok(match header {
            Header::Working(holder) => Self::Working(holder),
            Header::Done { at, by } => Self::Done {
                at,
                by,
                outcome: Ok(value::from_msgpack(rest).map_err(UnreadableRow::new)?),
            },
            Header::Failed { at, by, failure } => Self::Done {
                at,
                by,
                outcome: Err(failure),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use lope_model::{Epoch, RunId};

    use super::*;

    fn attempt(number: u32) -> AttemptRef {
        AttemptRef {
            run: RunId::from_bytes([7; 16]),
            execution: "pay".into(),
            attempt: number,
            epoch: Epoch(3),
        }
    }

    fn runner(number: u8) -> RunnerId {
        RunnerId::from_bytes([number; 16])
    }

    fn working(number: u8) -> OutcomeRow {
        OutcomeRow::Working(Holder {
            runner: runner(number),
            attempt: attempt(1),
            since: Timestamp::from_millis(5),
        })
    }

    fn done(outcome: Result<Value, Box<Failure>>) -> OutcomeRow {
        OutcomeRow::Done {
            at: Timestamp::from_millis(9),
            by: attempt(1),
            outcome,
        }
    }

    #[test]
    fn every_state_and_request() {
        let failure = || Box::new(Failure::new("Limit", "too large"));
        let rows = [
            (None, 1, KeyEntry::Begin),
            (Some(working(2)), 1, KeyEntry::Wait),
            (Some(working(9)), 1, KeyEntry::Inherit),
            (Some(working(1)), 1, KeyEntry::Begin),
            (
                Some(done(Ok(Value::Int(4)))),
                1,
                KeyEntry::Done(Ok(Value::Int(4))),
            ),
            (
                Some(done(Err(failure()))),
                1,
                KeyEntry::Done(Err(failure())),
            ),
        ];
        for (row, me, expected) in rows {
            let entered = enter(row.as_ref(), runner(me), &attempt(1), |id| id != runner(9));
            assert_eq!(entered, expected, "{row:?}");
        }
        let other = enter(Some(&working(1)), runner(1), &attempt(2), |_| true);
        assert_eq!(other, KeyEntry::Wait, "another attempt of the same runner");
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let failure = Box::new(Failure::new("Limit", "too large"));
        for row in [
            working(1),
            done(Ok(Value::Null)),
            done(Ok(Value::str("a".repeat(10_000)))),
            done(Err(failure)),
        ] {
            assert_eq!(OutcomeRow::decode(&row.encode()), Ok(row));
        }
        for bytes in [&[][..], &[2, 0], &[1, 0xc1], &[1]] {
            assert!(OutcomeRow::decode(bytes).is_err(), "{bytes:?}");
        }
    }
}
