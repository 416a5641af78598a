//! What hooks are to be told. It is written together with the change of a task's status, so that it is
//! told whoever made the change and whoever dies; whoever tells it takes it first, for a while.

use std::collections::BTreeSet;

use lope_model::{Span, Timestamp, limit};
use lope_store::StoreResult;
use lope_store::board::{BoardChange, BoardSelect, TASK_HOOKS};
use serde_json::{Value as Json, json};

use super::{AgentBoard, BoardResult, taken};
use crate::describe;
use crate::records::{BoardRecord, TaskHookRecord, TaskRecord};
use crate::settings::HookSettings;

/// The pause before a hook is told again; it doubles.
const PAUSE: Span = Span::from_secs(1);
/// How much longer than it may take a hook stays with whoever tells it.
const HOLD_MARGIN: Span = Span::from_secs(30);
/// Nothing is due later than this: a clock that says so was set back.
const AHEAD_MAX: Span = Span::from_secs(20 * 60);
/// How many of one hook are looked at together.
const LOOK_MAX: usize = 1_000;
/// So many that are due are enough for one look at a hook that has more.
const DUE_ENOUGH: usize = 64;
/// How many digits of a task's id tell parts of a look from others.
const DIGITS_MAX: usize = 8;
/// Texts of a task that are told whole or, if all are too long together, up to so many bytes.
const TEXTS: [&str; 7] = [
    "description",
    "result",
    "reason",
    "question",
    "answer",
    "section",
    "sourceFile",
];
const TEXT_MAX: usize = limit::BOARD_TEXT_MAX / 64;

/// What hooks of the configuration are to be told.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HooksToTell {
    pub due: Vec<TaskHookRecord>,
    /// How long until the next of the others is due.
    pub next: Option<Span>,
}

/// What becomes of a hook that was not heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookAgain {
    After(Span),
    GivenUp,
}

impl AgentBoard {
    /// These hooks are told what becomes of tasks.
    #[must_use]
    pub fn with_hooks(mut self, hooks: &[HookSettings]) -> Self {
        self.hooks = hooks.into();
        self
    }

    pub fn hooks(&self) -> &[HookSettings] {
        &self.hooks
    }

    /// A task as it is now, and what is to be told of that.
    pub(super) fn moved(&self, before: &TaskRecord, after: TaskRecord) -> Vec<BoardChange> {
        let mut changes = vec![after.clone().updated()];
        if before.status == after.status {
            return changes;
        }
        let wanted = self.hooks.iter();
        let wanted = wanted.filter(|hook| hook.on.contains(&after.status));
        let mut ids: Vec<String> = wanted.map(HookSettings::id).collect();
        ids.sort();
        ids.dedup();
        changes.extend(ids.into_iter().map(|hook| call(&after, hook).inserted()));
        changes
    }

    /// What the hooks of the configuration are to be told, but for what is passed over. No hook's calls
    /// hide those of another, and none that wait hide what is due.
    pub async fn hooks_to_tell(
        &self,
        is_passed_over: impl Fn(&TaskHookRecord) -> bool,
    ) -> BoardResult<HooksToTell> {
        let mut found = HooksToTell::default();
        let own: BTreeSet<String> = self.hooks.iter().map(HookSettings::id).collect();
        let mut parts: Vec<HookPart> = own.into_iter().map(HookPart::whole).collect();
        while !parts.is_empty() {
            let some = parts.split_off(parts.len().saturating_sub(limit::BOARD_SELECTS_MAX));
            let (now, looked) = self.hook_calls(&some).await?;
            for (part, mut calls) in some.into_iter().zip(looked) {
                let is_full = calls.len() == LOOK_MAX;
                calls.retain(|call| !is_passed_over(call));
                let (due, later): (Vec<_>, Vec<_>) =
                    calls.into_iter().partition(|call| self.is_due(call, now));
                if is_full && due.len() < DUE_ENOUGH && part.beginning.len() < DIGITS_MAX {
                    parts.extend(part.smaller());
                    continue;
                }
                found.due.extend(due);
                let later = later.iter().map(|call| call.due_at.since(now));
                found.next = found.next.into_iter().chain(later).min();
            }
        }
        Ok(found)
    }

    async fn hook_calls(
        &self,
        parts: &[HookPart],
    ) -> BoardResult<(Timestamp, Vec<Vec<TaskHookRecord>>)> {
        let selects = parts.iter().map(HookPart::select).collect();
        let mut read = self.board.read(selects).await?;
        let now = read.clock.now;
        let calls: StoreResult<Vec<Vec<TaskHookRecord>>> = (0..parts.len())
            .map(|place| taken(&mut read, place))
            .collect();
        Ok((now, calls?))
    }

    fn is_due(&self, call: &TaskHookRecord, now: Timestamp) -> bool {
        let hold = self.hook(call).map_or(Span::ZERO, held_for);
        call.due_at <= now || call.due_at > now.plus(hold.max(AHEAD_MAX))
    }

    /// The hook that is to be told.
    pub fn hook(&self, call: &TaskHookRecord) -> Option<&HookSettings> {
        self.hooks.iter().find(|hook| hook.id() == call.hook)
    }

    /// Take what is to be told; nothing: somebody else was faster.
    pub async fn take_hook(&self, call: &TaskHookRecord) -> BoardResult<Option<TaskHookRecord>> {
        let hold = self.hook(call).map_or(HOLD_MARGIN, held_for);
        let mut taken = call.clone();
        taken.tries += 1;
        taken.due_at = self.now().await?.plus(hold);
        let is_ours = self.commit(vec![taken.clone().updated()]).await?;
        taken.revision += 1;
        Ok(is_ours.then_some(taken))
    }

    /// It was told.
    pub async fn hook_told(&self, taken: &TaskHookRecord) -> BoardResult<()> {
        self.commit(vec![taken.deleted()]).await?;
        Ok(())
    }

    /// It was not heard: it is told again later, or given up.
    pub async fn hook_unheard(&self, taken: &TaskHookRecord) -> BoardResult<HookAgain> {
        let retries = self.hook(taken).map_or(0, |hook| i64::from(hook.retries));
        if taken.tries > retries {
            self.hook_told(taken).await?;
            return Ok(HookAgain::GivenUp);
        }
        let doubled = u32::try_from(taken.tries - 1).unwrap_or_default().min(10);
        let pause = PAUSE.times(1 << doubled);
        let mut later = taken.clone();
        later.due_at = self.now().await?.plus(pause);
        self.commit(vec![later.updated()]).await?;
        Ok(HookAgain::After(pause))
    }

    /// Forget what nobody told since this time: its hook is in no configuration any more. What hooks of
    /// this one are to be told is told or given up, however old it is.
    pub async fn forget_hooks(&self, before: Timestamp) -> BoardResult<()> {
        let own: BTreeSet<String> = self.hooks.iter().map(HookSettings::id).collect();
        let mut old: Vec<TaskHookRecord> = self.rows(BoardSelect::all(TASK_HOOKS)).await?;
        old.retain(|call| call.made_at < before && !own.contains(&call.hook));
        self.forget(&old).await?;
        Ok(())
    }
}

/// Calls of a hook that are looked at together: those of tasks whose ids begin so.
struct HookPart {
    hook: String,
    beginning: String,
}

impl HookPart {
    fn whole(hook: String) -> Self {
        Self {
            hook,
            beginning: String::new(),
        }
    }

    /// The same in parts that hold less each.
    fn smaller(&self) -> impl Iterator<Item = Self> {
        (0..16).map(|digit| Self {
            hook: self.hook.clone(),
            beginning: format!("{}{digit:x}", self.beginning),
        })
    }

    fn select(&self) -> BoardSelect {
        let mut select = BoardSelect::all(TASK_HOOKS).among("hook", [&self.hook]);
        if !self.beginning.is_empty() {
            select = select.prefix("task_id", &self.beginning);
        }
        select.limit = LOOK_MAX;
        select
    }
}

fn held_for(hook: &HookSettings) -> Span {
    hook.timeout + HOLD_MARGIN
}

fn call(task: &TaskRecord, hook: String) -> TaskHookRecord {
    TaskHookRecord {
        task_id: task.id,
        number: task.revision + 1,
        hook,
        revision: 0,
        project_path: task.project_path.clone(),
        body: body(task),
        made_at: task.updated_at,
        tries: 0,
        due_at: task.updated_at,
    }
}

/// What is told of a task, as it stands now.
fn body(task: &TaskRecord) -> String {
    let event = format!("task.{}", task.status);
    let mut body = json!({ "event": event, "task": describe::task(task) });
    let text = body.to_string();
    if text.len() <= limit::BOARD_TEXT_MAX {
        return text;
    }
    for key in TEXTS {
        if let Some(Json::String(text)) = body["task"].get_mut(key) {
            let mut end = text.len().min(TEXT_MAX);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
    }
    let text = body.to_string();
    if text.len() <= limit::BOARD_TEXT_MAX {
        return text;
    }
    let known = json!({ "id": task.id.to_string(), "status": task.status.as_str() });
    json!({ "event": event, "task": known }).to_string()
}
