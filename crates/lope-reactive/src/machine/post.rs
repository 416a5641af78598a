//! What nodes ask of other spaces, and of streams: messages that leave with the wave they belong to.

use std::sync::Arc;

use lope_cells::address::CellAddress;
use lope_cells::chain::PostChain;
use lope_cells::id::SpaceName;
use lope_cells::json::Json;
use lope_cells::transaction::Post;
use lope_cells::transaction::operation::{Change, Operation};

use super::command::{PostOrigin, SpaceAction};
use super::{Program, SpaceMachine};
use crate::scheduler::NodeKey;

/// A message for a space. It gets its id from the wave that it is saved with.
#[derive(Clone, Debug, PartialEq)]
pub struct SpacePost {
    pub to: SpaceName,
    /// Whom the receipt goes to; none for a receipt.
    pub from: Option<PostOrigin>,
    pub content: PostContent,
    /// What led to it.
    pub chain: PostChain,
}

/// What a message asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum PostContent {
    Event { stream: CellAddress, payload: Json },
    Command(SpaceAction),
}

impl<P: Program> SpaceMachine<P> {
    /// What led to the run of a node that has just ended.
    pub(super) fn chain_of_run(&mut self, node: NodeKey) -> PostChain {
        if self.chains.is_empty() {
            return PostChain::default();
        }
        let fared = self.nodes.scheduler.fared(node);
        let reason = fared.and_then(|fared| fared.last_reason);
        self.chains.of_run(node, reason)
    }

    /// What leads to whatever a node asks for, having run because of `cause`.
    pub(super) fn chain_from(&mut self, node: NodeKey, cause: &PostChain) -> PostChain {
        let name = self.nodes.name_of(node).cloned().unwrap_or_default();
        let (program, spaces) = (&self.program, &self.spaces);
        let chain = cause.next(|| program.title(&name, spaces));
        self.chains.note_long(node, &chain);
        chain
    }

    /// Puts what a node asks of others into the wave.
    pub(super) fn post(&mut self, node: NodeKey, posts: &[Post], cause: &PostChain) {
        if posts.is_empty() {
            return;
        }
        let name = self.nodes.name_of(node).cloned().unwrap_or_default();
        let chain = self.chain_from(node, cause);
        let messages = messages(posts, &self.space, &name, &chain);
        self.bounds.posts += messages.len();
        self.wave.posts.extend(messages);
    }
}

/// The messages for what the node `node` of `space` asks for: changes of one space that follow each
/// other are one command, done together or not at all.
fn messages(
    posts: &[Post],
    space: &SpaceName,
    node: &Arc<str>,
    chain: &PostChain,
) -> Vec<SpacePost> {
    let mut messages: Vec<SpacePost> = Vec::new();
    for post in posts {
        let at = post.at();
        let content = match post {
            Post::Event { stream, payload } => PostContent::Event {
                stream: stream.clone(),
                payload: payload.clone(),
            },
            Post::Change(operation) => {
                let action = action_of(operation);
                if let Some(last) = messages.last_mut()
                    && last.to == at.space
                    && let PostContent::Command(SpaceAction::All(actions)) = &mut last.content
                {
                    actions.push(action);
                    continue;
                }
                PostContent::Command(SpaceAction::All(vec![action]))
            }
        };
        let origin = PostOrigin {
            space: space.clone(),
            node: Arc::clone(node),
            at: at.clone(),
        };
        messages.push(SpacePost {
            to: at.space.clone(),
            from: Some(origin),
            content,
            chain: chain.clone(),
        });
    }
    messages
}

fn action_of(operation: &Operation) -> SpaceAction {
    let at = operation.at.clone();
    match operation.change.clone() {
        Change::Put(value) => SpaceAction::Set { at, value },
        Change::Append(elements) => SpaceAction::Append { at, elements },
        Change::AddUnique(elements) => SpaceAction::AddUnique { at, elements },
        Change::RemoveValue(element) => SpaceAction::RemoveValue { at, element },
        Change::Increment(by) => SpaceAction::Increment {
            at,
            by: Json::Number(by),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(at: &str, change: Change) -> Post {
        let at = CellAddress::parse(at).unwrap();
        Post::Change(Operation { at, change })
    }

    #[test]
    fn changes_of_one_space_that_follow_each_other_are_one_command() {
        let stream = CellAddress::parse("b/s/add").unwrap();
        let posts = [
            change("b/x", Change::Put(Some(1.into()))),
            change("b/y", Change::Increment(2.into())),
            change("c/z", Change::Append(vec![3.into()])),
            Post::Event {
                stream: stream.clone(),
                payload: 4.into(),
            },
            change("b/x", Change::Put(None)),
        ];
        let space: SpaceName = "a".parse().unwrap();
        let messages = messages(&posts, &space, &"of:p/0".into(), &PostChain::default());
        let shown: Vec<(&str, usize)> = messages
            .iter()
            .map(|message| {
                let count = match &message.content {
                    PostContent::Command(SpaceAction::All(actions)) => actions.len(),
                    PostContent::Command(_) | PostContent::Event { .. } => 0,
                };
                (message.to.as_str(), count)
            })
            .collect();
        assert_eq!(shown, [("b", 2), ("c", 1), ("b", 0), ("b", 1)]);
        assert_eq!(messages[2].from.as_ref().unwrap().at, stream);
    }
}
