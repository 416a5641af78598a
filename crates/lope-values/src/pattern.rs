//! Regular expressions for `matches`: is there a part of a text that fits? All states go through
//! the text together, so the work is at most pattern size × text length, and the fuel pays for it.
//! No back-references, no look-around.
//!
//! Our own and small, because what matches is part of the law: another version of a library must
//! not decide otherwise.

use super::error::EvalError;
use super::fuel::Fuel;

mod read;

/// Most instructions of one pattern, after its repetitions are unrolled.
const PROGRAM_MAX: usize = 20_000;
/// Deepest nesting of groups.
const NESTING_MAX: usize = 50;

#[derive(Debug, Clone)]
pub struct Pattern {
    program: Vec<Instruction>,
    ignore_case: bool,
}

#[derive(Debug, Clone)]
enum Instruction {
    /// One character of a set.
    One(Set),
    /// Go on at both places.
    Split(usize, usize),
    Jump(usize),
    /// Go on only here.
    Edge(Edge),
    Found,
}

#[derive(Debug, Clone, Copy)]
enum Edge {
    Start,
    End,
    Word,
    NotWord,
}

/// Characters that fit: ranges, or all but those.
#[derive(Debug, Clone, Default)]
struct Set {
    ranges: Vec<(char, char)>,
    negated: bool,
}

impl Set {
    fn has(&self, c: char) -> bool {
        self.ranges
            .iter()
            .any(|(low, high)| (*low..=*high).contains(&c))
            != self.negated
    }

    fn holds(&self, c: char, ignore_case: bool) -> bool {
        self.has(c)
            || (ignore_case
                && (self.has(c.to_ascii_lowercase()) || self.has(c.to_ascii_uppercase())))
    }
}

fn is_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl Pattern {
    pub fn read(text: &str, fuel: &mut Fuel) -> Result<Self, EvalError> {
        let pattern = read::pattern(text)
            .map_err(|problem| EvalError::value(format!("not a pattern: {problem}")))?;
        fuel.spend(pattern.program.len() as u64)?;
        Ok(pattern)
    }

    pub fn is_found_in(&self, text: &str, fuel: &mut Fuel) -> Result<bool, EvalError> {
        let mut states = States::new(self.program.len());
        let mut before = None;
        let mut rest = text.chars();
        loop {
            let after = rest.clone().next();
            self.enter(&mut states, 0, before, after);
            fuel.spend(1 + states.active.len() as u64)?;
            if states
                .active
                .iter()
                .any(|state| matches!(self.program[*state], Instruction::Found))
            {
                return Ok(true);
            }
            let Some(c) = rest.next() else {
                return Ok(false);
            };
            let coming = rest.clone().next();
            let active = states.take();
            for state in active {
                if let Instruction::One(set) = &self.program[state]
                    && set.holds(c, self.ignore_case)
                {
                    self.enter(&mut states, state + 1, Some(c), coming);
                }
            }
            before = Some(c);
        }
    }

    /// Adds a state and all that follow from it without a character.
    fn enter(&self, states: &mut States, first: usize, before: Option<char>, after: Option<char>) {
        let mut open = vec![first];
        while let Some(state) = open.pop() {
            if !states.mark(state) {
                continue;
            }
            match &self.program[state] {
                Instruction::Jump(target) => open.push(*target),
                Instruction::Split(one, other) => open.extend([*other, *one]),
                Instruction::Edge(edge) if edge.holds(before, after) => open.push(state + 1),
                Instruction::Edge(_) => {}
                Instruction::One(_) | Instruction::Found => states.active.push(state),
            }
        }
    }
}

impl Edge {
    fn holds(self, before: Option<char>, after: Option<char>) -> bool {
        match self {
            Self::Start => before.is_none(),
            Self::End => after.is_none(),
            Self::Word => is_word(before) != is_word(after),
            Self::NotWord => is_word(before) == is_word(after),
        }
    }
}

/// The states alive at one place of the text.
struct States {
    active: Vec<usize>,
    seen: Vec<u32>,
    round: u32,
}

impl States {
    fn new(count: usize) -> Self {
        Self {
            active: Vec::new(),
            seen: vec![0; count],
            round: 1,
        }
    }

    fn mark(&mut self, state: usize) -> bool {
        let is_new = self.seen[state] != self.round;
        self.seen[state] = self.round;
        is_new
    }

    /// The states so far; the next ones belong to the next place.
    fn take(&mut self) -> Vec<usize> {
        if self.round == u32::MAX {
            self.seen.fill(0);
            self.round = 0;
        }
        self.round += 1;
        std::mem::take(&mut self.active)
    }
}
