//! Mutated frames by the million: no decoder panics, and what decodes is what its bytes say.
//!
//! 200,000 frames in the normal tests, ten million when `LOPE_CHAOS` is `full`.

use lope_mailbox::frame::{Flags, Intent, Message, MessageKind, Route};

const SAMPLE: u64 = 200_000;
const FULL: u64 = 10_000_000;

/// A small generator of our own, so that a failing frame can be made again from its number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.roll() % end as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.roll() as u8).collect()
    }
}

fn message(dice: &mut Dice) -> Vec<u8> {
    let id_len = 1 + dice.below(12);
    let (id, trace_len, payload_len) = (dice.bytes(id_len), dice.below(8), dice.below(40));
    let trace = (dice.below(2) == 0).then(|| dice.bytes(trace_len));
    let payload = dice.bytes(payload_len);
    let message = Message {
        flags: Flags::NONE
            .with(Flags::DEDUPE, dice.below(2) == 0)
            .with(Flags::HIGH_PRIORITY, dice.below(2) == 0),
        route: Route {
            worker: dice.roll() as i64,
            timestamp: dice.roll() as i64,
        },
        from_worker: (dice.below(2) == 0).then(|| dice.roll() as i64),
        trace: trace.as_deref(),
        ..Message::new(MessageKind::Event, dice.roll() as i64, &id, &payload)
    };
    message.encode().expect("a message with an id")
}

fn intent(dice: &mut Dice) -> Vec<u8> {
    let message = message(dice);
    let intent = match dice.below(2) {
        0 => Intent::Emit { message: &message },
        _ => Intent::Arm {
            due: dice.roll() as i64,
            message: &message,
        },
    };
    intent.encode().expect("an intent with a body")
}

/// Break a frame in up to three places: a byte, a field, its end.
fn mutate(frame: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..dice.below(4) {
        let at = dice
            .below(frame.len().max(1))
            .min(frame.len().saturating_sub(4));
        match dice.below(6) {
            0 if !frame.is_empty() => frame[at] ^= 1 << dice.below(8),
            1 if !frame.is_empty() => frame[at] = dice.roll() as u8,
            2 if frame.len() >= 4 => {
                frame[at..at + 4].copy_from_slice(&(dice.below(100) as u32).to_le_bytes());
            }
            3 if frame.len() >= 4 => frame[at..at + 4].fill(0xff),
            4 => frame.truncate(at),
            _ => frame.extend_from_slice(&[0; 3]),
        }
    }
}

/// Decode as both kinds; whatever decodes must say the same again.
fn check(frame: &[u8]) -> bool {
    let message = Message::decode(frame);
    if let Ok(message) = message {
        let again = message.encode().expect("what decodes can be encoded");
        assert_eq!(Message::decode(&again), Ok(message), "{frame:02x?}");
    }
    let intent = Intent::decode(frame);
    if let Ok(intent) = intent {
        let again = intent.encode().expect("what decodes can be encoded");
        assert_eq!(Intent::decode(&again), Ok(intent), "{frame:02x?}");
    }
    message.is_ok() || intent.is_ok()
}

/// "10 million fuzzed frames without a panic"
#[test]
fn no_mutated_frame_makes_a_decoder_panic() {
    let count = if std::env::var("LOPE_CHAOS").is_ok_and(|value| value == "full") {
        FULL
    } else {
        SAMPLE
    };
    let mut sound = 0;
    for seed in 0..count {
        let mut dice = Dice(seed);
        let mut frame = match dice.below(8) {
            0 => {
                let length = dice.below(120);
                dice.bytes(length)
            }
            1..4 => intent(&mut dice),
            _ => message(&mut dice),
        };
        mutate(&mut frame, &mut dice);
        sound += u64::from(check(&frame));
    }
    assert!(
        sound > count / 10 && sound < count,
        "{sound} of {count} frames were sound: the mutations do not bite"
    );
}
