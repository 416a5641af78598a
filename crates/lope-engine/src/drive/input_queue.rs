//! A queue of inputs for one thread: many put in, one takes out everything that is there. Nothing is
//! allocated while it runs, and the thread is woken only when it sleeps. While it sleeps and nothing
//! waits, somebody else may take its place for a moment.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct InputQueue<T> {
    queue: Mutex<QueueState<T>>,
    notification: Condvar,
}

#[derive(Debug)]
struct QueueState<T> {
    items: VecDeque<T>,
    asleep: bool,
    closed: bool,
    /// Somebody has the place of the thread, which sleeps until it is given back.
    held: bool,
    /// The thread has to look how long it may sleep.
    stirred: bool,
    /// The thread has slept long enough and waits for its place alone.
    overdue: bool,
}

impl<T> InputQueue<T> {
    pub(crate) fn new() -> Self {
        let queue = QueueState {
            items: VecDeque::new(),
            asleep: false,
            closed: false,
            held: false,
            stirred: false,
            overdue: false,
        };
        Self {
            queue: Mutex::new(queue),
            notification: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.queue.lock().expect("no panic while the queue is held")
    }

    /// Put inputs in, in order. Those that come after the end are dropped.
    pub(crate) fn send(&self, items: impl IntoIterator<Item = T>) {
        let mut queue = self.lock();
        if queue.closed {
            return;
        }
        queue.items.extend(items);
        let wake = queue.asleep && !queue.held && !queue.items.is_empty();
        drop(queue);
        if wake {
            self.notification.notify_one();
        }
    }

    /// Take the place of the thread while it has nothing to do; [`InputQueue::release`] must follow.
    /// False: it is at work, or somebody else is in its place, or something waits.
    pub(crate) fn try_hold(&self) -> bool {
        let mut queue = self.lock();
        let is_free = queue.asleep && !queue.held && !queue.closed && queue.items.is_empty();
        queue.held |= is_free;
        is_free
    }

    /// What came while the place was held, to be done there too.
    pub(crate) fn take_held(&self, into: &mut VecDeque<T>) {
        into.append(&mut self.lock().items);
    }

    /// Give the place back; the thread goes on with what waits. `stir`: it may sleep less long than
    /// it meant to.
    pub(crate) fn release(&self, stir: bool) {
        let mut queue = self.lock();
        queue.held = false;
        queue.stirred |= stir;
        let wake = queue.is_wanted() || queue.overdue;
        drop(queue);
        if wake {
            self.notification.notify_one();
        }
    }

    /// What is in it is still taken, nothing more comes.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.notification.notify_one();
    }

    /// Take everything, after waiting for something at most this long. False: it is closed and
    /// empty.
    pub(crate) fn take(&self, into: &mut VecDeque<T>, wait: Duration) -> bool {
        let mut queue = self.lock();
        if queue.items.is_empty() && !queue.closed {
            queue.asleep = true;
            let idle = |queue: &mut QueueState<T>| queue.held || !queue.is_wanted();
            queue = self
                .notification
                .wait_timeout_while(queue, wait, idle)
                .expect("no panic while the queue is held")
                .0;
            queue.overdue = true;
            queue = self
                .notification
                .wait_while(queue, |queue| queue.held)
                .expect("no panic while the queue is held");
            (queue.asleep, queue.stirred, queue.overdue) = (false, false, false);
            drop(queue);
            // Whoever woke us may have more to say: on a busy machine one turn then takes it all,
            // on an idle one this costs nothing.
            std::thread::yield_now();
            queue = self.lock();
        }
        std::mem::swap(into, &mut queue.items);
        !(into.is_empty() && queue.closed)
    }
}

impl<T> QueueState<T> {
    /// Is there something for the thread to do?
    fn is_wanted(&self) -> bool {
        !self.items.is_empty() || self.closed || self.stirred
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_in_order_and_the_end_comes_last() {
        let queue = std::sync::Arc::new(InputQueue::new());
        let sender = std::sync::Arc::clone(&queue);
        let sending = std::thread::spawn(move || {
            (0..10_000).for_each(|number| sender.send([number]));
            sender.close();
            sender.send([-1]);
        });
        let (mut taken, mut seen) = (VecDeque::new(), Vec::new());
        while queue.take(&mut taken, Duration::from_mins(1)) {
            seen.extend(taken.drain(..));
        }
        sending.join().expect("it sends");
        assert_eq!(seen, (0..10_000).collect::<Vec<_>>());
    }

    /// Four senders, some of whose inputs are done on the spot: each input once, those of a sender in
    /// order, and never two at work at a time.
    #[test]
    fn a_place_is_held_by_one_at_a_time_and_nothing_is_lost() {
        const EACH: usize = 5_000;
        let queue = InputQueue::<(usize, usize)>::new();
        let done = Mutex::new(Vec::new());
        let on_the_spot = std::sync::atomic::AtomicUsize::new(0);
        let work = |inputs: &mut VecDeque<(usize, usize)>| {
            let mut done = done.try_lock().expect("nobody else is at work");
            done.extend(inputs.drain(..));
        };
        let bring = |input| {
            if !queue.try_hold() {
                return queue.send([input]);
            }
            on_the_spot.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let mut inputs = VecDeque::from([input]);
            while !inputs.is_empty() {
                work(&mut inputs);
                queue.take_held(&mut inputs);
            }
            queue.release(false);
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut inputs = VecDeque::new();
                while queue.take(&mut inputs, Duration::from_mins(1)) {
                    work(&mut inputs);
                }
            });
            let senders: Vec<_> = (0..4)
                .map(|sender| {
                    scope.spawn(move || (0..EACH).for_each(|number| bring((sender, number))))
                })
                .collect();
            senders
                .into_iter()
                .for_each(|sender| sender.join().expect("it sends"));
            while !queue.try_hold() {
                std::thread::yield_now();
            }
            bring_more_while_held(&queue);
            queue.release(false);
            queue.close();
        });
        let done = done.into_inner().expect("nobody panicked");
        assert_eq!(done.len(), 4 * EACH + 1);
        for sender in 0..4 {
            let numbers = done.iter().filter(|input| input.0 == sender);
            assert!(numbers.map(|input| input.1).eq(0..EACH));
        }
        assert!(done.ends_with(&[(9, 9)]), "what came while it was held");
    }

    fn bring_more_while_held(queue: &InputQueue<(usize, usize)>) {
        assert!(!queue.try_hold());
        queue.send([(9, 9)]);
    }

    #[test]
    fn it_waits_no_longer_than_it_is_told() {
        let mut taken = VecDeque::<u8>::new();
        assert!(InputQueue::new().take(&mut taken, Duration::from_millis(1)));
        assert!(taken.is_empty());
    }
}
