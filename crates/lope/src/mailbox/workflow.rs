//! On message, start a run: the payload is the input, and the id is the run's key, so that a
//! message which is handled again after a crash finds its run and starts no second one.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use lope_engine::client::{self, InputError, RunStartOptions};
use lope_flow::law::Plan;
use lope_mailbox::frame::Message;
use lope_mailbox::{Context, Handled, Handler, HandlerError};
use lope_model::{Value, value};
use lope_store::runs::Admitted;
use lope_workers::action_handler::run_key;

use crate::Client;

/// The tag of a run that a message started; its value is the worker.
const TAG: &str = "mailbox";

/// Which workflow is run.
#[derive(Clone, Debug)]
pub enum WorkflowSource {
    /// This one; it was deployed.
    Plan(Arc<Plan>),
    /// The one that is deployed last under this name when the message is handled.
    Latest(String),
}

/// Starts a run for each message and answers its sender with the run's id. Whoever works on the
/// runs' queue does the work: the message is handled when its run is in the store.
#[derive(Debug)]
pub struct WorkflowHandler {
    client: Client,
    source: WorkflowSource,
}

impl WorkflowHandler {
    pub fn new(client: Client, source: WorkflowSource) -> Self {
        Self { client, source }
    }

    async fn plan(&self) -> Result<Arc<Plan>, HandlerError> {
        let name = match &self.source {
            WorkflowSource::Plan(plan) => return Ok(Arc::clone(plan)),
            WorkflowSource::Latest(name) => name,
        };
        let plan = self.client.latest_plan(name).await?;
        plan.ok_or_else(|| HandlerError::Unfit(format!("no workflow '{name}' is deployed")))
    }

    async fn start(
        &self,
        context: &Context,
        message: &Message<'_>,
    ) -> Result<String, HandlerError> {
        let plan = self.plan().await?;
        let about = context.about();
        let options = RunStartOptions {
            input: Some(input(message.payload)?),
            key: Some(run_key(about.worker, message.id)),
            tags: BTreeMap::from([(TAG.to_owned(), about.worker.to_string())]),
            ..RunStartOptions::default()
        };
        let limits = self.client.queue_limits();
        let started = client::start(self.client.store(), &plan, options, limits, about.now).await;
        let (run, admitted) = started.map_err(|error| match error {
            InputError::Store(error) => HandlerError::from(error),
            other => HandlerError::Failed(other.to_string()),
        })?;
        match admitted {
            Admitted::Created { .. } | Admitted::Exists { .. } => Ok(run.to_string()),
            Admitted::UnknownVersion => {
                client::deploy(self.client.store(), &plan).await?;
                Err(HandlerError::Busy(
                    "the workflow had to be deployed again".into(),
                ))
            }
        }
    }
}

#[async_trait]
impl Handler for WorkflowHandler {
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        let run = self.start(context, message).await?;
        context.reply(run);
        Ok(())
    }
}

/// The input of a run: the payload as JSON, null if there is none.
fn input(payload: &[u8]) -> Result<Value, HandlerError> {
    if payload.is_empty() {
        return Ok(Value::Null);
    }
    let text = std::str::from_utf8(payload)
        .map_err(|error| HandlerError::Failed(format!("the payload: {error}")))?;
    value::from_json(text).map_err(|error| HandlerError::Failed(format!("the payload is {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_json_or_nothing() {
        assert_eq!(input(b"").unwrap(), Value::Null);
        assert_eq!(input(b"[1]").unwrap(), Value::list(vec![Value::Int(1)]));
        assert!(matches!(input(b"{oops"), Err(HandlerError::Failed(_))));
        assert!(matches!(input(&[0xff]), Err(HandlerError::Failed(_))));
    }
}
