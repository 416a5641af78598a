//! Whoever works on bulk actions: takes one that nobody works on, writes down which runs fit, asks
//! each, and writes down what became of it.

use std::sync::Arc;
use std::time::Duration;

use lope::Client;
use lope::runs::{Delivered, FinalStatus, RunStatus};
use lope::stores::StoreResult;
use lope_model::Timestamp;

use super::{
    BulkAction, BulkItem, BulkOperation, BulkPhase, ItemOutcome, LEASE, PAGE, RUNS_MAX, bytes,
    name, page_name, page_of,
};
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::{ServerContext, ended};
use crate::search::{RunSearch, cursor};

/// How often it is looked whether another server left an action behind.
const POLL: Duration = Duration::from_secs(10);

/// Work on bulk actions until the server ends; what is unfinished is given back.
pub(crate) async fn work(context: Arc<ServerContext>) {
    let owner = uuid::Uuid::now_v7().to_string();
    let mut ending = context.ending.clone();
    tokio::select! {
        () = work_on(&context, &owner) => {}
        () = ended(&mut ending) => {}
    }
    if let Err(error) = give_back(&context.client, &owner).await {
        tracing::debug!(%error, "a bulk action could not be given back");
    }
}

async fn work_on(context: &ServerContext, owner: &str) {
    loop {
        match next(&context.client, owner).await {
            Ok(Some(mut held)) => {
                if let Err(error) = held.finish(&context.client).await {
                    tracing::warn!(
                        message = error.message,
                        "a bulk action cannot go on for now"
                    );
                    tokio::time::sleep(POLL).await;
                }
            }
            Ok(None) => {
                let _ = tokio::time::timeout(POLL, context.bulk_notification.notified()).await;
            }
            Err(error) => {
                tracing::debug!(%error, "no look at bulk actions");
                tokio::time::sleep(POLL).await;
            }
        }
    }
}

/// An action that this worker has, with the bytes it is stored as.
struct HeldAction {
    action: BulkAction,
    stored: Vec<u8>,
    /// This worker began the page: none of its runs was asked before.
    is_fresh: bool,
}

impl HeldAction {
    fn new(action: BulkAction) -> StoreResult<Self> {
        let stored = bytes(&action)?;
        Ok(Self {
            action,
            stored,
            is_fresh: false,
        })
    }
}

/// Take an action that nobody works on.
async fn next(client: &Client, owner: &str) -> StoreResult<Option<HeldAction>> {
    let now = client.now().await?.millis();
    for action in BulkAction::all(client).await?.into_iter().rev() {
        let free = action.owner.is_none() || action.lease_until < now;
        let ours = action.owner.as_deref() == Some(owner);
        if action.is_over() || !(free || ours) {
            continue;
        }
        let mut held = HeldAction::new(action)?;
        held.action.owner = Some(owner.to_owned());
        if held.save(client).await? {
            return Ok(Some(held));
        }
    }
    Ok(None)
}

async fn give_back(client: &Client, owner: &str) -> StoreResult<()> {
    for action in BulkAction::all(client).await? {
        if action.owner.as_deref() == Some(owner) && !action.is_over() {
            let stored = bytes(&action)?;
            let mut given = action;
            (given.owner, given.lease_until) = (None, 0);
            let value = bytes(&given)?;
            client
                .replace_document(&name(&given.id), Some(stored), value)
                .await?;
        }
    }
    Ok(())
}

impl HeldAction {
    /// Page by page, until it is over or somebody else has it.
    async fn finish(&mut self, client: &Client) -> Result<(), ApiError> {
        loop {
            match self.action.phase {
                BulkPhase::Collecting => self.collect(client).await?,
                BulkPhase::Acting if !self.action.begun => self.begin_page(),
                BulkPhase::Acting => self.act(client).await?,
                BulkPhase::Done | BulkPhase::Stopped => return Ok(()),
            }
            if !self.save(client).await? {
                return Ok(());
            }
        }
    }

    /// Write it down as it is now. False: somebody stopped it, or took it when the lease was over.
    async fn save(&mut self, client: &Client) -> StoreResult<bool> {
        self.action.lease_until = client.now().await?.plus(LEASE).millis();
        let value = bytes(&self.action)?;
        let was = std::mem::replace(&mut self.stored, value.clone());
        let name = name(&self.action.id);
        client.replace_document(&name, Some(was), value).await
    }

    /// The next page of runs that fit, of those that there were when it was asked for.
    async fn collect(&mut self, client: &Client) -> Result<(), ApiError> {
        let action = &mut self.action;
        let mut search = RunSearch::read(client, &ApiCall::of_query(&action.query)).await?;
        let until = Timestamp::from_millis(action.created_at + 1);
        let filter = &mut search.filter;
        filter.until = Some(filter.until.map_or(until, |said| said.min(until)));
        filter.after = action.cursor.as_deref().map(cursor).transpose()?;
        let found = search.page(client, PAGE).await?;
        let items: Vec<BulkItem> = found
            .records
            .iter()
            .map(|record| BulkItem {
                run: record.run,
                outcome: ItemOutcome::Pending,
                message: None,
            })
            .collect();
        if !items.is_empty() {
            action.found += items.len() as u64;
            let page = page_name(&action.id, action.pages);
            client.put_document(&page, bytes(&items)?).await?;
            action.pages += 1;
        }
        action.cursor = found.next;
        action.more = action.cursor.is_some() && action.found >= RUNS_MAX;
        if action.cursor.is_none() || action.more {
            action.phase = BulkPhase::Acting;
        }
        Ok(())
    }

    /// It is written down before a page is asked, so that whoever goes on knows.
    fn begin_page(&mut self) {
        self.action.begun = true;
        self.is_fresh = true;
    }

    /// Ask the runs of the page that was begun. One that another worker began and did not count is
    /// asked again under the same ids: who was asked is told so, whatever its status is by now, and
    /// nobody is asked twice.
    async fn act(&mut self, client: &Client) -> Result<(), ApiError> {
        let action = &mut self.action;
        if action.acted < action.pages {
            let mut items = page_of(client, &action.id, action.acted).await?;
            for item in &mut items {
                if item.outcome == ItemOutcome::Pending {
                    let (outcome, message) = ask(client, action, item, self.is_fresh).await?;
                    (item.outcome, item.message) = (outcome, message);
                }
            }
            let page = page_name(&action.id, action.acted);
            client.put_document(&page, bytes(&items)?).await?;
            let count = |outcome| items.iter().filter(|it| it.outcome == outcome).count() as u64;
            action.done += count(ItemOutcome::Done);
            action.skipped += count(ItemOutcome::Skipped);
            action.failed += count(ItemOutcome::Failed);
            action.acted += 1;
            action.begun = false;
        }
        if action.acted >= action.pages {
            action.phase = BulkPhase::Done;
            action.finished_at = Some(client.now().await?.millis());
        }
        Ok(())
    }
}

async fn ask(
    client: &Client,
    action: &BulkAction,
    item: &BulkItem,
    is_fresh: bool,
) -> StoreResult<(ItemOutcome, Option<String>)> {
    let skipped = |message: String| Ok((ItemOutcome::Skipped, Some(message)));
    let failed = |message: &str| Ok((ItemOutcome::Failed, Some(message.to_owned())));
    let Some(record) = client.run(item.run).await? else {
        return failed("the run is not there any more");
    };
    let status = record.status;
    let is_fit = match action.operation {
        BulkOperation::Retry => status == RunStatus::Final(FinalStatus::Failed),
        BulkOperation::Resume => status.as_str() == "paused",
        BulkOperation::Cancel | BulkOperation::Pause => matches!(status, RunStatus::Live(_)),
    };
    if !is_fit && is_fresh {
        return skipped(format!("its status is {status}"));
    }
    let id = format!("bulk-{}", action.id);
    let steering = action.operation.steering();
    match client.steer_once(item.run, steering, id).await? {
        Delivered::Accepted | Delivered::Duplicate => Ok((ItemOutcome::Done, None)),
        Delivered::Finished => skipped(format!("its status is {status}")),
        Delivered::Full => failed("too much waits for it already"),
        Delivered::Missing => failed("the run is not there any more"),
    }
}

#[cfg(test)]
mod tests {
    use lope::runs::RunStartOptions;
    use lope::{PreparedRun, Runner, Settings, workflows};
    use lope_model::Value;

    use super::super::read;
    use super::*;

    #[tokio::test]
    async fn an_action_is_worked_on_by_one_and_goes_on_where_another_left_it() {
        let client = Client::open("memory:").await.unwrap();
        let query = vec![("status".to_owned(), "failed".to_owned())];
        let action = BulkAction::begin(&client, BulkOperation::Retry, query, None);
        let id = action.await.unwrap().id;
        let held = next(&client, "first").await.unwrap();
        assert!(held.is_some());
        assert!(next(&client, "second").await.unwrap().is_none());
        give_back(&client, "first").await.unwrap();
        let mut held = next(&client, "second").await.unwrap().unwrap();
        assert!(BulkAction::stop(&client, &id).await.unwrap());
        held.finish(&client).await.map_err(|it| it.message).unwrap();
        let stored = client.document(&name(&id)).await.unwrap().unwrap();
        let stored: BulkAction = read(&stored).unwrap();
        assert_eq!(stored.phase, BulkPhase::Stopped);
    }

    /// A worker that was killed had asked a run, which has ended since, and had counted nothing.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_run_that_was_asked_and_not_counted_is_told_as_asked() {
        let builder = Runner::builder().url("memory:");
        let runner = builder.shared_settings(Settings::default());
        let runner = runner.build().await.unwrap();
        let client = runner.client();
        let plan = workflows::read("name: waits\nsteps: { hold: { wait: go } }\n", "test").unwrap();
        client.deploy(&plan).await.unwrap();
        let options = RunStartOptions {
            input: Some(Value::Null),
            ..RunStartOptions::default()
        };
        let prepared = PreparedRun::new(&plan, options, client.queue_limits()).unwrap();
        let (run, _) = runner.start(prepared).await.unwrap();
        let query = vec![("workflow".to_owned(), "waits".to_owned())];
        let action = BulkAction::begin(client, BulkOperation::Cancel, query, None);
        let id = action.await.unwrap().id;

        let mut killed = next(client, "first").await.unwrap().unwrap();
        let collected = killed.collect(client).await;
        collected.map_err(|it| it.message).unwrap();
        assert!(killed.save(client).await.unwrap());
        killed.begin_page();
        assert!(killed.save(client).await.unwrap());
        let items = page_of(client, &id, 0).await.unwrap();
        assert_eq!(items.len(), 1);
        let asked = ask(client, &killed.action, &items[0], killed.is_fresh).await;
        assert_eq!(asked.unwrap(), (ItemOutcome::Done, None));
        client.wait(run).await.unwrap();

        give_back(client, "first").await.unwrap();
        let mut held = next(client, "second").await.unwrap().unwrap();
        held.finish(client).await.map_err(|it| it.message).unwrap();
        let over = BulkAction::find(client, &id).await.unwrap().unwrap();
        let counts = (over.phase, over.done, over.skipped, over.failed);
        assert_eq!(counts, (BulkPhase::Done, 1, 0, 0));
    }
}
