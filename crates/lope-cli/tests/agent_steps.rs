//! `agent` steps of any workflow: what ends one, and what its failure is called.

use serde_json::json;

use crate::fixture::agent_project::{AgentProject, is_there};

/// Each way in which an agent of a step comes to an end that is none has its name, and leaves no process.
#[test]
fn the_failures_of_agent_steps_have_their_names() {
    let shop = AgentProject::with("  stopGrace: 200ms\n", "");
    let folder = shop.project.to_str().unwrap();
    let step = |name: &str, needs: &str, agent: &str, more: &str| {
        format!(
            "  {name}: {{ {needs}try: {{ steps: {{ a: {{ agent: {{ {agent}, cwd: {folder:?} }}, retries: 0{more} }} }} }}, \
             catch: [{{ as: e, steps: {{ said: {{ let: '${{{{ e }}}}' }} }} }}] }}\n"
        )
    };
    let flow = [
        "name: w\nsteps:\n".to_owned(),
        step("silent", "", "prompt: 'Task: hang'", ", silence: 1s"),
        step("late", "", "prompt: 'Task: stay'", ", timeout: 1s"),
        step("dear", "", "prompt: 'Task: dear'", ", budget: 1"),
        step("unknown", "", "prompt: 'Task: succeed', agent: nobody", ""),
        step("failed", "", "prompt: 'Task: fail'", ""),
        "  end: { return: { silent: '${{ silent }}', late: '${{ late }}', dear: '${{ dear }}', \
         unknown: '${{ unknown }}', failed: '${{ failed }}' } }\n"
            .to_owned(),
    ];
    let file = shop.home.file("w.yaml", &flow.concat());
    let checked = shop.lope(&["workflows", "check", &file]).done();
    assert_eq!(checked.err, "");
    let run = shop.json(&["run", &file]);
    for (step, kind, words) in [
        ("silent", "AgentHang", ""),
        ("late", "Timeout", ""),
        ("dear", "AgentBudget", ""),
        ("unknown", "NotStarted", "there is no agent 'nobody'"),
        ("failed", "AgentFailed", "cannot do it"),
    ] {
        let failure = &run["result"][step];
        let said = failure["message"].as_str().unwrap_or_default();
        assert!(
            failure["type"] == kind && said.contains(words),
            "{step}: {run}"
        );
    }
    assert_eq!(run["result"]["failed"]["detail"]["code"], json!(7), "{run}");
    assert!(!is_there(&shop.file("agent.pid")), "what was late is gone");
}

/// A step is tried again as its policy says, with an agent of its own each time.
#[test]
fn an_agent_step_is_tried_again() {
    let shop = AgentProject::new();
    let folder = shop.project.to_str().unwrap();
    let flow = format!(
        "name: w\nsteps:\n  a: {{ agent: {{ prompt: 'Task: once-hang', cwd: {folder:?} }}, silence: 1s, retries: 1, base_delay: 10ms }}\n"
    );
    let file = shop.home.file("w.yaml", &flow);
    let run = shop.json(&["run", &file]);
    assert_eq!(run["result"], "did once-hang", "{run}");
    assert_eq!(shop.file("begun.log").lines().count(), 2);
}
