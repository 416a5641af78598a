//! Workflows out of dice. Their results do not depend on the order in which things happen: among
//! steps that run at once nothing fails uncaught, and nothing leaves.

use lope_definition::{Block, BlockId, Definition, Parallel, Step, StepKind};
use lope_model::Policy;
use lope_model::policy::{Backoff, Fallback, OnFailure};

use super::Dice;
use crate::build::*;

/// What a workflow may have in it.
#[derive(Clone, Copy, Debug)]
pub struct Taste {
    pub fails: bool,
    pub catches: bool,
    pub states: bool,
    /// Work that fails until it is mended.
    pub fragile: bool,
}

impl Taste {
    pub const ALL: Self = Self {
        fails: true,
        catches: true,
        states: false,
        fragile: false,
    };
    pub const INPUTS: Self = Self {
        states: true,
        ..Self::ALL
    };
    pub const FRAGILE: Self = Self {
        fails: false,
        catches: false,
        states: false,
        fragile: true,
    };
}

/// Where a step is made.
#[derive(Clone)]
struct Place {
    depth: u32,
    /// Names that hold ints here.
    ints: Vec<String>,
    /// Does each step follow the one before?
    in_order: bool,
    may_fail: bool,
    /// May failures have several types? Not where several may fail at once.
    mixed: bool,
    may_return: bool,
    in_loop: bool,
    /// Variables that may be set here.
    variables: Vec<String>,
    states: bool,
}

/// A workflow out of dice.
pub fn generate(seed: u64, taste: Taste) -> Definition {
    let mut maker = Maker {
        dice: Dice::new(seed),
        draft: Draft::new(),
        taste,
        names: 0,
    };
    let in_order = maker.dice.chance(50);
    let place = Place {
        depth: 0,
        ints: vec!["input".into()],
        in_order,
        may_fail: in_order && taste.fails,
        mixed: true,
        may_return: in_order,
        in_loop: false,
        variables: Vec::new(),
        states: taste.states,
    };
    let block = maker.block(place);
    if maker.dice.chance(30) {
        maker.draft.0.concurrency = Some(1 + maker.dice.below(4) as u32);
    }
    *maker.draft.0.root_mut() = block;
    maker.draft.0
}

struct Maker {
    dice: Dice,
    draft: Draft,
    taste: Taste,
    names: u32,
}

impl Maker {
    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn int(&mut self, place: &Place) -> String {
        if self.dice.chance(25) {
            self.dice.below(50).to_string()
        } else {
            self.dice.pick(&place.ints).clone()
        }
    }

    fn expr(&mut self, place: &Place) -> String {
        let (left, right, number) = (self.int(place), self.int(place), self.dice.below(9) + 1);
        match self.dice.below(4) {
            0 => left,
            1 => format!("({left} + {right} * {number}) % 1000"),
            2 => format!("({left} % 2 == 0 ? {right} : {number})"),
            _ => format!("(({left} + {number}) % 500)"),
        }
    }

    fn condition(&mut self, place: &Place) -> String {
        let (left, number) = (self.expr(place), self.dice.below(3) + 2);
        format!("{left} % {number} == {}", self.dice.below(number))
    }

    fn list(&mut self, place: &Place) -> String {
        let items: Vec<String> = (0..self.dice.below(5)).map(|_| self.expr(place)).collect();
        format!("[{}]", items.join(", "))
    }

    fn block(&mut self, mut place: Place) -> Block {
        let count = 1 + self.dice.below(if place.depth == 0 { 5 } else { 3 });
        let mut steps: Vec<Step> = Vec::new();
        for number in 0..count {
            let (mut step, gives_int) = self.step(&place);
            if step.kind.leaves() && number + 1 < count {
                continue;
            }
            if self.dice.chance(10) && !step.kind.leaves() {
                step = step.when(e(&self.condition(&place)));
            } else if gives_int && step.set.is_none() {
                place.ints.push(step.name.to_string());
            }
            if let Some(variable) = step.set.as_deref()
                && step.when.is_none()
                && !place.ints.iter().any(|known| known == variable)
            {
                place.ints.push(variable.to_owned());
                place.variables.push(variable.to_owned());
            }
            if !place.in_order && !steps.is_empty() && self.dice.chance(30) {
                let need = self.dice.pick(&steps).name.to_string();
                step = step.needs(&[&need]);
            }
            steps.push(step);
        }
        let block = Block::of(steps);
        if place.in_order {
            block.in_order()
        } else {
            block
        }
    }

    fn held(&mut self, place: Place) -> BlockId {
        let block = self.block(place);
        self.draft.0.add_block(block)
    }

    /// A step, and whether its output is an int.
    fn step(&mut self, place: &Place) -> (Step, bool) {
        let roll = if place.depth >= 3 {
            self.dice.below(40)
        } else {
            self.dice.below(100)
        };
        match roll {
            0..16 => self.work(place),
            16..24 => self.assignment(place),
            24..28 => (
                sleep(&self.name("s"), &self.dice.below(3).to_string()),
                false,
            ),
            28..31 => {
                let (name, value) = (self.name("w"), self.expr(place));
                (wait(&name, &name, Some("1"), Some(&value)), true)
            }
            31..34 => (child(&self.name("c"), "other", &self.expr(place)), true),
            34..37 => self.leaving(place),
            37..40 => self.accumulator(place),
            40..52 => self.choice(place),
            52..66 => self.elements(place),
            66..74 => self.rounds(place),
            74..88 => self.guarded(place),
            88..92 => self.branches(place),
            92..95 => self.call(place),
            _ => self.race(place),
        }
    }

    fn work(&mut self, place: &Place) -> (Step, bool) {
        let with = self.expr(place);
        let mut policy = Policy::default();
        let action = match self.dice.below(10) {
            0..=4 => "ok".to_owned(),
            5..=6 => {
                policy.retries = Some(2);
                policy.backoff =
                    Some(
                        *self
                            .dice
                            .pick(&[Backoff::None, Backoff::Exponential, Backoff::Jitter]),
                    );
                format!("flaky{}", self.dice.below(3))
            }
            7 if self.taste.fragile => "fragile".to_owned(),
            7 if place.may_fail => {
                policy.retries = Some(self.dice.below(2) as u32);
                "bad_E".to_owned()
            }
            8 if self.taste.fails => {
                policy.fallback = Some(Fallback::Value(t(&self.expr(place))));
                "bad_F".to_owned()
            }
            9 if self.taste.catches => {
                policy.on_failure = Some(OnFailure::Skip);
                return (
                    action_step(&self.name("a"), "bad_G", &with).policy(policy),
                    false,
                );
            }
            _ => "ok".to_owned(),
        };
        (
            action_step(&self.name("a"), &action, &with).policy(policy),
            true,
        )
    }

    fn assignment(&mut self, place: &Place) -> (Step, bool) {
        let step = assign(&self.name("l"), &self.expr(place));
        if place.in_order && self.dice.chance(60) {
            let variable = match place.variables.as_slice() {
                [] => self.name("v"),
                known if self.dice.chance(10) && known.len() < 3 => self.name("v"),
                known => self.dice.pick(known).clone(),
            };
            return (step.set(&variable), true);
        }
        (step, true)
    }

    fn leaving(&mut self, place: &Place) -> (Step, bool) {
        let name = self.name("x");
        let step = match self.dice.below(4) {
            0 if place.may_fail && place.mixed => raise(&name, "{'type': 'Mine', 'message': 'm'}"),
            0 if place.may_fail => raise(&name, "{'type': 'E', 'message': 'e'}"),
            1 if place.may_return => give(&name, &self.expr(place)),
            2 if place.in_loop => Step::new(&name, StepKind::Break),
            3 if place.in_loop => Step::new(&name, StepKind::Continue),
            _ => return self.work(place),
        };
        (step, false)
    }

    fn accumulator(&mut self, place: &Place) -> (Step, bool) {
        if !place.states {
            return self.work(place);
        }
        let mut step = state(&self.name("t"), "0", "(previous * 3 + value) % 1000");
        if let StepKind::State { value, .. } = &mut step.kind {
            *value = Some(t(&self.expr(place)));
        }
        (step, true)
    }

    fn inner(&mut self, place: &Place) -> Place {
        let in_order = place.in_order || self.dice.chance(50);
        let alone = place.in_order;
        Place {
            depth: place.depth + 1,
            in_order,
            may_fail: place.may_fail && in_order && alone,
            may_return: place.may_return && in_order && alone,
            in_loop: place.in_loop && in_order && alone,
            variables: if alone {
                place.variables.clone()
            } else {
                Vec::new()
            },
            ..place.clone()
        }
    }

    /// A block whose variables are its own.
    fn apart(&mut self, place: &Place) -> Place {
        Place {
            may_return: false,
            in_loop: false,
            mixed: false,
            variables: Vec::new(),
            states: false,
            ..self.inner(place)
        }
    }

    fn choice(&mut self, place: &Place) -> (Step, bool) {
        let name = self.name("i");
        let inner = self.inner(place);
        let then = self.held(inner.clone());
        let otherwise = self.dice.chance(50).then(|| self.held(inner.clone()));
        if self.dice.chance(60) {
            return (if_(&name, &self.condition(place), then, otherwise), false);
        }
        let second = self.held(inner);
        let cases = [
            (self.condition(place), then),
            (self.condition(place), second),
        ];
        let cases: Vec<(&str, BlockId)> = cases
            .iter()
            .map(|(when, block)| (&**when, *block))
            .collect();
        (switch(&name, &cases, otherwise), false)
    }

    fn elements(&mut self, place: &Place) -> (Step, bool) {
        let (name, item, over) = (self.name("e"), self.name("n"), self.list(place));
        let parallel = *self
            .dice
            .pick(&[Parallel::One, Parallel::Upto(2), Parallel::Max]);
        let collects = self.taste.catches && self.dice.chance(40);
        let mut inner = if parallel == Parallel::One {
            self.inner(place)
        } else {
            self.apart(place)
        };
        inner.in_loop = parallel == Parallel::One && inner.in_order;
        inner.may_fail = self.taste.fails && inner.in_order && (collects || inner.may_fail);
        inner.ints.push(item.clone());
        let block = self.held(inner);
        let step = each(&name, &over, &item, parallel, block);
        (if collects { collecting(step) } else { step }, false)
    }

    /// Counts a variable of its own up to a small bound.
    fn rounds(&mut self, place: &Place) -> (Step, bool) {
        if !place.in_order {
            return self.work(place);
        }
        let (name, counter) = (self.name("r"), self.name("k"));
        let mut inner = self.inner(place);
        (inner.in_order, inner.in_loop) = (true, true);
        let count = assign(&self.name("l"), &format!("{counter} + 1")).set(&counter);
        let mut block = self.block(inner);
        block.steps.insert(0, count);
        let body = self.draft.0.add_block(block.in_order());
        let rounds = while_(
            &name,
            &format!("{counter} < {}", self.dice.below(4)),
            body,
            None,
        );
        let start = assign(&self.name("l"), "0").set(&counter);
        let both = Block::of(vec![start, rounds]).in_order();
        let both = self.draft.0.add_block(both);
        (if_(&self.name("i"), "true", both, None), false)
    }

    fn guarded(&mut self, place: &Place) -> (Step, bool) {
        if !self.taste.catches {
            return self.work(place);
        }
        let mut inner = self.inner(place);
        inner.in_order = true;
        let mut body = inner.clone();
        let choices: [&[&str]; 4] = [&["E"], &["Mine", "E"], &[], &["Error"]];
        let kinds = *self.dice.pick(&choices);
        let catches_all = kinds.is_empty() || kinds == ["Error"];
        body.may_fail = self.taste.fails && (place.may_fail || catches_all);
        let body = self.held(body);
        let handler = self.held(inner.clone());
        let mut quiet = inner;
        (quiet.may_fail, quiet.may_return, quiet.in_loop) = (false, false, false);
        let finally = self.dice.chance(40).then(|| self.held(quiet));
        (
            try_(
                &self.name("y"),
                body,
                vec![on(kinds, None, handler)],
                finally,
            ),
            false,
        )
    }

    fn branches(&mut self, place: &Place) -> (Step, bool) {
        let name = self.name("p");
        let collects = self.taste.catches && self.dice.chance(50);
        let mut inner = self.apart(place);
        inner.may_fail = self.taste.fails && inner.in_order && (collects || inner.may_fail);
        let (one, two) = (self.held(inner.clone()), self.held(inner));
        let step = all(&name, &[("one", one), ("two", two)]);
        (if collects { collecting(step) } else { step }, false)
    }

    /// A function sees its parameter and nothing around it.
    fn call(&mut self, place: &Place) -> (Step, bool) {
        let (name, parameter) = (self.name("f"), self.name("g"));
        let mut inner = self.apart(place);
        (inner.in_order, inner.may_return) = (true, true);
        inner.may_fail = place.may_fail;
        inner.ints = vec!["input".into(), parameter.clone()];
        inner.variables.clear();
        let block = self.block(inner);
        let function = self.draft.function(&[&parameter], block.steps);
        (
            call(&name, function, &[(&parameter, &self.expr(place))]),
            false,
        )
    }

    /// The first branch needs no time, the other sleeps first.
    fn race(&mut self, place: &Place) -> (Step, bool) {
        let name = self.name("q");
        let quick = assign(&self.name("l"), &self.expr(place));
        let quick = self.draft.block([quick]);
        let mut inner = self.apart(place);
        inner.in_order = true;
        let mut slow = self.block(inner);
        slow.steps.insert(0, sleep(&self.name("s"), "100"));
        let slow = self.draft.0.add_block(slow.in_order());
        (race(&name, &[("quick", quick), ("slow", slow)]), false)
    }
}

fn action_step(name: &str, action_name: &str, with: &str) -> Step {
    action(name, action_name, with)
}
