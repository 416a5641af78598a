//! Hooks: who else is told what became of a task, by a command or a webhook. What is to be told stands
//! on the board; here it is taken and told. What is not heard is told again a few times, by whoever
//! looks then. Tasks do not wait for it.

use std::convert::Infallible;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lope_agents::board::{AgentBoard, BoardError, HookAgain};
use lope_agents::records::TaskHookRecord;
use lope_agents::settings::{HookSettings, HookTarget};
use lope_workers::{InheritedEnvironment, Requests};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a runner that ends waits until its hooks have heard.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked when nothing is heard of the board.
const POLL: Duration = Duration::from_secs(60);
/// Many changes of the board at once are looked at once.
const CHANGES_TOGETHER: Duration = Duration::from_millis(200);
/// How many are told at once.
const AT_ONCE: usize = 16;

/// Where it goes what is to be known about hooks.
pub type HookReport = Arc<dyn Fn(&str) + Send + Sync>;

/// Tells hooks what is to be told.
#[derive(Clone)]
pub struct HookTeller {
    board: AgentBoard,
    environment: InheritedEnvironment,
    requests: Option<Arc<Requests>>,
    report: HookReport,
}

impl std::fmt::Debug for HookTeller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HookTeller({:?})", self.board.hooks())
    }
}

impl HookTeller {
    /// For the hooks of a board.
    pub fn new(board: AgentBoard, environment: InheritedEnvironment, report: HookReport) -> Self {
        let mut hooks = board.hooks().iter();
        let is_web = hooks.any(|hook| matches!(hook.target, HookTarget::Url(_)));
        let requests = is_web.then(|| Requests::new(Handle::current()).ok());
        Self {
            requests: requests.flatten().map(Arc::new),
            board,
            environment,
            report,
        }
    }

    /// Tell what is due, each hook once, and wait until it is told; how long until more is due.
    pub async fn tell_due(&self) -> Result<Option<Duration>, BoardError> {
        let found = self.board.hooks_to_tell().await?;
        if found.due.is_empty() {
            return Ok(found.next.map(lope_model::Span::to_duration));
        }
        let mut calls = JoinSet::new();
        for call in found.due {
            if calls.len() >= AT_ONCE {
                calls.join_next().await;
            }
            let teller = self.clone();
            calls.spawn(async move { teller.tell(&call).await });
        }
        for told in calls.join_all().await {
            told?;
        }
        Ok(Some(Duration::ZERO))
    }

    /// Tell what is due, again and again, until the work has ended and all is told, or a while after.
    pub(crate) async fn tell_until(&self, mut ended: watch::Receiver<bool>) {
        if self.board.hooks().is_empty() {
            return;
        }
        let mut changes = self.board.watch();
        let mut patience = None;
        loop {
            changes.take();
            let next = self.tell_due().await.unwrap_or_else(|error| {
                (self.report)(&format!("hooks: {error}"));
                Some(Duration::from_secs(1))
            });
            if *ended.borrow() {
                let end: Instant = *patience.get_or_insert_with(|| Instant::now() + END_PATIENCE);
                if next.is_none() || Instant::now() >= end {
                    return;
                }
            }
            tokio::select! {
                () = changes.changed() => tokio::time::sleep(CHANGES_TOGETHER).await,
                () = tokio::time::sleep(next.unwrap_or(POLL).min(POLL)) => {}
                // One that is dropped has ended.
                gone = ended.changed(), if patience.is_none() => if gone.is_err() { return },
            }
        }
    }

    /// The same without an end.
    pub async fn tell_always(&self) -> Infallible {
        let (_never, ended) = watch::channel(false);
        self.tell_until(ended).await;
        std::future::pending().await
    }

    async fn tell(&self, call: &TaskHookRecord) -> Result<(), BoardError> {
        let Some(hook) = self.board.hook(call) else {
            return Ok(());
        };
        let Some(taken) = self.board.take_hook(call).await? else {
            return Ok(());
        };
        let made = tokio::time::timeout(hook.timeout.to_duration(), self.once(hook, &taken)).await;
        let error = match made {
            Ok(Ok(())) => return self.board.hook_told(&taken).await,
            Ok(Err(error)) => error,
            Err(_) => format!("not within {}", hook.timeout),
        };
        let end = match self.board.hook_unheard(&taken).await? {
            HookAgain::After(_) => String::new(),
            HookAgain::GivenUp => format!("; given up after {} tries", taken.tries),
        };
        (self.report)(&format!("hook {}: {error}{end}", hook.target));
        Ok(())
    }

    async fn once(&self, hook: &HookSettings, call: &TaskHookRecord) -> Result<(), String> {
        match (&hook.target, &self.requests) {
            (HookTarget::Command(argv), _) => self.command(argv, call).await,
            (HookTarget::Url(url), Some(requests)) => {
                requests.post_json(url, call.body.clone()).await
            }
            (HookTarget::Url(_), None) => Err("no request can be made".to_owned()),
        }
    }

    async fn command(&self, argv: &[String], call: &TaskHookRecord) -> Result<(), String> {
        let [program, arguments @ ..] = argv else {
            return Err("a command needs a program".to_owned());
        };
        let mut command = Command::new(program);
        // Whose folder is on another machine, or gone, is told from where we are.
        if Path::new(&call.project_path).is_dir() {
            command.current_dir(&call.project_path);
        }
        let mut child = command
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
            let _ = input.write_all(call.body.as_bytes()).await;
        }
        let output = child.wait_with_output().await;
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(match words.trim() {
            "" => output.status.to_string(),
            words => format!("{}: {words}", output.status),
        })
    }
}
