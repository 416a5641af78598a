//! What people gave names to is told by them: where links lead, what children run into, who changed a
//! cell. Programs get the ids too.

use crate::stage::Home;

const COUNTER: &str = r#"
name: counter
initial: { internal: { count: 0, add: { $stream: true } } }
result: { count: { $alias: internal/count }, double: { $alias: internal/double }, add: { $alias: internal/add } }
nodes:
  - module:
      type: javascript
      argumentSchema: { properties: { n: true, count: { asCell: true } } }
      implementation: "({n, count}) => { count.increment(n) }"
    inputs: { n: { $alias: internal/add }, count: { $alias: internal/count } }
    outputs: {}
  - module: { type: javascript, implementation: "({count}) => count * 2" }
    inputs: { count: { $alias: internal/count } }
    outputs: { $alias: internal/double }
"#;

/// A table whose rows and cells are processes of their own; one of the cells fails.
const SHEET: &str = r#"
name: sheet
result: { rows: { $alias: internal/rows } }
nodes:
  - module: { type: ref, implementation: map }
    inputs:
      list: { $alias: argument/rows }
      op:
        name: row
        result: { cells: { $alias: internal/cells } }
        nodes:
          - module: { type: ref, implementation: map }
            inputs:
              list: { $alias: argument/element }
              op:
                name: cell
                result: { half: { $alias: internal/half } }
                nodes:
                  - module: { type: javascript, implementation: "({n}) => { if (n % 2) throw new Error('odd'); return n / 2 }" }
                    inputs: { n: { $alias: argument/element } }
                    outputs: { $alias: internal/half }
            outputs: { $alias: internal/cells }
    outputs: { $alias: internal/rows }
"#;

#[test]
fn links_and_changes_are_told_by_the_names_of_documents() {
    let home = Home::new();
    let counter = home.file("counter.yaml", COUNTER);
    home.lope(&["recipes", "run", &counter, "--into", "home/counter"])
        .done();
    home.lope(&["streams", "send", "home/counter/add", "4", "--id", "four"])
        .done();
    let links = home.lope(&["cells", "links", "home/counter"]).done().out;
    assert_eq!(
        links,
        "CELL     KIND      TARGET\n\
         /add     redirect  home/process-of-counter/internal/add\n\
         /count   redirect  home/process-of-counter/internal/count\n\
         /double  redirect  home/process-of-counter/internal/double\n"
    );
    let told = home.lope(&["--json", "cells", "links", "home/counter/count"]);
    let target = told.done().json()[0]["target"].as_str().unwrap().to_owned();
    let id = target.strip_suffix("/internal/count").unwrap();
    assert!(id.starts_with("home/of:"), "{id}");
    // A document of another space, and one that nobody gave a name.
    let said = home.lope(&["--json", "cells", "set", "shop/till", "1"]);
    let till = said.done().json()["cell"].as_str().unwrap().to_owned();
    let till = till.strip_prefix("shop/").unwrap();
    let links = format!(
        r#"[{{"/": {{"link@1": {{"space": "shop", "id": "{till}"}}}}}}, {{"/": {{"link@1": {{"id": "of:123"}}}}}}]"#
    );
    home.lope(&["cells", "set", "home/list", &links]).done();
    let links = home.lope(&["cells", "links", "home/list"]).done().out;
    assert_eq!(
        links,
        "CELL  KIND  TARGET\n/0    link  shop/till\n/1    link  home/of:123\n"
    );
    let history = home.lope(&["cells", "history", "home/counter/double"]);
    let history = history.done().out;
    let last = history.lines().last().unwrap().split_whitespace();
    let last: Vec<&str> = last.skip(1).collect();
    assert_eq!(
        last,
        ["/internal/double", "8", "node", "process-of-counter/1"]
    );
}

#[test]
fn children_are_told_by_the_way_that_leads_to_them() {
    let home = Home::new();
    let sheet = home.file("sheet.yaml", SHEET);
    let rows = r#"{"rows": [[2, 3], [4]]}"#;
    home.lope(&[
        "recipes",
        "run",
        &sheet,
        "--into",
        "home/sheet",
        "--argument",
        rows,
    ])
    .done();
    let child = "home/sheet/rows/0/cells/1";
    let failing = format!("does not work:\n  node 0/0/0 in {child}: Error: odd\n");
    for verb in ["why", "show"] {
        let told = home.lope(&["recipes", verb, "home/sheet"]).done().out;
        assert!(told.ends_with(&failing), "{verb}: {told}");
    }
    let told = home.lope(&["--json", "recipes", "why", "home/sheet"]);
    let failure = told.done().json()["failures"][0].clone();
    assert_eq!(failure["cell"], child);
    let id = failure["id"].as_str().unwrap();
    assert!(id.starts_with("home/of:"), "{id}");
    // What is told is what can be asked for.
    for cell in [child, id] {
        let told = home.lope(&["recipes", "show", cell]).done().out;
        assert_eq!(told.lines().next(), Some(&*format!("{child}: cell")));
        assert!(told.contains("\n    failed: Error: odd"), "{told}");
    }
    assert_eq!(
        home.lope(&["--json", "cells", "get", child]).done().json(),
        serde_json::json!({})
    );
}

#[test]
fn what_leads_nowhere_is_said_in_plain_words() {
    let home = Home::new();
    let value = r#"{"n": 5, "list": [1, 2]}"#;
    home.lope(&["cells", "set", "home/doc", value]).done();
    for (cell, says) in [
        (
            "home/doc/n/deep/er",
            "home/doc/n is a number, which has no entry 'deep'",
        ),
        (
            "home/doc/list/7",
            "home/doc/list is a list, which has no entry '7'",
        ),
        (
            "home/doc/list/x",
            "home/doc/list is a list, which has no entry 'x'",
        ),
        (
            r#"home/data:application/json,{"a":1}/a"#,
            r#"home/data:application/json,{"a":1}/a is an inline document, which never changes"#,
        ),
    ] {
        let said = home.lope(&["cells", "set", cell, "1"]);
        let expected = format!("error: {says}");
        assert_eq!((said.code, said.err.trim_end()), (1, &*expected), "{cell}");
    }
}
