//! Flows: workflows written in Rust. A builder takes closures; what it makes is the same definition
//! that a YAML file makes, and the closures are functions that its actions name.
//!
//! A flow can be given to a [`Runner`](crate::Runner), or advanced by hand. Nothing here runs
//! anything.

mod builder;
mod by_hand;
mod lower;
mod policy;
mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lope_definition::{Definition, Rule, StepKind};
use lope_flow::law::Plan;
use lope_model::{Realm, VersionId};
use lope_workers::function::BoxedFunction;

use crate::error::{Error, Result};

pub use builder::FlowBuilder;
pub use by_hand::ByHand;
pub use policy::{Facts, Match, PolicyRule, policy};
pub use work::{BAD_VALUE, Work};

/// A workflow with the functions that do its work. Cheap to clone.
#[derive(Clone)]
pub struct Flow(Arc<FlowParts>);

struct FlowParts {
    plan: Arc<Plan>,
    functions: BTreeMap<String, BoxedFunction>,
    /// Flows that it starts as children.
    children: Vec<Flow>,
    realm: Realm,
}

impl Flow {
    /// Begin a flow of this name.
    pub fn builder(name: &str) -> FlowBuilder {
        FlowBuilder::new(name)
    }

    /// A flow of a definition that came from elsewhere (a YAML file, Python), with functions for
    /// the actions it names.
    pub fn from_definition(
        definition: &Definition,
        functions: BTreeMap<String, BoxedFunction>,
    ) -> Result<Self> {
        Self::make(definition, functions, Vec::new(), "1")
    }

    fn make(
        definition: &Definition,
        functions: BTreeMap<String, BoxedFunction>,
        children: Vec<Flow>,
        version: &str,
    ) -> Result<Self> {
        let plan = Plan::new(definition);
        let plan = plan.map_err(|problems| Error::BadFlow {
            flow: definition.name.to_string(),
            problems,
        })?;
        let realm = Realm::parse(&format!("rust/{}@{version}", plan.name()));
        let realm = realm.map_err(|error| Error::BadOption {
            option: "name",
            message: error.to_string(),
        })?;
        Ok(Self(Arc::new(FlowParts {
            plan: Arc::new(plan),
            functions,
            children,
            realm,
        })))
    }

    pub fn name(&self) -> &str {
        self.0.plan.name()
    }

    /// The digest of the definition: the same steps and policies, the same version.
    pub fn version(&self) -> VersionId {
        self.0.plan.version()
    }

    /// The definition, as a YAML file would make it.
    pub fn definition(&self) -> &Definition {
        self.0.plan.definition()
    }

    /// Advance it by hand: no runner, no store, no telemetry.
    pub fn by_hand(&self) -> ByHand {
        ByHand::new(self.clone())
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.0.plan
    }

    pub(crate) fn realm(&self) -> &Realm {
        &self.0.realm
    }

    pub(crate) fn children(&self) -> &[Flow] {
        &self.0.children
    }

    /// Its functions and those of its children, by the name of the action.
    pub(crate) fn functions(&self) -> BTreeMap<String, BoxedFunction> {
        let mut all: BTreeMap<String, BoxedFunction> =
            self.0.children.iter().flat_map(Flow::functions).collect();
        all.extend(
            self.0
                .functions
                .iter()
                .map(|(name, function)| (name.clone(), Arc::clone(function))),
        );
        all
    }

    /// The function of an action, its children's included.
    fn function(&self, action: &str) -> Option<BoxedFunction> {
        let own = self.0.functions.get(action).map(Arc::clone);
        own.or_else(|| {
            self.0
                .children
                .iter()
                .find_map(|child| child.function(action))
        })
    }

    /// The plan of this flow with other options. It is another version: a run that starts on it
    /// stays on it.
    pub(crate) fn variant(&self, change: impl FnOnce(&mut Definition)) -> Result<Arc<Plan>> {
        let mut definition = self.definition().clone();
        change(&mut definition);
        let plan = Plan::new(&definition);
        plan.map(Arc::new).map_err(|problems| Error::BadFlow {
            flow: self.name().to_owned(),
            problems,
        })
    }

    /// Rules as the law takes them: predicates are asked now.
    pub(crate) fn rules(&self, rules: &[PolicyRule]) -> Result<Vec<Rule>> {
        rules
            .iter()
            .map(|rule| rule.resolve(self.definition(), None))
            .collect()
    }
}

/// The actions that a definition names and that functions must do.
pub(crate) fn actions(definition: &Definition) -> Vec<Arc<str>> {
    let steps = definition.blocks.iter().flat_map(|block| &block.steps);
    let named = steps.filter_map(|step| match &step.kind {
        StepKind::Dispatch(dispatch)
            if &*dispatch.executor == lope_definition::executor::ACTION =>
        {
            Some(Arc::clone(&dispatch.action))
        }
        StepKind::State { action, .. } => action.as_ref().map(Arc::clone),
        _ => None,
    });
    named.collect()
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flow({} {})", self.name(), self.version())
    }
}
