//! The task that keeps the session: it feeds the keeper with time, bells and answers, and does what it asks.

use std::sync::Arc;

use lope_model::{RunnerId, limit};
use lope_store::runs::{ClaimedRun, Register, Takeover};
use lope_store::{Store, StoreResult};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::clock::ProcessClock;
use super::supervisor::{Part, caught};
use super::{prune, seam};
use crate::adopter::Adopter;
use crate::keeper::{Ask, Asked, Heard, Keeper};
use crate::settings::Settings;
use crate::shard::Input;

/// Most runs put back by one takeover, most mail fetched at once.
const SWEEP_MAX: usize = 1_000;

/// Most words taken in before the keeper's asks are performed.
const TURN: usize = 256;

/// An answer, and the session it belongs to: those of a session that has ended are dropped.
pub(crate) type Answer = (RunnerId, Heard);

pub(crate) struct Keeping {
    pub(crate) store: Store,
    pub(crate) keeper: Keeper,
    pub(crate) settings: Settings,
    pub(crate) clock: ProcessClock,
    pub(crate) adopter: Arc<Adopter>,
    pub(crate) mouth: mpsc::UnboundedSender<Heard>,
    pub(crate) ears: mpsc::UnboundedReceiver<Heard>,
}

impl Part for Keeping {
    const NAME: &'static str = "keeper";

    async fn work(&mut self) {
        let (answers, mut answered) = mpsc::unbounded_channel::<Answer>();
        let mut watch = self.store.runs.watch();
        let mut words = Vec::new();
        loop {
            seam::pass(&self.settings.name, Self::NAME);
            self.turn(&mut words, &answers);
            let deadline =
                self.keeper.next_deadline().map(|due| tokio::time::Instant::from_std(self.clock.instant(due)));
            let sleep = async {
                match deadline {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                count = self.ears.recv_many(&mut words, TURN) => if count == 0 {
                    return;
                },
                Some((runner, heard)) = answered.recv() => if runner == self.keeper.runner() {
                    words.push(heard);
                },
                () = watch.changed() => words.push(Heard::Rang),
                () = sleep => {}
            }
        }
    }

    /// Nobody knows what was half done: everything begins again as another runner, and what the fallen one owned is given back.
    fn pick_up(&mut self) {
        let (store, fallen) = (self.store.clone(), self.keeper.runner());
        self.fence("its keeper panicked");
        tokio::spawn(async move {
            // If that fails, its lease ends by itself.
            if let Err(error) = store.runs.release(fallen).await {
                tracing::warn!(%error, runner = %fallen, "what it owned could not be given back");
            }
        });
    }
}

impl Keeping {
    /// Let the keeper hear what came, or look at the clock if nothing did. What it asks for is done word by word: after a fence
    /// the next word is heard as another runner.
    fn turn(&mut self, words: &mut Vec<Heard>, answers: &mpsc::UnboundedSender<Answer>) {
        let mut asks = Vec::new();
        if words.is_empty() {
            self.keeper.tick(self.clock.now(), &mut asks);
            asks.drain(..).for_each(|ask| self.perform(ask, answers));
        }
        for heard in words.drain(..) {
            self.keeper.handle(self.clock.now(), heard, &mut asks);
            asks.drain(..).for_each(|ask| self.perform(ask, answers));
        }
        self.adopter.open(self.keeper.is_registered());
    }

    fn perform(&mut self, ask: Ask, answers: &mpsc::UnboundedSender<Answer>) {
        match ask {
            Ask::Fence(why) => self.fence(why),
            Ask::SetClock(ahead) => {
                tracing::debug!(ahead, "the store's clock differs from this machine's");
                self.clock.set_ahead(ahead);
            }
            Ask::Adopt(runs) => self.adopt(runs),
            Ask::Compare(owned) => {
                let forgotten = self.adopter.forgotten(owned);
                self.keeper.found(&forgotten);
                self.adopt(forgotten);
            }
            other => self.call(other, answers.clone()),
        }
    }

    fn adopt(&self, runs: Vec<ClaimedRun>) {
        if runs.is_empty() {
            return;
        }
        let (adopter, mouth, owner) = (Arc::clone(&self.adopter), self.mouth.clone(), self.keeper.runner());
        tokio::spawn(async move {
            let dropped = match caught(adopter.adopt(owner, &runs)).await {
                Ok(dropped) => dropped,
                Err(why) => {
                    tracing::error!(why, "claimed runs were not taken up; comparing finds them again");
                    runs.iter().filter(|run| adopter.left(run.run, run.epoch)).count()
                }
            };
            if dropped > 0 {
                // The engine may be gone; then nobody needs to know.
                let _ = mouth.send(Heard::Left { owner, runs: dropped, weight: 0 });
            }
        });
    }

    /// Ask the store, and hear its answer.
    fn call(&self, ask: Ask, answers: mpsc::UnboundedSender<Answer>) {
        let (store, runner, adopter) = (self.store.clone(), self.keeper.runner(), Arc::clone(&self.adopter));
        let (register, settings, now) = (self.register(runner), self.settings.clone(), self.clock.wall());
        let Some(asked) = ask.asked() else { return };
        let answer = async move {
            match ask {
                Ask::Register => heard(store.runs.register(register).await, Asked::Register, Heard::Registered),
                Ask::Heartbeat => heard(store.runs.heartbeat(runner).await, Asked::Heartbeat, Heard::Beaten),
                Ask::Claim(claim) => heard(store.runs.claim(claim).await, Asked::Claim, Heard::Claimed),
                Ask::Takeover => {
                    let taken = store.runs.takeover(Takeover { limit: SWEEP_MAX }).await;
                    heard(taken, Asked::Takeover, Heard::TookOver)
                }
                Ask::Reconcile => heard(owned(&store, runner).await, Asked::Reconcile, Heard::Owned),
                Ask::Announce(serves) => {
                    heard(store.runs.announce(runner, serves).await, Asked::Announce, Heard::Announced)
                }
                Ask::Mail => {
                    let mail = store.runs.waiting(runner, SWEEP_MAX).await;
                    heard(mail.map(|mail| adopter.hand_over(mail)), Asked::Mail, |()| Heard::Mailed)
                }
                Ask::Prune => {
                    let pruned = prune::once(&store, &settings, now).await;
                    heard(pruned, Asked::Prune, |pruned| Heard::Pruned { more: pruned.more })
                }
                Ask::Adopt(_) | Ask::Compare(_) | Ask::Fence(_) | Ask::SetClock(_) => Heard::Failed(asked),
            }
        };
        tokio::spawn(async move {
            let heard = caught(answer).await.unwrap_or_else(|why| {
                tracing::error!(why, ?asked, "the store panicked");
                Heard::Failed(asked)
            });
            let _ = answers.send((runner, heard));
        });
    }

    fn register(&self, runner: RunnerId) -> Register {
        Register {
            runner,
            name: self.settings.name.clone(),
            host: self.settings.host.clone(),
            pid: std::process::id(),
            program: concat!("lope ", env!("CARGO_PKG_VERSION")).to_owned(),
            serves: self.keeper.serves(),
            lease: self.settings.lease,
        }
    }

    /// Drop everything, write nothing, and begin again as another runner.
    fn fence(&mut self, why: &'static str) {
        let runner = RunnerId::from_uuid(Uuid::now_v7());
        let stopped = self.keeper.runner();
        tracing::error!(runner = %stopped, "this runner stops its work: {why}; it begins again as {runner}");
        self.adopter.shards.tell(|| Input::Fence);
        self.adopter.shards.tell(|| Input::Owner(runner));
        self.adopter.begin_as(runner);
        self.keeper.reborn(runner);
        let _ = self.mouth.send(Heard::Rang);
    }
}

/// Everything that the store says this runner owns.
async fn owned(store: &Store, runner: RunnerId) -> StoreResult<Vec<ClaimedRun>> {
    let mut all: Vec<ClaimedRun> = Vec::new();
    loop {
        let page = store.runs.owned(runner, all.last().map(|run| run.run), limit::PAGE_MAX).await?;
        let last = page.len() < limit::PAGE_MAX;
        all.extend(page);
        if last {
            return Ok(all);
        }
    }
}

fn heard<T>(answer: StoreResult<T>, asked: Asked, make: impl FnOnce(T) -> Heard) -> Heard {
    answer.map_or_else(
        |error| {
            tracing::warn!(%error, ?asked, "the store did not answer");
            Heard::Failed(asked)
        },
        make,
    )
}
