//! A space whose nodes are closures, for tests of the scheduler and the machine: like a sheet of
//! formulas over the document `sheet`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lope_cells::nodes::HandlerSpec;
use lope_cells::space::Committed;
use lope_model::{Failure, Span, Timestamp};
use lope_reactive::machine::{
    EventOutcome, Nodes, Program, SpaceInput, SpaceMachine, SpaceOutput, StreamEvent, Wave,
};
use lope_reactive::scheduler::{NodeKey, NodePlace, NodeReport, NodeRole, NodeSpec};
use lope_reactive::{CellAddress, Extent, Json, Spaces, Transaction};

use crate::fixture::{cell, space};

type Formula = Box<dyn FnMut(&mut Transaction) -> Result<(), Failure>>;
type Reaction = Box<dyn FnMut(&StreamEvent, &mut Transaction) -> Result<(), Failure>>;

#[derive(Default)]
pub(crate) struct Formulas {
    computing: BTreeMap<NodeKey, (CellAddress, Formula)>,
    reactions: BTreeMap<NodeKey, Reaction>,
    /// Every run, in order.
    pub(crate) ran: Vec<NodeKey>,
}

impl fmt::Debug for Formulas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Formulas").finish_non_exhaustive()
    }
}

impl Program for Formulas {
    fn run(&mut self, node: NodeKey, transaction: &mut Transaction) -> Result<(), Failure> {
        self.ran.push(node);
        self.computing.get_mut(&node).unwrap().1(transaction)
    }

    fn handle(
        &mut self,
        node: NodeKey,
        event: &StreamEvent,
        transaction: &mut Transaction,
    ) -> Result<(), Failure> {
        self.reactions.get_mut(&node).unwrap()(event, transaction)
    }

    fn failed(&mut self, node: NodeKey, failure: &Failure, transaction: &mut Transaction) {
        transaction.remove(&self.computing[&node].0).unwrap();
        let error = Json::from(failure.message.as_str());
        transaction.set(&cell("errors/last"), &error).unwrap();
    }

    fn committed(&mut self, _: &Committed, _: &Spaces, _: &mut Nodes) {}

    fn resumed(&mut self, _: &Spaces, _: &mut Nodes) {}
}

impl Formulas {
    /// Gives a node something to do: nothing.
    pub(crate) fn adopt(&mut self, node: NodeKey) {
        let formula: Formula = Box::new(|_| Ok(()));
        self.computing.insert(node, (cell("sheet/none"), formula));
    }
}

/// The machine with a clock and everything that came out.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) machine: SpaceMachine<Formulas>,
    pub(crate) now: Timestamp,
    pub(crate) outputs: Vec<SpaceOutput>,
    tickets: u64,
}

impl Sheet {
    pub(crate) fn new(value: impl Into<Json>) -> Self {
        let mut spaces = Spaces::default();
        let sheet = cell("sheet");
        spaces.load(&sheet.space, sheet.id, value.into());
        Self {
            machine: SpaceMachine::new(space("home"), spaces, Formulas::default()),
            now: Timestamp::from_millis(1_000_000),
            outputs: Vec::new(),
            tickets: 0,
        }
    }

    /// A node that writes `output` and probably reads `inputs`.
    pub(crate) fn node(
        &mut self,
        role: NodeRole,
        inputs: &[&str],
        output: &str,
        formula: impl FnMut(&mut Transaction) -> Result<(), Failure> + 'static,
    ) -> NodeKey {
        let output = cell(&format!("sheet/{output}"));
        let node = self.machine.nodes().add(NodeSpec {
            role,
            place: NodePlace::default(),
            parent: None,
            reads: inputs
                .iter()
                .map(|input| (cell(&format!("sheet/{input}")), Extent::Whole))
                .collect(),
            writes: BTreeSet::from([output.clone()]),
        });
        let formulas = &mut self.machine.program().computing;
        formulas.insert(node, (output, Box::new(formula)));
        node
    }

    /// A computation of `output` from the numbers in `inputs`; what is absent counts as 0.
    pub(crate) fn compute(
        &mut self,
        inputs: &[&str],
        output: &str,
        function: fn(&[i64]) -> i64,
    ) -> NodeKey {
        let names: Vec<String> = inputs
            .iter()
            .map(|input| format!("sheet/{input}"))
            .collect();
        let to = format!("sheet/{output}");
        self.node(NodeRole::Computation, inputs, output, move |transaction| {
            let read = |name: &String| number(transaction, name);
            let values: Vec<i64> = names.iter().map(read).collect();
            transaction
                .set(&cell(&to), &function(&values).into())
                .unwrap();
            Ok(())
        })
    }

    /// Something that wants `input`.
    pub(crate) fn observe(&mut self, input: &str) -> NodeKey {
        let from = format!("sheet/{input}");
        let output = format!("seen of {input}");
        let formula = move |transaction: &mut Transaction| {
            transaction.get(&cell(&from));
            Ok(())
        };
        self.node(NodeRole::Observer, &[input], &output, formula)
    }

    pub(crate) fn handler(
        &mut self,
        stream: &str,
        inputs: &[&str],
        reaction: impl FnMut(&StreamEvent, &mut Transaction) -> Result<(), Failure> + 'static,
    ) -> NodeKey {
        let reads = inputs.iter();
        let reads = reads.map(|input| (cell(&format!("sheet/{input}")), Extent::Whole));
        let stream = cell(&format!("sheet/{stream}"));
        let node = self.machine.nodes().add_handler(HandlerSpec {
            stream,
            reads: reads.collect(),
            place: NodePlace::default(),
        });
        let reactions = &mut self.machine.program().reactions;
        reactions.insert(node, Box::new(reaction));
        node
    }

    /// Gives the machine a turn; waves are saved at once.
    pub(crate) fn turn(&mut self, mut inputs: Vec<SpaceInput>) {
        loop {
            let from = self.outputs.len();
            self.machine
                .handle(self.now, &mut inputs, &mut self.outputs);
            inputs = self.outputs[from..].iter().filter_map(saved).collect();
            let due = self.machine.next_deadline(self.now) == Some(self.now);
            if inputs.is_empty() && !due {
                return;
            }
        }
    }

    /// Gives the machine a turn in which nothing is saved.
    pub(crate) fn turn_unsaved(&mut self, mut inputs: Vec<SpaceInput>) {
        self.machine
            .handle(self.now, &mut inputs, &mut self.outputs);
    }

    pub(crate) fn set(&mut self, at: &str, value: impl Into<Json>) {
        let edit = self.edit(at, value);
        self.turn(vec![edit]);
    }

    pub(crate) fn edit(&mut self, at: &str, value: impl Into<Json>) -> SpaceInput {
        let mut transaction = self.machine.spaces().begin();
        let at = cell(&format!("sheet/{at}"));
        transaction.set(&at, &value.into()).unwrap();
        self.tickets += 1;
        let ticket = self.tickets;
        SpaceInput::Edit {
            ticket,
            transaction,
        }
    }

    pub(crate) fn wait(&mut self, millis: u64) {
        self.now = self.now.plus(Span::from_millis(millis));
        self.turn(Vec::new());
    }

    pub(crate) fn get(&self, at: &str) -> Option<Json> {
        let mut transaction = self.machine.spaces().begin();
        transaction.get(&cell(&format!("sheet/{at}")))
    }

    pub(crate) fn int(&self, at: &str) -> Option<i64> {
        self.get(at).and_then(|value| value.as_int())
    }

    /// The runs since last asked.
    pub(crate) fn ran(&mut self) -> Vec<NodeKey> {
        std::mem::take(&mut self.machine.program().ran)
    }

    pub(crate) fn why(&mut self, node: NodeKey) -> NodeReport {
        self.machine.nodes().why(node).unwrap()
    }

    pub(crate) fn waves<'a>(&'a self) -> Vec<&'a Wave> {
        let wave = |output: &'a SpaceOutput| match output {
            SpaceOutput::Save(wave) => Some(wave),
            _ => None,
        };
        self.outputs.iter().filter_map(wave).collect()
    }

    /// What became of events, in order.
    pub(crate) fn receipts<'a>(&'a self) -> Vec<(&'a str, &'a EventOutcome)> {
        let receipt = |output: &'a SpaceOutput| match output {
            SpaceOutput::Receipt(receipt) => Some((&*receipt.event, &receipt.outcome)),
            _ => None,
        };
        self.outputs.iter().filter_map(receipt).collect()
    }
}

pub(crate) fn event(id: &str, stream: &str, payload: impl Into<Json>) -> SpaceInput {
    SpaceInput::from(StreamEvent {
        id: id.into(),
        stream: cell(&format!("sheet/{stream}")),
        payload: payload.into(),
    })
}

pub(crate) fn number(transaction: &mut Transaction, at: &str) -> i64 {
    let value = transaction.get(&cell(at));
    value.and_then(|value| value.as_int()).unwrap_or(0)
}

fn saved(output: &SpaceOutput) -> Option<SpaceInput> {
    match output {
        SpaceOutput::Save(wave) => Some(SpaceInput::Saved { wave: wave.number }),
        _ => None,
    }
}
