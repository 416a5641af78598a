//! What a space of recipes does when it is asked from outside.

use std::sync::Arc;

use lope_cells::address::CellAddress;
use lope_cells::error::{CommitRefusal, WriteError};
use lope_cells::id::{EntityId, SpaceName};
use lope_cells::json::Json;
use lope_cells::link::mistaken_link;
use lope_cells::project::is_stream;
use lope_cells::read::Reads;
use lope_cells::transaction::Transaction;
use lope_cells::write::{Writes, replace};
use lope_model::Failure;

use super::setup::recorded;
use super::{RecipeError, RecipeOptions, RecipeRun, RecipeRunner};
use crate::machine::SpaceAction;
use crate::process::{entry, process_of, running_set};
use crate::recipe::Recipe;

impl RecipeRunner {
    pub(super) fn act(
        &mut self,
        action: &SpaceAction,
        transaction: &mut Transaction,
    ) -> Result<(), Failure> {
        if let SpaceAction::Set { at, .. }
        | SpaceAction::Remove { at }
        | SpaceAction::Append { at, .. }
        | SpaceAction::AddUnique { at, .. }
        | SpaceAction::RemoveValue { at, .. }
        | SpaceAction::Increment { at, .. }
        | SpaceAction::Run { result: at, .. } = action
        {
            self.validate_state(at)?;
        }
        validate_links(action)?;
        match action {
            SpaceAction::Set { at, value } => set(transaction, at, value.as_ref()),
            SpaceAction::Remove { at } => remove(transaction, at, Transaction::take_out),
            SpaceAction::Append { at, elements } => {
                transaction.append(at, elements).map_err(not_written)
            }
            SpaceAction::AddUnique { at, elements } => elements
                .iter()
                .try_for_each(|element| transaction.add_unique(at, element))
                .map_err(not_written),
            SpaceAction::RemoveValue { at, element } => {
                transaction.remove_value(at, element).map_err(not_written)
            }
            SpaceAction::Increment { at, by } => {
                let by = by.as_number();
                let by = by.ok_or_else(|| Failure::new("TypeError", "no number to add"))?;
                transaction.increment(at, by).map_err(not_written)
            }
            SpaceAction::Run {
                result,
                recipe,
                argument,
                strict,
            } => {
                let recipe = recipe.as_ref().map(Recipe::parse).transpose();
                let recipe = recipe.map_err(RecipeError::from)?;
                if recipe.is_none() && recorded(transaction, result)?.is_none() {
                    return Err(nothing_runs());
                }
                let asked = RecipeRun {
                    result,
                    recipe: recipe.as_ref(),
                    argument: argument.as_ref(),
                    options: RecipeOptions { strict: *strict },
                };
                self.run(transaction, asked)?;
                Ok(())
            }
            SpaceAction::Stop { result } => {
                if !is_running(transaction, result) {
                    return Err(nothing_runs());
                }
                Ok(self.stop(transaction, result)?)
            }
            SpaceAction::EffectDone { key, outcome } => {
                Ok(self.record_effect(key, outcome, transaction)?)
            }
            SpaceAction::EffectAgain { key, request } => {
                Ok(self.repeat_effect(key, request, transaction)?)
            }
            SpaceAction::Answered(answer) => Ok(self.record_answer(answer, transaction)?),
            SpaceAction::Name { at, name } => {
                let names = names_of(&at.space).key(at.id.as_str());
                replace(transaction, &names, &Json::from(name.as_str())).map_err(not_written)
            }
            SpaceAction::All(actions) => actions
                .iter()
                .try_for_each(|action| self.act(action, transaction)),
        }
    }
}

impl RecipeRunner {
    /// Of the state of what runs, people change the argument and what is internal.
    fn validate_state(&self, at: &CellAddress) -> Result<(), Failure> {
        let first = at.path.keys().first().map(|key| &**key);
        let is_open = matches!(first, Some("argument" | "internal"));
        if is_open || !self.active.contains_key(&at.id) {
            return Ok(());
        }
        let message = format!(
            "{at} is the state of a recipe that runs: its 'argument' and what is 'internal' may be \
             changed"
        );
        Err(Failure::new("State", message))
    }
}

/// Refuses what is meant as a link and would be kept as something else.
fn validate_links(action: &SpaceAction) -> Result<(), Failure> {
    let values = match action {
        SpaceAction::Set { value, .. } => value.as_slice(),
        SpaceAction::Run { argument, .. } => argument.as_slice(),
        SpaceAction::Append { elements, .. } | SpaceAction::AddUnique { elements, .. } => elements,
        _ => &[],
    };
    let mistake = values.iter().find_map(mistaken_link);
    mistake.map_or(Ok(()), |mistake| Err(Failure::new("Write", mistake)))
}

/// Takes away what a cell holds; of links that lead in a circle, the link itself.
fn remove(
    transaction: &mut Transaction,
    at: &CellAddress,
    how: impl Fn(&mut Transaction, &CellAddress) -> Result<(), WriteError>,
) -> Result<(), Failure> {
    match how(transaction, at) {
        Err(WriteError::TooManyHops(_)) => transaction.put(at, None).map_err(not_written),
        removed => removed.map_err(not_written),
    }
}

/// Puts a value into a cell, or takes away what it holds. A stream holds no value of its own.
fn set(
    transaction: &mut Transaction,
    at: &CellAddress,
    value: Option<&Json>,
) -> Result<(), Failure> {
    let Some(value) = value else {
        return remove(transaction, at, Transaction::remove);
    };
    let found = transaction.quietly(|transaction| transaction.get(at));
    if found.as_ref().is_some_and(is_stream) && !is_stream(value) {
        let message =
            format!("{at} is a stream: events are sent to it, as with 'lope streams send'");
        return Err(Failure::new("Stream", message));
    }
    transaction.set(at, value).map_err(not_written)
}

/// The kind of failure of a command for something that is not there.
pub const NOTHING_RUNS: &str = "NothingRuns";

fn nothing_runs() -> Failure {
    Failure::new(NOTHING_RUNS, "nothing runs there")
}

fn is_running(transaction: &Transaction, result: &CellAddress) -> bool {
    let set = running_set(&result.space);
    let set = transaction.document(&set.space, &set.id);
    entry(set.as_ref(), &process_of(transaction, result).id).is_some()
}

/// The document that says which documents people gave names to.
pub fn names_of(space: &SpaceName) -> CellAddress {
    let id = EntityId::of_cause(&Json::object([("names", Json::Bool(true))]));
    CellAddress::document(space.clone(), id)
}

/// The name of a document, if somebody gave it one.
pub fn name_of(reads: &dyn Reads, at: &CellAddress) -> Option<Arc<str>> {
    let names = names_of(&at.space);
    let names = reads.document(&names.space, &names.id)?;
    names.child(at.id.as_str())?.as_str().map(Arc::from)
}

fn not_written(error: impl Into<CommitRefusal>) -> Failure {
    Failure::new("Write", error.into().to_string())
}
