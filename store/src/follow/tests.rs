//! The machine against a bus that does what was seen of real ones.

use super::*;

const KNOWN: StreamPosition = StreamPosition {
    seq: 7,
    digest: Digest([1; 32]),
    created: 100,
};

fn info(created: i64, first: u64, last: u64) -> Input {
    Input::Info {
        created,
        first,
        last,
    }
}

/// A machine that stands at message 7 answers these inputs with these outputs.
#[track_caller]
fn check(steps: &[(Input, Output)]) {
    let mut machine = Follower::new(Some(KNOWN));
    for (number, (input, output)) in steps.iter().enumerate() {
        assert_eq!(
            machine.step(input),
            *output,
            "answer to step {number}, {input:?}"
        );
    }
}

#[test]
fn nothing_is_read_before_the_message_at_the_position_was_compared() {
    check(&[
        (Input::Reconnected, Output::AskInfo),
        (Input::Message { seq: 8 }, Output::Ignore),
        (info(100, 1, 9), Output::AskMessage(7)),
        (Input::Message { seq: 8 }, Output::Ignore),
        (
            Input::AtPosition(Some(KNOWN.digest)),
            Output::Read { from: 8 },
        ),
        (Input::Message { seq: 8 }, Output::Admit),
    ]);
}

#[test]
fn a_message_that_comes_twice_is_admitted_once() {
    check(&[
        (info(100, 1, 9), Output::AskMessage(7)),
        (
            Input::AtPosition(Some(KNOWN.digest)),
            Output::Read { from: 8 },
        ),
        (Input::Message { seq: 8 }, Output::Admit),
        (Input::Message { seq: 8 }, Output::Ignore),
        (Input::Message { seq: 9 }, Output::Admit),
    ]);
}

#[test]
fn a_gap_in_the_sequence_ends_reading_until_the_stream_was_asked() {
    check(&[
        (info(100, 1, 9), Output::AskMessage(7)),
        (
            Input::AtPosition(Some(KNOWN.digest)),
            Output::Read { from: 8 },
        ),
        (Input::Message { seq: 10 }, Output::AskInfo),
        (Input::Message { seq: 8 }, Output::Ignore),
    ]);
}

#[test]
fn a_stream_created_anew_is_not_followed() {
    let fault = WentBack::Recreated {
        seq: 7,
        known: 100,
        found: 101,
    };
    check(&[(info(101, 1, 50), Output::Stop(fault))]);
}

#[test]
fn a_stream_that_lost_its_tail_is_not_followed() {
    let fault = WentBack::LostTail { seq: 7, last: 6 };
    check(&[(info(100, 1, 6), Output::Stop(fault))]);
}

#[test]
fn a_stream_with_another_message_at_the_position_is_not_followed() {
    for found in [None, Some(Digest([2; 32]))] {
        check(&[
            (info(100, 1, 7), Output::AskMessage(7)),
            (
                Input::AtPosition(found),
                Output::Stop(WentBack::OtherMessage { seq: 7 }),
            ),
        ]);
    }
}

#[test]
fn a_stream_whose_unread_messages_are_gone_is_not_followed() {
    let fault = WentBack::Trimmed { seq: 7, first: 9 };
    check(&[(info(100, 9, 12), Output::Stop(fault))]);
}

#[test]
fn a_stream_that_is_gone_is_not_followed() {
    check(&[(Input::Gone, Output::Stop(WentBack::Gone { seq: 7 }))]);
}

#[test]
fn an_empty_log_reads_a_stream_from_its_first_message() {
    let mut machine = Follower::new(None);
    assert_eq!(machine.step(&Input::Reconnected), Output::AskInfo);
    assert_eq!(machine.step(&info(5, 1, 3)), Output::Read { from: 1 });
    assert_eq!(machine.created(), Some(5));
}

#[test]
fn an_acknowledgement_below_what_was_read_means_that_the_stream_went_back() {
    assert_eq!(check_ack(8, 7), Ok(()));
    assert_eq!(
        check_ack(7, 7),
        Err(WentBack::ReusedNumber { seq: 7, acked: 7 })
    );
}
