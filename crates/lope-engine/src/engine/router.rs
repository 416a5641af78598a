//! The router: what the shards put out goes to where it belongs, and the engine's news to whoever
//! listens. It decides nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lope_model::{Epoch, RunId};
use lope_store::StoreError;
use lope_store::runs::RunCommit;
use tokio::sync::{broadcast, mpsc};

use super::{News, NewsListener};
use crate::drive::adopter::Adopter;
use crate::drive::clock::ProcessClock;
use crate::drive::dispatcher::Dispatcher;
use crate::drive::seam;
use crate::drive::shards::ShardHost;
use crate::drive::supervisor::{Supervisor, caught};
use crate::session::SessionEvent;
use crate::shard::{Latest, ShardInput, ShardOutput, UnloadReason};

/// Carries a shard's outputs to where they belong.
pub(super) struct Router {
    pub(super) name: String,
    pub(super) clock: ProcessClock,
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) adopter: Arc<Adopter>,
    pub(super) dispatcher: Arc<Dispatcher>,
    pub(super) commits: mpsc::UnboundedSender<Vec<RunCommit>>,
    pub(super) session_tx: mpsc::UnboundedSender<SessionEvent>,
    pub(super) news: broadcast::Sender<News>,
    pub(super) listener: Option<NewsListener>,
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) claims: bool,
    pub(super) owns: Arc<AtomicBool>,
    /// Do queues have limits?
    pub(super) counts: bool,
}

impl ShardHost for Router {
    fn listens(&self) -> bool {
        self.listener.is_some() || self.news.receiver_count() > 0
    }

    fn take(&self, outputs: &mut Vec<ShardOutput>) {
        seam::pass(&self.name, "shard");
        let mut commits = Vec::new();
        let mut starts = Vec::new();
        let mut gone = Vec::new();
        let mut left = 0;
        for output in outputs.drain(..) {
            match output {
                ShardOutput::Commit(commit) => commits.push(*commit),
                ShardOutput::Start(task) => starts.push(task),
                ShardOutput::Begin(token) => self.dispatcher.announced(&token),
                ShardOutput::Cancel(token) => {
                    // In order: it may be about one of these.
                    self.dispatcher.submit(starts.drain(..));
                    self.dispatcher.cancel(&token);
                }
                ShardOutput::Pause(run, on) => {
                    self.dispatcher.submit(starts.drain(..));
                    self.dispatcher.pause(run, on);
                }
                ShardOutput::Fell { run, epoch, why } => self.fell(run, epoch, why),
                ShardOutput::Left { run, epoch, why } => {
                    gone.push(run);
                    left += usize::from(self.adopter.left(run, epoch));
                    self.left(run, epoch, why);
                }
                ShardOutput::MoreMail => drop(self.session_tx.send(SessionEvent::Notified)),
                ShardOutput::FindLatest(workflow) => self.find_latest(workflow),
                ShardOutput::Born(children) => self.born(children),
                ShardOutput::InputSettled { run, input, result } => {
                    self.tell(News::InputSettled { run, input, result });
                }
                ShardOutput::Notice { run, plan, notice } => {
                    let workflow = Arc::clone(plan.name());
                    self.tell(News::Notice {
                        run,
                        workflow,
                        notice,
                    });
                }
                ShardOutput::Weighs { run, bytes } => self.adopter.weighs(run, bytes),
                ShardOutput::Checkpointed(run) => self.tell(News::Checkpointed(run)),
                ShardOutput::Rested(run) => self.tell(News::Rested(run)),
            }
        }
        if !starts.is_empty() {
            self.dispatcher.submit(starts);
        }
        if !commits.is_empty() {
            // The committer is gone only when the engine is.
            let _ = self.commits.send(commits);
        }
        self.count_out(left, gone);
    }

    fn lost(&self, shard: usize, why: &str) -> (Vec<(RunId, Epoch)>, Duration) {
        self.dispatcher
            .cancel_runs(|run| self.adopter.shards.shard_of(run) == shard);
        let adopter = Arc::clone(&self.adopter);
        let now = self.clock.wall();
        let lost = adopter.held_by(shard);
        let given_up = lost.clone();
        self.give_up(async move { adopter.give_up_shard(lost, now).await });
        (
            given_up,
            self.supervisor.fell("shard", why).unwrap_or_default(),
        )
    }
}

impl Router {
    /// Tell the session how many of the runs it counts have left, and which.
    fn count_out(&self, left: usize, gone: Vec<RunId>) {
        // The session task is gone only when the engine is.
        if left > 0 {
            let owner = self.adopter.runner();
            let _ = self
                .session_tx
                .send(SessionEvent::Left { owner, runs: left });
        }
        if self.counts && !gone.is_empty() {
            let _ = self.session_tx.send(SessionEvent::Gone(gone));
        }
    }

    /// An engine that claims nothing works on the children of its runs too.
    fn born(&self, children: Vec<RunId>) {
        if !self.claims {
            // The session task is gone only when the engine is.
            let _ = self.session_tx.send(SessionEvent::Own(children));
        }
    }

    fn tell(&self, news: News) {
        if let Some(listener) = &self.listener
            && catch_unwind(AssertUnwindSafe(|| listener(&news))).is_err()
        {
            tracing::error!("whoever hears the engine's news panicked");
        }
        // Nobody may be listening.
        let _ = self.news.send(news);
    }

    fn left(&self, run: RunId, epoch: Epoch, why: UnloadReason) {
        match why {
            UnloadReason::Ended { status, result } => {
                if self.owns.load(Ordering::Acquire) {
                    let _ = self.session_tx.send(SessionEvent::Disown(run));
                }
                self.tell(News::Ended {
                    run,
                    status,
                    result,
                });
            }
            UnloadReason::Released => self.tell(News::Left(run)),
            UnloadReason::Lost => {
                tracing::warn!(%run, "a run belongs to another runner now; nothing more is written for it");
                self.tell(News::Left(run));
            }
            UnloadReason::Broken(reason) => {
                let adopter = Arc::clone(&self.adopter);
                self.runtime.spawn(async move {
                    if let Err(error) = adopter.park(run, epoch, reason).await {
                        tracing::error!(%run, %error, "a run could not be set aside");
                    }
                });
            }
        }
    }

    /// The machine panicked at a run: it goes back to the store. It stays held until the store
    /// knows.
    fn fell(&self, run: RunId, epoch: Epoch, why: String) {
        let adopter = Arc::clone(&self.adopter);
        let now = self.clock.wall();
        // The machine may have forgotten some of it on the way down.
        self.dispatcher.cancel_runs(|it| it == run);
        self.tell(News::Left(run));
        self.give_up(async move { adopter.give_up(run, epoch, &why, now).await });
    }

    fn give_up(&self, given_back: impl Future<Output = Vec<RunId>> + Send + 'static) {
        let owner = self.adopter.runner();
        let session_tx = self.session_tx.clone();
        self.runtime.spawn(async move {
            let runs = given_back.await;
            // The session task is gone only when the engine is.
            let _ = session_tx.send(SessionEvent::Left {
                owner,
                runs: runs.len(),
            });
            let _ = session_tx.send(SessionEvent::Gone(runs));
        });
    }

    fn find_latest(&self, workflow: Arc<str>) {
        let adopter = Arc::clone(&self.adopter);
        self.runtime.spawn(async move {
            let latest = loop {
                let found = caught(adopter.store.runs.latest(&workflow)).await;
                match found.unwrap_or_else(|panic| Err(StoreError::unknown(panic))) {
                    Ok(found) => break found.as_ref().map(Latest::of),
                    Err(error) => {
                        tracing::warn!(%error, %workflow, "the latest version could not be asked for");
                        tokio::time::sleep(Duration::from_millis(500)).await;
                    }
                }
            };
            adopter.shards.tell(|| ShardInput::Latest(Arc::clone(&workflow), latest.clone()));
        });
    }
}
