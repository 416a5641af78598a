//! Outcomes of idempotency keys leave the store when they are old enough, some at a time; from then
//! on the key is as if it had never been used.

use lope_model::Timestamp;
use lope_store::tables::{At, Batch, Direction, Guard, Range, Write};
use lope_store::{Store, StoreResult};

use crate::key;

/// Forget outcomes that are older than `before`, at most `limit` of them: how many there were.
pub async fn prune(store: &Store, before: Timestamp, limit: usize) -> StoreResult<usize> {
    let Some(table) = store.tables.manifest().await?.id_of(key::TABLE) else {
        return Ok(0);
    };
    let range = Range {
        table,
        from: key::time_prefix(Timestamp::from_millis(0)).to_vec(),
        to: Some(key::time_prefix(before).to_vec()),
        direction: Direction::Forward,
        limit,
    };
    let rows = store.tables.range(range).await?;
    let forgotten = rows.len();
    let mut batch = Batch::default();
    for row in rows {
        let outcome = key::listed(table, &row.key);
        let listed = At::new(table, row.key);
        // Whoever forgot it before may have let somebody begin anew.
        batch.guards.push(Guard::Equals(listed.clone(), row.value));
        batch.writes.push(Write::Delete(listed));
        batch.writes.extend(outcome.map(Write::Delete));
    }
    if !batch.writes.is_empty() {
        // Of two that forget the same one is quicker, and both are content.
        store.tables.commit(vec![batch]).await?;
    }
    Ok(forgotten)
}
