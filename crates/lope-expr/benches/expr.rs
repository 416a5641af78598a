//! How long evaluations take: `cargo bench -p lope-expr --bench expr`. Prints nanoseconds per
//! evaluation, the best of several rounds, since whatever else the machine does only makes it
//! slower.

use std::hint::black_box;
use std::time::{Duration, Instant};

use lope_expr::{Expr, Fuel, Scope, Template, eval, parse};
use lope_model::{Map, Value, value};

const ROUNDS: usize = 1_000;
const ROUND: Duration = Duration::from_micros(100);

/// Names in slots, as the law keeps them.
struct Slots(Vec<Value>);

impl Scope for Slots {
    fn lookup(&self, _: &str) -> Option<&Value> {
        None
    }

    fn slot(&self, slot: u32) -> Option<&Value> {
        self.0.get(slot as usize)
    }
}

/// The least time per call over rounds that are shorter than a slice of the scheduler.
fn nanos(mut work: impl FnMut()) -> f64 {
    let mut batch = 1_u32;
    while timed(&mut work, batch) < ROUND {
        batch *= 2;
    }
    let rounds = (0..ROUNDS).map(|_| timed(&mut work, batch).as_nanos() as f64);
    rounds.fold(f64::MAX, f64::min) / f64::from(batch)
}

fn timed(work: &mut impl FnMut(), count: u32) -> Duration {
    let start = Instant::now();
    (0..count).for_each(|_| work());
    start.elapsed()
}

fn report(name: &str, expr: &Expr, scope: &dyn Scope) {
    let time = nanos(|| {
        let _ = black_box(eval(black_box(expr), scope, &mut Fuel::default()));
    });
    println!("{time:>12.0} ns  {name}");
}

fn scope() -> Map {
    let users: Vec<String> = (0..1_000)
        .map(|n| format!(r#"{{"active": {}, "age": {n}}}"#, n % 2 == 0))
        .collect();
    let text = format!(
        r#"{{"x": {{"total": 120, "name": "Ann"}}, "y": "a", "users": [{}]}}"#,
        users.join(",")
    );
    value::from_json(&text)
        .expect("the scope is JSON")
        .as_map()
        .expect("an object")
        .clone()
}

fn main() {
    let scope = scope();
    let figure = r#"x.total > 100 && y == "a""#;
    report(
        &format!("{figure} (issue 3: at most 1,000)"),
        &parse(figure).expect("an expression"),
        &scope,
    );
    let mut slotted = parse(figure).expect("an expression");
    slotted.resolve(&mut |name| {
        ["x", "y"]
            .iter()
            .position(|known| *known == name)
            .map(|slot| slot as u32)
    });
    report(
        &format!("{figure} with slots"),
        &slotted,
        &Slots(vec![scope["x"].clone(), scope["y"].clone()]),
    );
    for text in [
        "1 + 2 * 3",
        "x.name + '!'",
        "users.filter(u, u.active)",
        "users.map(u, u.age * 2).sum()",
    ] {
        report(text, &parse(text).expect("an expression"), &scope);
    }
    let template = value::from_json(
        r#"{"to": "${{ x.name }}", "subject": "Hello ${{ x.name }} (${{ x.total }})"}"#,
    );
    let template = Template::parse(&template.expect("JSON")).expect("a template");
    report("a template of two texts", template.expr(), &scope);
    let time = nanos(|| {
        let _ = black_box(parse(black_box(figure)));
    });
    println!("{time:>12.0} ns  parsing {figure}");
}
