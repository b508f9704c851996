//! What a stream that went back gets again, in which order, and when that is done.

use std::collections::HashMap;

use super::*;

const LARGE: usize = 1 << 20;

#[derive(Default)]
struct Bytewise {
    commits: HashMap<u64, (TenantId, Bytes)>,
    blobs: HashMap<Digest, Bytes>,
}

impl Source for Bytewise {
    fn commit(&self, pos: u64) -> Option<(TenantId, Bytes)> {
        self.commits.get(&pos).cloned()
    }
    fn blob(&self, _: &TenantId, blob: &Digest) -> Option<Bytes> {
        self.blobs.get(blob).cloned()
    }
}

fn tenant(name: &str) -> TenantId {
    name.parse().expect("a tenant")
}

/// A log of commits at positions from 1, each of the tenant that is given and saying its position, and one blob of two chunks.
fn log(tenants: &[&str]) -> (Bytewise, (TenantId, Digest)) {
    let mut log = Bytewise::default();
    for (pos, of) in (1..).zip(tenants) {
        let bytes = Bytes::from(format!("{pos}"));
        log.commits.insert(pos, (tenant(of), bytes));
    }
    let whole = Bytes::from(vec![7; crate::limits::BLOB_CHUNK_BYTES + 1]);
    let key = (tenant("a"), Digest::of(&whole));
    log.blobs.insert(key.1, whole);
    (log, key)
}

fn positions(all: &[u64]) -> Ranges {
    let mut ranges = Ranges::default();
    all.iter().for_each(|pos| ranges.insert(*pos));
    ranges
}

/// Everything that comes out, as `tenant:commits` or `tenant:chunk`.
#[track_caller]
fn check(refill: &mut Refill, log: &Bytewise, expected: &[&str]) {
    let sent: Vec<String> = std::iter::from_fn(|| refill.next_message(log, LARGE))
        .map(|message| match message.lane {
            Lane::Chunks => format!("{}:chunk", message.tenant),
            Lane::Commits => {
                let commits = wire::decode_commits(&message.payload).expect("commits");
                let said: Vec<_> = commits
                    .iter()
                    .map(|c| String::from_utf8_lossy(c).into_owned())
                    .collect();
                format!("{}:{}", message.tenant, said.join(","))
            }
        })
        .collect();
    assert_eq!(sent, expected);
}

#[test]
fn blobs_go_before_all_commits_and_commits_in_the_order_of_the_log() {
    let (log, blob) = log(&["a", "a", "b", "a"]);
    let mut refill = Refill::new(positions(&[1, 2, 3, 4]), vec![blob], 9);
    let all = ["a:chunk", "a:chunk", "a:1,2", "b:3", "a:4"];
    check(&mut refill, &log, &all);
    check(&mut refill, &log, &[]);
    refill.send_again();
    check(&mut refill, &log, &all);
}

#[test]
fn what_was_read_again_is_not_sent_again_and_nothing_is_left_when_all_was_read() {
    let (log, blob) = log(&["a", "a", "a"]);
    let mut refill = Refill::new(positions(&[1, 2, 3]), vec![blob.clone()], 9);
    refill.read_blob(10, &blob);
    assert!(!refill.read_commit(11, 1, &[]));
    check(&mut refill, &log, &["a:2,3"]);
    refill.read_commit(12, 2, &[]);
    refill.send_again();
    check(&mut refill, &log, &["a:3"]);
    refill.read_commit(13, 3, &[]);
    assert!(refill.is_empty());
}

#[test]
fn what_the_stream_had_before_the_loss_was_noticed_is_not_taken_for_what_is_put_back() {
    let (log, blob) = log(&["a"]);
    let mut refill = Refill::new(positions(&[1]), vec![blob.clone()], 9);
    refill.read_blob(9, &blob);
    refill.read_commit(9, 1, &[]);
    check(&mut refill, &log, &["a:chunk", "a:chunk", "a:1"]);
}

#[test]
fn what_was_published_in_front_of_what_is_put_back_is_sent_once_more_behind_it() {
    let (log, _) = log(&["a", "a", "a"]);
    let mut refill = Refill::new(positions(&[1, 2]), Vec::new(), 9);
    check(&mut refill, &log, &["a:1,2"]);
    let others = refill.read_commit(8, 4, &[]);
    assert!(!others, "it follows from nothing that was lost");
    assert!(refill.read_commit(8, 3, &[2]), "admitted in front of them");
    // The log is only about to have it.
    check(&mut refill, &log, &[]);
    refill.written();
    check(&mut refill, &log, &["a:3"]);
    refill.read_commit(10, 1, &[]);
    refill.read_commit(10, 2, &[]);
    refill.read_commit(11, 3, &[]);
    assert!(refill.is_empty());
}

#[test]
fn what_somebody_else_published_in_front_of_what_is_still_to_be_put_back_is_sent_once_more_too() {
    let (log, _) = log(&["a", "a", "a"]);
    let mut refill = Refill::new(positions(&[1, 2]), Vec::new(), 9);
    assert!(refill.read_commit(10, 3, &[2]), "read behind the loss");
    refill.written();
    check(&mut refill, &log, &["a:1,2,3"]);
}

#[test]
fn what_cannot_be_read_is_passed_over_and_stays_counted() {
    let (log, _) = log(&["a"]);
    let missing = (tenant("a"), Digest([9; 32]));
    let mut refill = Refill::new(positions(&[1, 5]), vec![missing], 0);
    check(&mut refill, &log, &["a:1"]);
    assert_eq!(refill.count(), 3);
    assert!(refill.holds_up(), "what can be read is not there yet");
    refill.read_commit(10, 1, &[]);
    assert!(!refill.holds_up(), "what cannot be read holds nothing up");
}
