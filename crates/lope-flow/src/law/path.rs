//! Ids of executions: the names of the steps around them and the numbers of elements, as in
//! `mail/3/send`.
//!
//! The first input's executions stand for themselves; those of later inputs begin with `@2/`,
//! `@3/`…

use std::fmt::Write as _;
use std::sync::Arc;

use super::arena::Key;
use super::plan::{Label, Plan};
use super::state::State;

impl State {
    /// The id of the execution of a step in an open block.
    pub(crate) fn path(&self, plan: &Plan, act: Key, step: u32) -> Arc<str> {
        let mut trail = Vec::with_capacity(8);
        let (mut key, mut index) = (act, step);
        let mut input = 0;
        while let Some(act) = self.acts.get(key) {
            trail.push((act, index));
            input = act.input;
            let Some(parent) = act.parent.and_then(|parent| self.execs.get(parent)) else {
                break;
            };
            (key, index) = (parent.act, parent.step);
        }
        let mut path = String::with_capacity(trail.len() * 16);
        if input > 0 {
            let _ = write!(path, "@{}/", input + 1);
        }
        for (position, (act, step)) in trail.iter().enumerate().rev() {
            match &plan.block(act.block).label {
                Label::Plain => {}
                Label::Number => {
                    let _ = write!(path, "{}/", act.lane);
                }
                Label::Word(word) => {
                    let _ = write!(path, "{word}/");
                }
            }
            path.push_str(&plan.step(act.block, *step).name);
            if position > 0 {
                path.push('/');
            }
        }
        path.into()
    }
}
