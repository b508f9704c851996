//! The machine against a bus that does what was seen of real ones.

use super::*;

const KNOWN: StreamPosition = StreamPosition {
    seq: 7,
    created: 100,
};

fn info(created: i64, first: u64, last: u64) -> Input {
    Input::Info {
        created,
        first,
        last,
    }
}

fn compared(seq: u64, agrees: bool) -> Input {
    Input::Compared { seq, agrees }
}

fn put_back(first: u64, after: u64, until: u64, why: WentBack) -> Output {
    Output::PutBack(Loss {
        first,
        after,
        until,
        created: 100,
        why,
    })
}

/// A machine that stands at message 7, and knows the messages from 1 on, answers these inputs with these outputs.
#[track_caller]
fn check(steps: &[(Input, Output)]) {
    let mut machine = Follower::new(Some(KNOWN), Some(1));
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
        (info(100, 1, 9), Output::Compare(7)),
        (Input::Message { seq: 8 }, Output::Ignore),
        (compared(7, true), Output::Read { from: 8 }),
        (Input::Message { seq: 8 }, Output::Admit),
    ]);
}

#[test]
fn a_message_that_comes_twice_is_admitted_once() {
    check(&[
        (info(100, 1, 9), Output::Compare(7)),
        (compared(7, true), Output::Read { from: 8 }),
        (Input::Message { seq: 8 }, Output::Admit),
        (Input::Message { seq: 8 }, Output::Ignore),
        (Input::Message { seq: 9 }, Output::Admit),
    ]);
}

#[test]
fn a_gap_in_the_sequence_ends_reading_until_the_stream_was_asked() {
    check(&[
        (info(100, 1, 9), Output::Compare(7)),
        (compared(7, true), Output::Read { from: 8 }),
        (Input::Message { seq: 10 }, Output::AskInfo),
        (Input::Message { seq: 8 }, Output::Ignore),
    ]);
}

#[test]
fn a_stream_created_anew_gets_everything_back_and_is_read_from_its_beginning() {
    let why = WentBack::Recreated {
        known: 100,
        found: 101,
    };
    let loss = Loss {
        first: 1,
        after: 0,
        until: 50,
        created: 101,
        why,
    };
    check(&[
        (info(101, 1, 50), Output::PutBack(loss)),
        (Input::Message { seq: 1 }, Output::Ignore),
        (Input::PutBack, Output::Read { from: 1 }),
        (Input::Message { seq: 1 }, Output::Admit),
        (Input::Reconnected, Output::AskInfo),
        (info(101, 1, 60), Output::Compare(1)),
    ]);
}

#[test]
fn a_lost_tail_is_put_back_behind_the_last_message_when_that_agrees() {
    let why = WentBack::LostTail { seq: 7, last: 5 };
    check(&[
        (info(100, 1, 5), Output::Compare(5)),
        (compared(5, true), put_back(1, 5, 5, why)),
        (Input::PutBack, Output::Read { from: 6 }),
        (Input::Message { seq: 6 }, Output::Admit),
    ]);
}

#[test]
fn a_stream_that_lost_everything_but_its_time_of_creation_gets_everything_back() {
    let why = WentBack::LostTail { seq: 7, last: 0 };
    check(&[
        (info(100, 0, 0), put_back(1, 0, 0, why)),
        (Input::PutBack, Output::Read { from: 1 }),
    ]);
}

#[test]
fn an_older_copy_that_others_went_on_with_is_put_back_behind_the_last_message_that_agrees() {
    let why = WentBack::OtherMessage { seq: 7 };
    check(&[
        (info(100, 1, 12), Output::Compare(7)),
        (compared(7, false), Output::Compare(6)),
        (compared(6, false), Output::Compare(3)),
        (compared(3, true), Output::Compare(4)),
        (compared(4, true), Output::Compare(5)),
        (compared(5, false), put_back(1, 4, 12, why)),
        (Input::PutBack, Output::Read { from: 5 }),
    ]);
}

#[test]
fn the_last_message_that_agrees_is_found_wherever_it_is() {
    for position in 1..40_u64 {
        for agreeing in 0..=position {
            let known = StreamPosition {
                seq: position,
                created: 100,
            };
            let mut machine = Follower::new(Some(known), Some(1));
            let mut output = machine.step(&info(100, 1, position + 3));
            let mut asked = 0;
            while let Output::Compare(seq) = output {
                asked += 1;
                assert!(asked < 10, "halving asks seldom");
                output = machine.step(&compared(seq, seq <= agreeing));
            }
            match output {
                Output::Read { from } => assert_eq!((agreeing, from), (position, position + 1)),
                Output::PutBack(loss) => assert_eq!(loss.after, agreeing),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_stream_whose_unread_messages_are_gone_is_not_followed() {
    let fault = Trimmed { seq: 7, first: 9 };
    check(&[(info(100, 9, 12), Output::Stop(fault))]);
    assert!(fault.to_string().contains("messages 8 to 8 are in neither"));
}

#[test]
fn messages_that_were_purged_after_they_were_read_are_put_back() {
    let why = WentBack::Purged {
        oldest: 1,
        first: 8,
    };
    check(&[
        (info(100, 8, 7), put_back(8, 7, 7, why)),
        (Input::PutBack, Output::Read { from: 8 }),
    ]);
    let why = WentBack::Purged {
        oldest: 1,
        first: 3,
    };
    check(&[
        (info(100, 3, 9), Output::Compare(7)),
        (compared(7, true), put_back(3, 7, 9, why)),
        (Input::PutBack, Output::Read { from: 8 }),
        (Input::Reconnected, Output::AskInfo),
        (info(100, 3, 9), Output::Compare(7)),
        (compared(7, true), Output::Read { from: 8 }),
    ]);
}

#[test]
fn what_lies_before_the_first_message_that_the_log_knows_is_neither_compared_nor_read_again() {
    let mut machine = Follower::new(Some(KNOWN), Some(5));
    assert_eq!(machine.step(&info(100, 1, 6)), Output::Compare(6));
    let why = WentBack::LostTail { seq: 7, last: 6 };
    assert_eq!(machine.step(&compared(6, false)), Output::Compare(5));
    assert_eq!(machine.step(&compared(5, false)), put_back(1, 4, 6, why));
}

#[test]
fn a_stream_that_is_gone_is_made_and_gets_everything_back() {
    check(&[
        (Input::Gone, Output::MakeStream),
        (Input::Reconnected, Output::AskInfo),
    ]);
}

#[test]
fn an_empty_log_reads_a_stream_from_its_first_message() {
    let mut machine = Follower::new(None, None);
    assert_eq!(machine.step(&Input::Reconnected), Output::AskInfo);
    assert_eq!(machine.step(&info(5, 4, 9)), Output::Read { from: 4 });
    assert_eq!(machine.created(), Some(5));
    assert_eq!(machine.step(&Input::Message { seq: 4 }), Output::Admit);
}

#[test]
fn an_acknowledgement_below_what_was_read_makes_the_machine_ask() {
    check(&[
        (
            Input::Ack {
                seq: 8,
                stood_at: 7,
            },
            Output::Ignore,
        ),
        (
            Input::Ack {
                seq: 7,
                stood_at: 7,
            },
            Output::AskInfo,
        ),
        (Input::Message { seq: 8 }, Output::Ignore),
    ]);
}

#[test]
fn a_stream_that_nobody_trims_is_not_read_into_an_empty_log_without_its_first_messages() {
    let trimmed = Output::Stop(Trimmed { seq: 0, first: 3 });
    let mut of_its_own = Follower::new(None, None).from_the_first();
    of_its_own.step(&Input::Reconnected);
    assert_eq!(of_its_own.step(&info(100, 3, 9)), trimmed);
    let mut of_others = Follower::new(None, None);
    of_others.step(&Input::Reconnected);
    assert_eq!(of_others.step(&info(100, 3, 9)), Output::Read { from: 3 });
}

#[test]
fn unread_messages_that_are_gone_stop_who_reads_a_log_again_until_it_has_everything() {
    let mut machine = Follower::new(Some(KNOWN), Some(1));
    let stop = Output::Stop(Trimmed { seq: 7, first: 9 });
    machine.step(&Input::Reconnected);
    assert_eq!(machine.step(&info(100, 9, 9)), stop);
    machine.be_alone();
    machine.step(&Input::Reconnected);
    let why = WentBack::Purged {
        oldest: 8,
        first: 9,
    };
    assert_eq!(machine.step(&info(100, 9, 9)), put_back(9, 8, 9, why));
}
