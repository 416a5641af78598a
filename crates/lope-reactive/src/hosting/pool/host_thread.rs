//! A thread of the pool: the spaces that live on it, each a task of its small runtime.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use lope_cells::id::SpaceName;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinSet, LocalSet};

use super::SpacePoolInner;
use super::space_loop::serve;

/// The notifications of the spaces that are at work on this thread.
type Notifications = Rc<RefCell<BTreeMap<SpaceName, Rc<Notify>>>>;

/// Hosts the spaces that it is woken for, until it is stopped and each of them is given back.
pub(super) fn run(
    inner: Arc<SpacePoolInner>,
    woken: mpsc::UnboundedReceiver<SpaceName>,
    stop: watch::Receiver<bool>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => LocalSet::new().block_on(&runtime, host(inner, woken, stop)),
        Err(error) => tracing::warn!(%error, "a thread for spaces has no runtime"),
    }
}

async fn host(
    inner: Arc<SpacePoolInner>,
    mut woken: mpsc::UnboundedReceiver<SpaceName>,
    mut stop: watch::Receiver<bool>,
) {
    let notifications = Notifications::default();
    let mut spaces = JoinSet::new();
    while !*stop.borrow() {
        tokio::select! {
            space = woken.recv() => match space {
                Some(space) => attend(space, &inner, &notifications, &mut spaces, &stop),
                None => break,
            },
            _ = stop.changed() => break,
            Some(_) = spaces.join_next(), if !spaces.is_empty() => {}
        }
    }
    // Each gives its space back by itself.
    while spaces.join_next().await.is_some() {}
}

/// Rings for a space that is at work, or begins to host it.
fn attend(
    space: SpaceName,
    inner: &Arc<SpacePoolInner>,
    notifications: &Notifications,
    spaces: &mut JoinSet<()>,
    stop: &watch::Receiver<bool>,
) {
    if let Some(notification) = notifications.borrow().get(&space) {
        return notification.notify_one();
    }
    let notification = Rc::new(Notify::new());
    notifications
        .borrow_mut()
        .insert(space.clone(), Rc::clone(&notification));
    let (inner, notifications, stop) = (Arc::clone(inner), Rc::clone(notifications), stop.clone());
    spaces.spawn_local(async move {
        serve(&inner, &space, &notification, stop).await;
        notifications.borrow_mut().remove(&space);
        inner.onlookers().remove(&space);
    });
}
