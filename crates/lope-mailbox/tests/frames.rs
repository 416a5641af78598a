//! The frames against the vectors of the behaviour file, byte for byte, and their round trips as
//! properties.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use lope_mailbox::frame::{EncodeError, Flags, FrameError, Intent, Message, MessageKind, Route};
use proptest::prelude::*;

const V1: &str = "4c4d5347000000004a000000013900004d000000000000000b0000000000000040e20100000000002a000000000000000500000005000000040000006d73672d317472616365deadbeef";
const V2: &str = "4c4d5347000000003d00000000000000050000000000000005000000000000006300000000000000000000000000000001000000ffffffff000000006d";
const V3: &str = "4c4d5347000000003f00000000000000010000000000000001000000000000000200000000000000000000000000000003000000ffffffff00000000766572";
const V4: &str = "4c494e5400000000200000000101000000f153650000000004000000aabbccdd";
const V6: &str = "4c4d5347000000004000000000000000070000000000000007000000000000007b00000000000000000000000000000002000000ffffffff020000006d316f6b";
const V7_HEAD: &str = "4c494e54000000005c00000000000000000000000000000040000000";
const V8_HEAD: &str = "4c494e54000000005c00000001010000090300000000000040000000";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two hexadecimal digits"))
        .collect()
}

fn command(to: i64, timestamp: i64, id: &'static [u8]) -> Message<'static> {
    let route = Route {
        worker: to,
        timestamp,
    };
    Message {
        flags: Flags::NONE,
        route,
        ..Message::new(MessageKind::Command, to, id, b"")
    }
}

/// V3 with one byte set.
fn v3_with(at: usize, byte: u8) -> Vec<u8> {
    let mut frame = bytes(V3);
    frame[at] = byte;
    frame
}

fn is_format<T: std::fmt::Debug>(result: &Result<T, FrameError>) -> bool {
    matches!(result, Err(FrameError::Format(_)))
}

/// "V1 event, flags 0x39, to 77, route (11,123456), from 42, id "msg-1", trace "trace", payload
/// deadbeef"
#[test]
fn v1_is_an_event_with_everything() {
    let message = Message {
        kind: MessageKind::Event,
        flags: Flags::DURABLE | Flags::REQUIRES_ACK,
        to_worker: 77,
        route: Route {
            worker: 11,
            timestamp: 123_456,
        },
        from_worker: Some(42),
        id: b"msg-1",
        trace: Some(b"trace"),
        payload: &[0xde, 0xad, 0xbe, 0xef],
    };
    assert_eq!(message.encode().unwrap(), bytes(V1));
    assert_eq!(Message::decode(&bytes(V1)), Ok(message));
    assert_eq!(bytes(V1)[13], 0x39);
}

/// "**LMSG**, header 60: `0` magic `LMSG` · `4` major u16=0 · `6` minor u16=0 · `8` frame_len u32
/// (header+body, must equal the buffer) · `12` kind u8 (0 command, 1 event, 2 timer) · `13` flags
/// u8 · `14` reserved u16=0 · `16` to_worker s64 · `24` route_worker s64 · `32` route_timestamp s64
/// · `40` from_worker s64 (0 unless its flag is set) · `48` message_id_len u32 (>0) · `52`
/// trace_id_len u32 (`0xFFFFFFFF` when absent) · `56` payload_len u32 · body: message_id,
/// [trace_id], payload." "all integers little-endian on the wire, big-endian in keys"
#[test]
fn every_field_of_a_message_stands_at_its_place() {
    for (byte, kind) in [
        (0, MessageKind::Command),
        (1, MessageKind::Event),
        (2, MessageKind::Timer),
    ] {
        let route = Route {
            worker: 0x0a0b,
            timestamp: -2,
        };
        let plain = Message {
            flags: Flags::NONE,
            route,
            ..Message::new(kind, 0x0102_0304, b"id", b"load")
        };
        let frame = plain.encode().unwrap();
        let expected = [
            (0, b"LMSG\0\0\0\0".as_slice()),
            (8, &66_u32.to_le_bytes()),
            (12, &[byte, 0, 0, 0]),
            (16, &[4, 3, 2, 1, 0, 0, 0, 0]),
            (24, &0x0a0b_i64.to_le_bytes()),
            (32, &(-2_i64).to_le_bytes()),
            (40, &[0; 8]),
            (48, &2_u32.to_le_bytes()),
            (52, &[0xff; 4]),
            (56, &4_u32.to_le_bytes()),
            (60, b"idload"),
        ];
        for (at, bytes) in expected {
            assert_eq!(&frame[at..at + bytes.len()], bytes, "{kind:?} at {at}");
        }
        let whole = Message {
            from_worker: Some(9),
            trace: Some(b"trace"),
            ..plain
        }
        .encode()
        .unwrap();
        assert_eq!(
            (&whole[40..48], &whole[52..56]),
            (&9_i64.to_le_bytes()[..], &5_u32.to_le_bytes()[..])
        );
        assert_eq!(&whole[60..], b"idtraceload");
    }
}

/// "Flags: 0x01 durable, 0x02 high-priority, 0x04 dedupe-required, 0x08 requires-ack, 0x10
/// has-from-worker, 0x20 has-trace-id."
#[test]
fn every_flag_has_its_bit() {
    let flags = |message: Message<'_>| message.encode().unwrap()[13];
    let plain = command(1, 2, b"m");
    let set = [
        Flags::DURABLE,
        Flags::HIGH_PRIORITY,
        Flags::DEDUPE,
        Flags::REQUIRES_ACK,
    ];
    assert_eq!(
        set.map(|set| flags(Message {
            flags: set,
            ..plain
        })),
        [1, 2, 4, 8]
    );
    assert_eq!(
        flags(Message {
            from_worker: Some(3),
            ..plain
        }),
        0x10
    );
    assert_eq!(
        flags(Message {
            trace: Some(b"t"),
            ..plain
        }),
        0x20
    );
}

/// "**LINT**, header 28: `0` magic `LINT` · `4`/`6` version 0.0 · `8` frame_len u32 · `12` kind u8
/// (0 outbox-emit, 1 timer-arm) · `13` flags u8 (0x01 has-due-ts) · `14` reserved=0 · `16` due_ts
/// s64 · `24` message_len u32 >0 · body: an LMSG frame."
#[test]
fn every_field_of_an_intent_stands_at_its_place() {
    let (emit, arm) = (
        Intent::Emit { message: b"body" },
        Intent::Arm {
            due: 0x0102,
            message: b"body",
        },
    );
    for (intent, kind, flags, due) in [(emit, 0, 0, 0_i64), (arm, 1, 1, 0x0102)] {
        let frame = intent.encode().unwrap();
        let head = [
            b"LINT\0\0\0\0".as_slice(),
            &32_u32.to_le_bytes(),
            &[kind, flags, 0, 0],
        ]
        .concat();
        let tail = [due.to_le_bytes().as_slice(), &4_u32.to_le_bytes(), b"body"].concat();
        assert_eq!(frame, [head, tail].concat());
    }
}

/// "V2 command, to 5, route (5,99), id "m"", "V3 command, to 1, route (1,2), id "ver"", "V6
/// command, to 7, route (7,123), id "m1", payload "ok""
#[test]
fn v2_v3_and_v6_are_plain_commands() {
    let v6 = Message {
        payload: b"ok",
        ..command(7, 123, b"m1")
    };
    for (hex, message) in [
        (V2, command(5, 99, b"m")),
        (V3, command(1, 2, b"ver")),
        (V6, v6),
    ] {
        assert_eq!(message.encode().unwrap(), bytes(hex));
        assert_eq!(Message::decode(&bytes(hex)), Ok(message));
    }
}

/// "of V3: byte 6 := 1 → version; drop last byte → truncated; 59 bytes → truncated; one byte more →
/// format"
#[test]
fn v3_of_another_length_or_version_is_refused_by_name() {
    let v3 = bytes(V3);
    assert_eq!(Message::decode(&v3_with(6, 1)), Err(FrameError::Version));
    assert_eq!(
        Message::decode(&v3[..v3.len() - 1]),
        Err(FrameError::Truncated)
    );
    assert_eq!(Message::decode(&v3[..59]), Err(FrameError::Truncated));
    assert!(is_format(&Message::decode(&[v3, vec![0]].concat())));
}

/// "byte 0 := 'X', 12 := 3, 13 := 40h, 13 := 20h, 14 := 1, 48 := 0 → format"
#[test]
fn v3_that_contradicts_itself_is_malformed() {
    for (at, byte) in [(0, b'X'), (12, 3), (13, 0x40), (13, 0x20), (14, 1), (48, 0)] {
        assert!(
            is_format(&Message::decode(&v3_with(at, byte))),
            "byte {at} := {byte}"
        );
    }
}

/// "byte 40 := 9 → decodes, from_worker 0"
#[test]
fn a_sender_without_its_flag_is_none() {
    assert_eq!(
        Message::decode(&v3_with(40, 9))
            .unwrap()
            .from_worker
            .unwrap_or(0),
        0
    );
}

/// "Decode errors, in this order of checks: shorter than the header → truncated; magic → format;
/// version → version; frame_len below header → format, above the buffer → truncated, below the
/// buffer → format; reserved, kind, unknown flags → format; id length 0, trace flag and length
/// disagreeing, body sum → format."
#[test]
fn faults_are_named_in_the_order_of_the_checks() {
    let faults: [(&[usize], &str); 8] = [
        (&[0], "magic"),
        (&[4, 6], "version"),
        (&[8], "length"),
        (&[14, 15], "reserved"),
        (&[12], "kind"),
        (&[13], "flags"),
        (&[48], "id"),
        (&[56], "sum"),
    ];
    // A frame with every fault from one check on answers with the first of them.
    let mut broken = bytes(V3);
    let mut expected = None;
    for (places, name) in faults.iter().rev() {
        for place in *places {
            broken[*place] = match (*name, *place) {
                ("flags", _) => 0xff,
                ("id", _) => 0,
                ("length", _) => 10,
                _ => 7,
            };
        }
        let found = Message::decode(&broken).unwrap_err();
        match *name {
            "version" => assert_eq!(found, FrameError::Version),
            _ => assert!(matches!(found, FrameError::Format(_)), "{name}: {found}"),
        }
        assert_ne!(
            Some(found),
            expected,
            "{name} comes before the faults behind it"
        );
        expected = Some(found);
        assert_eq!(Message::decode(&broken[..59]), Err(FrameError::Truncated));
    }
}

/// "frame_len below header → format, above the buffer → truncated, below the buffer → format"
#[test]
fn the_announced_length_is_held_against_the_buffer() {
    assert_eq!(
        Message::decode(&v3_with(8, 59)),
        Err(FrameError::Format("length below the header"))
    );
    assert_eq!(Message::decode(&v3_with(8, 64)), Err(FrameError::Truncated));
    assert_eq!(
        Message::decode(&v3_with(8, 62)),
        Err(FrameError::Format("bytes behind the frame"))
    );
    assert_eq!(
        Message::decode(&v3_with(15, 1)),
        Err(FrameError::Format("reserved bytes"))
    );
}

/// "52 trace_id_len u32 (0xFFFFFFFF when absent)": an empty trace id is one that is there.
#[test]
fn an_empty_trace_id_is_told_from_none() {
    let with = Message {
        trace: Some(b""),
        ..command(1, 2, b"ver")
    };
    let frame = with.encode().unwrap();
    assert_eq!(frame[52..56], [0; 4]);
    assert_eq!(Message::decode(&frame), Ok(with));
}

/// "V4 LINT timer-arm due 1700000000, message aabbccdd"; "The codec takes any body, as V4 shows"
#[test]
fn v4_arms_any_bytes() {
    let intent = Intent::Arm {
        due: 1_700_000_000,
        message: &[0xaa, 0xbb, 0xcc, 0xdd],
    };
    assert_eq!(intent.encode().unwrap(), bytes(V4));
    assert_eq!(Intent::decode(&bytes(V4)), Ok(intent));
}

/// "V7 LINT outbox-emit(V6)", "V8 LINT timer-arm(777,V6)"
#[test]
fn v7_emits_and_v8_arms_v6() {
    let v6 = bytes(V6);
    let v7 = [bytes(V7_HEAD), v6.clone()].concat();
    let v8 = [bytes(V8_HEAD), v6.clone()].concat();
    assert_eq!(Intent::Emit { message: &v6 }.encode().unwrap(), v7);
    assert_eq!(Intent::decode(&v7), Ok(Intent::Emit { message: &v6 }));
    assert_eq!(
        Intent::Arm {
            due: 777,
            message: &v6
        }
        .encode()
        .unwrap(),
        v8
    );
    assert_eq!(
        Intent::decode(&v8),
        Ok(Intent::Arm {
            due: 777,
            message: &v6
        })
    );
}

/// "Outbox-emit must not carry a due time; timer-arm must."
#[test]
fn a_due_time_belongs_to_timers_alone() {
    let mut emit_with_due = [bytes(V7_HEAD), bytes(V6)].concat();
    emit_with_due[13] = 1;
    assert!(is_format(&Intent::decode(&emit_with_due)));
    let mut arm_without_due = bytes(V4);
    arm_without_due[13] = 0;
    assert!(is_format(&Intent::decode(&arm_without_due)));
}

/// The same checks in the same order hold for the intent.
#[test]
fn broken_intents_are_refused_by_name() {
    let v4 = bytes(V4);
    let set = |at: usize, byte: u8| {
        let mut frame = v4.clone();
        frame[at] = byte;
        frame
    };
    assert_eq!(Intent::decode(&v4[..27]), Err(FrameError::Truncated));
    assert_eq!(Intent::decode(&v4[..31]), Err(FrameError::Truncated));
    assert_eq!(Intent::decode(&set(4, 1)), Err(FrameError::Version));
    for (at, byte) in [
        (0, b'X'),
        (8, 27),
        (8, 31),
        (12, 2),
        (13, 3),
        (14, 1),
        (15, 1),
        (24, 0),
        (24, 5),
    ] {
        assert!(
            is_format(&Intent::decode(&set(at, byte))),
            "byte {at} := {byte}"
        );
    }
}

/// "48 message_id_len u32 (>0)", "24 message_len u32 >0"
#[test]
fn what_no_frame_can_hold_is_not_encoded() {
    assert_eq!(command(1, 2, b"").encode(), Err(EncodeError::NoId));
    assert_eq!(
        Intent::Emit { message: b"" }.encode(),
        Err(EncodeError::NoBody)
    );
}

prop_compose! {
    fn numbers()(to in any::<i64>(), worker in any::<i64>(), at in any::<i64>(), from in any::<Option<i64>>())
        -> (i64, Route, Option<i64>) {
        (to, Route { worker, timestamp: at }, from)
    }
}

proptest! {
    #[test]
    fn a_message_comes_back_as_it_went(
        kind in 0_usize..3,
        flags in 0_u8..16,
        (to_worker, route, from_worker) in numbers(),
        id in prop::collection::vec(any::<u8>(), 1..40),
        trace in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
        payload in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let kind = [MessageKind::Command, MessageKind::Event, MessageKind::Timer][kind];
        let all = [Flags::DURABLE, Flags::HIGH_PRIORITY, Flags::DEDUPE, Flags::REQUIRES_ACK];
        let flags = (0..4).fold(Flags::NONE, |set, bit| set.with(all[bit], flags & (1 << bit) != 0));
        let message = Message {
            kind, flags, to_worker, route, from_worker, id: &id, trace: trace.as_deref(), payload: &payload,
        };
        let frame = message.encode().unwrap();
        prop_assert_eq!(Message::decode(&frame), Ok(message));
    }

    /// What decodes encodes to the same bytes, but for a sender that its flag denies.
    #[test]
    fn a_frame_that_decodes_encodes_to_itself(at in 0_usize..74, byte in any::<u8>()) {
        let mut frame = bytes(V1);
        frame[at] = byte;
        if let Ok(message) = Message::decode(&frame) {
            let (again, denied) = (message.encode().unwrap(), message.from_worker.is_none());
            if denied {
                frame[40..48].fill(0);
            }
            prop_assert_eq!(again, frame);
        }
    }

    #[test]
    fn an_intent_comes_back_as_it_went(due in any::<Option<i64>>(), body in prop::collection::vec(any::<u8>(), 1..200)) {
        let intent = due.map_or(Intent::Emit { message: &body }, |due| Intent::Arm { due, message: &body });
        let frame = intent.encode().unwrap();
        prop_assert_eq!(Intent::decode(&frame), Ok(intent));
    }
}
