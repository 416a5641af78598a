//! Ending the work on a workflow: stop it for now, close it, cancel it, or write down where it is.

use std::time::Duration;

use lope_engine::client::STOPPED;
use lope_flow::law::EventKind;
use lope_model::RunId;

use super::feed::is_stopped;
use super::{PATIENCE, Runner};
use crate::error::{Error, Result};

/// How often a stop looks whether it has happened.
const POLL: Duration = Duration::from_millis(100);

/// What becomes of progress that is not written down yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stop {
    /// It is written down.
    #[default]
    Persist,
    /// It is forgotten, and nothing new is written.
    Discard,
}

impl Runner {
    /// Stop a workflow until somebody resumes it: attempts in flight are stopped, nobody works on
    /// it. Returns when that is so.
    pub async fn stop(&self, id: &str, how: Stop) -> Result<()> {
        let record = self.live(id).await?;
        let run = record.run;
        let held = self.engine().await?.holds(run);
        if !self.0.persists {
            self.tell(id, run, &EventKind::Cancel { force: true }, None)
                .await?;
        } else if how == Stop::Discard && held {
            self.engine().await?.discard(run);
        } else {
            self.tell(
                id,
                run,
                &EventKind::Pause {
                    reason: Some(STOPPED.into()),
                },
                None,
            )
            .await?;
        }
        self.await_stop(id, run).await?;
        self.0.telemetry.forget(run);
        Ok(())
    }

    async fn await_stop(&self, id: &str, run: RunId) -> Result<()> {
        let stopped = async {
            loop {
                let notification = self.0.telemetry.notification();
                match self.store().runs.run(run).await? {
                    Some(record) if is_stopped(&record) || record.status.is_final() => {
                        return Ok(());
                    }
                    None => return Ok(()),
                    Some(_) => {}
                }
                let _ = tokio::time::timeout(POLL, notification).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, stopped).await;
        in_time.unwrap_or_else(|_| {
            Err(Error::Late {
                id: id.to_owned(),
                what: "stopped",
            })
        })
    }

    /// Take no more inputs: the workflow completes when those it has are done.
    pub async fn close(&self, id: &str) -> Result<()> {
        let record = self.live(id).await?;
        self.tell(id, record.run, &EventKind::Close, None).await
    }

    /// End a workflow for good: what is in flight is stopped, its inputs are cancelled.
    pub async fn cancel(&self, id: &str) -> Result<()> {
        let record = self.live(id).await?;
        self.tell(id, record.run, &EventKind::Cancel { force: false }, None)
            .await
    }

    /// Write down everything that a relaxed checkpoint strategy has not written yet. Durable when
    /// it returns.
    pub async fn checkpoint(&self, id: &str) -> Result<()> {
        let record = self.live(id).await?;
        let notified = self.0.telemetry.await_checkpoint(record.run);
        self.engine().await?.checkpoint(record.run);
        match tokio::time::timeout(PATIENCE, notified).await {
            Ok(Ok(answer)) => answer.map_err(Error::Store),
            Ok(Err(_)) => Err(self.closed()),
            Err(_) => Err(Error::Late {
                id: id.to_owned(),
                what: "written down",
            }),
        }
    }
}
