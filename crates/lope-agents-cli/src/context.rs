//! What a command works with: the store, the settings, where it was called. The binary fills it in.

use std::path::{Component, Path, PathBuf};

use lope::agents::records::ReviewBy;
use lope::agents::settings::{AgentsSettings, RunnerSettings};
use lope::agents::{
    AgentBoard, BoardError, InheritedEnvironment, RoundSettings, TaskToken, agent_masks,
};
use lope::stores::{CreateStore, StoreError, StoreUrl};
use lope::{Client, agents::records::ProjectRecord};
use lope_remote::caller;

use crate::report::{CommandError, CommandResult};

/// What a command works with.
#[derive(Clone, Debug)]
pub struct AgentsContext {
    pub store: StoreUrl,
    /// The file of the configuration names that store: whoever knows the home finds it there.
    pub is_configured: bool,
    /// The store, where it is open already: in a server that does a command for somebody.
    pub lent: Option<Client>,
    pub home: PathBuf,
    /// The folder in which the command was called.
    pub folder: PathBuf,
    /// The user's own folder, for paths that begin with `~`.
    pub user_folder: Option<PathBuf>,
    pub runners: RunnerSettings,
    pub agents: AgentsSettings,
    /// The claim that the caller speaks for, if it is an agent at work.
    pub token: Option<TaskToken>,
    /// The caller was started by a step, an agent or a hook, and what it starts ends with that.
    pub is_within_tree: bool,
    pub quiet: bool,
    pub json: bool,
    /// What agents inherit.
    pub environment: InheritedEnvironment,
    /// What other steps of the workflows of tasks work with.
    pub steps: RoundSettings,
    /// This program's file, and where it finds others: for what cron is told.
    pub program: PathBuf,
    pub path: String,
    /// Prints a line while a command goes on.
    pub print: fn(&str),
}

/// A board whose store is closed when it is left.
pub(crate) struct OpenBoard {
    pub(crate) client: Client,
    pub(crate) board: AgentBoard,
}

impl AgentsContext {
    /// The board, made if it is missing.
    pub(crate) async fn board(&self) -> CommandResult<OpenBoard> {
        if self.store == StoreUrl::Memory && self.lent.is_none() {
            let message = "memory: ends with this command, and with it what it changed";
            return Err(CommandError::usage(message)
                .hint("use a file, as in --store sqlite:lope.db, or a Postgres server"));
        }
        self.open(CreateStore::IfMissing).await
    }

    /// The board, if there is a store.
    pub(crate) async fn board_if_there(&self) -> CommandResult<Option<OpenBoard>> {
        match self.open(CreateStore::Never).await {
            Ok(open) => Ok(Some(open)),
            Err(CommandError::Store(StoreError::Missing { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The board in which something is looked for.
    pub(crate) async fn board_with(
        &self,
        what: &'static str,
        name: &str,
    ) -> CommandResult<OpenBoard> {
        let missing = || BoardError::Missing {
            what,
            name: name.to_owned(),
        };
        Ok(self.board_if_there().await?.ok_or_else(missing)?)
    }

    async fn open(&self, create: CreateStore) -> CommandResult<OpenBoard> {
        if caller::is_short() {
            return Err(CommandError::usage(
                "something of the caller's is asked for first",
            ));
        }
        let client = match &self.lent {
            Some(client) => client.clone(),
            None => Client::open_store(&self.store, create).await?,
        };
        let board = client.agents(&self.runners);
        Ok(OpenBoard { client, board })
    }

    /// Where the logs of attempts are.
    pub(crate) fn task_logs(&self) -> PathBuf {
        self.home.join("logs").join("tasks")
    }

    /// Where the logs of runners are.
    pub(crate) fn runner_logs(&self) -> PathBuf {
        self.home.join("runners").join("logs")
    }

    /// A path as it was typed, absolute and without detours.
    pub(crate) fn absolute(&self, typed: &str) -> PathBuf {
        let path = match (typed.strip_prefix("~/"), &self.user_folder) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.folder.join(typed),
        };
        std::fs::canonicalize(&path).unwrap_or_else(|_| plain(&path))
    }

    /// The project that is meant: by path or name, that of the agent that calls, which may work in a
    /// worktree elsewhere, or the one around the folder of the call.
    pub(crate) async fn project(
        &self,
        board: &AgentBoard,
        typed: Option<&str>,
    ) -> CommandResult<ProjectRecord> {
        let Some(typed) = typed else {
            return match self.own_project(board).await? {
                Some(own) => Ok(own),
                None => self.project_around(board).await,
            };
        };
        let path = self.absolute(typed).to_string_lossy().into_owned();
        match board.project(&path).await {
            Err(BoardError::Missing { .. }) => Ok(board.project(typed).await?),
            found => Ok(found?),
        }
    }

    /// The project of the agent that calls, if this is its store.
    async fn own_project(&self, board: &AgentBoard) -> CommandResult<Option<ProjectRecord>> {
        let Some(token) = &self.token else {
            return Ok(None);
        };
        match board.task(&token.task.to_string()).await {
            Ok(task) => Ok(Some(board.project(&task.project_path).await?)),
            Err(BoardError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn project_around(&self, board: &AgentBoard) -> CommandResult<ProjectRecord> {
        let here = std::fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let projects = board.projects().await?;
        let around = projects
            .into_iter()
            .filter(|project| here.starts_with(&project.path));
        around
            .max_by_key(|project| project.path.len())
            .ok_or_else(|| {
                CommandError::from(BoardError::Missing {
                    what: "project",
                    name: here.display().to_string(),
                })
            })
    }

    /// Who reviews a task that does not say it.
    pub(crate) const fn review(&self) -> ReviewBy {
        self.runners.review
    }

    /// The URL of the store for those who only know the home: nothing if they find it there. A
    /// password is never among it.
    pub(crate) fn store_to_pass_on(&self) -> Option<String> {
        match &self.store {
            StoreUrl::Sqlite(path) => {
                let path = self.folder.join(path);
                let is_usual = path == self.folder.join(&self.home).join("lope.db");
                (!is_usual).then(|| format!("sqlite:{}", path.display()))
            }
            url @ StoreUrl::Postgres(_) => (!self.is_configured).then(|| url.to_string()),
            StoreUrl::Memory => None,
        }
    }

    /// Does passing the store on lose its password?
    pub(crate) fn is_password_lost(&self) -> bool {
        match &self.store {
            StoreUrl::Postgres(url) => !self.is_configured && self.store.to_string() != *url,
            StoreUrl::Sqlite(_) | StoreUrl::Memory => false,
        }
    }

    /// Words as they may be written: an agent's without its secrets.
    pub(crate) fn masked(&self, words: String) -> String {
        match &self.token {
            None => words,
            Some(_) => agent_masks::masks_of_any(&self.environment, &self.agents).hide(&words),
        }
    }

    /// Refused where a runner that is started would end with its caller, at once and at work.
    pub(crate) fn may_leave_runners(&self) -> CommandResult<()> {
        if !self.is_within_tree {
            return Ok(());
        }
        let message =
            "a runner that is started here would end with the step or hook that calls this";
        Err(CommandError::refused(message).hint(
            "'lope runners start --foreground --until-idle' works here and now; cron starts one that goes on",
        ))
    }

    /// Refused to an agent at work: that is for people.
    pub(crate) fn for_people(&self) -> CommandResult<()> {
        match &self.token {
            None => Ok(()),
            Some(token) => Err(CommandError::refused(format!(
                "an agent at work on task {} may not do this",
                token.task
            ))
            .hint("'lope tasks ask' asks a person")),
        }
    }
}

/// Without `.` and `..`, for a path that does not exist.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}
