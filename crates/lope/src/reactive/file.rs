//! Recipe files: JSON or YAML, or everything that is wrong with one, with line and column.

use std::sync::Arc;

use lope_cells::link::rewrite;
use lope_cells::{CellPath, Json, wording};
use lope_definition::Problem;
use lope_definition::yaml::LocatedDocument;
use lope_reactive::Recipe;
use lope_reactive::javascript::JavaScript;
use lope_reactive::recipe::script::{build_recipe, place_in_recipe};
use lope_reactive::recipe::{BadRecipe, FunctionCode, NodeModule, is_recipe};

/// A recipe file that was read.
#[derive(Clone, Debug)]
pub struct RecipeFile {
    pub recipe: Arc<Recipe>,
}

/// A file that cannot be read at all.
pub fn unreadable(message: &str) -> Problem {
    Problem::new(lope_expr::TextLocation::default(), "", message)
}

/// Reads a recipe file. `$alias` may be written as a text, `internal/count`.
pub fn read_recipe(text: &str) -> Result<RecipeFile, Vec<Problem>> {
    let located = LocatedDocument::read(text)?;
    let json = lope_model::value::to_json(&located.value());
    let whole = |message: String| vec![Problem::new(located.location([]), "", message)];
    let document = Json::parse(&json).map_err(|error| whole(error.to_string()))?;
    checked(&document, &|at, message| {
        let at = located.location(at.keys().iter().map(|key| &**key));
        Problem::new(at, "", message)
    })
}

/// Reads a recipe file in JavaScript: a function that is called with a builder and returns what the
/// result cell holds.
pub fn read_recipe_script(text: &str) -> Result<RecipeFile, Vec<Problem>> {
    let source = text.trim().trim_end_matches(';');
    let before = text.len() - text.trim_start().len();
    let above = text[..before].matches('\n').count() as u32;
    let built = build_recipe(&mut JavaScript::default(), source);
    let document = built.map_err(|failure| {
        let mut problem = unreadable(&wording::failure_text(&failure.kind, &failure.message));
        if let Some((line, column)) = place_in_recipe(&failure) {
            problem.at.line = line + above;
            problem.at.column = column;
        }
        vec![problem]
    })?;
    checked(&document, &|at, message| {
        let at = at.clone();
        unreadable(&BadRecipe { at, message }.to_string())
    })
}

fn checked(
    document: &Json,
    problem: &dyn Fn(&CellPath, String) -> Problem,
) -> Result<RecipeFile, Vec<Problem>> {
    let document = with_aliases(document).unwrap_or_else(|| document.clone());
    let problems = Recipe::problems(&document).into_iter();
    let mut problems: Vec<Problem> = problems.map(|bad| problem(&bad.at, bad.message)).collect();
    let mut checker = JavaScript::default();
    problems.extend(scripts(&document, &CellPath::root(), &mut checker, problem));
    problems.sort_by_key(|problem| (problem.at.line, problem.at.column));
    if !problems.is_empty() {
        return Err(problems);
    }
    let recipe = Recipe::parse(&document).map_err(|bad| vec![problem(&bad.at, bad.message)])?;
    let recipe = Arc::new(recipe);
    Ok(RecipeFile { recipe })
}

/// Aliases that were written as texts, in their long form.
fn with_aliases(value: &Json) -> Option<Json> {
    let alias = value.as_object().filter(|object| object.len() == 1);
    if let Some(path) = alias.and_then(|alias| alias.get("$alias")?.as_str()) {
        let path = Json::array(path.split('/').map(Json::from));
        let path = Json::object([("path", path)]);
        return Some(Json::object([("$alias", path)]));
    }
    rewrite(value, &mut |child, _| with_aliases(child))
}

/// The scripts that are no functions.
fn scripts(
    document: &Json,
    at: &CellPath,
    checker: &mut JavaScript,
    problem: &dyn Fn(&CellPath, String) -> Problem,
) -> Vec<Problem> {
    let nodes = document.child("nodes").and_then(Json::as_array);
    let mut found = Vec::new();
    for (index, node) in nodes.into_iter().flat_map(|nodes| nodes.iter().enumerate()) {
        let at = at.join("nodes").join(index.to_string());
        if let Some(op) = node.child("inputs").and_then(|inputs| inputs.child("op"))
            && is_recipe(op)
        {
            found.extend(scripts(op, &at.join("inputs").join("op"), checker, problem));
        }
        let code_at = at.join("module").join("implementation");
        match NodeModule::parse(node.child("module").unwrap_or(&Json::Null)) {
            Ok(NodeModule::Function(function)) => {
                if let FunctionCode::JavaScript(source) = function.code {
                    let failed = checker.check(&source).err().into_iter();
                    let told = failed.map(|it| wording::failure_text(&it.kind, &it.message));
                    found.extend(told.map(|message| problem(&code_at, message)));
                }
            }
            Ok(NodeModule::Recipe(recipe)) => {
                found.extend(scripts(&recipe.document, &code_at, checker, problem));
            }
            Ok(_) | Err(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_its_line() {
        let text = "name: bad\nnodes:\n  - module: { type: javascript, implementation: '(' }\n    inputs: { x: { $alias: elsewhere/x } }\n  - module: { type: nothing }\nresult: 1\nrseult: 2\n";
        let problems = read_recipe(text).unwrap_err();
        let lines: Vec<u32> = problems.iter().map(|problem| problem.at.line).collect();
        assert_eq!(lines, [3, 4, 5, 7], "{problems:?}");
        assert!(problems[2].message.contains("'nothing' is no type"));
    }

    #[test]
    fn a_recipe_for_each_element_is_checked_too() {
        let op = |source: &str| {
            format!(
                "{{ result: {{ $alias: internal/y }}, nodes: [ {{ module: {{ type: javascript, implementation: \"{source}\" }} }} ] }}"
            )
        };
        let text = |op: &str| {
            format!(
                "result: 1\nnodes:\n  - module: {{ type: ref, implementation: map }}\n    inputs:\n      list: [1]\n      op: {op}\n"
            )
        };
        read_recipe(&text(&op("() => 1"))).unwrap();
        let problems = read_recipe(&text(&op("() => {"))).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].at.line, 6);
        assert!(problems[0].message.contains("SyntaxError"), "{problems:?}");
    }

    #[test]
    fn a_recipe_in_javascript_is_the_same_recipe_as_in_yaml() {
        let script = "// Doubles.\n(b) => ({ out: b.compute({ x: b.argument('x') }, ({x}) => x * 2, b.internal('out')) });";
        let yaml = "initial: { internal: {} }\nresult: { out: { $alias: internal/out } }\nnodes:\n  - module: { type: javascript, implementation: '({x}) => x * 2' }\n    inputs: { x: { $alias: argument/x } }\n    outputs: { $alias: internal/out }\n";
        let (script, yaml) = (
            read_recipe_script(script).unwrap(),
            read_recipe(yaml).unwrap(),
        );
        assert_eq!(script.recipe.document, yaml.recipe.document);
        for (bad, expected) in [
            ("(b) => {", "SyntaxError"),
            ("(b) => { b.compute({}, 5) }", "a function expected"),
            ("5", "TypeError"),
            ("(b) => { while (true) {} }", "used up its fuel"),
        ] {
            let problems = read_recipe_script(bad).unwrap_err();
            assert!(
                problems[0].message.contains(expected),
                "{bad}: {problems:?}"
            );
        }
    }

    #[test]
    fn an_alias_in_javascript_may_be_a_text_as_in_yaml() {
        let of_kid = |alias: fn(&str) -> String| {
            let (x, y) = (alias("argument/x"), alias("internal/y"));
            let kid = format!(
                "{{ result: {y}, nodes: [{{ module: {{ type: 'javascript', implementation: '({{x}}) => x' }}, inputs: {{ x: {x} }}, outputs: {y} }}] }}"
            );
            let text = format!(
                "(b) => ({{ kid: b.nested({kid}, {{ x: 1 }}), rows: b.map(b.argument('xs'), {kid}) }})"
            );
            read_recipe_script(&text).unwrap().recipe
        };
        let text = of_kid(|path| format!("{{ $alias: '{path}' }}"));
        let long = of_kid(|path| format!("{{ $alias: {{ path: '{path}'.split('/') }} }}"));
        assert_eq!(text.document, long.document);
    }

    #[test]
    fn what_is_wrong_with_a_recipe_in_javascript_has_its_line() {
        for (bad, line) in [
            ("(b) => {\n  b.name('x');\n  const y = ;\n}", 3),
            ("\n\n(b) => {\n  b.name('x');\n  b.nosuch();\n}", 5),
            ("(b) => {\n  throw new Error('boom');\n}", 2),
        ] {
            let problems = read_recipe_script(bad).unwrap_err();
            assert_eq!(problems[0].at.line, line, "{bad}: {problems:?}");
        }
    }

    #[test]
    fn json_and_yaml_of_the_same_recipe_are_the_same_recipe() {
        let yaml = "result: { $alias: internal/x }\nnodes: []\n";
        let json = r#"{"nodes": [], "result": {"$alias": {"path": ["internal", "x"]}}}"#;
        let (yaml, json) = (read_recipe(yaml).unwrap(), read_recipe(json).unwrap());
        assert_eq!(yaml.recipe.id, json.recipe.id);
    }
}
