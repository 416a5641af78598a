//! What forms did, told on the page that they lead back to. The address of that page names a note
//! that this server kept: nobody else puts words into its mouth.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

/// Notes that are remembered.
const NOTES: usize = 256;

/// What forms did, by the code that the page after them is given.
#[derive(Debug, Default)]
pub struct Notes(Mutex<VecDeque<(String, String)>>);

impl Notes {
    /// Keep a note; its code.
    pub fn keep(&self, said: &str) -> String {
        // A hasher of the standard library begins with numbers that nobody can guess.
        let code = format!("{:016x}", RandomState::new().hash_one(said));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back((code.clone(), said.to_owned()));
        let surplus = all.len().saturating_sub(NOTES);
        all.drain(..surplus);
        code
    }

    pub fn find(&self, code: &str) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().rev().find(|(known, _)| known == code);
        found.map(|(_, said)| said.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_kept_is_told() {
        let notes = Notes::default();
        let code = notes.keep("The run goes on.");
        assert_eq!(notes.find(&code).as_deref(), Some("The run goes on."));
        assert_eq!(notes.find("Call this number"), None);
        for number in 0..NOTES {
            notes.keep(&number.to_string());
        }
        assert_eq!(notes.find(&code), None, "the oldest are forgotten");
    }
}
