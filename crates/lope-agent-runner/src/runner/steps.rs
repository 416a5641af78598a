//! The `agent` steps of a round: each starts an agent for the task, unless one that a runner before
//! this one started has done the step's work already.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use lope_agents::records::StopReason;
use lope_engine::executor::{Done, Executor, Task, Token};
use tokio::sync::{Notify, watch};

use super::TaskRunner;
use super::round_state::Round;

type StopSender = watch::Sender<Option<StopReason>>;

/// Does the `agent` steps of one round.
#[derive(Clone)]
pub(super) struct RoundAgents(Arc<AgentsAtWork>);

struct AgentsAtWork {
    runner: Arc<TaskRunner>,
    round: Arc<Round>,
    running: Mutex<HashMap<Token, StopSender>>,
    /// Rings when an agent has ended.
    ended: Notify,
}

impl RoundAgents {
    pub(super) fn new(runner: Arc<TaskRunner>, round: Arc<Round>) -> Self {
        Self(Arc::new(AgentsAtWork {
            runner,
            round,
            running: Mutex::default(),
            ended: Notify::new(),
        }))
    }

    pub(super) fn are_at_work(&self) -> bool {
        !self.0.running().is_empty()
    }

    /// Until no agent is at work.
    pub(super) async fn ended(&self) {
        loop {
            let mut ended = std::pin::pin!(self.0.ended.notified());
            ended.as_mut().enable();
            if !self.are_at_work() {
                return;
            }
            ended.await;
        }
    }
}

impl AgentsAtWork {
    fn running(&self) -> MutexGuard<'_, HashMap<Token, StopSender>> {
        let running = self.running.lock();
        running.expect("no panic while the lock is held")
    }

    async fn run(&self, task: Task, done: Done, asked: watch::Receiver<Option<StopReason>>) {
        let at_work = AgentAtWork {
            agents: self,
            token: &task.token,
        };
        let step = self.runner.step(&self.round, &task, &done, asked);
        let result = tokio::select! {
            result = step => result,
            never = self.pass_on(&task.token) => match never {},
        };
        drop(at_work);
        done.finish(result, None);
    }

    /// What ends the round ends each of its agents.
    async fn pass_on(&self, token: &Token) -> Infallible {
        let mut stop = self.round.stop.clone();
        let reason = match stop.wait_for(Option::is_some).await {
            Ok(reason) => *reason,
            Err(_) => None,
        };
        if let Some(sender) = self.running().get(token) {
            tell(sender, reason);
        }
        std::future::pending().await
    }
}

/// Dropped, its agent is no longer at work.
struct AgentAtWork<'a> {
    agents: &'a AgentsAtWork,
    token: &'a Token,
}

impl Drop for AgentAtWork<'_> {
    fn drop(&mut self) {
        self.agents.running().remove(self.token);
        self.agents.ended.notify_waiters();
    }
}

/// The first word counts.
fn tell(stop: &StopSender, reason: Option<StopReason>) {
    stop.send_if_modified(|asked| {
        let is_new = asked.is_none() && reason.is_some();
        *asked = asked.or(reason);
        is_new
    });
}

impl Executor for RoundAgents {
    fn start(&self, task: Task, done: Done) {
        let (stop, asked) = watch::channel(None);
        self.0.running().insert(task.token.clone(), stop);
        let own = Arc::clone(&self.0);
        self.0
            .runner
            .runtime
            .spawn(async move { own.run(task, done, asked).await });
    }

    fn cancel(&self, token: &Token) {
        if let Some(stop) = self.0.running().get(token) {
            tell(stop, Some(StopReason::Cancel));
        }
    }
}
