//! Walks over definitions: the blocks a step holds, the expressions it has, and where each block
//! stands.

use std::sync::Arc;

use lope_expr::Expr;
use lope_model::policy::Fallback;

use super::{BlockId, Definition, Step, StepKind, StepPolicy};

/// What a block is to the step that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Then,
    Else,
    Case(usize),
    /// Of an `each` whose elements share the frame around them.
    Turn,
    /// Of an `each` whose elements have frames of their own.
    Element,
    Round,
    Body,
    Handler(usize),
    Finally,
    Branch(usize),
    Function,
}

/// Where a block stands: the step that holds it, and as what. The root and functions stand nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    pub block: BlockId,
    pub step: usize,
    pub role: Role,
}

/// What an expression is to its step; it decides which names it sees and whether it may hold
/// secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// Must be a bool.
    Condition,
    Value,
    /// Goes to a worker: may refer to secrets.
    Arguments,
    /// `next` of a state: sees `previous` and `value`.
    Next,
    /// A fallback: sees `error`.
    Fallback,
    /// Arguments of a fallback: sees `error`, may refer to secrets.
    FallbackArguments,
    /// A key of the policy.
    Key,
}

impl Role {
    /// Does a block in this role have variables of its own? Only what cannot meet others at work
    /// shares a frame.
    pub const fn owns_frame(self) -> bool {
        matches!(self, Self::Element | Self::Branch(_) | Self::Function)
    }

    /// Is this the body of a loop, which `break` and `continue` leave?
    pub const fn is_loop(self) -> bool {
        matches!(self, Self::Turn | Self::Element | Self::Round)
    }

    /// May others run beside it?
    pub const fn is_concurrent(self) -> bool {
        matches!(self, Self::Element | Self::Branch(_))
    }
}

impl StepKind {
    /// The variables that the step sets beside its output.
    pub fn back(&self) -> &[Arc<str>] {
        match self {
            Self::Call { back, .. } => back,
            _ => &[],
        }
    }

    /// The blocks that the step holds or calls, in the order in which they are written.
    pub fn blocks(&self) -> Vec<(Role, BlockId)> {
        let mut found = Vec::new();
        self.each_block(&mut |role, id| found.push((role, id)));
        found
    }

    fn each_block(&self, visit: &mut dyn FnMut(Role, BlockId)) {
        match self {
            Self::If {
                then, otherwise, ..
            } => {
                visit(Role::Then, *then);
                otherwise.iter().for_each(|id| visit(Role::Else, *id));
            }
            Self::Switch { cases, otherwise } => {
                cases
                    .iter()
                    .enumerate()
                    .for_each(|(index, case)| visit(Role::Case(index), case.block));
                otherwise.iter().for_each(|id| visit(Role::Else, *id));
            }
            Self::Each {
                parallel, block, ..
            } => {
                visit(
                    if parallel.is_sequential() {
                        Role::Turn
                    } else {
                        Role::Element
                    },
                    *block,
                );
            }
            Self::While { block, .. } => visit(Role::Round, *block),
            Self::Try {
                block,
                handlers,
                finally,
            } => {
                visit(Role::Body, *block);
                handlers
                    .iter()
                    .enumerate()
                    .for_each(|(index, handler)| visit(Role::Handler(index), handler.block));
                finally.iter().for_each(|id| visit(Role::Finally, *id));
            }
            Self::Race { branches } | Self::All { branches, .. } => {
                branches
                    .iter()
                    .enumerate()
                    .for_each(|(index, branch)| visit(Role::Branch(index), branch.block));
            }
            Self::Call { function, .. } => visit(Role::Function, *function),
            Self::Dispatch(_)
            | Self::Let { .. }
            | Self::Sleep { .. }
            | Self::Until { .. }
            | Self::Wait { .. } => {}
            Self::Workflow { .. }
            | Self::Send { .. }
            | Self::State { .. }
            | Self::Return { .. } => {}
            Self::Raise { .. } | Self::Break | Self::Continue => {}
        }
    }

    pub(super) fn each_block_mut(&mut self, visit: &mut dyn FnMut(&mut BlockId)) {
        match self {
            Self::If {
                then, otherwise, ..
            } => [then].into_iter().chain(otherwise).for_each(visit),
            Self::Switch { cases, otherwise } => {
                cases
                    .iter_mut()
                    .map(|case| &mut case.block)
                    .chain(otherwise)
                    .for_each(visit);
            }
            Self::Each { block, .. } | Self::While { block, .. } => visit(block),
            Self::Try {
                block,
                handlers,
                finally,
            } => {
                let handlers = handlers.iter_mut().map(|handler| &mut handler.block);
                [block]
                    .into_iter()
                    .chain(handlers)
                    .chain(finally)
                    .for_each(visit);
            }
            Self::Race { branches } | Self::All { branches, .. } => {
                branches
                    .iter_mut()
                    .map(|branch| &mut branch.block)
                    .for_each(visit);
            }
            Self::Call { function, .. } => visit(function),
            Self::Dispatch(_)
            | Self::Let { .. }
            | Self::Sleep { .. }
            | Self::Until { .. }
            | Self::Wait { .. } => {}
            Self::Workflow { .. }
            | Self::Send { .. }
            | Self::State { .. }
            | Self::Return { .. } => {}
            Self::Raise { .. } | Self::Break | Self::Continue => {}
        }
    }
}

impl Step {
    /// Calls `visit` with every expression of the step itself (those of its blocks are theirs).
    pub fn each_expr<'a>(&'a self, visit: &mut dyn FnMut(Field, &'a Expr)) {
        self.when
            .iter()
            .for_each(|when| visit(Field::Condition, when));
        self.kind.each_expr(visit);
        match &self.policy.fallback {
            Some(Fallback::Value(value)) => visit(Field::Fallback, value.expr()),
            Some(
                Fallback::RetryWith(with)
                | Fallback::Action {
                    with: Some(with), ..
                },
            ) => {
                visit(Field::FallbackArguments, with.expr());
            }
            Some(Fallback::Action { with: None, .. }) | None => {}
        }
        self.policy
            .idempotency_key
            .iter()
            .for_each(|key| visit(Field::Key, key.expr()));
        let limit = self
            .policy
            .concurrency
            .as_ref()
            .and_then(|limit| limit.key.as_ref());
        limit.iter().for_each(|key| visit(Field::Key, key.expr()));
    }
}

impl StepKind {
    fn each_expr<'a>(&'a self, visit: &mut dyn FnMut(Field, &'a Expr)) {
        match self {
            Self::Dispatch(dispatch) => visit(Field::Arguments, dispatch.with.expr()),
            Self::Let { value } | Self::Return { value } => visit(Field::Value, value.expr()),
            Self::If { when, .. } | Self::While { when, .. } => visit(Field::Condition, when),
            Self::Switch { cases, .. } => cases
                .iter()
                .for_each(|case| visit(Field::Condition, &case.when)),
            Self::Each { over, .. } => visit(Field::Value, over.expr()),
            Self::Sleep { span } => visit(Field::Value, span.expr()),
            Self::Until { time } => visit(Field::Value, time.expr()),
            Self::Wait {
                signal,
                timeout,
                default,
            } => {
                [signal]
                    .into_iter()
                    .chain(timeout)
                    .chain(default)
                    .for_each(|each| visit(Field::Value, each.expr()));
            }
            Self::Workflow { workflow, with, .. } => {
                [workflow, with]
                    .into_iter()
                    .for_each(|each| visit(Field::Value, each.expr()));
            }
            Self::Send { target, body, .. } => {
                [target, body]
                    .into_iter()
                    .for_each(|each| visit(Field::Value, each.expr()));
            }
            Self::State {
                init, next, value, ..
            } => {
                [init]
                    .into_iter()
                    .chain(value)
                    .for_each(|each| visit(Field::Value, each.expr()));
                visit(Field::Next, next.expr());
            }
            Self::Raise { error } => visit(Field::Value, error.expr()),
            Self::Call { with, .. } => with
                .iter()
                .for_each(|(_, value)| visit(Field::Value, value.expr())),
            Self::Try { .. }
            | Self::Race { .. }
            | Self::All { .. }
            | Self::Break
            | Self::Continue => {}
        }
    }
}

/// Calls `visit` with every expression of a definition, rules included.
pub(super) fn each_expr_mut(definition: &mut Definition, visit: &mut dyn FnMut(&mut Expr)) {
    for rule in &mut definition.policies {
        rule.matcher.predicate.iter_mut().for_each(&mut *visit);
        each_policy_expr_mut(&mut rule.policy, &mut |_, expr| visit(expr));
    }
    for block in &mut definition.blocks {
        block
            .collect
            .iter_mut()
            .for_each(|collect| visit(collect.expr_mut()));
        block
            .steps
            .iter_mut()
            .for_each(|step| step.each_expr_mut(&mut |_, expr| visit(expr)));
    }
}

impl Step {
    /// As `each_expr`, to change them.
    pub fn each_expr_mut(&mut self, visit: &mut dyn FnMut(Field, &mut Expr)) {
        self.when
            .iter_mut()
            .for_each(|when| visit(Field::Condition, when));
        each_kind_expr_mut(&mut self.kind, visit);
        each_policy_expr_mut(&mut self.policy, visit);
    }
}

fn each_policy_expr_mut(policy: &mut StepPolicy, visit: &mut dyn FnMut(Field, &mut Expr)) {
    match &mut policy.fallback {
        Some(Fallback::Value(value)) => visit(Field::Fallback, value.expr_mut()),
        Some(
            Fallback::RetryWith(with)
            | Fallback::Action {
                with: Some(with), ..
            },
        ) => {
            visit(Field::FallbackArguments, with.expr_mut());
        }
        Some(Fallback::Action { with: None, .. }) | None => {}
    }
    let limit = policy
        .concurrency
        .as_mut()
        .and_then(|limit| limit.key.as_mut());
    policy
        .idempotency_key
        .iter_mut()
        .chain(limit)
        .for_each(|key| visit(Field::Key, key.expr_mut()));
}

fn each_kind_expr_mut(kind: &mut StepKind, visit: &mut dyn FnMut(Field, &mut Expr)) {
    match kind {
        StepKind::Dispatch(dispatch) => visit(Field::Arguments, dispatch.with.expr_mut()),
        StepKind::Let { value } | StepKind::Return { value } => {
            visit(Field::Value, value.expr_mut());
        }
        StepKind::If { when, .. } | StepKind::While { when, .. } => visit(Field::Condition, when),
        StepKind::Switch { cases, .. } => cases
            .iter_mut()
            .for_each(|case| visit(Field::Condition, &mut case.when)),
        StepKind::Each { over, .. } => visit(Field::Value, over.expr_mut()),
        StepKind::Sleep { span } => visit(Field::Value, span.expr_mut()),
        StepKind::Until { time } => visit(Field::Value, time.expr_mut()),
        StepKind::Wait {
            signal,
            timeout,
            default,
        } => {
            [signal]
                .into_iter()
                .chain(timeout)
                .chain(default)
                .for_each(|each| visit(Field::Value, each.expr_mut()));
        }
        StepKind::Workflow { workflow, with, .. } => {
            [workflow, with]
                .into_iter()
                .for_each(|each| visit(Field::Value, each.expr_mut()));
        }
        StepKind::Send { target, body, .. } => {
            [target, body]
                .into_iter()
                .for_each(|each| visit(Field::Value, each.expr_mut()));
        }
        StepKind::State {
            init, next, value, ..
        } => {
            [init]
                .into_iter()
                .chain(value)
                .for_each(|each| visit(Field::Value, each.expr_mut()));
            visit(Field::Next, next.expr_mut());
        }
        StepKind::Raise { error } => visit(Field::Value, error.expr_mut()),
        StepKind::Call { with, .. } => with
            .iter_mut()
            .for_each(|(_, value)| visit(Field::Value, value.expr_mut())),
        StepKind::Try { .. }
        | StepKind::Race { .. }
        | StepKind::All { .. }
        | StepKind::Break
        | StepKind::Continue => {}
    }
}

impl Definition {
    /// Where every block stands. A block that several steps hold is counted where it is met first.
    pub fn sites(&self) -> Vec<Option<Site>> {
        let mut sites = vec![None; self.blocks.len()];
        for block in self.preorder() {
            for (step, each) in self.block(block).steps.iter().enumerate() {
                for (role, child) in each.kind.blocks() {
                    if role != Role::Function && sites[child.index()].is_none() {
                        sites[child.index()] = Some(Site { block, step, role });
                    }
                }
            }
        }
        sites
    }

    /// The names that a block binds by itself, beside its steps: loop variables, a caught failure,
    /// parameters.
    pub fn locals(&self, id: BlockId, site: Option<Site>) -> Vec<Arc<str>> {
        if let Some(parameters) = &self.block(id).parameters {
            return parameters.clone();
        }
        let Some(site) = site else { return Vec::new() };
        match (&self.block(site.block).steps[site.step].kind, site.role) {
            (StepKind::Each { item, index, .. }, _) => {
                [item].into_iter().chain(index).map(Arc::clone).collect()
            }
            (StepKind::Try { handlers, .. }, Role::Handler(index)) => {
                handlers[index].name.iter().map(Arc::clone).collect()
            }
            _ => Vec::new(),
        }
    }
}
