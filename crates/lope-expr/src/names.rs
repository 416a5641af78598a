//! Walks over trees: which names are free, which secrets are used, giving slots and places.

use std::sync::Arc;

use lope_values::TextLocation;

use super::tree::{Expr, Node};

impl Expr {
    /// Names the expression needs from its scope, each once, in the order they are met.
    pub fn names(&self) -> Vec<Arc<str>> {
        let mut found: Vec<Arc<str>> = Vec::new();
        self.each_free_name(&mut |name, _| {
            if !found.iter().any(|known| **known == *name) {
                found.push(name.into());
            }
        });
        found
    }

    /// Calls `visit` with every use of a free name and its place.
    pub fn each_free_name(&self, visit: &mut dyn FnMut(&str, TextLocation)) {
        free(self, &mut Vec::new(), visit);
    }

    /// Names of the secrets that the expression refers to, each once.
    pub fn secrets(&self) -> Vec<Arc<str>> {
        let mut found = Vec::new();
        collect_secrets(self, &mut found);
        found
    }

    /// Gives every free name the slot that `slot_of` says; a name without one is looked up by text.
    pub fn resolve(&mut self, slot_of: &mut dyn FnMut(&str) -> Option<u32>) {
        resolve(self, &mut Vec::new(), slot_of);
    }

    /// Moves every known place: from a position in a string to one in a file.
    pub fn relocate(&mut self, location: &dyn Fn(TextLocation) -> TextLocation) {
        if self.at.is_known() {
            self.at = location(self.at);
        }
        self.each_child_mut(&mut |child| child.relocate(location));
    }

    /// How deep the tree is: one for a leaf.
    pub fn depth(&self) -> usize {
        let mut below = 0;
        self.each_child(&mut |child| below = below.max(child.depth()));
        below + 1
    }

    /// The direct children, in the order in which they are stored.
    pub fn each_child<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match &self.node {
            Node::Literal(_) | Node::Name(_) | Node::Secret(_) => {}
            Node::Field(operand, _) | Node::Has(operand, _) | Node::Unary(_, operand) => {
                visit(operand);
            }
            Node::Binary(_, pair) => [&pair.0, &pair.1].into_iter().for_each(visit),
            Node::Choice(three) => [&three.0, &three.1, &three.2].into_iter().for_each(visit),
            Node::Logic(_, items)
            | Node::List(items)
            | Node::Text(items)
            | Node::Call(_, items) => items.iter().for_each(visit),
            Node::Map(entries) => entries
                .iter()
                .flat_map(|(key, value)| [key, value])
                .for_each(visit),
            Node::Each(each) => [&each.over]
                .into_iter()
                .chain(&each.when)
                .chain([&each.body])
                .for_each(visit),
            Node::Let(bound) => [&bound.value, &bound.body].into_iter().for_each(visit),
        }
    }

    fn each_child_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        match &mut self.node {
            Node::Literal(_) | Node::Name(_) | Node::Secret(_) => {}
            Node::Field(operand, _) | Node::Has(operand, _) | Node::Unary(_, operand) => {
                visit(operand);
            }
            Node::Binary(_, pair) => [&mut pair.0, &mut pair.1].into_iter().for_each(visit),
            Node::Choice(three) => [&mut three.0, &mut three.1, &mut three.2]
                .into_iter()
                .for_each(visit),
            Node::Logic(_, items)
            | Node::List(items)
            | Node::Text(items)
            | Node::Call(_, items) => items.iter_mut().for_each(visit),
            Node::Map(entries) => entries
                .iter_mut()
                .flat_map(|(key, value)| [key, value])
                .for_each(visit),
            Node::Each(each) => {
                let each = &mut **each;
                [&mut each.over]
                    .into_iter()
                    .chain(&mut each.when)
                    .chain([&mut each.body])
                    .for_each(visit);
            }
            Node::Let(bound) => {
                let bound = &mut **bound;
                [&mut bound.value, &mut bound.body]
                    .into_iter()
                    .for_each(visit);
            }
        }
    }
}

/// Runs `inner` while `name` is bound.
fn within(name: &Arc<str>, bound: &mut Vec<Arc<str>>, inner: impl FnOnce(&mut Vec<Arc<str>>)) {
    bound.push(Arc::clone(name));
    inner(bound);
    bound.pop();
}

fn is_bound(bound: &[Arc<str>], name: &str) -> bool {
    bound.iter().any(|known| **known == *name)
}

fn free(expr: &Expr, bound: &mut Vec<Arc<str>>, visit: &mut dyn FnMut(&str, TextLocation)) {
    match &expr.node {
        Node::Name(name) if !is_bound(bound, &name.text) => visit(&name.text, expr.at),
        Node::Each(each) => {
            free(&each.over, bound, visit);
            within(&each.name, bound, |bound| {
                each.when
                    .iter()
                    .chain([&each.body])
                    .for_each(|child| free(child, bound, visit));
            });
        }
        Node::Let(held) => {
            free(&held.value, bound, visit);
            within(&held.name, bound, |bound| free(&held.body, bound, visit));
        }
        _ => expr.each_child(&mut |child| free(child, bound, visit)),
    }
}

fn resolve(
    expr: &mut Expr,
    bound: &mut Vec<Arc<str>>,
    slot_of: &mut dyn FnMut(&str) -> Option<u32>,
) {
    match &mut expr.node {
        Node::Name(name) => {
            name.slot = if is_bound(bound, &name.text) {
                None
            } else {
                slot_of(&name.text)
            }
        }
        Node::Each(each) => {
            resolve(&mut each.over, bound, slot_of);
            let each = &mut **each;
            within(&each.name, bound, |bound| {
                each.when
                    .iter_mut()
                    .chain([&mut each.body])
                    .for_each(|child| resolve(child, bound, slot_of));
            });
        }
        Node::Let(held) => {
            resolve(&mut held.value, bound, slot_of);
            let held = &mut **held;
            within(&held.name, bound, |bound| {
                resolve(&mut held.body, bound, slot_of);
            });
        }
        _ => expr.each_child_mut(&mut |child| resolve(child, bound, slot_of)),
    }
}

fn collect_secrets(expr: &Expr, found: &mut Vec<Arc<str>>) {
    if let Node::Secret(name) = &expr.node
        && !is_bound(found, name)
    {
        found.push(Arc::clone(name));
    }
    expr.each_child(&mut |child| collect_secrets(child, found));
}
