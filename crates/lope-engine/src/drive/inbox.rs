//! A line of inputs for one thread: many put in, one takes out everything that is there. Nothing is allocated while it runs, and the
//! thread is woken only when it sleeps.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Inbox<T> {
    line: Mutex<Line<T>>,
    bell: Condvar,
}

#[derive(Debug)]
struct Line<T> {
    items: VecDeque<T>,
    asleep: bool,
    closed: bool,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        let line = Line { items: VecDeque::new(), asleep: false, closed: false };
        Self { line: Mutex::new(line), bell: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Line<T>> {
        self.line.lock().expect("no panic while the line is held")
    }

    /// Put inputs in, in order. Those that come after the end are dropped.
    pub(crate) fn send(&self, items: impl IntoIterator<Item = T>) {
        let mut line = self.lock();
        if line.closed {
            return;
        }
        line.items.extend(items);
        let wake = line.asleep && !line.items.is_empty();
        drop(line);
        if wake {
            self.bell.notify_one();
        }
    }

    /// What is in it is still taken, nothing more comes.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.bell.notify_one();
    }

    /// Take everything, after waiting for something at most this long. False: it is closed and empty.
    pub(crate) fn take(&self, into: &mut VecDeque<T>, wait: Duration) -> bool {
        let mut line = self.lock();
        if line.items.is_empty() && !line.closed {
            line.asleep = true;
            let empty = |line: &mut Line<T>| line.items.is_empty() && !line.closed;
            line = self.bell.wait_timeout_while(line, wait, empty).expect("no panic while the line is held").0;
            line.asleep = false;
            drop(line);
            // Whoever woke us may have more to say: on a busy machine one turn then takes it all, on an idle one this costs nothing.
            std::thread::yield_now();
            line = self.lock();
        }
        std::mem::swap(into, &mut line.items);
        !(into.is_empty() && line.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_in_order_and_the_end_comes_last() {
        let inbox = std::sync::Arc::new(Inbox::new());
        let sender = std::sync::Arc::clone(&inbox);
        let sending = std::thread::spawn(move || {
            (0..10_000).for_each(|number| sender.send([number]));
            sender.close();
            sender.send([-1]);
        });
        let (mut taken, mut seen) = (VecDeque::new(), Vec::new());
        while inbox.take(&mut taken, Duration::from_mins(1)) {
            seen.extend(taken.drain(..));
        }
        sending.join().expect("it sends");
        assert_eq!(seen, (0..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn it_waits_no_longer_than_it_is_told() {
        let mut taken = VecDeque::<u8>::new();
        assert!(Inbox::new().take(&mut taken, Duration::from_millis(1)));
        assert!(taken.is_empty());
    }
}
