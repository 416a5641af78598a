//! What `docs/mailbox.md` says is so: its commands run in order on an empty home folder and print
//! what stands under them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::stage;

#[test]
fn every_command_of_the_guide_prints_what_the_guide_says() {
    assert_eq!(stage::guide("mailbox.md"), 3);
}
