//! What follows from each other over several spaces: how far each is from whoever began, and how long
//! one has to wait that is very far. Spaces that feed each other without end are slowed down so, and
//! everything else goes on.
//!
//! A message that a node sends because of another one is one hop further than that, and so is a change
//! of another space that a node reads, and an effect that it asks for. What a node does of itself or
//! after an edit begins anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope_model::Timestamp;

use crate::id::SpaceName;
use crate::limit;
pub use crate::post_chain::PostChain;
use crate::record::UnsettledNote;
use crate::scheduler::{ChangedBy, NodeKey, RunReason};

/// Changes of other spaces that have to wait, and those that have waited.
#[derive(Debug, Default)]
pub struct ChainWaits(BTreeMap<SpaceName, ChainWait>);

#[derive(Clone, Copy, Debug)]
struct ChainWait {
    hops: u32,
    /// Until when; none if that is over.
    until: Option<Timestamp>,
}

impl ChainWaits {
    /// Whether what stands in a space now may be looked at, having come so far.
    pub fn admit(&mut self, space: &SpaceName, chain: &PostChain, now: Timestamp) -> bool {
        let Some(wait) = chain.wait() else {
            self.0.remove(space);
            return true;
        };
        let hops = chain.hops;
        match self.0.get_mut(space).filter(|known| known.hops == hops) {
            Some(known) => {
                // A clock that is set back holds it up no longer than it had to wait anyway.
                let latest = now.plus(wait);
                known.until = known.until.filter(|until| *until > now && *until <= latest);
                known.until.is_none()
            }
            None => {
                let until = Some(now.plus(wait));
                self.0.insert(space.clone(), ChainWait { hops, until });
                false
            }
        }
    }

    /// When to look again.
    pub fn next(&self) -> Option<Timestamp> {
        self.0.values().filter_map(|wait| wait.until).min()
    }
}

/// What led to how a space stands. A long chain is told for a while after its last link: what changes
/// something else meanwhile does not hide it.
#[derive(Debug, Default)]
pub struct LastingChain {
    chain: PostChain,
    until: Timestamp,
}

impl LastingChain {
    /// What led to how the space stands after a wave that this chain led to.
    pub fn next(&mut self, chain: PostChain, now: Timestamp) -> PostChain {
        self.note(chain, now);
        self.chain.clone()
    }

    /// Notes that this chain led to how the space stands.
    pub fn note(&mut self, chain: PostChain, now: Timestamp) {
        let lasts = limit::BACKOFF_MAX.times(2);
        // A clock that is set back makes nothing last longer.
        let is_recent = now < self.until && self.until <= now.plus(lasts);
        if chain.hops >= self.chain.hops || self.chain.wait().is_none() || !is_recent {
            (self.chain, self.until) = (chain, now.plus(lasts));
        }
    }
}

/// What led to what happens in a wave, as far as messages did.
#[derive(Debug, Default)]
pub struct Chains {
    events: BTreeMap<Arc<str>, PostChain>,
    runs: BTreeMap<NodeKey, PostChain>,
    /// What led to how other spaces stand that nodes read.
    spaces: BTreeMap<SpaceName, PostChain>,
    /// What led to how the space stood when it was taken up, until what was left to do is done.
    past: PostChain,
    /// The longest that led to a change.
    longest: PostChain,
    /// Nodes that sent something that has to wait.
    long: BTreeMap<NodeKey, PostChain>,
}

impl Chains {
    pub fn note_arrival(&mut self, id: &Arc<str>, chain: PostChain) {
        if !chain.is_empty() {
            self.events.insert(Arc::clone(id), chain);
        }
    }

    /// Notes what led to how another space stands now.
    pub fn note_space(&mut self, space: &SpaceName, chain: &PostChain) {
        let chain = chain.next(|| format!("space {space}").into());
        self.spaces.insert(space.clone(), chain);
    }

    /// Notes what led to how the space stood when it was taken up: what is done again goes on from there.
    pub fn note_past(&mut self, chain: PostChain) {
        self.past = chain;
    }

    /// What was left to do is done.
    pub fn forget_past(&mut self) {
        self.past = PostChain::default();
    }

    /// What led to an event or a command.
    pub fn of_event(&mut self, id: &str) -> PostChain {
        let chain = self.events.get(id).cloned().unwrap_or_default();
        self.note_longest(&chain);
        chain
    }

    fn note_longest(&mut self, chain: &PostChain) {
        if chain.hops > self.longest.hops {
            self.longest = chain.clone();
        }
    }

    /// The longest chain that led to a change since last asked.
    pub fn take_longest(&mut self) -> PostChain {
        std::mem::take(&mut self.longest)
    }

    /// Whether nothing led to anything.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.spaces.is_empty() && self.past.is_empty()
    }

    /// Notes that a node sent something that has to wait.
    pub fn note_long(&mut self, node: NodeKey, chain: &PostChain) {
        if chain.wait().is_some() {
            self.long.insert(node, chain.clone());
        }
    }

    /// What led to a run of a node.
    pub fn of_run(&mut self, node: NodeKey, reason: Option<&RunReason>) -> PostChain {
        let mut is_read = false;
        let chain = match reason {
            Some(RunReason::Changed { by, .. }) => match by {
                ChangedBy::Space(space) => {
                    is_read = true;
                    self.spaces.get(space)
                }
                ChangedBy::Event(id) => self.events.get(id),
                ChangedBy::Node(other) => self.runs.get(other),
                ChangedBy::Edit => None,
            },
            Some(RunReason::Resumed) => Some(&self.past),
            Some(RunReason::Registered) | None => None,
        };
        let chain = chain.cloned().unwrap_or_default();
        self.note_longest(&chain);
        if is_read {
            self.note_long(node, &chain);
        }
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
        self.spaces.clear();
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
            wait: wait.millis(),
        })
    }
}

#[cfg(test)]
mod tests {
    use lope_model::Span;

    use super::*;
    use crate::post_chain::TOLD_MAX;

    fn far(hops: u32) -> PostChain {
        PostChain {
            hops,
            through: Vec::new(),
        }
    }

    fn registered(scheduler: &mut crate::scheduler::Scheduler) -> NodeKey {
        scheduler.register(crate::scheduler::NodeSpec {
            place: crate::scheduler::NodePlace::default(),
            role: crate::scheduler::NodeRole::Observer,
            parent: None,
            reads: std::collections::BTreeMap::default(),
            writes: std::collections::BTreeSet::new(),
        })
    }

    #[test]
    fn what_another_space_changed_waits_once_for_each_hop_and_not_when_it_begins_anew() {
        let (space, most) = ("a".parse().unwrap(), limit::CHAIN_MAX);
        let mut waits = ChainWaits::default();
        let at = Timestamp::from_millis;
        // Hops, when, whether it may be looked at, and when to look again.
        let table = [
            (0, 0, true, None),
            (most, 0, true, None),
            (most + 1, 0, false, Some(250)),
            (most + 1, 249, false, Some(250)),
            (most + 1, 250, true, None),
            (most + 1, 9_000, true, None),
            (most + 2, 9_000, false, Some(9_500)),
            (most + 3, 9_100, false, Some(10_100)),
            (1, 9_200, true, None),
            (most + 3, 9_200, false, Some(10_200)),
            (most + 3, 100, true, None),
        ];
        for (hops, now, is_admitted, next) in table {
            let admitted = waits.admit(&space, &far(hops), at(now));
            let seen = (admitted, waits.next());
            assert_eq!(seen, (is_admitted, next.map(at)), "{hops} hops at {now}");
        }
    }

    #[test]
    fn a_long_chain_is_told_for_a_while_whatever_else_changes() {
        let most = limit::CHAIN_MAX;
        let mut last = LastingChain::default();
        // Hops of a wave, when, and what is told then.
        let table = [
            (0, 0, 0),
            (7, 10, 7),
            (0, 20, 0),
            (most + 1, 1_000, most + 1),
            (0, 4_999, most + 1),
            (most + 2, 4_999, most + 2),
            (0, 8_998, most + 2),
            (0, 8_999, 0),
            (most + 1, 9_000, most + 1),
            (0, 100, 0),
        ];
        for (hops, now, told) in table {
            let next = last.next(far(hops), Timestamp::from_millis(now));
            assert_eq!(next.hops, told, "{hops} hops at {now}");
        }
    }

    #[test]
    fn what_a_space_that_is_read_led_to_is_a_hop_further_and_told_once_it_is_long() {
        let space: SpaceName = "b".parse().unwrap();
        let node = registered(&mut crate::scheduler::Scheduler::default());
        let reason = RunReason::Changed {
            at: crate::address::CellAddress::parse("b/x").unwrap(),
            by: ChangedBy::Space(space.clone()),
        };
        let now = Timestamp::from_millis(0);
        for (before, hops, is_told) in [(0, 1, false), (7, 8, false), (100, 101, true)] {
            let mut chains = Chains::default();
            chains.note_space(&space, &far(before));
            assert_eq!(chains.of_run(node, Some(&reason)).hops, hops);
            assert_eq!(chains.take_longest().hops, hops);
            assert_eq!(chains.take_longest().hops, 0);
            let note = chains.take_note(node, now);
            assert_eq!(note.is_some(), is_told);
            assert!(note.is_none_or(|note| note.messages == hops));
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
        let mut register = || registered(&mut scheduler);
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
