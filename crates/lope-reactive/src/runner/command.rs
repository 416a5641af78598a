//! What a space of recipes does when it is asked from outside.

use std::sync::Arc;

use lope_cells::address::CellAddress;
use lope_cells::error::CommitRefusal;
use lope_cells::id::{EntityId, SpaceName};
use lope_cells::json::Json;
use lope_cells::read::Reads;
use lope_cells::transaction::Transaction;
use lope_cells::write::replace;
use lope_model::Failure;

use super::{RecipeError, RecipeOptions, RecipeRun, RecipeRunner};
use crate::machine::SpaceAction;
use crate::recipe::Recipe;

impl RecipeRunner {
    pub(super) fn act(
        &mut self,
        action: &SpaceAction,
        transaction: &mut Transaction,
    ) -> Result<(), Failure> {
        match action {
            SpaceAction::Set { at, value } => match value {
                Some(value) => transaction.set(at, value).map_err(not_written),
                None => transaction.remove(at).map_err(not_written),
            },
            SpaceAction::Append { at, elements } => {
                transaction.append(at, elements).map_err(not_written)
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
                let asked = RecipeRun {
                    result,
                    recipe: recipe.as_ref(),
                    argument: argument.as_ref(),
                    options: RecipeOptions { strict: *strict },
                };
                self.run(transaction, asked)?;
                Ok(())
            }
            SpaceAction::Stop { result } => Ok(self.stop(transaction, result)?),
            SpaceAction::EffectDone { key, outcome } => {
                Ok(self.record_effect(key, outcome, transaction)?)
            }
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
