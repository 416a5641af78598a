//! Hooks: who else is told what became of a task, by a command or a webhook. Each is tried again a
//! few times; what cannot be told is in the runner's log. Tasks do not wait for it.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lope_agents::describe;
use lope_agents::records::TaskRecord;
use lope_agents::settings::{HookSettings, HookTarget};
use lope_workers::{InheritedEnvironment, Requests};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::runner_log::RunnerLog;

/// The pause before a hook is tried again; it doubles.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a runner that ends waits for its hooks.
const END_PATIENCE: Duration = Duration::from_secs(60);

/// The hooks of a runner.
#[derive(Debug)]
pub struct TaskHooks {
    hooks: Vec<HookSettings>,
    environment: InheritedEnvironment,
    requests: Option<Arc<Requests>>,
    under_way: Mutex<JoinSet<()>>,
}

impl TaskHooks {
    pub fn new(hooks: Vec<HookSettings>, environment: InheritedEnvironment) -> Self {
        let is_web = |hook: &HookSettings| matches!(hook.target, HookTarget::Url(_));
        let runtime = tokio::runtime::Handle::current();
        let requests = hooks
            .iter()
            .any(is_web)
            .then(|| Requests::new(runtime).ok())
            .flatten();
        Self {
            hooks,
            environment,
            requests: requests.map(Arc::new),
            under_way: Mutex::default(),
        }
    }

    /// Tell those who want to know.
    pub fn tell(&self, task: &TaskRecord, log: &Arc<RunnerLog>) {
        let wanted = self
            .hooks
            .iter()
            .filter(|hook| hook.on.contains(&task.status));
        for hook in wanted {
            let event = format!("task.{}", task.status);
            let body = json!({ "event": event, "task": describe::task(task) }).to_string();
            let call = HookCall {
                hook: hook.clone(),
                body,
                environment: self.environment.clone(),
                requests: self.requests.clone(),
                log: Arc::clone(log),
            };
            let mut under_way = self
                .under_way
                .lock()
                .expect("no panic while the lock is held");
            while under_way.try_join_next().is_some() {}
            under_way.spawn(call.make());
        }
    }

    /// Wait until all are told, a while at most.
    pub async fn finish(&self) {
        let mut under_way = std::mem::take(
            &mut *self
                .under_way
                .lock()
                .expect("no panic while the lock is held"),
        );
        let all = async { while under_way.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(END_PATIENCE, all).await;
    }
}

/// One telling.
struct HookCall {
    hook: HookSettings,
    body: String,
    environment: InheritedEnvironment,
    requests: Option<Arc<Requests>>,
    log: Arc<RunnerLog>,
}

impl HookCall {
    async fn make(self) {
        let mut pause = PAUSE;
        for tries in 0..=self.hook.retries {
            let made = tokio::time::timeout(self.hook.timeout.to_duration(), self.once()).await;
            let error = match made {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error,
                Err(_) => format!("not within {}", self.hook.timeout),
            };
            self.log
                .line(&format!("hook {}: {error}", self.hook.target));
            if tries < self.hook.retries {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
        }
    }

    async fn once(&self) -> Result<(), String> {
        match (&self.hook.target, &self.requests) {
            (HookTarget::Command(argv), _) => self.command(argv).await,
            (HookTarget::Url(url), Some(requests)) => {
                requests.post_json(url, self.body.clone()).await
            }
            (HookTarget::Url(_), None) => Err("no request can be made".to_owned()),
        }
    }

    async fn command(&self, argv: &[String]) -> Result<(), String> {
        let [program, arguments @ ..] = argv else {
            return Err("a command needs a program".to_owned());
        };
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(self.environment.for_processes())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| error.to_string())?;
        if let Some(mut input) = child.stdin.take() {
            // One that does not read what it is told may still do well.
            let _ = input.write_all(self.body.as_bytes()).await;
        }
        let output = child.wait_with_output().await;
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}: {}", output.status, words.trim()))
    }
}
