//! An effect as a node: what it asked for, what came of that, and why it is not done.

use lope_cells::address::CellAddress;
use lope_cells::error::WriteError;
use lope_cells::json::Json;
use lope_cells::transaction::Transaction;
use lope_cells::wording::error_text;
use lope_cells::write::replace;
use lope_model::Failure;

use super::node::{BoundNode, NodeWork, described};
use crate::binding::send;

impl BoundNode {
    /// Whether it waits for the effect whose request has this hash.
    pub(super) fn awaits(&self, hash: &str, transaction: &mut Transaction) -> bool {
        let known = transaction.get(&self.effect_notes());
        let part = |key: &str| known.as_ref().and_then(|known| known.child(key));
        let wanted = part("requestHash").and_then(Json::as_str);
        wanted == Some(hash) && part("pending") == Some(&Json::Bool(true))
    }

    /// Where it stands what an effect asked for and what came of that: in its output, or in the process
    /// cell if its outputs are not one cell.
    pub(super) fn effect_notes(&self) -> CellAddress {
        let notes = || self.process.key("effects").key(self.index.to_string());
        self.output.clone().unwrap_or_else(notes)
    }

    /// What kept an effect from beginning is over.
    pub(super) fn forget_early(&self, transaction: &mut Transaction) -> Result<(), WriteError> {
        transaction.remove(&self.effect_notes().key("error"))?;
        match self
            .outputs
            .child("error")
            .filter(|_| self.output.is_none())
        {
            Some(error) => send(transaction, error, &self.base, None),
            None => Ok(()),
        }
    }

    /// Puts the outcome of an effect that it waits for where it said. One that comes too early is a reason
    /// to wait.
    pub(super) fn record_effect(
        &self,
        hash: &str,
        outcome: &Result<Json, Failure>,
        is_early: bool,
        transaction: &mut Transaction,
    ) -> Result<(), WriteError> {
        let (key, value) = match outcome {
            Ok(result) => ("result", result.clone()),
            Err(failure) => ("error", described(failure)),
        };
        let done = Json::object([
            ("pending", Json::Bool(is_early)),
            ("requestHash", hash.into()),
            (key, value),
        ]);
        if self.output.is_none() {
            replace(transaction, &self.effect_notes(), &done)?;
        }
        self.send(transaction, Some(&done))
    }

    /// Whether it is an effect that was asked for and is not done: why it has to run then.
    pub(super) fn why_pending(&self, transaction: &mut Transaction) -> Option<String> {
        let NodeWork::Effect(_) = self.work else {
            return None;
        };
        let output = transaction.get(&self.effect_notes())?;
        let is_pending = output.child("pending") == Some(&Json::Bool(true));
        let error = output.child("error").map(error_text);
        let error = error.map_or_else(String::new, |error| format!(": {error}"));
        is_pending.then(|| format!("what it asked for is not done{error}"))
    }
}
