//! Events and commands that arrive at a space: taken into the line, handled in their turn, given up.

use std::collections::BTreeSet;

use lope_cells::address::CellAddress;
use lope_cells::bounds::WriteRoom;
use lope_cells::nodes::HandledEvent;
use lope_cells::space::Committed;
use lope_cells::transaction::Post;
use lope_model::{Failure, Timestamp};

use super::command::SpaceCommand;
use super::events::{Arrival, EventOutcome, EventReceipt, Offered, StreamEvent};
use super::{Program, SpaceMachine, SpaceOutput, saw_everything, shortened, stream_at};

impl<P: Program> SpaceMachine<P> {
    pub(super) fn arrive(
        &mut self,
        now: Timestamp,
        arrival: Arrival,
        outputs: &mut Vec<SpaceOutput>,
    ) {
        match arrival {
            Arrival::Event(event) => self.offer(now, event, outputs),
            Arrival::Command(command) => self.ask(now, command, outputs),
        }
    }

    fn offer(&mut self, now: Timestamp, event: StreamEvent, outputs: &mut Vec<SpaceOutput>) {
        let event = StreamEvent {
            stream: stream_at(&self.spaces, &event.stream),
            ..event
        };
        match self.events.offer(now, Arrival::Event(event.clone())) {
            Offered::Queued | Offered::Known => {}
            Offered::Again => self.wave.revive(&event.id),
            Offered::Done(receipt) => self.repeat(receipt, outputs),
            Offered::Full => outputs.push(SpaceOutput::Refused(event)),
        }
    }

    fn ask(&mut self, now: Timestamp, command: SpaceCommand, outputs: &mut Vec<SpaceOutput>) {
        match self.events.offer(now, Arrival::Command(command)) {
            Offered::Queued | Offered::Again | Offered::Known | Offered::Full => {}
            Offered::Done(receipt) => self.repeat(receipt, outputs),
        }
    }

    /// Gives up events that nobody handled for too long.
    pub(super) fn bury(&mut self, now: Timestamp) {
        let nodes = &self.nodes;
        let is_handled = |stream: &CellAddress| nodes.handler_of(stream).is_some();
        while let Some(event) = self.events.take_expired(now, is_handled) {
            let receipt = EventReceipt {
                event: event.id.clone(),
                outcome: EventOutcome::NoHandler,
            };
            self.wave.dead_letters.push(event);
            self.wave.receipts.push(receipt.clone());
            self.events.remember(receipt);
        }
    }

    /// Events that came before their stream was there find it once somebody handles it, and once the
    /// cells that lead to it are changed, which is looked at when a wave ends.
    pub(super) fn readdress(&mut self, is_changed: bool) {
        if self.nodes.take_fresh_handlers() || is_changed {
            let (nodes, spaces) = (&self.nodes, &self.spaces);
            self.events.readdress(|stream| {
                let is_handled = nodes.handler_of(stream).is_some();
                (!is_handled).then(|| stream_at(spaces, stream))
            });
        }
    }

    /// Handles the next event or command; says whether there was one.
    pub(super) fn handle_arrival(
        &mut self,
        now: Timestamp,
        outputs: &mut Vec<SpaceOutput>,
    ) -> bool {
        self.readdress(false);
        let nodes = &self.nodes;
        let is_handled = |stream: &CellAddress| nodes.handler_of(stream).is_some();
        match self.events.take(is_handled) {
            Some(Arrival::Event(event)) => return self.handle_event(event, now, outputs),
            Some(Arrival::Command(command)) => self.obey(&command),
            None => return false,
        }
        true
    }

    /// Does what a command asks for.
    fn obey(&mut self, command: &SpaceCommand) {
        let result = self.obeyed(command);
        let result = match (result, command.action.failing_instead()) {
            // What came of an effect and cannot be kept is an error of its own.
            (Err(failure), Some(instead)) => {
                let id = command.id.clone();
                let action = instead(failure);
                self.obeyed(&SpaceCommand { id, action })
            }
            (result, _) => result,
        };
        self.settle(command.id.clone(), result);
    }

    fn obeyed(&mut self, command: &SpaceCommand) -> Result<Committed, Failure> {
        let mut transaction = self.spaces.begin();
        let result = self.program.command(command, &mut transaction);
        result.map_err(shortened)?;
        self.commit_bounded(transaction, WriteRoom::Usual)
    }

    /// Handles an event; says whether it could be handled. If not, it is the first again.
    fn handle_event(
        &mut self,
        event: StreamEvent,
        now: Timestamp,
        outputs: &mut Vec<SpaceOutput>,
    ) -> bool {
        let Some(handler) = self.nodes.handler_of(&event.stream) else {
            return true;
        };
        self.nodes.scheduler.begin_pass();
        while let Some(node) = self.nodes.scheduler.next_for(handler, now) {
            if !self.run(node, outputs) {
                self.events.put_back(now, event);
                return false;
            }
            // What ran may have decided that somebody else handles the stream, or nobody.
            if self.nodes.handler_of(&event.stream) != Some(handler) {
                self.events.put_back(now, event);
                return true;
            }
        }
        let mut transaction = self.spaces.begin_in(&self.space);
        let result = self.program.handle(handler, &event, &mut transaction);
        let result = saw_everything(&transaction).and(result);
        let reads = self.spaces.take_reads(&mut transaction);
        if self.elsewhere.is_missing(&self.space, &reads) {
            self.events.put_back(now, event);
            return false;
        }
        let nowhere = std::iter::empty();
        self.nodes.scheduler.finished(handler, reads, nowhere);
        self.ran.insert(handler, None);
        let writes = transaction.operations().iter().map(|write| &write.at);
        let writes = writes.chain(transaction.posts().iter().map(Post::at));
        let writes = writes.cloned().collect();
        let result = result.map_err(shortened);
        let cause = self.chains.of_event(&event.id);
        let result = result.and_then(|()| self.commit_of(handler, transaction, &cause));
        let failure = result.as_ref().err();
        let handled = HandledEvent {
            event: &event.id,
            writes: if failure.is_none() {
                writes
            } else {
                BTreeSet::new()
            },
            failure,
        };
        self.nodes.note_handled(handler, handled);
        self.settle(event.id, result);
        true
    }
}
