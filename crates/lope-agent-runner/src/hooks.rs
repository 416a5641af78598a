//! Hooks: who else is told what became of a task, by a command or a webhook. What is to be told stands
//! on the board; here it is taken and told. What is not heard is told again a few times, by whoever
//! looks then. Tasks do not wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lope_agents::board::{AgentBoard, BoardError, HookAgain};
use lope_agents::records::TaskHookRecord;
use lope_agents::settings::{HookSettings, HookTarget};
use lope_model::id::TaskId;
use lope_workers::process_tree::{ProcessTrees, TreeCommand, TreeWork};
use lope_workers::{InheritedEnvironment, Requests};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use crate::hook_command;

/// How long a runner that ends waits until its hooks have heard what it told them.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked when nothing is heard of the board.
const POLL: Duration = Duration::from_secs(60);
/// Many changes of the board at once are looked at once.
const CHANGES_TOGETHER: Duration = Duration::from_millis(200);
/// How much one hook is told at once.
const AT_ONCE: usize = 16;
/// How long nothing is told after the store did not answer.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// Where it goes what is to be known about hooks.
pub type HookReport = Arc<dyn Fn(&str) + Send + Sync>;

/// Tells hooks what is to be told.
#[derive(Clone)]
pub struct HookTeller {
    board: AgentBoard,
    environment: InheritedEnvironment,
    requests: Option<Arc<Requests>>,
    /// Who answers for commands, if there are any.
    trees: Option<ProcessTrees>,
    report: HookReport,
    /// What was told here and not heard yet.
    unheard: Arc<Mutex<BTreeSet<HookKey>>>,
}

/// When whoever tells hooks ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TellingEnd {
    /// Not yet: there may be more.
    Open,
    /// When all is told, or after a while.
    Told,
    Now,
}

/// What is told which hook.
type HookKey = (TaskId, i64, String);
type ToldHook = (HookKey, Result<(), BoardError>);

fn key_of(call: &TaskHookRecord) -> HookKey {
    (call.task_id, call.number, call.hook.clone())
}

/// What is being told.
#[derive(Default)]
struct HookCalls {
    calls: JoinSet<ToldHook>,
    /// What is not told again here.
    begun: BTreeSet<HookKey>,
    /// How much each hook is told now.
    at_once: BTreeMap<String, usize>,
}

impl HookCalls {
    /// May this be told now?
    fn begins(&mut self, key: &HookKey) -> bool {
        let at_once = self.at_once.entry(key.2.clone()).or_default();
        let begins = *at_once < AT_ONCE && self.begun.insert(key.clone());
        *at_once += usize::from(begins);
        begins
    }

    /// One has ended, and perhaps others.
    fn ended(&mut self, first: Result<ToldHook, JoinError>) -> Vec<ToldHook> {
        let others = std::iter::from_fn(|| self.calls.try_join_next());
        let all = std::iter::once(first).chain(others);
        let all = all.map(|told| told.expect("telling a hook does not panic"));
        let all: Vec<ToldHook> = all.collect();
        for (key, _) in &all {
            let at_once = self.at_once.entry(key.2.clone()).or_default();
            *at_once = at_once.saturating_sub(1);
        }
        all
    }
}

impl std::fmt::Debug for HookTeller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HookTeller({:?})", self.board.hooks())
    }
}

impl HookTeller {
    /// For the hooks of a board.
    pub fn new(board: AgentBoard, environment: InheritedEnvironment, report: HookReport) -> Self {
        let runtime = Handle::current();
        let any = |is_such: fn(&HookTarget) -> bool| {
            board.hooks().iter().any(|hook| is_such(&hook.target))
        };
        let is_web = any(|target| matches!(target, HookTarget::Url(_)));
        let has_command = any(|target| matches!(target, HookTarget::Command(_)));
        let requests = is_web.then(|| Requests::new(runtime.clone()).ok());
        Self {
            requests: requests.flatten().map(Arc::new),
            trees: has_command.then(|| ProcessTrees::begin(&runtime)),
            board,
            environment,
            report,
            unheard: Arc::default(),
        }
    }

    /// Tell what is due, each once, and wait until it is told.
    pub async fn tell_due(&self) -> Result<(), BoardError> {
        let mut telling = HookCalls::default();
        loop {
            self.begin_due(&mut telling).await?;
            // What was told stays in mind: what was not heard is told again by whoever looks then.
            let Some(told) = telling.calls.join_next().await else {
                return Ok(());
            };
            for (_, told) in telling.ended(told) {
                told?;
            }
        }
    }

    /// Begin to tell what is due; how long until more is. One hook waits for no other.
    async fn begin_due(&self, telling: &mut HookCalls) -> Result<Option<Duration>, BoardError> {
        let is_begun = |call: &TaskHookRecord| telling.begun.contains(&key_of(call));
        let found = self.board.hooks_to_tell(is_begun).await?;
        for call in found.due {
            let key = key_of(&call);
            if telling.begins(&key) {
                let teller = self.clone();
                let told = async move { (key_of(&call), teller.tell(&call).await) };
                telling.calls.spawn(told);
            }
        }
        Ok(found.next.map(lope_model::Span::to_duration))
    }

    /// Tell what is due, again and again, until the work has ended and all is told, or a while after;
    /// or until nobody waits any longer: then what is being told is stopped.
    pub(crate) async fn tell_until(&self, mut ended: watch::Receiver<TellingEnd>) {
        if self.board.hooks().is_empty() {
            return;
        }
        let mut changes = self.board.watch();
        let mut telling = HookCalls::default();
        let mut patience = None;
        let failed = |error: BoardError| (self.report)(&format!("hooks: {error}"));
        loop {
            changes.take();
            // What was written before the end is seen after it.
            let is_over = match *ended.borrow() {
                TellingEnd::Open => false,
                TellingEnd::Told => true,
                TellingEnd::Now => break,
            };
            let next = self.begin_due(&mut telling).await.unwrap_or_else(|error| {
                failed(error);
                Some(AFTER_ERROR)
            });
            if is_over && telling.calls.is_empty() {
                let end: Instant = *patience.get_or_insert_with(|| Instant::now() + END_PATIENCE);
                // What others tell is theirs.
                if next.is_none() || self.unheard().is_empty() || Instant::now() >= end {
                    return;
                }
            }
            tokio::select! {
                () = changes.changed() => tokio::time::sleep(CHANGES_TOGETHER).await,
                Some(told) = telling.calls.join_next() => {
                    for (key, told) in telling.ended(told) {
                        telling.begun.remove(&key);
                        if let Err(error) = told {
                            failed(error);
                            tokio::time::sleep(AFTER_ERROR).await;
                        }
                    }
                }
                () = tokio::time::sleep(next.unwrap_or(POLL).min(POLL)) => {}
                // One that is dropped has ended.
                gone = ended.changed() => if gone.is_err() { return },
            }
        }
        telling.calls.shutdown().await;
    }

    /// The same without an end.
    pub async fn tell_always(&self) -> Infallible {
        let (_never, ended) = watch::channel(TellingEnd::Open);
        self.tell_until(ended).await;
        std::future::pending().await
    }

    fn unheard(&self) -> MutexGuard<'_, BTreeSet<HookKey>> {
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
        let key = key_of(&taken);
        self.unheard().insert(key.clone());
        let Err(error) = self.once(hook, &taken).await else {
            self.unheard().remove(&key);
            return self.board.hook_told(&taken).await;
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
            (HookTarget::Command(argv), _) => self.command(hook, argv, call).await,
            (HookTarget::Url(url), Some(requests)) => {
                let posted = requests.post_json(url, call.body.clone());
                let posted = tokio::time::timeout(hook.timeout.to_duration(), posted).await;
                posted.unwrap_or_else(|_| Err(format!("not within {}", hook.timeout)))
            }
            (HookTarget::Url(_), None) => Err("no request can be made".to_owned()),
        }
    }

    async fn command(
        &self,
        hook: &HookSettings,
        argv: &[String],
        call: &TaskHookRecord,
    ) -> Result<(), String> {
        let (Some(trees), [program, arguments @ ..]) = (&self.trees, argv) else {
            return Err("a command needs a program".to_owned());
        };
        // Whose folder is on another machine, or gone, is told from where we are.
        let folder = Path::new(&call.project_path);
        let command = TreeCommand {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            environment: self.environment.for_processes(),
            folder: folder.is_dir().then(|| folder.to_owned()),
            input: Some(call.body.clone().into_bytes()),
        };
        hook_command::tell(trees, &work_of(call), command, hook.timeout).await
    }
}

/// What an earlier try has left is ended before the next one begins.
fn work_of(call: &TaskHookRecord) -> TreeWork {
    TreeWork {
        name: format!("hook/{}/{}/{}", call.task_id, call.number, call.hook),
        attempt: u32::try_from(call.tries).unwrap_or(u32::MAX),
        epoch: 1,
    }
}
