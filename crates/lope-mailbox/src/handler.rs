//! Who handles messages: a trait, and closures that are it.
//!
//! A handler runs outside any write transaction. It may be called again for the same message (after
//! a crash, a conflict, a failure); what it did through its context happened only if its last call
//! was committed. A handler that blocks its thread for long should do so on another one, or its
//! lease cannot be renewed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;

use crate::context::Context;
use crate::error::HandlerError;
use crate::frame::Message;

/// What a handler answers.
pub type Handled = Result<(), HandlerError>;

/// A handler's answer that is still to come.
pub type HandledFuture<'a> = Pin<Box<dyn Future<Output = Handled> + Send + 'a>>;

#[async_trait]
pub trait Handler: Send + Sync {
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled;
}

/// A closure that answers at once.
pub struct SyncFnHandler<F>(F);

/// A closure that answers with a future.
pub struct AsyncFnHandler<F>(F);

/// A handler from a closure that needs not wait for anything: it writes, emits and arms, but reads
/// nothing.
pub fn plain<F>(handle: F) -> SyncFnHandler<F>
where
    F: Fn(&mut Context, &Message<'_>) -> Handled + Send + Sync,
{
    SyncFnHandler(handle)
}

/// A handler from a closure that answers with a boxed future:
/// `handler(|context, message| Box::pin(async move { … }))`.
pub fn handler<F>(handle: F) -> AsyncFnHandler<F>
where
    F: for<'a> Fn(&'a mut Context, &'a Message<'a>) -> HandledFuture<'a> + Send + Sync,
{
    AsyncFnHandler(handle)
}

#[async_trait]
impl<F> Handler for SyncFnHandler<F>
where
    F: Fn(&mut Context, &Message<'_>) -> Handled + Send + Sync,
{
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        (self.0)(context, message)
    }
}

#[async_trait]
impl<F> Handler for AsyncFnHandler<F>
where
    F: for<'a> Fn(&'a mut Context, &'a Message<'a>) -> HandledFuture<'a> + Send + Sync,
{
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        (self.0)(context, message).await
    }
}

impl<F> fmt::Debug for SyncFnHandler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SyncFnHandler")
    }
}

impl<F> fmt::Debug for AsyncFnHandler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsyncFnHandler")
    }
}
