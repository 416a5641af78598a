//! Workflows of the shapes that users have, and what clients do to their runs: signal them, cancel
//! them, retry them, throw their progress away.
//!
//! Each ends the same way whatever goes wrong around it: its result does not depend on order or on
//! time.

use std::sync::Arc;

use lope_engine::mailbox_send::OutgoingMessage;
use lope_flow::law::{EventKind, Plan};
use lope_model::{QueueName, Value};
use lope_store::tables::{Append, TableId};

use crate::client_act::ClientAct;
use crate::dice::Dice;

/// Most failed attempts of one execution, in any shape.
pub(crate) const FAILURES_MAX: u32 = 4;

/// A run that a client wants, and the mail it sends to it.
#[derive(Clone, Debug)]
pub struct SimJob {
    pub plan: Arc<Plan>,
    pub input: Value,
    /// When it is admitted.
    pub at: i64,
    /// Is it taken on by the process that admits it?
    pub born_claimed: bool,
    /// In order: not before this time, this event.
    pub mail: Vec<(i64, EventKind)>,
    /// Most failed attempts of one execution.
    pub failures_max: u32,
    pub queue: QueueName,
    /// Does its client retry it whenever it has failed?
    pub retried: bool,
    /// In order: not before this time its progress is thrown away; its client resumes it.
    pub discards: Vec<i64>,
    /// From this time on nobody can read its rows, or add any.
    pub damaged_at: Option<i64>,
}

impl SimJob {
    /// Is it paused for a while? Then signals wait for it, and their order does not matter.
    pub(crate) fn pauses(&self) -> bool {
        let is_pause = |kind: &EventKind| matches!(kind, EventKind::Pause { .. });
        self.mail.iter().any(|(_, kind)| is_pause(kind))
    }

    /// What its clients begin with.
    pub(crate) fn first_acts(&self) -> Vec<ClientAct> {
        let mut acts = vec![ClientAct::Send(0)];
        if self.retried {
            acts.push(ClientAct::Retry(0));
        }
        if !self.discards.is_empty() {
            acts.push(ClientAct::Discard(0));
        }
        acts
    }
}

/// What a shape needs beside its text.
struct JobShape {
    text: &'static str,
    mail: fn(&mut Dice) -> Vec<(i64, EventKind)>,
}

const SHAPES: &[JobShape] = &[
    JobShape {
        text: "
name: sequence
steps:
  a: { action: ok, with: '${{ input }}' }
  b: { action: ok, with: '${{ a }}' }
  c: { action: ok, with: '${{ b }}' }
  done: { return: ['${{ a }}', '${{ b }}', '${{ c }}'] }
",
        mail: |_| Vec::new(),
    },
    JobShape {
        text: "
name: long-haul
steps:
  all:
    each: [1, 2, 3, 4, 5]
    as: n
    steps: { a: { action: slow, with: '${{ n }}' }, b: { action: ok, with: '${{ a + input }}' } }
  done: { return: '${{ all }}' }
",
        mail: |_| Vec::new(),
    },
    JobShape {
        text: "
name: fan-out
steps:
  all:
    each: '${{ [input, 1, 2, 3, 4, 5, 6] }}'
    as: n
    parallel: max
    on_error: collect
    steps:
      flaky: { action: flaky2, with: '${{ n }}', retries: 2, backoff: exponential, base_delay: 50ms }
      then: { action: ok, with: '${{ flaky + n }}' }
  worse: { action: bad_E, with: 1, retries: 1, fallback: { value: 5 } }
  done: { return: ['${{ all }}', '${{ worse }}'] }
",
        mail: |_| Vec::new(),
    },
    JobShape {
        text: "
name: sleeper
steps:
  nap: { sleep: 900ms }
  first: { wait: go, needs: [nap] }
  long: { sleep: 7s, needs: [first] }
  second: { wait: go, needs: [long] }
  work: { action: ok, with: '${{ first + second }}' }
  done: { return: ['${{ first }}', '${{ second }}', '${{ work }}'] }
",
        mail: |dice| {
            let signal = |value| EventKind::Signal { name: "go".into(), value: Value::Int(value) };
            let first = dice.between(0, 12_000);
            vec![(first, signal(dice.between(0, 99))), (first + dice.between(0, 9_000), signal(7))]
        },
    },
    JobShape {
        text: "
name: chatty
steps:
  said:
    each: [1, 2, 3, 4, 5, 6, 7, 8]
    as: n
    steps: { word: { wait: word } }
  done: { return: '${{ said }}' }
",
        mail: |dice| {
            let mut at = dice.between(0, 5_000);
            let mut word = |value| {
                at += dice.between(0, 250);
                (at, EventKind::Signal { name: "word".into(), value: Value::Int(value) })
            };
            (1..=8).map(&mut word).collect()
        },
    },
    JobShape {
        text: "
name: parent
steps:
  many:
    each: [1, 2, 3]
    as: n
    parallel: 2
    steps: { child: { workflow: child, with: '${{ n + input }}' } }
  lost:
    try: { x: { workflow: nowhere } }
    catch: [{ match: [UnknownWorkflow], steps: { y: { let: none } } }]
  done: { return: ['${{ many }}', '${{ lost }}'] }
",
        mail: |_| Vec::new(),
    },
    JobShape {
        text: "
name: cleanup
grace: 2m
steps:
  guarded:
    try: { begin: { action: ok, with: 1 }, stuck: { action: hang, needs: [begin] } }
    finally: { tidy: { action: ok, with: 2 } }
",
        mail: |dice| vec![(dice.between(0, 15_000), EventKind::Cancel { force: false })],
    },
    JobShape {
        text: "
name: race
steps:
  first:
    race:
      quick: { a: { action: ok, with: '${{ input }}' } }
      never: { b: { action: hang } }
      later: { c: { sleep: 30m } }
  both:
    all:
      one: { d: { action: slow, with: 1 } }
      two: { e: { action: stuck1, with: 2, timeout: 700ms, retries: 3 } }
  done: { return: ['${{ first }}', '${{ both }}'] }
",
        mail: |_| Vec::new(),
    },
    JobShape {
        text: "
name: relaxed
checkpoint: { every_n: 3 }
steps:
  all:
    each: [1, 2, 3, 4, 5, 6, 7, 8]
    as: n
    steps: { a: { action: ok, with: '${{ n }}' }, b: { action: ok, with: '${{ a }}' } }
  nap: { sleep: 3s, needs: [all] }
  last: { action: ok, with: '${{ size(all) }}', needs: [nap] }
  done: { return: ['${{ all }}', '${{ last }}'] }
",
        mail: |_| Vec::new(),
    },
    JobShape {
        text: "
name: forgetful
checkpoint: on_complete
steps:
  all:
    each: [1, 2, 3]
    as: n
    steps: { a: { action: ok, with: '${{ n }}' }, b: { action: slow, with: '${{ a + input }}' } }
  done: { return: '${{ all }}' }
",
        mail: |_| Vec::new(),
    },
    JobShape {
        text: "
name: letting-go
steps:
  many:
    each: [1, 2, 3]
    as: n
    parallel: 2
    steps: { go: { workflow: child, with: '${{ n + input }}', detach: true } }
  lost:
    try: { x: { workflow: nowhere, detach: true } }
    catch: [{ match: [UnknownWorkflow], steps: { y: { let: none } } }]
  unfit:
    try: { x: { workflow: strict, with: { m: 1 } } }
    catch: [{ match: [BadInput], steps: { y: { let: unfit } } }]
  told: { send: { mailbox: '7', payload: '${{ many }}' } }
  self: { send: { run: '${{ run.id }}', signal: go, value: '${{ input }}' }, needs: [told] }
  heard: { wait: go }
  done: { return: ['${{ many }}', '${{ lost }}', '${{ unfit }}', '${{ heard }}'] }
",
        mail: |_| Vec::new(),
    },
    JobShape {
        text: "
name: limited
steps:
  all:
    each: [1, 2, 3, 4, 5]
    as: n
    parallel: max
    steps:
      one: { action: ok, with: '${{ n }}', concurrency: { limit: 1, key: same } }
      two: { action: ok, with: '${{ one }}', rate_limit: { count: 2, per: 1s } }
      three: { action: stuck1, with: '${{ two }}', timeout: 400ms, retries: 20, concurrency: { limit: 2, key: stuck } }
  done: { return: '${{ all }}' }
",
        mail: |_| Vec::new(),
    },
    JobShape {
        text: "
name: failing
steps:
  a: { action: ok, with: '${{ input }}' }
  b: { action: bad_E, with: '${{ a }}', retries: 2, backoff: linear, base_delay: 300ms }
  c: { action: ok, with: '${{ b }}' }
",
        mail: |_| Vec::new(),
    },
    JobShape {
        text: "
name: paused
steps:
  a: { action: slow, with: '${{ input }}' }
  b: { action: ok, with: '${{ a }}', durable: true }
  c: { action: big, with: '${{ b }}' }
  d: { action: ok, with: '${{ size(c) }}' }
  done: { return: ['${{ b }}', '${{ d }}'] }
",
        mail: |dice| {
            let pause = dice.between(0, 5_000);
            let resume = pause + dice.between(0, 9_000);
            vec![(pause, EventKind::Pause { reason: None }), (resume, EventKind::Resume)]
        },
    },
    JobShape {
        text: "
name: order
steps:
  s: { send: { mailbox: '7', payload: '${{ input }}' } }
  w: { wait: go, needs: [s] }
  done: { return: '${{ w }}' }
",
        mail: |dice| {
            let go = EventKind::Signal { name: "go".into(), value: Value::Int(1) };
            vec![(dice.between(0, 12_000), go)]
        },
    },
    JobShape {
        text: "
name: called-off
steps:
  k: { workflow: patient }
  done: { return: '${{ k }}' }
",
        mail: |dice| vec![(dice.between(0, 12_000), EventKind::Cancel { force: false })],
    },
    JobShape {
        text: "
name: retried
steps:
  a: { action: ok, with: '${{ input }}' }
  b: { action: flaky2, with: '${{ a }}' }
  done: { return: ['${{ a }}', '${{ b }}'] }
",
        mail: |_| Vec::new(),
    },
    JobShape {
        text: "
name: flooded
steps:
  k: { workflow: child, with: '${{ input }}' }
  heard:
    each: [1, 2, 3, 4, 5, 6]
    as: n
    steps: { w: { wait: go } }
  done: { return: ['${{ k }}', '${{ heard }}'] }
",
        mail: |dice| {
            let mut at = dice.between(0, 1_500);
            let mut mail = vec![(at, EventKind::Pause { reason: None })];
            for _ in 0..6 {
                at += dice.between(0, 200);
                let go = EventKind::Signal { name: "go".into(), value: Value::Int(7) };
                mail.push((at, go));
            }
            mail.push((at + dice.between(0, 6_000), EventKind::Resume));
            mail
        },
    },
];

/// Shapes whose runs ask for the same keys, rates or slots, or tell each other something.
const CROWDED: [&str; 4] = ["limited", "fan-out", "race", "called-off"];

/// Shapes whose runs are soon out of the way of others in a queue with a bound.
const BRIEF: [&str; 5] = ["sequence", "parent", "failing", "order", "retried"];

/// Shapes that leave much unwritten.
const UNWRITTEN: [&str; 2] = ["relaxed", "forgetful"];

/// Shapes without children that would miss their parent.
const DAMAGED: [&str; 5] = ["sequence", "sleeper", "chatty", "paused", "relaxed"];

/// Ends only if it is cancelled.
const PATIENT: &str = "{ name: patient, steps: { w: { wait: never } } }";

const STRICT: &str = "
name: strict
input: { type: object, required: [n] }
steps: { done: { return: '${{ input.n }}' } }
";

const CHILD: &str = "
name: child
steps:
  a: { action: ok, with: '${{ input }}' }
  nap: { sleep: 400ms, needs: [a] }
  b: { action: flaky1, with: '${{ a }}', retries: 1, needs: [nap] }
";

/// Read a workflow of ours.
fn plan(text: &str) -> Arc<Plan> {
    let definition = lope_definition::yaml::read(text, "shape.yaml")
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Arc::new(Plan::new(&definition).unwrap_or_else(|problems| panic!("{problems:#?}")))
}

/// The workflow that parents start.
pub fn child() -> Arc<Plan> {
    plan(CHILD)
}

/// A child that waits for what never comes.
pub fn patient() -> Arc<Plan> {
    plan(PATIENT)
}

/// A workflow that asks for more than its callers give.
pub fn strict() -> Arc<Plan> {
    plan(STRICT)
}

/// The row of a message: who sent it says everything.
#[allow(clippy::unnecessary_wraps, reason = "the shape of every encoder")]
pub(crate) fn stamped(message: OutgoingMessage<'_>) -> Result<Append, String> {
    let value = format!("{}/{}", message.run, message.send.execution).into_bytes();
    Ok(Append {
        table: TableId::INBOX,
        prefix: b"sim".to_vec(),
        sequence: b"sim".to_vec(),
        value,
    })
}

/// Names of all shapes, for tests that take them one by one.
pub fn names() -> Vec<String> {
    SHAPES
        .iter()
        .map(|shape| plan(shape.text).name().to_string())
        .collect()
}

/// One run of a shape, at once, with all its mail early.
pub fn one(name: &str, dice: &mut Dice) -> SimJob {
    let line = format!("\nname: {name}\n");
    let shape = SHAPES
        .iter()
        .find(|shape| shape.text.contains(&line))
        .expect("a shape of that name");
    let mut job = job(shape, dice);
    job.at = 0;
    job
}

/// The queue with a bound.
pub(crate) fn narrow_queue() -> QueueName {
    QueueName::parse("narrow").expect("a name")
}

/// A few runs of any shapes; in some worlds all of one that shares something with its like, at about
/// the same time, in others all in a queue with a bound. One of several may be damaged.
pub fn rolled(dice: &mut Dice) -> Vec<SimJob> {
    let mut jobs: Vec<SimJob> = match dice.below(20) {
        0..4 => crowd(dice),
        4..6 => queue_up(dice),
        _ => (0..=dice.below(5))
            .map(|_| job(dice.clone().pick(SHAPES), dice))
            .collect(),
    };
    if dice.chance(200) {
        damage_one(&mut jobs, dice);
    }
    jobs
}

/// Runs that wait for their turn.
fn queue_up(dice: &mut Dice) -> Vec<SimJob> {
    let mut jobs = Vec::new();
    for _ in 0..2 + dice.below(4) {
        let name = *dice.clone().pick(&BRIEF);
        let mut job = one(name, dice);
        job.at = dice.between(0, 400);
        // It waits its turn like all others.
        job.born_claimed = false;
        job.queue = narrow_queue();
        jobs.push(job);
    }
    jobs
}

/// The rows of one run, if there is one that may be, are damaged early or late.
fn damage_one(jobs: &mut [SimJob], dice: &mut Dice) {
    let may_be = |job: &&mut SimJob| is_any(&DAMAGED, job.plan.name());
    let from = dice.between(0, 5_000);
    if let Some(job) = jobs.iter_mut().find(may_be) {
        job.damaged_at = Some(from);
        job.discards.clear();
    }
}

fn is_any(names: &[&str], name: &str) -> bool {
    names.contains(&name)
}

/// Runs that stand in each other's way.
fn crowd(dice: &mut Dice) -> Vec<SimJob> {
    let name = *dice.pick(&CROWDED);
    let mut jobs: Vec<SimJob> = (0..2 + dice.below(4)).map(|_| one(name, dice)).collect();
    for job in &mut jobs {
        job.at = dice.between(0, 400);
    }
    jobs
}

fn job(shape: &JobShape, dice: &mut Dice) -> SimJob {
    // The shape was picked with a copy of the dice: move on.
    dice.roll();
    let plan = plan(shape.text);
    let retried = &**plan.name() == "retried";
    let mut discards = Vec::new();
    if is_any(&UNWRITTEN, plan.name()) {
        discards.extend((0..dice.below(3)).map(|_| dice.between(300, 9_000)));
        discards.sort_unstable();
    }
    SimJob {
        plan,
        input: Value::Int(dice.between(0, 99)),
        at: dice.between(0, 4_000),
        born_claimed: dice.chance(400),
        mail: (shape.mail)(dice),
        failures_max: FAILURES_MAX,
        queue: QueueName::default(),
        retried,
        discards,
        damaged_at: None,
    }
}
