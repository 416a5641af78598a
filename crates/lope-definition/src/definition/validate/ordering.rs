//! Order: needs are known and without cycles, every step can be reached, nobody sets a variable
//! beside another, and what leaves a block has something to leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_model::Value;

use super::DefinitionValidator;
use crate::definition::needs::{StepOrder, Touch};
use crate::definition::walk::Site;
use crate::definition::{BlockId, Problem, Role, Step, StepKind};

impl DefinitionValidator<'_> {
    pub(super) fn ordering(&mut self) {
        let touches = self.definition.touches();
        for (index, touches) in touches.iter().enumerate() {
            let id = BlockId(index as u32);
            self.known_needs(id);
            let order = StepOrder::of(self.definition.block(id));
            if self.cycles(id, &order) {
                continue;
            }
            self.reachable(id, &order);
            self.own_output(id, touches);
            if !order.is_total() {
                self.unordered_sets(id, touches, &order);
            }
        }
    }

    fn known_needs(&mut self, id: BlockId) {
        let block = self.definition.block(id);
        let known: BTreeSet<&str> = block.steps.iter().map(|step| &*step.name).collect();
        for step in &block.steps {
            for need in step.needs.iter().chain(&step.follows) {
                if **need == *step.name {
                    self.report(id, step, "needs itself");
                } else if !known.contains(&**need) {
                    let problem = Problem::of(
                        step,
                        &self.path(id, step),
                        format!("needs unknown step '{need}'"),
                    );
                    self.problems
                        .push(problem.did_you_mean(need, known.iter().copied()));
                }
            }
        }
    }

    fn cycles(&mut self, id: BlockId, order: &StepOrder) -> bool {
        let Some(cycle) = find_cycle(order) else {
            return false;
        };
        let steps = &self.definition.block(id).steps;
        let names: Vec<&str> = cycle
            .iter()
            .chain(cycle.first())
            .map(|index| &*steps[*index].name)
            .collect();
        self.report(
            id,
            &steps[cycle[0]],
            format!("needs form a cycle: {}", names.join(" → ")),
        );
        true
    }

    /// A step that needs one which never settles, or whose condition is the word false, never runs.
    fn reachable(&mut self, id: BlockId, order: &StepOrder) {
        let steps = &self.definition.block(id).steps;
        for (index, step) in steps.iter().enumerate() {
            if step.when.as_ref().and_then(|when| when.as_literal()) == Some(&Value::Bool(false)) {
                self.report(id, step, "can never run: its condition is always false");
            }
            if let Some(need) = order
                .before(index)
                .find(|before| steps[*before].kind.leaves())
            {
                let name = &steps[need].name;
                let word = steps[need].kind.word();
                self.report(
                    id,
                    step,
                    format!("can never run: it needs '{name}', and '{word}' leaves the block"),
                );
            }
        }
    }

    fn own_output(&mut self, id: BlockId, touches: &[Touch]) {
        for (step, touch) in self.definition.block(id).steps.iter().zip(touches) {
            if step.set.is_none()
                && touch.reads.contains(&step.name)
                && !touch.writes.contains(&step.name)
            {
                self.report(id, step, "uses its own output, which does not exist yet");
            }
        }
    }

    fn unordered_sets(&mut self, id: BlockId, touches: &[Touch], order: &StepOrder) {
        let steps = &self.definition.block(id).steps;
        let mut setters: BTreeMap<&Arc<str>, Vec<usize>> = BTreeMap::new();
        for (index, (touch, step)) in touches.iter().zip(steps).enumerate() {
            let own = step.set.is_none().then_some(&step.name);
            touch
                .writes
                .iter()
                .chain(own)
                .for_each(|name| setters.entry(name).or_default().push(index));
        }
        for (variable, setters) in setters {
            let pairs = setters
                .iter()
                .enumerate()
                .flat_map(|(at, later)| setters[..at].iter().map(move |e| (*e, *later)));
            for (earlier, later) in pairs {
                if !order.reaches(later, earlier) && !order.reaches(earlier, later) {
                    let other = &steps[earlier].name;
                    let message = format!(
                        "sets '{variable}', and so does '{other}': one must need the other"
                    );
                    let problem =
                        Problem::of(&steps[later], &self.path(id, &steps[later]), message);
                    self.problems
                        .push(problem.hint(format!("add 'needs: [{other}]'")));
                }
            }
        }
    }

    /// `break`, `continue` and `state` stand where they have a meaning.
    pub(super) fn leaving(&mut self) {
        for (block, _, step) in self.steps() {
            match step.kind {
                StepKind::Break | StepKind::Continue => self.leaves_a_loop(block, step),
                StepKind::State { .. } => self.state_in_order(block, step),
                _ => {}
            }
        }
    }

    fn leaves_a_loop(&mut self, block: BlockId, step: &Step) {
        let word = step.kind.word().to_owned();
        match self.nearest(block, |site| {
            let step = &self.definition.block(site.block).steps[site.step];
            // The first branch of a race that ends decides, also by leaving it.
            let races = matches!(step.kind, StepKind::Race { .. });
            site.role.is_loop() || (matches!(site.role, Role::Branch(_)) && !races)
        }) {
            Some(Role::Element) if step.kind == StepKind::Break => {
                self.report(
                    block,
                    step,
                    "'break' has no meaning among elements that run at once",
                );
            }
            Some(Role::Branch(_)) => {
                self.report(block, step, format!("'{word}' cannot leave a branch"));
            }
            Some(_) => {}
            None => self.report(block, step, format!("'{word}' stands outside a loop")),
        }
    }

    fn state_in_order(&mut self, block: BlockId, step: &Step) {
        if self
            .nearest(block, |site| site.role.is_concurrent())
            .is_some()
        {
            let problem = Problem::of(
                step,
                &self.path(block, step),
                "a state has no order among blocks that run at once",
            );
            self.problems
                .push(problem.hint("apply it to their outputs afterwards"));
        }
        if self.root_of(block) != BlockId::ROOT {
            self.report(block, step, "a function cannot hold a state");
        }
    }

    /// The role of the nearest block around one that is wanted.
    fn nearest(&self, block: BlockId, wanted: impl Fn(&Site) -> bool) -> Option<Role> {
        let mut next = self.scopes.sites[block.index()];
        while let Some(site) = next {
            if wanted(&site) {
                return Some(site.role);
            }
            next = self.scopes.sites[site.block.index()];
        }
        None
    }

    fn root_of(&self, block: BlockId) -> BlockId {
        let mut id = block;
        while let Some(site) = self.scopes.sites[id.index()] {
            id = site.block;
        }
        id
    }
}

/// Steps that need each other in a ring, if there are any: each needs the next.
fn find_cycle(order: &StepOrder) -> Option<Vec<usize>> {
    let len = order.needs.len();
    let mut waiting: Vec<usize> = (0..len).map(|step| order.before(step).count()).collect();
    let mut needed_by = vec![Vec::new(); len];
    for step in 0..len {
        order
            .before(step)
            .for_each(|before| needed_by[before].push(step));
    }
    let mut ready: Vec<usize> = (0..len).filter(|step| waiting[*step] == 0).collect();
    while let Some(step) = ready.pop() {
        for after in &needed_by[step] {
            waiting[*after] -= 1;
            if waiting[*after] == 0 {
                ready.push(*after);
            }
        }
    }
    let start = waiting.iter().position(|count| *count > 0)?;
    let mut trail = vec![start];
    loop {
        let last = *trail.last().expect("the trail has a start");
        let next = order
            .before(last)
            .find(|before| waiting[*before] > 0)
            .expect("a step in a cycle waits for another");
        if let Some(at) = trail.iter().position(|step| *step == next) {
            return Some(trail.split_off(at));
        }
        trail.push(next);
    }
}
