//! Modules by name: functions and factories in Rust, and documents that a `ref` may mean.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use lope_model::Failure;

use crate::recipe::{BadRecipe, FunctionCode, FunctionModule, NodeModule};
use lope_cells::address::CellAddress;
use lope_cells::json::Json;
use lope_cells::link::Link;
use lope_cells::project::Projected;
use lope_cells::transaction::{EffectRequest, Transaction};

/// A function in Rust: its argument as its schema asked for it, and the transaction for cells in
/// it. No value means undefined.
pub type NativeFunction =
    dyn Fn(&Projected, &mut Transaction) -> Result<Option<Json>, Failure> + Send + Sync;

/// A function in Rust that sees its inputs as cells and may start recipes.
pub type RawFunction = dyn Fn(&mut RawCall<'_>) -> Result<Option<Json>, Failure> + Send + Sync;

/// A child that a node wants to have.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildRequest {
    /// What the node calls it: the same key keeps the same child.
    pub key: Json,
    pub recipe: Json,
    pub argument: Json,
}

/// Starts a child of a node, and gives its result cell.
pub(crate) type StartChild<'a> =
    dyn FnMut(&mut Transaction, ChildRequest) -> Result<CellAddress, Failure> + 'a;

/// One call of a raw module.
pub struct RawCall<'a> {
    /// The inputs, with links for cells.
    pub inputs: &'a Json,
    /// Where the links stand.
    pub base: &'a CellAddress,
    pub transaction: &'a mut Transaction,
    /// Where the result goes, with links for cells.
    pub outputs: &'a Json,
    /// What names this node among all nodes of the space.
    pub node: &'a str,
    /// Where an effect notes what it asked for, if its outputs are not one cell.
    pub(crate) notes: &'a CellAddress,
    pub(crate) start: &'a mut StartChild<'a>,
    /// Effects that were asked for and are under way.
    pub(crate) requested: &'a BTreeSet<Arc<str>>,
}

impl RawCall<'_> {
    /// The binding of an input, also if the inputs are one cell that holds all of them.
    pub fn input(&self, name: &str) -> Option<Json> {
        match Link::from_json(self.inputs) {
            Some(link) => {
                let path = link.path.join(name);
                Some(Link { path, ..link }.to_json())
            }
            None => self.inputs.child(name).cloned(),
        }
    }

    /// Runs a recipe as a child of this node and gives its result cell. A child that a later call
    /// does not ask for is stopped.
    pub fn run(&mut self, request: ChildRequest) -> Result<CellAddress, Failure> {
        (self.start)(self.transaction, request)
    }

    /// Asks for an effect once what this call writes is saved, unless it is under way.
    pub fn request(&mut self, effect: EffectRequest) {
        if !self.requested.contains(&effect.key) {
            self.transaction.after_commit(effect);
        }
    }
}

impl fmt::Debug for RawCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = &mut f.debug_struct("RawCall");
        call.field("inputs", self.inputs).finish_non_exhaustive()
    }
}

/// The modules that recipes of a space may name.
#[derive(Clone, Default)]
pub struct Modules {
    natives: BTreeMap<Arc<str>, Arc<NativeFunction>>,
    raws: BTreeMap<Arc<str>, Arc<RawFunction>>,
    documents: BTreeMap<Arc<str>, NodeModule>,
    /// Raw modules that run though nobody looks at what they write.
    effects: BTreeSet<Arc<str>>,
}

impl Modules {
    /// A function of plain values.
    pub fn function(
        &mut self,
        name: &str,
        function: impl Fn(&Json) -> Result<Option<Json>, Failure> + Send + Sync + 'static,
    ) {
        let name: Arc<str> = name.into();
        let with_base = move |argument: &Projected, _: &mut Transaction| match argument {
            Projected::Plain(argument) => function(argument),
            _ => Err(Failure::new("TypeError", "the function takes no cells")),
        };
        self.natives.insert(name, Arc::new(with_base));
    }

    /// A function that may be given cells.
    pub fn native(
        &mut self,
        name: &str,
        function: impl Fn(&Projected, &mut Transaction) -> Result<Option<Json>, Failure>
        + Send
        + Sync
        + 'static,
    ) {
        self.natives.insert(name.into(), Arc::new(function));
    }

    pub fn raw(
        &mut self,
        name: &str,
        function: impl Fn(&mut RawCall<'_>) -> Result<Option<Json>, Failure> + Send + Sync + 'static,
    ) {
        self.raws.insert(name.into(), Arc::new(function));
    }

    /// A raw module that runs though nobody looks at what it writes.
    pub fn effect(
        &mut self,
        name: &str,
        function: impl Fn(&mut RawCall<'_>) -> Result<Option<Json>, Failure> + Send + Sync + 'static,
    ) {
        self.raw(name, function);
        self.effects.insert(name.into());
    }

    /// What `ref` nodes of this name mean.
    pub fn document(&mut self, name: &str, module: &Json) -> Result<(), BadRecipe> {
        self.documents
            .insert(name.into(), NodeModule::parse(module)?);
        Ok(())
    }

    /// Adds all of `others`; theirs count where both know a name.
    pub(crate) fn extend(&mut self, others: Self) {
        self.natives.extend(others.natives);
        self.raws.extend(others.raws);
        self.documents.extend(others.documents);
        self.effects.extend(others.effects);
    }

    /// What a `ref` means: a document, or else the function or factory of that name. A reference to
    /// a reference is followed once.
    pub fn resolve(&self, name: &str) -> Option<NodeModule> {
        match self.documents.get(name) {
            Some(NodeModule::Ref(other)) => self.named(other),
            Some(module) => Some(module.clone()),
            None => self.named(name),
        }
    }

    pub(crate) fn find_native(&self, name: &str) -> Option<Arc<NativeFunction>> {
        self.natives.get(name).cloned()
    }

    pub(crate) fn is_effect(&self, name: &str) -> bool {
        self.effects.contains(name)
    }

    pub(crate) fn find_raw(&self, name: &str) -> Option<Arc<RawFunction>> {
        self.raws.get(name).cloned()
    }

    fn named(&self, name: &str) -> Option<NodeModule> {
        if self.raws.contains_key(name) {
            return Some(NodeModule::Raw(name.into()));
        }
        self.natives.contains_key(name).then(|| {
            NodeModule::Function(FunctionModule {
                code: FunctionCode::Native(name.into()),
                argument_schema: None,
                is_handler: false,
            })
        })
    }
}

impl fmt::Debug for Modules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.natives.keys().chain(self.raws.keys());
        f.debug_set()
            .entries(names.chain(self.documents.keys()))
            .finish()
    }
}
