//! What the nodes of a space do, as the machine sees it.

use std::sync::Arc;

use lope_model::Failure;

use super::command::SpaceCommand;
use super::events::StreamEvent;
use crate::scheduler::NodeKey;
use lope_cells::nodes::Nodes;
use lope_cells::space::{Committed, Spaces};
use lope_cells::transaction::Transaction;

/// The functions behind the nodes of one space. They look at the transaction and at nothing else:
/// the same cells give the same writes.
pub trait Program {
    /// Computes what `node` writes.
    fn run(&mut self, node: NodeKey, transaction: &mut Transaction) -> Result<(), Failure>;

    /// Handles an event.
    fn handle(
        &mut self,
        node: NodeKey,
        event: &StreamEvent,
        transaction: &mut Transaction,
    ) -> Result<(), Failure>;

    /// Does what it was asked for from outside.
    fn command(
        &mut self,
        _command: &SpaceCommand,
        _transaction: &mut Transaction,
    ) -> Result<(), Failure> {
        Err(Failure::new("Unknown", "this space takes no commands"))
    }

    /// Whether something that was asked for is under way elsewhere.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Writes what stands for the output of a computation that failed; its own writes are gone.
    fn failed(&mut self, node: NodeKey, failure: &Failure, transaction: &mut Transaction);

    /// A failure as people are told of it: what it names is named as they do.
    fn worded(&self, failure: Failure, _spaces: &Spaces) -> Failure {
        failure
    }

    /// What people call the node of this name, all spaces considered.
    fn title(&self, name: &Arc<str>, _spaces: &Spaces) -> Arc<str> {
        Arc::clone(name)
    }

    /// Something was committed: nodes may be added and removed now.
    fn committed(&mut self, committed: &Committed, spaces: &Spaces, nodes: &mut Nodes);

    /// The space was taken up as it stands: nodes of what runs in it may be added now.
    fn resumed(&mut self, spaces: &Spaces, nodes: &mut Nodes);
}
