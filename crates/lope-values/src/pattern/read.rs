//! The text of a pattern into its program.

use super::{Edge, Instruction, NESTING_MAX, PROGRAM_MAX, Pattern, Set};

type PatternError = String;

pub(super) fn pattern(text: &str) -> Result<Pattern, PatternError> {
    let (ignore_case, text) = text
        .strip_prefix("(?i)")
        .map_or((false, text), |rest| (true, rest));
    let mut reader = PatternParser {
        chars: text.chars().collect(),
        position: 0,
        nesting: 0,
    };
    let mut program = reader.choice()?;
    if reader.position < reader.chars.len() {
        return Err("a ')' without its '('".into());
    }
    program.push(Instruction::Found);
    Ok(Pattern {
        program,
        ignore_case,
    })
}

struct PatternParser {
    chars: Vec<char>,
    position: usize,
    nesting: usize,
}

impl PatternParser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.position).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.position += usize::from(c.is_some());
        c
    }

    fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.position += usize::from(found);
        found
    }

    fn choice(&mut self) -> Result<Vec<Instruction>, PatternError> {
        let mut program = self.sequence()?;
        while self.accept('|') {
            let other = self.sequence()?;
            program = either(program, other)?;
        }
        Ok(program)
    }

    fn sequence(&mut self) -> Result<Vec<Instruction>, PatternError> {
        let mut program = Vec::new();
        while self.peek().is_some_and(|c| c != '|' && c != ')') {
            let one = self.repeated()?;
            append(&mut program, &one)?;
        }
        Ok(program)
    }

    fn repeated(&mut self) -> Result<Vec<Instruction>, PatternError> {
        let mut program = self.single()?;
        loop {
            let (least, most) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.counts()?,
                _ => return Ok(program),
            };
            self.position += 1;
            // Whether it takes few or many makes no difference to whether it fits.
            self.accept('?');
            program = repeat(&program, least, most)?;
        }
    }

    /// `{n}`, `{n,}` or `{n,m}` at the current place, up to its closing brace.
    fn counts(&mut self) -> Result<(usize, Option<usize>), PatternError> {
        let inside: String = self.chars[self.position + 1..]
            .iter()
            .take_while(|c| **c != '}')
            .collect();
        let closed = self.chars.get(self.position + 1 + inside.chars().count()) == Some(&'}');
        let (least, most) = inside
            .split_once(',')
            .map_or((&*inside, None), |(least, most)| (least, Some(most)));
        let Some(least) = least.parse::<usize>().ok().filter(|_| closed) else {
            return Err("a '{' that is no number of repetitions; write \\{ for a brace".into());
        };
        let most = match most {
            None => Some(least),
            Some("") => None,
            Some(most) => Some(
                most.parse()
                    .map_err(|_| format!("'{most}' is not a number of repetitions"))?,
            ),
        };
        if most.is_some_and(|most| most < least) {
            return Err(format!("{{{inside}}} repeats less than its least"));
        }
        self.position += inside.chars().count() + 1;
        Ok((least, most))
    }

    fn single(&mut self) -> Result<Vec<Instruction>, PatternError> {
        let step = match self.next().ok_or("it ends where something is expected")? {
            '.' => Instruction::One(Set {
                ranges: vec![('\n', '\n')],
                negated: true,
            }),
            '^' => Instruction::Edge(Edge::Start),
            '$' => Instruction::Edge(Edge::End),
            '(' => return self.group(),
            '[' => Instruction::One(self.class()?),
            '\\' => self.escape()?,
            c @ ('*' | '+' | '?') => return Err(format!("a '{c}' that repeats nothing")),
            c => Instruction::One(only(c)),
        };
        Ok(vec![step])
    }

    fn group(&mut self) -> Result<Vec<Instruction>, PatternError> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(format!("groups nested deeper than {NESTING_MAX}"));
        }
        if self.accept('?') && !self.accept(':') {
            return Err("only (…) and (?:…) groups are known, and (?i) at the start".into());
        }
        let inside = self.choice()?;
        if !self.accept(')') {
            return Err("a '(' without its ')'".into());
        }
        self.nesting -= 1;
        Ok(inside)
    }

    fn escape(&mut self) -> Result<Instruction, PatternError> {
        let c = self.next().ok_or("it ends with a backslash")?;
        Ok(match c {
            'b' => Instruction::Edge(Edge::Word),
            'B' => Instruction::Edge(Edge::NotWord),
            'A' => Instruction::Edge(Edge::Start),
            'z' => Instruction::Edge(Edge::End),
            _ => Instruction::One(escaped(c)?),
        })
    }

    fn class(&mut self) -> Result<Set, PatternError> {
        let mut set = Set {
            ranges: Vec::new(),
            negated: self.accept('^'),
        };
        let mut first = true;
        loop {
            let c = self.next().ok_or("a '[' without its ']'")?;
            if c == ']' && !first {
                return Ok(set);
            }
            first = false;
            let low = if c == '\\' {
                escaped(self.next().ok_or("it ends with a backslash")?)?
            } else {
                only(c)
            };
            let is_range = self.peek() == Some('-')
                && self.chars.get(self.position + 1).is_some_and(|c| *c != ']');
            match (is_range, low.ranges.as_slice(), low.negated) {
                (true, [(start, end)], false) if start == end => {
                    set.ranges.push((*start, self.range_end(*start)?));
                }
                (true, ..) => return Err("a range that starts with a class".into()),
                (false, ranges, false) => set.ranges.extend_from_slice(ranges),
                (false, ranges, true) => set.ranges.extend(complement(ranges)),
            }
        }
    }

    fn range_end(&mut self, start: char) -> Result<char, PatternError> {
        self.position += 1;
        let c = self.next().ok_or("a '[' without its ']'")?;
        let end = if c == '\\' {
            escaped(self.next().ok_or("it ends with a backslash")?)?
        } else {
            only(c)
        };
        match end.ranges.as_slice() {
            [(end, same)] if end == same && *end >= start => Ok(*end),
            _ => Err(format!(
                "a range that starts at '{start}' and does not end behind it"
            )),
        }
    }
}

fn only(c: char) -> Set {
    Set {
        ranges: vec![(c, c)],
        negated: false,
    }
}

fn escaped(c: char) -> Result<Set, PatternError> {
    let set = |ranges: &[(char, char)], negated| Set {
        ranges: ranges.to_vec(),
        negated,
    };
    let words = [('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')];
    let blanks = [(' ', ' '), ('\t', '\r')];
    Ok(match c {
        'd' | 'D' => set(&[('0', '9')], c == 'D'),
        'w' | 'W' => set(&words, c == 'W'),
        's' | 'S' => set(&blanks, c == 'S'),
        'n' => only('\n'),
        'r' => only('\r'),
        't' => only('\t'),
        'f' => only('\u{c}'),
        'v' => only('\u{b}'),
        c if c.is_ascii_alphanumeric() => return Err(format!("the escape \\{c} is not known")),
        c => only(c),
    })
}

/// Everything outside the ranges.
fn complement(ranges: &[(char, char)]) -> Vec<(char, char)> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut gaps = Vec::new();
    let mut next = Some('\0');
    for (low, high) in sorted {
        if let Some(start) = next
            && start < low
        {
            gaps.extend(before(low).map(|end| (start, end)));
        }
        next = after(high);
    }
    gaps.extend(next.map(|start| (start, char::MAX)));
    gaps
}

fn after(c: char) -> Option<char> {
    (c..=char::MAX).nth(1)
}

fn before(c: char) -> Option<char> {
    ('\0'..c).next_back()
}

fn shifted(step: &Instruction, by: usize) -> Instruction {
    match step {
        Instruction::Split(one, other) => Instruction::Split(one + by, other + by),
        Instruction::Jump(target) => Instruction::Jump(target + by),
        other => other.clone(),
    }
}

fn append(program: &mut Vec<Instruction>, part: &[Instruction]) -> Result<(), PatternError> {
    if program.len() + part.len() > PROGRAM_MAX {
        return Err("it is too large once its repetitions are written out".into());
    }
    let by = program.len();
    program.extend(part.iter().map(|step| shifted(step, by)));
    Ok(())
}

fn either(
    one: Vec<Instruction>,
    other: Vec<Instruction>,
) -> Result<Vec<Instruction>, PatternError> {
    let mut program = vec![Instruction::Split(1, one.len() + 2)];
    append(&mut program, &one)?;
    program.push(Instruction::Jump(one.len() + other.len() + 2));
    append(&mut program, &other)?;
    Ok(program)
}

fn repeat(
    part: &[Instruction],
    least: usize,
    most: Option<usize>,
) -> Result<Vec<Instruction>, PatternError> {
    let mut program = Vec::new();
    for _ in 0..least {
        append(&mut program, part)?;
        if part.is_empty() {
            break;
        }
    }
    match most {
        None => {
            let start = program.len();
            program.push(Instruction::Split(start + 1, start + part.len() + 2));
            append(&mut program, part)?;
            program.push(Instruction::Jump(start));
        }
        Some(most) => {
            let optional = if part.is_empty() { 0 } else { most - least };
            let size = (part.len() + 1).saturating_mul(optional);
            let end = program.len().saturating_add(size);
            for _ in 0..optional {
                let here = program.len();
                program.push(Instruction::Split(here + 1, end));
                append(&mut program, part)?;
            }
        }
    }
    Ok(program)
}
