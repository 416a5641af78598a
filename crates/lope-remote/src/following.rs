//! Commands that watch something, through servers that end and come back: the command is done again
//! by whoever answers then, and told what was said last.

use std::time::Duration;

use lope_model::Digest;

use crate::order::{Attached, CommandOrder, LastTold, Need, OutputFile};
use crate::server_client::{CallError, OrderGiver, ServerClient};

/// How soon a server that went away is asked again, at first and at most.
const AGAIN_FIRST: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// The exit code of a command whose store is out of reach.
const OUT_OF_REACH: u8 = 4;

/// Counts what is said on its way to whoever gave the order.
struct Following<'a> {
    giver: &'a mut dyn OrderGiver,
    last: Option<LastTold>,
}

impl ServerClient {
    /// Has a server do a command that says one thing after the other, each in one piece; its exit code.
    /// Whenever the server goes away in the middle, the command goes on once it is back.
    pub async fn follow(
        &self,
        mut order: CommandOrder,
        giver: &mut dyn OrderGiver,
    ) -> Result<u8, CallError> {
        let mut following = Following { giver, last: None };
        let mut again = AGAIN_FIRST;
        loop {
            let told = following.told();
            let outcome = self.run(order.clone(), &mut following).await;
            let has_begun = following.told() > 0;
            match outcome {
                Ok(OUT_OF_REACH) if has_begun => {}
                Err(CallError::Unreachable(_) | CallError::Broken(_)) if has_begun => {}
                outcome => return outcome,
            }
            // One line for each time that it is away, however often it is asked.
            if following.told() > told || order.last.is_none() {
                let words = format!(
                    "the server at {} is away; going on when it is back\n",
                    self.url()
                );
                following.err(&words);
                again = AGAIN_FIRST;
            }
            order.last = following.last.clone();
            tokio::time::sleep(again).await;
            again = (again * 2).min(AGAIN_MAX);
        }
    }
}

impl Following<'_> {
    fn told(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.count)
    }
}

impl LastTold {
    /// How a piece of what was said is known again.
    pub fn digest_of(text: &str) -> String {
        Digest::of(text.trim_end_matches('\n').as_bytes()).to_string()
    }
}

impl OrderGiver for Following<'_> {
    fn out(&mut self, text: &str) {
        self.giver.out(text);
        self.last = Some(LastTold {
            digest: LastTold::digest_of(text),
            count: self.told() + 1,
        });
    }

    fn out_bytes(&mut self, bytes: &[u8]) {
        self.giver.out_bytes(bytes);
    }

    fn err(&mut self, text: &str) {
        self.giver.err(text);
    }

    fn picture(&mut self, lines: &[String], is_last: bool) {
        self.giver.picture(lines, is_last);
    }

    fn file(&mut self, file: &OutputFile) -> Result<(), CallError> {
        self.giver.file(file)
    }

    fn piece(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        self.giver.piece(bytes)
    }

    fn answer(&mut self, need: &Need) -> Attached {
        self.giver.answer(need)
    }
}
