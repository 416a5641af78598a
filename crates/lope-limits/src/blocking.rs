//! Looking at limits from outside: who holds one, and until when it stops others. Nothing is
//! changed.

use lope_definition::policy::Breaker;
use lope_model::policy::RateLimit;
use lope_model::{RunnerId, Timestamp};
use lope_store::tables::At;
use lope_store::{Store, StoreResult};

use crate::circuit_row::CircuitRow;
use crate::codec;
use crate::holder::Holder;
use crate::key::{LimitKey, TABLE};
use crate::outcome_row::OutcomeRow;
use crate::permits::Permits;
use crate::rate_row::RateRow;
use crate::request::{LimitRequest, rate_key};

/// What stands in the way of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockingLimit {
    pub key: LimitKey,
    /// Those that hold it; for a circuit the attempt that opened it.
    pub holders: Vec<Holder>,
    /// When it lets somebody through again, if that is known.
    pub until: Option<Timestamp>,
}

/// What stands in the way of this request now, if anything does.
pub async fn blocking_limit(
    store: &Store,
    request: &LimitRequest,
    now: Timestamp,
) -> StoreResult<Option<BlockingLimit>> {
    let Some(table) = store.tables.manifest().await?.id_of(TABLE) else {
        return Ok(None);
    };
    let keys: Vec<LimitKey> = request.keys().collect();
    let addresses: Vec<At> = keys.iter().map(|key| key.at(table)).collect();
    let rows = store.tables.get(&addresses).await?;
    let mut limits = keys.into_iter().zip(rows);
    Ok(limits.find_map(|(key, row)| in_the_way(request, key, &row?, now)))
}

fn in_the_way(
    request: &LimitRequest,
    key: LimitKey,
    row: &[u8],
    now: Timestamp,
) -> Option<BlockingLimit> {
    let (holders, until) = match &key {
        LimitKey::Outcome(_) => match OutcomeRow::decode(row).ok()? {
            OutcomeRow::Working(holder) => (vec![holder], None),
            OutcomeRow::Done { .. } => return None,
        },
        LimitKey::Permits(_) => {
            let (permits, _) = codec::decode::<Permits>(row).ok()?;
            let limit = request.permit.as_ref().map_or(0, |(_, limit)| *limit);
            if permits.holders.len() < limit as usize {
                return None;
            }
            (permits.holders, None)
        }
        LimitKey::Circuit(_) => {
            let (row, _) = codec::decode::<CircuitRow>(row).ok()?;
            match CircuitRow::breaker(Some(&row)) {
                Breaker::Open(until) if until > now => (vec![row.by], Some(until)),
                Breaker::HalfOpen(_) => (vec![row.by], None),
                Breaker::Open(_) | Breaker::Closed | Breaker::Failing(_) => return None,
            }
        }
        LimitKey::Rate(_) | LimitKey::QueueRate(_) => {
            let (row, _) = codec::decode::<RateRow>(row).ok()?;
            let rate: &RateLimit = request
                .rate
                .as_deref()
                .filter(|rate| rate_key(rate) == key)?;
            if row.free(rate, now) > 0 {
                return None;
            }
            (Vec::new(), Some(row.next_free(rate, now)))
        }
    };
    let asks = &request.attempt;
    let has_it = |holder: &Holder| {
        let has = &holder.attempt;
        (has.run, &has.execution, has.attempt) == (asks.run, &asks.execution, asks.attempt)
    };
    (!holders.iter().any(has_it)).then_some(BlockingLimit {
        key,
        holders,
        until,
    })
}

/// The runners whose lives decide about a row.
pub(crate) fn runners(key: &LimitKey, row: &[u8]) -> Vec<RunnerId> {
    let holders = match key {
        LimitKey::Outcome(_) => match OutcomeRow::decode(row) {
            Ok(OutcomeRow::Working(holder)) => vec![holder],
            Ok(OutcomeRow::Done { .. }) | Err(_) => Vec::new(),
        },
        LimitKey::Permits(_) => {
            codec::decode::<Permits>(row).map_or_else(|_| Vec::new(), |(row, _)| row.holders)
        }
        LimitKey::Circuit(_) => {
            codec::decode::<CircuitRow>(row).map_or_else(|_| Vec::new(), |(row, _)| vec![row.by])
        }
        LimitKey::Rate(_) | LimitKey::QueueRate(_) => Vec::new(),
    };
    holders.into_iter().map(|holder| holder.runner).collect()
}
