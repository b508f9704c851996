//! What is held, in which order it is sent, and when it is let go.

use std::sync::{Arc, Mutex};

use super::*;

const LARGE: usize = 1 << 20;

fn tenant(name: &str) -> TenantId {
    name.parse().expect("a tenant")
}

fn digest(bytes: &'static [u8]) -> Digest {
    Digest::of(bytes)
}

fn add(hold: &mut Hold, of: &str, bytes: &'static [u8]) {
    hold.add_commit(
        tenant(of),
        Bytes::from_static(bytes),
        digest(bytes),
        Box::new(|_| {}),
    );
}

fn next(hold: &mut Hold, bytes_max: usize) -> Option<(String, Vec<Bytes>)> {
    let message = hold.next_message(bytes_max)?;
    let commits = wire::decode_commits(&message.payload).expect("a message of commits");
    Some((message.tenant.to_string(), commits))
}

/// The messages that come out, each as its tenant and its commits.
#[track_caller]
fn check(hold: &mut Hold, bytes_max: usize, expected: &[(&str, &[&'static [u8]])]) {
    for (of, commits) in expected {
        let commits: Vec<Bytes> = commits.iter().map(|c| Bytes::from_static(c)).collect();
        assert_eq!(next(hold, bytes_max), Some(((*of).to_owned(), commits)));
    }
    assert_eq!(next(hold, bytes_max), None);
}

#[test]
fn commits_of_one_tenant_travel_together_and_tenants_take_turns() {
    let mut hold = Hold::default();
    add(&mut hold, "a", b"a1");
    add(&mut hold, "a", b"a2");
    add(&mut hold, "b", b"b1");
    check(&mut hold, LARGE, &[("a", &[b"a1", b"a2"]), ("b", &[b"b1"])]);
}

#[test]
fn a_busy_tenant_does_not_hold_up_another() {
    let mut hold = Hold::default();
    let small = MESSAGE_ENTRY_OVERHEAD * 2 + 2;
    add(&mut hold, "a", b"a1");
    add(&mut hold, "a", b"a2");
    add(&mut hold, "a", b"a3");
    add(&mut hold, "b", b"b1");
    let expected: [(&str, &[&'static [u8]]); 4] = [
        ("a", &[b"a1"]),
        ("b", &[b"b1"]),
        ("a", &[b"a2"]),
        ("a", &[b"a3"]),
    ];
    check(&mut hold, small, &expected);
}

#[test]
fn what_the_recorder_did_not_speak_about_is_sent_again_in_order_and_the_rest_is_not() {
    let mut hold = Hold::default();
    for bytes in [b"1" as &[u8], b"2", b"3"] {
        add(&mut hold, "a", bytes);
    }
    check(&mut hold, LARGE, &[("a", &[b"1", b"2", b"3"])]);
    hold.release_commit(
        &digest(b"2"),
        &mut Vec::new(),
        &Verdict::Admitted { pos: 1 },
    );
    hold.send_again();
    check(&mut hold, LARGE, &[("a", &[b"1", b"3"])]);
    assert!(!hold.is_empty());
}

#[test]
fn a_commit_submitted_twice_is_sent_once_and_both_are_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut hold = Hold::default();
    for who in [1, 2] {
        let told = Arc::clone(&told);
        let waiter = Box::new(move |verdict| told.lock().expect("a list").push((who, verdict)));
        hold.add_commit(tenant("a"), Bytes::from_static(b"c"), digest(b"c"), waiter);
    }
    check(&mut hold, LARGE, &[("a", &[b"c"])]);
    let verdict = Verdict::Admitted { pos: 9 };
    let mut waiting = Vec::new();
    hold.release_commit(&digest(b"c"), &mut waiting, &verdict);
    hold.release_commit(&digest(b"c"), &mut waiting, &verdict);
    for (waiter, verdict) in waiting {
        waiter(verdict);
    }
    assert_eq!(
        *told.lock().expect("a list"),
        [(1, verdict.clone()), (2, verdict)]
    );
    assert!(hold.is_empty());
}

#[test]
fn a_large_blob_leaves_room_for_commits_between_its_chunks() {
    let mut hold = Hold::default();
    let whole = Bytes::from(vec![7; crate::limits::BLOB_CHUNK_BYTES + 1]);
    let (waiter, _recorded) = tokio::sync::oneshot::channel();
    hold.add_blob(tenant("a"), Digest::of(&whole), whole, waiter);
    add(&mut hold, "a", b"c");
    let lanes: Vec<Lane> = std::iter::from_fn(|| hold.next_message(LARGE))
        .map(|message| message.lane)
        .collect();
    assert_eq!(lanes, [Lane::Chunks, Lane::Commits, Lane::Chunks]);
}
