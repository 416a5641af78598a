//! Messages that follow from messages: how far each is from whoever began, and how long one has to
//! wait that is very far. Spaces that feed each other without end are slowed down so, and everything
//! else goes on.
//!
//! A message that a node sends because of another one is one hop further than that. What a node does
//! of itself, after an edit or when an effect is done, begins anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope_model::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::limit;
use crate::record::UnsettledNote;
use crate::scheduler::{ChangedBy, NodeKey, RunReason};

/// What led to a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostChain {
    /// Messages from the first one to this.
    pub hops: u32,
    /// The nodes that sent the last of them, each once; known of long chains only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<Arc<str>>,
}

impl PostChain {
    /// Whether nothing led to it.
    pub fn is_empty(&self) -> bool {
        self.hops == 0
    }

    /// The chain of a message that `node` sends because of one that has this chain.
    pub fn next(&self, node: impl FnOnce() -> Arc<str>) -> Self {
        let mut next = Self {
            hops: self.hops.saturating_add(1),
            through: self.through.clone(),
        };
        if next.hops > limit::CHAIN_MAX - limit::CHAIN_TOLD && next.through.len() < TOLD_MAX {
            let node = node();
            if !next.through.contains(&node) {
                next.through.push(node);
            }
        }
        next
    }

    /// How long a message has to wait that comes so far; none if it has not.
    pub fn wait(&self) -> Option<Span> {
        let beyond = self.hops.checked_sub(limit::CHAIN_MAX + 1)?;
        let wait = limit::BACKOFF_FIRST.times(1 << beyond.min(8));
        Some(wait.min(limit::BACKOFF_MAX))
    }
}

/// Nodes that a chain tells.
const TOLD_MAX: usize = limit::CHAIN_TOLD as usize;

/// What led to what happens in a wave, as far as messages did.
#[derive(Debug, Default)]
pub struct Chains {
    events: BTreeMap<Arc<str>, PostChain>,
    runs: BTreeMap<NodeKey, PostChain>,
    /// Nodes that sent something that has to wait.
    long: BTreeMap<NodeKey, PostChain>,
}

impl Chains {
    pub fn note_arrival(&mut self, id: &Arc<str>, chain: PostChain) {
        if !chain.is_empty() {
            self.events.insert(Arc::clone(id), chain);
        }
    }

    /// What led to an event or a command.
    pub fn of_event(&self, id: &str) -> PostChain {
        self.events.get(id).cloned().unwrap_or_default()
    }

    /// Whether no message led to anything.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Notes that a node sent something that has to wait.
    pub fn note_long(&mut self, node: NodeKey, chain: &PostChain) {
        if chain.wait().is_some() {
            self.long.insert(node, chain.clone());
        }
    }

    /// What led to a run of a node.
    pub fn of_run(&mut self, node: NodeKey, reason: Option<&RunReason>) -> PostChain {
        let chain = match reason {
            Some(RunReason::Changed { by, .. }) => match by {
                ChangedBy::Event(id) => self.events.get(id),
                ChangedBy::Node(other) => self.runs.get(other),
                ChangedBy::Edit => None,
            },
            Some(RunReason::Registered | RunReason::Resumed) | None => None,
        };
        let chain = chain.cloned().unwrap_or_default();
        if chain.is_empty() {
            self.runs.remove(&node);
        } else {
            self.runs.insert(node, chain.clone());
        }
        chain
    }

    /// Forgets what led to the wave; what still waits in line is kept.
    pub fn end_wave(&mut self, is_queued: impl Fn(&str) -> bool) {
        self.runs.clear();
        self.events.retain(|id, _| is_queued(id));
    }

    /// What is to be told of a node that sent something that has to wait.
    pub fn take_note(&mut self, node: NodeKey, now: Timestamp) -> Option<UnsettledNote> {
        let chain = self.long.remove(&node)?;
        let wait = chain.wait()?;
        Some(UnsettledNote {
            runs: 0,
            messages: chain.hops,
            cycle: chain.through,
            until: now.plus(wait).millis(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far(hops: u32) -> PostChain {
        PostChain {
            hops,
            through: Vec::new(),
        }
    }

    #[test]
    fn what_comes_far_waits_longer_and_longer_up_to_a_bound() {
        let most = limit::CHAIN_MAX;
        let table = [
            (0, None),
            (1, None),
            (most, None),
            (most + 1, Some(250)),
            (most + 2, Some(500)),
            (most + 3, Some(1_000)),
            (most + 4, Some(2_000)),
            (most + 5, Some(2_000)),
            (most + 500, Some(2_000)),
            (u32::MAX, Some(2_000)),
        ];
        for (hops, wait) in table {
            let expected = wait.map(Span::from_millis);
            assert_eq!(far(hops).wait(), expected, "{hops} hops");
        }
        assert_eq!(far(u32::MAX).next(|| "a".into()).hops, u32::MAX);
    }

    #[test]
    fn a_long_chain_tells_the_nodes_that_it_goes_through_and_each_once() {
        let mut chain = PostChain::default();
        let nodes: [Arc<str>; 3] = ["a/0".into(), "b/0".into(), "c/1".into()];
        for hop in 0..limit::CHAIN_MAX + 50 {
            let node = &nodes[if hop == 0 { 2 } else { hop as usize % 2 }];
            chain = chain.next(|| Arc::clone(node));
            if chain.hops <= limit::CHAIN_MAX - limit::CHAIN_TOLD {
                assert_eq!(chain.through, Vec::<Arc<str>>::new());
            }
        }
        assert_eq!(chain.hops, limit::CHAIN_MAX + 50);
        assert_eq!(chain.through, nodes[..2], "not who only began");
        let many = (0..limit::CHAIN_MAX * 2).fold(PostChain::default(), |chain, hop| {
            chain.next(|| format!("n/{hop}").into())
        });
        assert_eq!(many.through.len(), TOLD_MAX);
    }

    #[test]
    fn a_run_is_as_far_as_what_made_it_run_and_a_wave_forgets_it() {
        let mut scheduler = crate::scheduler::Scheduler::default();
        let mut register = || {
            scheduler.register(crate::scheduler::NodeSpec {
                role: crate::scheduler::NodeRole::Observer,
                parent: None,
                reads: std::collections::BTreeMap::default(),
                writes: std::collections::BTreeSet::new(),
            })
        };
        let (first, second, third) = (register(), register(), register());
        let changed = |by: ChangedBy| RunReason::Changed {
            at: crate::address::CellAddress::parse("a/x").unwrap(),
            by,
        };
        let mut chains = Chains::default();
        chains.note_arrival(&"e1".into(), far(7));
        chains.note_arrival(&"e2".into(), far(0));
        assert_eq!(chains.of_event("e1"), far(7));
        assert_eq!(chains.of_event("e2"), far(0));
        let mut run = |node, reason: RunReason| chains.of_run(node, Some(&reason)).hops;
        assert_eq!(run(first, changed(ChangedBy::Event("e1".into()))), 7);
        assert_eq!(run(second, changed(ChangedBy::Node(first))), 7);
        assert_eq!(run(third, changed(ChangedBy::Edit)), 0);
        assert_eq!(run(third, changed(ChangedBy::Event("e2".into()))), 0);
        assert_eq!(run(third, RunReason::Resumed), 0);
        assert_eq!(run(first, changed(ChangedBy::Edit)), 0, "of itself again");
        assert_eq!(run(second, changed(ChangedBy::Node(first))), 0);
        chains.end_wave(|id| id == "e1");
        assert_eq!(chains.of_event("e1"), far(7), "it waits in line");
        chains.end_wave(|_| false);
        assert_eq!(chains.of_event("e1"), far(0));
    }
}
