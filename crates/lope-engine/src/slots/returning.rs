//! What goes back to its owner because it has not begun: its runner ends, its run is paused, or its
//! executor gives it back.

use lope_model::{Moment, RunId};

use super::{SlotCommand, SlotScheduler, SlotStage};
use crate::executor::Token;

impl SlotScheduler {
    /// Nothing more begins here: what has not begun goes back to its owner.
    pub fn drain(&mut self, now: Moment, commands: &mut Vec<SlotCommand>) {
        self.draining = true;
        self.return_all(now, self.unbegun(), commands);
    }

    /// Nothing more of a run begins: what has not begun goes back to its owner, which brings it again
    /// when the run goes on.
    pub fn pause(&mut self, now: Moment, run: RunId, on: bool, commands: &mut Vec<SlotCommand>) {
        if !on {
            self.paused.remove(&run);
            return;
        }
        self.paused.insert(run);
        let mut tokens = self.unbegun();
        tokens.retain(|token| token.run == run);
        self.return_all(now, tokens, commands);
    }

    fn return_all(&mut self, now: Moment, tokens: Vec<Token>, commands: &mut Vec<SlotCommand>) {
        for token in tokens {
            self.cancel(now, &token, commands);
            commands.push(SlotCommand::Return(token));
        }
    }

    /// Everything that was submitted and has not begun: those that wait first, so that none of them
    /// begins when one that has a slot is given up.
    pub(super) fn unbegun(&self) -> Vec<Token> {
        let mut tokens: Vec<Token> = self.ranks.keys().cloned().collect();
        tokens.sort_unstable();
        let waiting = tokens.len();
        let announced = self.running.iter().filter(|(_, running)| {
            matches!(
                running.stage,
                SlotStage::Announced(_) | SlotStage::Asking(..) | SlotStage::Revealing
            )
        });
        tokens.extend(announced.map(|(token, _)| token.clone()));
        tokens[waiting..].sort_unstable();
        tokens
    }

    /// An executor gives a task back that it had not begun.
    pub fn returned(&mut self, now: Moment, token: &Token, commands: &mut Vec<SlotCommand>) {
        if let Some(running) = self.end(token) {
            if matches!(running.stage, SlotStage::Working) {
                commands.push(SlotCommand::Return(token.clone()));
            }
            let timed_out = running.timed_out(token, now);
            self.release(running, None, false, commands);
            commands.extend(timed_out);
        }
        self.fill(now, commands);
    }
}
