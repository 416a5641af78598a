//! The top of a workflow file: its name, what it takes, how it is run, and its body.

use std::path::Path;

use super::fields::WorkflowReader;
use super::tree::{NodeId, Shape, YamlTree};
use crate::definition::{
    Checkpoint, Definition, NAME_MAX, Problem, RedactedOf, RedactedPath, structure,
};

const KEYS: [&str; 10] = [
    "name",
    "description",
    "input",
    "checkpoint",
    "concurrency",
    "retention",
    "grace",
    "redact",
    "policies",
    "steps",
];

/// Makes a definition of a tree; it is sound if no problem comes with it.
pub(super) fn read(tree: &YamlTree, source: &str, file_name: &str) -> (Definition, Vec<Problem>) {
    let mut reader = WorkflowReader::new(tree, source);
    reader.workflow(file_name);
    reader.redact();
    let WorkflowReader {
        mut definition,
        mut problems,
        written,
        ..
    } = reader;
    if !matches!(tree.shape(tree.root), Shape::Map(_)) {
        return (definition, problems);
    }
    definition.infer_needs();
    let unfinished = problems.clone();
    let checked = definition
        .validate()
        .into_iter()
        .filter(|problem| !follows(problem, &unfinished));
    problems.extend(checked.map(|problem| written.refine(problem)));
    let top = tree.at(tree.root);
    for problem in problems.iter_mut().filter(|problem| !problem.at.is_known()) {
        problem.at = top;
    }
    (definition, problems)
}

/// Does what the checker says only follow from what could not be read? A step that was noted is not
/// judged again.
fn follows(problem: &Problem, unfinished: &[Problem]) -> bool {
    !problem.path.is_empty() && unfinished.iter().any(|known| known.path == problem.path)
}

impl WorkflowReader<'_> {
    fn workflow(&mut self, file_name: &str) {
        let root = self.tree.root;
        let Shape::Map(entries) = self.tree.shape(root) else {
            let found = self.tree.shape(root).describe();
            let problem = self.problem(
                self.tree.at(root),
                format!("a workflow file is a map with 'name' and 'steps', not {found}"),
            );
            return self.problems.push(problem);
        };
        for entry in entries.iter().filter(|entry| !entry.key.starts_with("x-")) {
            match &*entry.key {
                "name" => self.name(entry.value),
                "description" => {
                    self.definition.description = self
                        .text(entry.value, "description")
                        .map(|text| text.to_string());
                }
                "input" => self.input(entry.value),
                "checkpoint" => self.checkpoint(entry.value),
                "concurrency" => {
                    self.definition.concurrency = self.count(entry.value, "concurrency", 1);
                }
                "retention" => self.definition.retention = self.span(entry.value, "retention"),
                "grace" => self.definition.grace = self.span(entry.value, "grace"),
                "redact" => self.redacted = self.texts(entry.value, "redact"),
                "policies" => self.rules(entry.value),
                "steps" => self.steps(entry.value),
                _ => self.unknown_key(entry, "a workflow", &KEYS),
            }
        }
        let has = |key: &str| entries.iter().any(|entry| &*entry.key == key);
        if !has("name") {
            self.no_name(file_name);
        }
        if !has("steps") {
            self.refuse(self.tree.at(root), "the workflow has no 'steps'");
        }
    }

    /// What must not be shown, once all steps are known.
    fn redact(&mut self) {
        let steps = if structure(&self.definition).is_empty() {
            self.definition.step_paths()
        } else {
            Vec::new()
        };
        for (text, at) in std::mem::take(&mut self.redacted) {
            let readings = RedactedPath::readings(&text, &steps);
            let is_known = readings.iter().any(|path| path.is_known(&steps));
            match RedactedPath::parse(&text) {
                Err(message) => self.refuse(at, message),
                Ok(RedactedPath {
                    of: RedactedOf::Step(step),
                    ..
                }) if !steps.is_empty() && !is_known => {
                    let known = steps.iter().map(String::as_str).chain(["input", "result"]);
                    let problem = Problem::new(at, "", format!("there is no step '{step}'"));
                    self.problems.push(problem.did_you_mean(&step, known));
                }
                Ok(_) => self.definition.redact.push(text),
            }
        }
    }

    fn name(&mut self, id: NodeId) {
        let name = self.text(id, "name");
        if name.as_ref().is_some_and(|name| {
            name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control)
        }) {
            let message =
                format!("a workflow's name has 1 to {NAME_MAX} bytes and no control characters");
            self.refuse(self.tree.at(id), message);
        }
        self.definition.name = name
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "unnamed".into());
    }

    fn no_name(&mut self, file_name: &str) {
        self.definition.name = "unnamed".into();
        let stem = Path::new(file_name)
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or("NAME");
        let problem = self.problem(self.tree.at(self.tree.root), "the workflow has no 'name'");
        self.problems
            .push(problem.hint(format!("add 'name: {stem}'")));
    }

    /// `every_step`, `on_complete`, `manual` or `{every_n: 10}`.
    fn checkpoint(&mut self, id: NodeId) {
        let read = if matches!(self.tree.shape(id), Shape::Map(_)) {
            let fields = self.fields(id, "'checkpoint'", &["every_n"]);
            let every = fields.and_then(|fields| self.required(fields, "every_n", "checkpoint"));
            every
                .and_then(|id| self.count(id, "every_n", 1))
                .map(Checkpoint::EveryN)
        } else {
            let words = [
                ("every_step", Checkpoint::EveryStep),
                ("on_complete", Checkpoint::OnComplete),
                ("manual", Checkpoint::Manual),
            ];
            self.word(id, "checkpoint", &words)
        };
        self.definition.checkpoint = read.unwrap_or_default();
    }

    fn steps(&mut self, id: NodeId) {
        if let Shape::Map(entries) = self.tree.shape(id)
            && entries.is_empty()
        {
            self.refuse(self.tree.at(id), "the workflow has no steps");
        } else if self.is_block(id, "steps") {
            self.body(id);
        }
    }
}
