//! Definitions by version, and the latest of each name.

use lope_model::{Timestamp, VersionId};
use lope_store::runs::{Deploy, StoredDefinition};
use tokio_postgres::Row;

use crate::connection::Pipeline;
use crate::failure::Worked;
use crate::inner::PostgresInner;
use crate::record::version;
use crate::session::page;
use crate::statement::Statement;

/// Deployments are rare; one at a time, so that the times of a name's versions differ.
static ONE_AT_A_TIME: Statement = Statement {
    name: "deploy_lock",
    text: "lock table {schema}.workflows in share row exclusive mode",
    types: "",
};
static DEPLOY: Statement = Statement {
    name: "deploy",
    text: include_str!("deploy.sql"),
    types: "byte text byte",
};
static RENEW: Statement = Statement {
    name: "deploy_again",
    text: include_str!("deploy_again.sql"),
    types: "byte",
};
static IS_LATEST: Statement = Statement {
    name: "deploy_latest",
    text: include_str!("deploy_latest.sql"),
    types: "byte byte",
};
static DEFINITION: Statement = Statement {
    name: "definition",
    text: "select version, name, body, deployed_at from {schema}.workflows where version = $1",
    types: "byte",
};
static LATEST: Statement = Statement {
    name: "latest",
    text: "select version, name, body, deployed_at from {schema}.workflows
           where name = $1 order by deployed_at desc limit 1",
    types: "text",
};
static DEFINITIONS: Statement = Statement {
    name: "definitions",
    text: "select distinct on (name) version, name, body, deployed_at from {schema}.workflows
           where name > $1 order by name, deployed_at desc limit $2",
    types: "text int",
};

impl PostgresInner {
    pub(crate) async fn deploy(&self, deploy: &Deploy) -> Worked<()> {
        let version = &deploy.version.0.as_bytes()[..];
        let db = self.control.get().await?;
        if db
            .read(&IS_LATEST, vec![&version, &deploy.body])
            .await?
            .is_empty()
        {
            let lock = db.ready(&ONE_AT_A_TIME).await?;
            let keep = db.ready(&DEPLOY).await?;
            let renew = db.ready(&RENEW).await?;
            let mut pipeline = Pipeline::begin(&db);
            pipeline.query(lock, vec![]);
            pipeline.query(keep, vec![&version, &deploy.name, &deploy.body]);
            pipeline.query(renew, vec![&version]);
            pipeline.commit();
            pipeline.run().await?;
        }
        self.versions.learn(std::iter::once(deploy.version));
        Ok(())
    }

    pub(crate) async fn definition(&self, version: VersionId) -> Worked<Option<StoredDefinition>> {
        let version = &version.0.as_bytes()[..];
        let rows = self.reads.read(&DEFINITION, vec![&version]).await?;
        rows.first().map(stored).transpose()
    }

    pub(crate) async fn latest(&self, name: &str) -> Worked<Option<StoredDefinition>> {
        if !is_text(name) {
            return Ok(None);
        }
        let rows = self.reads.read(&LATEST, vec![&name]).await?;
        rows.first().map(stored).transpose()
    }

    pub(crate) async fn definitions(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Worked<Vec<StoredDefinition>> {
        let after = after.unwrap_or_default();
        let most = page(limit);
        self.reads
            .read(&DEFINITIONS, vec![&after, &most])
            .await?
            .iter()
            .map(stored)
            .collect()
    }
}

/// Could the server keep it? What it could not is not there.
pub(crate) fn is_text(text: &str) -> bool {
    !text.contains('\0')
}

fn stored(row: &Row) -> Worked<StoredDefinition> {
    Ok(StoredDefinition {
        version: version(row.get(0))?,
        name: row.get(1),
        body: row.get(2),
        deployed_at: Timestamp::from_millis(row.get(3)),
    })
}
