//! A persistent map from keys to values, sorted by key: a tree of small nodes behind shared
//! pointers.
//!
//! A clone is one count; changing an entry copies the nodes on the way to it, so that one entry of
//! a very wide object changes as fast as one of a small object. Comparing two versions of an object
//! skips what they share.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use lope_model::Digest;

use super::Json;

/// Bytes of a key that are compared as a number.
const HEAD: usize = 8;
/// A node that grows beyond this is split in two.
const WIDTH: usize = 16;

/// A map from keys to values.
#[derive(Clone, Debug, Default)]
pub struct Object(Arc<Root>);

#[derive(Clone, Debug, Default)]
struct Root {
    top: TreeNode,
    len: usize,
    digest: OnceLock<Digest>,
}

type Entry = (Key, Json);

/// A key with the first of its bytes as a number, so that most comparisons look at nothing else.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    head: u64,
    text: Arc<str>,
}

impl Key {
    fn new(text: Arc<str>) -> Self {
        let head = head(&text);
        Self { head, text }
    }

    /// The order of this key and a text, whose head is known.
    fn order(&self, head: u64, text: &str) -> Ordering {
        let heads = self.head.cmp(&head);
        heads.then_with(|| match self.text.len().max(text.len()) {
            // Their heads are all there is of them.
            0..=HEAD => self.text.len().cmp(&text.len()),
            _ => (*self.text).cmp(text),
        })
    }
}

/// The first eight bytes: whatever is less as a number is less as a text.
fn head(text: &str) -> u64 {
    let mut bytes = [0; HEAD];
    let length = text.len().min(HEAD);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}

/// Sorted by key; only the top may be empty.
#[derive(Clone, Debug)]
enum TreeNode {
    Leaf(Vec<Entry>),
    Inner(Vec<Branch>),
}

#[derive(Clone, Debug)]
struct Branch {
    /// No key below is less; every key in the branch before is.
    least: Key,
    below: Arc<TreeNode>,
}

impl Object {
    pub fn len(&self) -> usize {
        self.0.len
    }

    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    pub fn get(&self, key: &str) -> Option<&Json> {
        let head = head(key);
        let mut node = &self.0.top;
        loop {
            match node {
                TreeNode::Leaf(entries) => {
                    let place = find(entries, head, key).ok()?;
                    return Some(&entries[place].1);
                }
                // What comes before all keys is in no branch.
                TreeNode::Inner(branches) if branches[0].least.order(head, key).is_gt() => {
                    return None;
                }
                TreeNode::Inner(branches) => {
                    node = &branches[branch_of(branches, head, key)].below;
                }
            }
        }
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The entries, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Json)> {
        let mut open = vec![Part::Node(&self.0.top)];
        std::iter::from_fn(move || {
            loop {
                match open.pop()? {
                    Part::Node(node) => node.open(&mut open),
                    Part::Entry((key, value)) => return Some((&key.text, value)),
                }
            }
        })
    }

    pub fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.iter().map(|(key, _)| key)
    }

    /// Puts an entry in, and gives back the one it replaces.
    pub fn insert(&mut self, key: Arc<str>, value: Json) -> Option<Json> {
        self.change().insert(key, value)
    }

    pub fn remove(&mut self, key: &str) -> Option<Json> {
        if !self.contains_key(key) {
            return None;
        }
        let root = self.change();
        let removed = root.top.remove(head(key), key);
        root.len -= 1;
        root.shrink();
        removed
    }

    /// Whether both are the same piece of memory, which implies that they are equal.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether both have the same keys.
    pub fn has_same_keys(&self, other: &Self) -> bool {
        self.agrees(other, |(one, _), (other, _)| one == other)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        let head = head(key);
        let mut node = &mut self.change().top;
        loop {
            match node {
                TreeNode::Leaf(entries) => {
                    let place = find(entries, head, key).ok()?;
                    return Some(&mut entries[place].1);
                }
                TreeNode::Inner(branches) => {
                    let index = branch_of(branches, head, key);
                    node = Arc::make_mut(&mut branches[index].below);
                }
            }
        }
    }

    pub(super) fn digest_cache(&self) -> &OnceLock<Digest> {
        &self.0.digest
    }

    fn change(&mut self) -> &mut Root {
        let root = Arc::make_mut(&mut self.0);
        root.digest = OnceLock::new();
        root
    }

    /// Whether the entries agree pair by pair; those that both share are taken as agreeing.
    fn agrees(&self, other: &Self, same: impl Fn(&Entry, &Entry) -> bool) -> bool {
        if self.is_same(other) {
            return true;
        }
        if self.len() != other.len() {
            return false;
        }
        let mut left = vec![Part::Node(&self.0.top)];
        let mut right = vec![Part::Node(&other.0.top)];
        while let Some(one) = left.pop() {
            let Some(two) = right.pop() else {
                return false;
            };
            match (one, two) {
                (Part::Node(one), Part::Node(two)) if std::ptr::eq(one, two) => {}
                (Part::Entry(one), Part::Entry(two)) if !same(one, two) => return false,
                (Part::Entry(_), Part::Entry(_)) => {}
                (Part::Node(one), two @ Part::Entry(_)) => {
                    one.open(&mut left);
                    right.push(two);
                }
                (one @ Part::Entry(_), Part::Node(two)) => {
                    left.push(one);
                    two.open(&mut right);
                }
                (Part::Node(one @ TreeNode::Inner(_)), Part::Node(two @ TreeNode::Leaf(_))) => {
                    one.open(&mut left);
                    right.push(Part::Node(two));
                }
                (Part::Node(one @ TreeNode::Leaf(_)), Part::Node(two @ TreeNode::Inner(_))) => {
                    left.push(Part::Node(one));
                    two.open(&mut right);
                }
                (Part::Node(one), Part::Node(two)) => {
                    one.open(&mut left);
                    two.open(&mut right);
                }
            }
        }
        true
    }
}

/// What is left to be looked at: the last is the next.
enum Part<'a> {
    Node(&'a TreeNode),
    Entry(&'a Entry),
}

impl Root {
    fn insert(&mut self, key: Arc<str>, value: Json) -> Option<Json> {
        let replaced = self.top.insert(Key::new(key), value);
        self.len += usize::from(replaced.is_none());
        if let Some(upper) = self.top.split() {
            let lower = std::mem::take(&mut self.top);
            let lower = Branch {
                least: lower.least().clone(),
                below: Arc::new(lower),
            };
            self.top = TreeNode::Inner(vec![lower, upper]);
        }
        replaced
    }

    /// Drops levels that hold a single branch.
    fn shrink(&mut self) {
        while let TreeNode::Inner(branches) = &mut self.top {
            match branches.len() {
                0 => self.top = TreeNode::default(),
                1 => {
                    let only = branches.remove(0);
                    self.top = Arc::unwrap_or_clone(only.below);
                }
                _ => return,
            }
        }
    }
}

impl TreeNode {
    fn insert(&mut self, key: Key, value: Json) -> Option<Json> {
        match self {
            Self::Leaf(entries) => match find(entries, key.head, &key.text) {
                Ok(place) => Some(std::mem::replace(&mut entries[place].1, value)),
                Err(place) => {
                    entries.insert(place, (key, value));
                    None
                }
            },
            Self::Inner(branches) => {
                let index = branch_of(branches, key.head, &key.text);
                let branch = &mut branches[index];
                if branch.least.order(key.head, &key.text).is_gt() {
                    branch.least = key.clone();
                }
                let below = Arc::make_mut(&mut branch.below);
                let replaced = below.insert(key, value);
                if let Some(upper) = below.split() {
                    branches.insert(index + 1, upper);
                }
                replaced
            }
        }
    }

    fn remove(&mut self, head: u64, key: &str) -> Option<Json> {
        match self {
            Self::Leaf(entries) => {
                let place = find(entries, head, key).ok()?;
                Some(entries.remove(place).1)
            }
            Self::Inner(branches) => {
                let index = branch_of(branches, head, key);
                let below = Arc::make_mut(&mut branches[index].below);
                let removed = below.remove(head, key);
                if below.is_empty() {
                    branches.remove(index);
                }
                removed
            }
        }
    }

    /// Splits off the upper half of a node that is too wide.
    fn split(&mut self) -> Option<Branch> {
        let upper = match self {
            Self::Leaf(entries) if entries.len() > WIDTH => {
                Self::Leaf(entries.split_off(WIDTH / 2))
            }
            Self::Inner(branches) if branches.len() > WIDTH => {
                Self::Inner(branches.split_off(WIDTH / 2))
            }
            Self::Leaf(_) | Self::Inner(_) => return None,
        };
        Some(Branch {
            least: upper.least().clone(),
            below: Arc::new(upper),
        })
    }

    /// The bound of a node that is not empty.
    fn least(&self) -> &Key {
        match self {
            Self::Leaf(entries) => &entries[0].0,
            Self::Inner(branches) => &branches[0].least,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Leaf(entries) => entries.is_empty(),
            Self::Inner(branches) => branches.is_empty(),
        }
    }

    /// Puts the parts of the node where the first is the next.
    fn open<'a>(&'a self, parts: &mut Vec<Part<'a>>) {
        match self {
            Self::Leaf(entries) => parts.extend(entries.iter().rev().map(Part::Entry)),
            Self::Inner(branches) => {
                let nodes = branches.iter().rev();
                parts.extend(nodes.map(|branch| Part::Node(&branch.below)));
            }
        }
    }
}

impl Default for TreeNode {
    fn default() -> Self {
        Self::Leaf(Vec::new())
    }
}

/// The branch in which `key` stands or would stand.
fn branch_of(branches: &[Branch], head: u64, key: &str) -> usize {
    let behind = branches.partition_point(|branch| branch.least.order(head, key).is_le());
    behind.saturating_sub(1)
}

fn find(entries: &[Entry], head: u64, key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|(other, _)| other.order(head, key))
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.agrees(other, |one, other| one == other)
    }
}

impl FromIterator<(Arc<str>, Json)> for Object {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Json)>>(entries: I) -> Self {
        let mut root = Root::default();
        for (key, value) in entries {
            root.insert(key, value);
        }
        Self(Arc::new(root))
    }
}
