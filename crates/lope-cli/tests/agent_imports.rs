//! Lists that are imported by processes: killed in the middle, and two at once.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::fixture::agent_project::AgentProject;
use crate::stage::{said, until};

const COUNT: usize = 3_500;

/// A project, and a list for it.
fn with_list() -> (AgentProject, String) {
    let shop = AgentProject::new();
    let lines = (0..COUNT).map(|number| format!("- [ ] task {number}\n"));
    let list = shop.home.file("list.md", &lines.collect::<String>());
    (shop, list)
}

fn words(list: &str) -> [&str; 5] {
    ["tasks", "import", list, "--project", "shop"]
}

/// How many tasks there are, and how many titles they have.
fn counted(shop: &AgentProject) -> (usize, usize) {
    let db = rusqlite::Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    let count = |column: &'static str| {
        let query = format!("SELECT count({column}) FROM tasks");
        let count: u32 = db.query_row(&query, [], |row| row.get(0)).unwrap();
        count as usize
    };
    (count("*"), count("DISTINCT title"))
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// A list that is too long for one commit comes in parts: whoever is killed in the middle leaves some of
/// them, and the same list again adds the rest.
#[test]
fn an_import_that_is_killed_is_gone_on_with_by_the_next() {
    let (shop, list) = with_list();
    let mut command = shop.command(&words(&list));
    let mut import = command.stdout(Stdio::null()).spawn().unwrap();
    until("a part of it", || counted(&shop).0 > 0);
    import.kill().unwrap();
    import.wait().unwrap();
    let (there, titles) = counted(&shop);
    assert_eq!(there, titles);
    let imported = shop.json(&words(&list));
    let added = imported["added"].as_array().unwrap().len();
    assert_eq!(
        (added, number(&imported["skipped"])),
        (COUNT - there, there)
    );
    assert_eq!(counted(&shop), (COUNT, COUNT));
}

/// What goes through a pipe into a file is what is written into one, byte by byte: also what would look odd in a
/// terminal.
#[test]
fn a_list_is_the_same_through_a_pipe_and_in_a_file() {
    let shop = AgentProject::new();
    let odd = ["bel\u{7}", "esc\u{1b}[31mred", "del\u{7f}", "plain"];
    let tasks = odd.map(|text| json!({ "title": text, "description": text, "section": text }));
    let list = shop.home.file("odd.json", &json!(tasks).to_string());
    shop.lope(&words(&list)).done();
    for format in ["markdown", "json"] {
        let export = ["tasks", "export", "--project", "shop", "--format", format];
        let file = shop.home.path().join(format);
        let output = ["--output", file.to_str().unwrap()];
        shop.lope(&[&export[..], &output].concat()).done();
        let written = std::fs::read_to_string(&file).unwrap();
        let piped = shop.lope(&export).done().out;
        assert_eq!(piped, written, "{format}");
        let quiet = shop.lope(&[&["-q"], &export[..]].concat()).done().out;
        assert_eq!(quiet, written, "{format}");
    }
    let told = shop.json(&["tasks", "list"]);
    let titles: Vec<&str> = told
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["title"].as_str().unwrap())
        .collect();
    assert_eq!(titles, odd);
}

/// Two that import the same list at once add it once.
#[test]
fn two_imports_at_once_add_nothing_twice() {
    let (shop, list) = with_list();
    let import = || {
        let mut command = shop.command(&words(&list));
        said(command.arg("--json")).done().json()
    };
    let both: Vec<Value> = std::thread::scope(|scope| {
        let begun = [(); 2].map(|()| scope.spawn(import));
        begun.map(|it| it.join().unwrap()).into()
    });
    assert_eq!(counted(&shop), (COUNT, COUNT));
    let added = both.iter().map(|it| it["added"].as_array().unwrap().len());
    assert_eq!(added.sum::<usize>(), COUNT);
    let skipped = both.iter().map(|it| number(&it["skipped"]));
    assert_eq!(skipped.sum::<usize>(), COUNT);
}

/// "Bad input gets a clear error that names the place, and nothing is lost or half written": also where tasks of a list
/// do not go together.
#[test]
fn a_list_that_does_not_go_together_is_refused_with_its_line() {
    let shop = AgentProject::new();
    let id = |last: char| format!("00000000-0000-0000-0000-00000000000{last}");
    let [a, b] = ['a', 'b'].map(id);
    let needs = |own: &str, needed: &str| format!(r#""id":"{own}","dependencies":["{needed}"]"#);
    let rows = [
        (
            [format!(r#""id":"{a}""#), format!(r#""id":"{a}""#)],
            3,
            "stands in line 2 already",
        ),
        (
            [needs(&a, &b), needs(&b, &a)],
            2,
            "waits for itself, through",
        ),
        (
            [format!(r#""id":"{a}""#), needs(&b, &id('f'))],
            3,
            "there is no task",
        ),
    ];
    for (tasks, line, told) in rows {
        let [first, second] = &tasks;
        let markdown =
            format!("# List\n- [ ] a <!-- {{{first}}} -->\n- [ ] b <!-- {{{second}}} -->\n");
        let json = format!("[\n{{\"title\":\"a\",{first}}},\n{{\"title\":\"b\",{second}}}]\n");
        for (name, text) in [("bad.md", markdown), ("bad.json", json)] {
            let list = shop.home.file(name, &text);
            for more in [None, Some("--dry-run")] {
                let import: Vec<&str> = words(&list).into_iter().chain(more).collect();
                let bad = shop.lope(&import);
                let place = format!("{name}:{line}: ");
                assert_eq!(bad.code, 2, "{bad:?}");
                assert!(
                    bad.err.contains(&place) && bad.err.contains(told),
                    "{bad:?}"
                );
            }
        }
    }
    assert_eq!(shop.json(&["tasks", "list"]), json!([]));
}
