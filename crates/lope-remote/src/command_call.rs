//! A command that a server does for somebody: what it prints goes to its caller, what it reads comes
//! from there, and it ends when the caller has gone.
//!
//! A command runs on a thread of its own, and while it does so the thread knows the call; what
//! prints and reads asks for it ([`caller`](crate::caller)). Nothing of the server's disk or
//! environment is read in its place.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lope::tokens::Right;
use tokio::sync::{Notify, mpsc};

use crate::order::{Attached, CommandFrame, CommandOrder, Need};

/// Bytes that may wait for a slow caller before the command is ended.
const WAITING_MAX: usize = 64 * 1024 * 1024;
/// Bytes that may wait before a picture is left out.
const PICTURES_MAX: usize = 64 * 1024;
/// Bytes that may wait before a file is held back.
const PIECES_MAX: usize = 4 * 1024 * 1024;

thread_local! {
    static CURRENT: RefCell<Option<Arc<CommandCall>>> = const { RefCell::new(None) };
}

/// Does commands for those who have no store at hand.
pub trait CommandHost: Send + Sync + fmt::Debug {
    /// The command that arguments name, as in `runs list`, or what is wrong with them.
    fn verb(&self, arguments: &[String]) -> Result<String, String>;

    /// Does the command of a call on this thread; its exit code.
    fn run(&self, call: &Arc<CommandCall>) -> u8;
}

/// A command that is done for somebody.
pub struct CommandCall {
    pub order: CommandOrder,
    /// What its caller may do.
    pub right: Right,
    frames: mpsc::UnboundedSender<String>,
    /// Bytes of frames that the caller has not taken.
    waiting: Arc<AtomicUsize>,
    taken: Arc<Notify>,
    needs: Mutex<Vec<Need>>,
    overrun: Notify,
}

/// What a command says, line by line.
#[derive(Debug)]
pub struct FrameReceiver {
    frames: mpsc::UnboundedReceiver<String>,
    waiting: Arc<AtomicUsize>,
    taken: Arc<Notify>,
}

/// While it is held, this thread works for a call.
#[derive(Debug)]
pub struct Entered(());

impl CommandCall {
    pub fn new(order: CommandOrder, right: Right) -> (Arc<Self>, FrameReceiver) {
        let (sender, frames) = mpsc::unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        let taken = Arc::<Notify>::default();
        let receiver = FrameReceiver {
            frames,
            waiting: Arc::clone(&waiting),
            taken: Arc::clone(&taken),
        };
        let call = Self {
            order,
            right,
            frames: sender,
            waiting,
            taken,
            needs: Mutex::default(),
            overrun: Notify::new(),
        };
        (Arc::new(call), receiver)
    }

    /// The call that this thread works for.
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// From now on this thread works for it.
    pub fn enter(self: &Arc<Self>) -> Entered {
        CURRENT.set(Some(Arc::clone(self)));
        Entered(())
    }

    /// Says something, unless it is not said yet what the command needs first.
    pub fn say(&self, frame: &CommandFrame) {
        if !self.is_short() {
            self.send(frame);
        }
    }

    /// What the caller has to say to a need. Nothing yet: it is asked for, and the command begins
    /// again when it has come.
    pub fn given(&self, need: Need) -> Option<&Attached> {
        let mut all = self.order.attachments.iter();
        if let Some(found) = all.find(|it| it.need == need) {
            return Some(&found.given);
        }
        let mut needs = self.needs.lock().unwrap_or_else(PoisonError::into_inner);
        if !needs.contains(&need) {
            needs.push(need);
        }
        None
    }

    /// The last word: the exit code, or what is needed.
    pub fn end(&self, exit: u8) {
        let needs = self.needs.lock().unwrap_or_else(PoisonError::into_inner);
        let last = if needs.is_empty() {
            CommandFrame::Exit(exit)
        } else {
            CommandFrame::Needs(needs.clone())
        };
        self.send(&last);
    }

    /// Returns when the caller has gone, or takes nothing while too much waits for it.
    pub async fn gone(&self) {
        tokio::select! {
            () = self.frames.closed() => {}
            () = self.overrun.notified() => {}
        }
    }

    /// Does so much wait for the caller that a picture which the next one replaces is not worth
    /// sending?
    pub fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > PICTURES_MAX
    }

    /// Returns when the caller has taken enough for the next piece of a file.
    pub async fn room(&self) {
        while self.waiting.load(Ordering::Acquire) > PIECES_MAX && !self.frames.is_closed() {
            self.taken.notified().await;
        }
    }

    /// Does it wait for something of its caller's? Then it does nothing.
    pub fn is_short(&self) -> bool {
        let needs = self.needs.lock().unwrap_or_else(PoisonError::into_inner);
        !needs.is_empty()
    }

    fn send(&self, frame: &CommandFrame) {
        let mut line = serde_json::to_string(frame).unwrap_or_default();
        line.push('\n');
        let waiting = self.waiting.fetch_add(line.len(), Ordering::AcqRel);
        if waiting > WAITING_MAX {
            self.overrun.notify_one();
            return;
        }
        // Whoever has gone is told nothing.
        let _ = self.frames.send(line);
    }
}

impl fmt::Debug for CommandCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandCall({:?})", self.order.arguments)
    }
}

impl FrameReceiver {
    /// The next line. Nothing: the command has ended.
    pub async fn next(&mut self) -> Option<String> {
        let line = self.frames.recv().await?;
        self.waiting.fetch_sub(line.len(), Ordering::AcqRel);
        self.taken.notify_one();
        Some(line)
    }
}

impl Drop for FrameReceiver {
    fn drop(&mut self) {
        self.frames.close();
        self.taken.notify_one();
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_needs_something_says_only_what() {
        let (call, mut frames) = CommandCall::new(CommandOrder::default(), Right::Read);
        assert_eq!(call.given(Need::Stdin), None);
        call.say(&CommandFrame::Out("half".to_owned()));
        call.end(0);
        let line = frames.frames.try_recv().unwrap();
        let frame: CommandFrame = serde_json::from_str(&line).unwrap();
        assert_eq!(frame, CommandFrame::Needs(vec![Need::Stdin]));
        assert!(frames.frames.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_command_ends_when_nobody_takes_what_it_says() {
        let (call, _frames) = CommandCall::new(CommandOrder::default(), Right::Read);
        let piece = CommandFrame::Out("x".repeat(1 << 20));
        (0..70).for_each(|_| call.say(&piece));
        call.gone().await;
    }
}
