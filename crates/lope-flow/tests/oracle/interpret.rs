//! The interpreter: recursive, one thing after the other, nothing durable. Slow and plain on
//! purpose.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use lope_definition::{
    Block, BlockId, Branch, Definition, FailureHandler, OnError, Parallel, Step, StepKind,
};
use lope_expr::{Expr, Fuel, Scope, eval};
use lope_flow::law::Settled;
use lope_model::policy::{Fallback, OnFailure};
use lope_model::{Failure, Value};

use super::answer;

/// How a block or step ended, if not with a value.
#[derive(Debug)]
enum Leave {
    Failed(Failure),
    Return(Value),
    Break,
    Continue,
}

type Flow = Result<Value, Leave>;

/// Names and their values, block by block.
#[derive(Debug)]
struct Names {
    own: RefCell<HashMap<String, Value>>,
    /// Names of steps and loop variables of this block: a `set` of one of them stays here.
    bound: Vec<String>,
    owns_frame: bool,
    around: Option<Rc<Names>>,
}

impl Names {
    fn get(&self, name: &str) -> Option<Value> {
        let found = self.own.borrow().get(name).cloned();
        found.or_else(|| self.around.as_ref().and_then(|around| around.get(name)))
    }

    fn set(&self, name: &str, value: Value) {
        match &self.around {
            Some(around) if !self.owns_frame && !self.bound.iter().any(|bound| bound == name) => {
                around.set(name, value);
            }
            _ => {
                self.own.borrow_mut().insert(name.to_owned(), value);
            }
        }
    }
}

/// What one expression sees: copies of everything it names.
struct Seen(HashMap<String, Value>);

impl Scope for Seen {
    fn lookup(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

/// An interpreter of one definition.
#[derive(Debug)]
pub struct Interpreter<'a> {
    definition: &'a Definition,
    input: Value,
    /// Accumulators, by the block and name of their step.
    totals: BTreeMap<(usize, String), Value>,
    pub mended: bool,
}

impl<'a> Interpreter<'a> {
    /// The definition must have its needs inferred.
    pub fn new(definition: &'a Definition) -> Self {
        Self {
            definition,
            input: Value::Null,
            totals: BTreeMap::new(),
            mended: false,
        }
    }

    /// The result of one input; accumulators remember those before.
    pub fn run(&mut self, input: Value) -> Settled {
        self.input = input;
        match self.block(BlockId::ROOT, None, true, Vec::new()) {
            Ok(value) | Err(Leave::Return(value)) => Settled::Done(value),
            Err(Leave::Failed(failure)) => Settled::failed(failure),
            Err(Leave::Break | Leave::Continue) => panic!("a loop is left that is not there"),
        }
    }

    fn block(
        &mut self,
        id: BlockId,
        around: Option<Rc<Names>>,
        owns_frame: bool,
        locals: Vec<(String, Value)>,
    ) -> Flow {
        let block = &self.definition.blocks[id.0 as usize];
        let outputs = block
            .steps
            .iter()
            .filter(|step| step.set.is_none())
            .map(|step| step.name.to_string());
        let bound = locals
            .iter()
            .map(|(name, _)| name.clone())
            .chain(outputs)
            .collect();
        let own = RefCell::new(locals.into_iter().collect());
        let names = Rc::new(Names {
            own,
            bound,
            owns_frame,
            around,
        });
        let mut settled: HashMap<&str, Option<Value>> = HashMap::new();
        while settled.len() < block.steps.len() {
            let ready = |step: &&Step| {
                let mut before = step.needs.iter().chain(&step.follows);
                !settled.contains_key(&*step.name)
                    && before.all(|need| settled.contains_key(&**need))
            };
            let step = block
                .steps
                .iter()
                .find(ready)
                .expect("needs have no cycles");
            let doomed = step.needs.iter().any(|need| settled[&**need].is_none());
            let output = if doomed {
                None
            } else {
                self.step(id, step, &names)?
            };
            if let Some(value) = &output {
                names.set(step.set.as_deref().unwrap_or(&step.name), value.clone());
            }
            settled.insert(&step.name, output);
        }
        self.output(block, &names, &settled)
    }

    fn output(
        &mut self,
        block: &Block,
        names: &Rc<Names>,
        settled: &HashMap<&str, Option<Value>>,
    ) -> Flow {
        if let Some(collect) = &block.collect {
            return self.eval(collect.expr(), names, &[]);
        }
        let followed = |name: &str| {
            block.steps.iter().any(|step| {
                step.needs
                    .iter()
                    .chain(&step.follows)
                    .any(|need| &**need == name)
            })
        };
        let leaves = block
            .steps
            .iter()
            .filter(|step| !step.kind.leaves() && !followed(&step.name));
        let leaves: Vec<&Step> = leaves.collect();
        match leaves.as_slice() {
            [] => Ok(Value::Null),
            [leaf] => Ok(settled[&*leaf.name].clone().unwrap_or_default()),
            many => {
                let there = many
                    .iter()
                    .filter_map(|leaf| Some((leaf.name.clone(), settled[&*leaf.name].clone()?)));
                Ok(Value::map(there))
            }
        }
    }

    /// The output of a step; nothing if it is skipped.
    fn step(
        &mut self,
        block: BlockId,
        step: &Step,
        names: &Rc<Names>,
    ) -> Result<Option<Value>, Leave> {
        let tried = match step.when.as_ref().map(|when| self.holds(when, names)) {
            Some(Ok(false)) => return Ok(None),
            Some(Err(leave)) => Err(leave),
            Some(Ok(true)) | None => self.perform(block, step, names),
        };
        match tried {
            Err(Leave::Failed(_)) if step.policy.on_failure == Some(OnFailure::Skip) => Ok(None),
            tried => tried.map(Some),
        }
    }

    fn perform(&mut self, block: BlockId, step: &Step, names: &Rc<Names>) -> Flow {
        let inside =
            |machine: &mut Self, id| machine.block(id, Some(Rc::clone(names)), false, Vec::new());
        match &step.kind {
            StepKind::Dispatch(call) => self.work(&call.action, step, names),
            StepKind::Let { value } => self.eval(value.expr(), names, &[]),
            StepKind::If {
                when,
                then,
                otherwise,
            } => match (self.holds(when, names)?, otherwise) {
                (true, _) => inside(self, *then),
                (false, Some(otherwise)) => inside(self, *otherwise),
                (false, None) => Ok(Value::Null),
            },
            StepKind::Switch { cases, otherwise } => {
                for case in cases {
                    if self.holds(&case.when, names)? {
                        return inside(self, case.block);
                    }
                }
                otherwise.map_or(Ok(Value::Null), |block| inside(self, block))
            }
            StepKind::Each { .. } => self.each(step, names),
            StepKind::While { when, block, max } => self.rounds(when, *block, *max, names),
            StepKind::Try {
                block,
                handlers,
                finally,
            } => {
                let tried = inside(self, *block);
                let tried = self.handled(tried, handlers, names);
                if let Some(finally) = finally {
                    inside(self, *finally)?;
                }
                tried
            }
            StepKind::Sleep { .. } | StepKind::Until { .. } => Ok(Value::Null),
            StepKind::Wait { default, .. } => match default {
                Some(default) => self.eval(default.expr(), names, &[]),
                None => Err(Leave::Failed(Failure::new("Timeout", ""))),
            },
            StepKind::Workflow { with, .. } => {
                let input = self.eval(with.expr(), names, &[])?;
                Ok(Value::Int(input.as_int().unwrap_or(0) + 1))
            }
            StepKind::Send { .. } => Ok(Value::Null),
            StepKind::State {
                init, next, value, ..
            } => {
                let key = (block.0 as usize, step.name.to_string());
                let previous = match self.totals.get(&key) {
                    Some(total) => total.clone(),
                    None => self.eval(init.expr(), names, &[])?,
                };
                let value = self.eval(value.as_ref().expect("filled in").expr(), names, &[])?;
                let total = self.eval(
                    next.expr(),
                    names,
                    &[("previous", previous), ("value", value)],
                )?;
                self.totals.insert(key, total.clone());
                Ok(total)
            }
            StepKind::Race { branches } => self.race(branches, names),
            StepKind::All { branches, on_error } => self.all(branches, *on_error, names),
            StepKind::Return { value } => {
                Err(Leave::Return(self.eval(value.expr(), names, &[])?))
            }
            StepKind::Raise { error } => {
                let error = self.eval(error.expr(), names, &[])?;
                let kind = error
                    .get("type")
                    .and_then(Value::as_str)
                    .unwrap_or("Error")
                    .to_owned();
                Err(Leave::Failed(Failure::new(&kind, "raised")))
            }
            StepKind::Break => Err(Leave::Break),
            StepKind::Continue => Err(Leave::Continue),
            StepKind::Call { function, with, .. } => {
                let mut arguments = Vec::new();
                for (name, value) in with {
                    arguments.push((name.to_string(), self.eval(value.expr(), names, &[])?));
                }
                match self.block(*function, None, true, arguments) {
                    Err(Leave::Return(value)) => Ok(value),
                    ended => ended,
                }
            }
        }
    }

    fn work(&mut self, action: &str, step: &Step, names: &Rc<Names>) -> Flow {
        let StepKind::Dispatch(call) = &step.kind else {
            panic!("only work is tried")
        };
        let with = self.eval(call.with.expr(), names, &[])?;
        let mut failures = 0;
        loop {
            match answer(action, &with, failures, self.mended) {
                Settled::Done(value) => return Ok(value),
                Settled::Failed(failure) if failures >= step.policy.retries.unwrap_or(0) => {
                    return match &step.policy.fallback {
                        Some(Fallback::Value(value)) => self.eval(value.expr(), names, &[]),
                        Some(_) => panic!("the generator makes no such fallback"),
                        None => Err(Leave::Failed(*failure)),
                    };
                }
                Settled::Failed(_) => failures += 1,
                Settled::Cancelled => panic!("nobody cancels here"),
            }
        }
    }

    fn handled(&mut self, tried: Flow, handlers: &[FailureHandler], names: &Rc<Names>) -> Flow {
        let failure = match tried {
            Err(Leave::Failed(failure)) => failure,
            other => return other,
        };
        let catches = |handler: &&FailureHandler| {
            handler.matches.is_empty()
                || handler
                    .matches
                    .iter()
                    .any(|kind| **kind == *failure.kind || &**kind == "Error")
        };
        let Some(handler) = handlers.iter().find(catches) else {
            return Err(Leave::Failed(failure));
        };
        let error = Value::map([("type", Value::str(&*failure.kind))]);
        let locals = handler
            .name
            .iter()
            .map(|name| (name.to_string(), error.clone()))
            .collect();
        self.block(handler.block, Some(Rc::clone(names)), false, locals)
    }

    fn each(&mut self, step: &Step, names: &Rc<Names>) -> Flow {
        let StepKind::Each {
            over,
            item,
            index,
            parallel,
            block,
            on_error,
            ..
        } = &step.kind
        else {
            panic!("only each")
        };
        let items = self.eval(over.expr(), names, &[])?;
        let own_frame = !matches!(parallel, Parallel::One | Parallel::Upto(0 | 1));
        let mut results = Vec::new();
        for (number, element) in items.as_list().expect("a list").iter().enumerate() {
            let mut locals = vec![(item.to_string(), element.clone())];
            locals.extend(
                index
                    .iter()
                    .map(|index| (index.to_string(), Value::Int(number as i64))),
            );
            results.push(
                match self.block(*block, Some(Rc::clone(names)), own_frame, locals) {
                    Ok(value) => value,
                    Err(Leave::Continue) => Value::Null,
                    Err(Leave::Break) => break,
                    Err(Leave::Failed(failure)) if *on_error == OnError::Collect => {
                        collected(&failure)
                    }
                    Err(leave) => return Err(leave),
                },
            );
        }
        Ok(Value::list(results))
    }

    fn rounds(&mut self, when: &Expr, block: BlockId, max: Option<u64>, names: &Rc<Names>) -> Flow {
        let mut rounds = 0;
        while self.holds(when, names)? {
            if max.is_some_and(|max| rounds >= max) {
                return Err(Leave::Failed(Failure::new("Limit", "")));
            }
            match self.block(block, Some(Rc::clone(names)), false, Vec::new()) {
                Ok(_) | Err(Leave::Continue) => rounds += 1,
                Err(Leave::Break) => break,
                Err(leave) => return Err(leave),
            }
        }
        Ok(Value::Int(rounds as i64))
    }

    /// The generator makes the first branch the one that needs no time.
    fn race(&mut self, branches: &[Branch], names: &Rc<Names>) -> Flow {
        let output = self.block(branches[0].block, Some(Rc::clone(names)), true, Vec::new())?;
        Ok(Value::map([
            ("winner", Value::str(&*branches[0].name)),
            ("output", output),
        ]))
    }

    fn all(&mut self, branches: &[Branch], on_error: OnError, names: &Rc<Names>) -> Flow {
        let mut outputs = Vec::new();
        for branch in branches {
            let output = match self.block(branch.block, Some(Rc::clone(names)), true, Vec::new()) {
                Err(Leave::Failed(failure)) if on_error == OnError::Collect => collected(&failure),
                ended => ended?,
            };
            outputs.push((branch.name.clone(), output));
        }
        Ok(Value::map(outputs))
    }

    fn holds(&mut self, when: &Expr, names: &Rc<Names>) -> Result<bool, Leave> {
        match self.eval(when, names, &[])? {
            Value::Bool(holds) => Ok(holds),
            other => Err(Leave::Failed(Failure::new("TypeError", other.to_string()))),
        }
    }

    fn eval(&mut self, expr: &Expr, names: &Rc<Names>, extra: &[(&str, Value)]) -> Flow {
        let mut seen: HashMap<String, Value> = HashMap::new();
        for name in expr.names() {
            let found = extra
                .iter()
                .find(|(known, _)| **known == *name)
                .map(|(_, value)| value.clone());
            let found = found
                .or_else(|| (&*name == "input").then(|| self.input.clone()))
                .or_else(|| names.get(&name));
            seen.extend(found.map(|value| (name.to_string(), value)));
        }
        let value = eval(expr, &Seen(seen), &mut Fuel::default());
        value.map_err(|error| Leave::Failed(Failure::new(error.kind.name(), error.message)))
    }
}

/// A collected failure; only its type is compared.
fn collected(failure: &Failure) -> Value {
    Value::map([("error", Value::map([("type", Value::str(&*failure.kind))]))])
}
