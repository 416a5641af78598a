//! Hooks: who else is told what became of a task, by a command or a webhook. What is to be told stands
//! on the board; here it is taken and told. What is not heard is told again a few times, by whoever
//! looks then. Tasks do not wait for it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lope_agents::board::{AgentBoard, BoardError, HookAgain};
use lope_agents::records::TaskHookRecord;
use lope_agents::settings::{HookSettings, HookTarget};
use lope_model::id::TaskId;
use lope_workers::{InheritedEnvironment, Requests};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a runner that ends waits until its hooks have heard what it told them.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked when nothing is heard of the board.
const POLL: Duration = Duration::from_secs(60);
/// Many changes of the board at once are looked at once.
const CHANGES_TOGETHER: Duration = Duration::from_millis(200);
/// How long the output of a command that has ended is read.
const OUTPUT_GRACE: Duration = Duration::from_millis(200);
/// Most of it that is told.
const WORDS_MAX: u64 = 4_096;
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
    /// What was told here and not heard yet.
    unheard: Arc<Mutex<BTreeSet<(TaskId, i64, String)>>>,
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
            unheard: Arc::default(),
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
                // What others tell is theirs.
                let is_theirs = next != Some(Duration::ZERO) && self.unheard().is_empty();
                if next.is_none() || is_theirs || Instant::now() >= end {
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

    fn unheard(&self) -> MutexGuard<'_, BTreeSet<(TaskId, i64, String)>> {
        self.unheard
            .lock()
            .expect("no panic while the lock is held")
    }

    async fn tell(&self, call: &TaskHookRecord) -> Result<(), BoardError> {
        let Some(hook) = self.board.hook(call) else {
            return Ok(());
        };
        let Some(taken) = self.board.take_hook(call).await? else {
            return Ok(());
        };
        let key = (taken.task_id, taken.number, taken.hook.clone());
        self.unheard().insert(key.clone());
        let made = tokio::time::timeout(hook.timeout.to_duration(), self.once(hook, &taken)).await;
        let error = match made {
            Ok(Ok(())) => {
                self.unheard().remove(&key);
                return self.board.hook_told(&taken).await;
            }
            Ok(Err(error)) => error,
            Err(_) => format!("not within {}", hook.timeout),
        };
        let end = match self.board.hook_unheard(&taken).await? {
            HookAgain::After(_) => String::new(),
            HookAgain::GivenUp => {
                self.unheard().remove(&key);
                format!("; given up after {} tries", taken.tries)
            }
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
        let (status, words) = ended(&mut child).await.map_err(|error| error.to_string())?;
        if status.success() {
            return Ok(());
        }
        Err(match words.trim() {
            "" => status.to_string(),
            words => format!("{status}: {words}"),
        })
    }
}

/// How a command ended, and what it complained of. What it leaves in the background, with its output
/// open, is not waited for.
async fn ended(child: &mut Child) -> io::Result<(ExitStatus, String)> {
    let mut words = Vec::new();
    let errors = child.stderr.take();
    let status = {
        let read = async {
            if let Some(errors) = errors {
                // What cannot be read is not told.
                let _ = errors.take(WORDS_MAX).read_to_end(&mut words).await;
            }
        };
        tokio::pin!(read);
        tokio::select! {
            status = child.wait() => {
                let _ = tokio::time::timeout(OUTPUT_GRACE, &mut read).await;
                status?
            }
            () = &mut read => child.wait().await?,
        }
    };
    Ok((status, String::from_utf8_lossy(&words).into_owned()))
}
