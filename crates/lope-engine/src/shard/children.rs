//! Children: which of those that a run wants can be started, and what becomes of the step of one
//! that cannot.
//!
//! The law says that a child shall start; here the version that is deployed last is found, and the
//! input is held against what it asks for. A child that cannot be started is a failed step, told by
//! the same event that tells how a child ended. The step of a detached child is done when the
//! commit that admits it is durable.

use std::sync::Arc;

use lope_flow::law::{EventKind, Fed, Settled, StartChild};
use lope_model::failure::kind;
use lope_model::{Failure, Realm, RunId, Span, Timestamp, Value};
use lope_store::runs::{Admit, Parent};

use super::resident::Resident;
use super::{Home, Latest, Shard, ShardOutput};
use crate::admission::Beginning;
use crate::client;

/// How long the latest version of a workflow is taken for it: one that is deployed is used within
/// this time.
const LATEST_FOR: Span = Span::from_secs(2);
/// Most children that may fail to start before a run must get on: more are a loop that never ends.
const REFUSED_MAX: usize = 10_000;

impl Shard {
    /// Find out about the children that a run wants. False: the store must be asked first.
    pub(super) fn place_children(
        &mut self,
        now: Timestamp,
        run: RunId,
        out: &mut Vec<ShardOutput>,
    ) -> bool {
        loop {
            let unknown = self.unknown_workflows(now, run);
            if !unknown.is_empty() {
                self.ask(unknown, run, out);
                return false;
            }
            let Some(resident) = self.runs.get_mut(&run) else {
                return true;
            };
            let wanted = std::mem::take(&mut resident.uncommitted.wanted);
            if wanted.is_empty() {
                return true;
            }
            for child in wanted {
                let latest = &self.latest[&child.workflow].0;
                resident.place_child(now, child, latest);
            }
        }
    }

    fn ask(&mut self, workflows: Vec<Arc<str>>, run: RunId, out: &mut Vec<ShardOutput>) {
        for workflow in workflows {
            if self
                .asking
                .entry(Arc::clone(&workflow))
                .or_default()
                .insert(run)
            {
                out.push(ShardOutput::FindLatest(workflow));
            }
        }
    }

    /// Workflows that children of a run name and whose latest version is not known here, or was
    /// found out too long ago.
    fn unknown_workflows(&self, now: Timestamp, run: RunId) -> Vec<Arc<str>> {
        let Some(resident) = self.runs.get(&run) else {
            return Vec::new();
        };
        let names = resident
            .uncommitted
            .wanted
            .iter()
            .map(|child| &child.workflow);
        let unknown = |name: &&_| {
            self.latest
                .get(*name)
                .is_none_or(|(_, found)| found.plus(LATEST_FOR) < now)
        };
        names.filter(unknown).cloned().collect()
    }
}

impl Resident {
    /// It is known whether there is a workflow that a child wants. If there is none its step fails.
    pub(super) fn found(&mut self, now: Timestamp, workflow: &Arc<str>, is_known: bool) {
        if is_known {
            return;
        }
        let lost: Vec<StartChild> = self
            .uncommitted
            .wanted
            .extract_if(.., |child| child.workflow == *workflow)
            .collect();
        for child in lost {
            let failure = Failure::new(
                kind::UNKNOWN_WORKFLOW,
                format!("no workflow '{workflow}' is deployed"),
            );
            self.refuse_child(now, child, failure);
        }
    }

    /// A child goes into the commit, or its step fails.
    fn place_child(&mut self, now: Timestamp, child: StartChild, latest: &Latest) {
        // Under the first law nobody can be told of a detached child.
        let is_told = !child.detached || self.state.law() >= 2;
        if let Err(failure) = self.validate(&child, latest)
            && is_told
        {
            return self.refuse_child(now, child, failure);
        }
        let admit = self.admission(&child, latest, now);
        self.uncommitted.children.push(admit);
        if child.detached {
            self.uncommitted.begun.push((child.execution, child.child));
        }
    }

    /// A child as it is admitted: its id comes from its parent, so that doing it twice does it
    /// once.
    fn admission(&self, child: &StartChild, latest: &Latest, now: Timestamp) -> Admit {
        // A child that names nothing needs what its parent needs.
        let realm = if latest.realm == Realm::default() {
            self.home.realm.clone()
        } else {
            latest.realm.clone()
        };
        let beginning = Beginning {
            run: child.child,
            workflow: child.workflow.to_string(),
            version: latest.version,
            home: Home {
                realm,
                ..self.home.clone()
            },
            open: false,
            env: Value::Null,
            input: Some(Fed::new("child", child.input.clone())),
        };
        let parent = (!child.detached).then(|| Parent {
            run: self.run,
            execution: child.execution.to_string(),
        });
        Admit {
            parent,
            ..beginning.at(now).admit
        }
    }

    fn validate(&self, child: &StartChild, latest: &Latest) -> Result<(), Failure> {
        let weight = child.input.weight();
        if weight > self.payload_max {
            let message = format!(
                "the input of workflow '{}' has about {weight} bytes",
                child.workflow
            );
            return Err(Failure::new(
                kind::LIMIT,
                format!("{message}, more than {} are allowed", self.payload_max),
            ));
        }
        client::validate_input(&child.workflow, &latest.input, &child.input)
            .map_err(|unfit| Failure::new(kind::BAD_INPUT, unfit.to_string()))
    }

    fn refuse_child(&mut self, now: Timestamp, child: StartChild, failure: Failure) {
        if self.uncommitted.rows.len() >= REFUSED_MAX {
            let why = format!(
                "more than {REFUSED_MAX} children in a row could not be started: {}",
                failure.message
            );
            self.uncommitted.spoilt.get_or_insert(why);
            return;
        }
        let execution = child.execution;
        let result = Settled::failed(failure);
        self.fold(
            now,
            EventKind::Child {
                execution,
                child: child.child,
                result,
            },
        );
    }

    /// Detached children are there: their steps are done.
    pub(super) fn have_begun(&mut self, now: Timestamp, begun: Vec<(Arc<str>, RunId)>) {
        for (execution, child) in begun {
            self.fold(
                now,
                EventKind::Child {
                    execution,
                    child,
                    result: Settled::Done(Value::Null),
                },
            );
        }
    }
}
