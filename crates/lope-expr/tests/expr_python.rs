//! Python's own answers, line by line: `expr_python.jsonl` holds expressions, the trees that mean
//! the same, and what Python 3.11 said. The table is made by `expr_python.py`; nothing here needs
//! Python.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lope_expr::{Expr, Fuel, NoNames, eval};
use lope_model::{Tag, Value, value};

const TABLE: &str = include_str!("expr_python.jsonl");

/// Sets have no order: theirs is made the same on both sides.
fn ordered(found: &Value) -> Value {
    match found {
        Value::List(items) => Value::list(items.iter().map(ordered).collect()),
        Value::Map(map) => Value::map(map.iter().map(|(key, item)| (key.clone(), ordered(item)))),
        Value::Tag(tag) if &*tag.name == "set" => {
            let mut items: Vec<Value> = tag.value.as_list().unwrap().iter().map(ordered).collect();
            items.sort_by_key(value::to_json);
            Value::tag("set", Value::list(items))
        }
        Value::Tag(tag) => {
            let Tag { name, value } = &**tag;
            Value::tag(name, ordered(value))
        }
        other => other.clone(),
    }
}

/// Our messages are Python's, except where Python has no limit or says something about its insides.
fn same_message(kind: &str, ours: &str, theirs: &str) -> bool {
    ours == theirs
        || matches!(kind, "OverflowError" | "UnicodeDecodeError")
        || theirs.contains("complex")
}

fn check(line: &str) -> Result<(), String> {
    let row = value::from_json(line).map_err(|error| format!("{line}: {error}"))?;
    let [Value::Str(source), tree, expected] = row.as_list().unwrap() else {
        return Err(format!("{line}: [source, tree, answer] expected"));
    };
    let tree = Expr::from_value(tree).map_err(|error| format!("{source}: {error}"))?;
    let ours = eval(&tree, &NoNames, &mut Fuel::default());
    match (
        ours,
        expected.get("value"),
        expected.get("error").and_then(Value::as_list),
    ) {
        (Ok(ours), Some(theirs), _) if ordered(&ours) == ordered(theirs) => Ok(()),
        (Ok(ours), ..) => Err(format!("{source}: {ours} but Python says {expected}")),
        (Err(ours), _, Some([kind, message])) => {
            let (kind, message) = (kind.as_str().unwrap(), message.as_str().unwrap());
            let same = ours.kind.name() == kind && same_message(kind, &ours.message, message);
            if same {
                Ok(())
            } else {
                Err(format!(
                    "{source}: {ours} but Python says {kind}: {message}"
                ))
            }
        }
        (Err(ours), ..) => Err(format!("{source}: {ours} but Python says {expected}")),
    }
}

#[test]
fn trees_answer_what_python_answers() {
    let wrong: Vec<String> = TABLE.lines().filter_map(|line| check(line).err()).collect();
    assert!(TABLE.lines().count() > 2_000, "the table is there");
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        TABLE.lines().count(),
        wrong.join("\n")
    );
}
