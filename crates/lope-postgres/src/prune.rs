//! `prune`: ended runs leave with all that belongs to them, the longest ended first, and partitions that they leave behind.

use lope_model::limit;
use lope_store::runs::{Prune, Pruned};

use crate::failure::Worked;
use crate::inner::Inner;
use crate::partition;
use crate::statement::Statement;

static PRUNE: Statement = Statement { name: "prune", text: include_str!("prune.sql"), types: "int texts text int" };

impl Inner {
    pub(crate) async fn prune(&self, prune: &Prune) -> Worked<Pruned> {
        let statuses: Vec<&str> = prune.statuses.iter().map(|status| status.as_str()).collect();
        let (before, most) = (prune.before.millis(), prune.limit.min(limit::PAGE_MAX) as i64);
        let link = self.reads.get().await?;
        let rows = link.write(&PRUNE, vec![&before, &statuses, &prune.workflow, &most]).await?;
        let (runs, found) = rows.first().map_or((0, 0), |row| (row.get::<_, i64>(0), row.get::<_, i64>(1)));
        let pruned = Pruned { runs: runs as u64, more: found > most };
        if runs > 0 && !pruned.more {
            partition::retire_one(&link).await;
        }
        Ok(pruned)
    }
}
