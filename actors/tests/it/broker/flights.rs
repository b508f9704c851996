//! Requests that are in flight when their actor dies.

use coppice_messages::event::effect::Source;
use tokio::sync::oneshot;

use super::*;

/// A request that was sent, whose answer is held back, and whose actor is dead.
struct Orphan {
    outside: Outside,
    calling: Calling,
    teller: oneshot::Sender<String>,
}

async fn orphan(further: impl IntoIterator<Item = Reply>) -> Orphan {
    let (teller, told) = oneshot::channel();
    let replies = std::iter::once(Reply::Held(told)).chain(further);
    let mut outside = Outside::start(replies).await;
    let calling = Calling::ticket(&outside.url);
    tokio::select! {
        outcome = calling.send() => panic!("nothing was answered yet: {outcome:?}"),
        () = outside.arrival() => {}
    }
    Orphan {
        outside,
        calling,
        teller,
    }
}

#[tokio::test]
async fn a_new_incarnation_joins_the_request_under_way() {
    let Orphan {
        outside,
        calling,
        teller,
    } = orphan([]).await;
    let joined = calling.reconcile(Millis(60_000));
    let answered = async { teller.send(TICKET.to_owned()).unwrap() };
    let (outcome, ()) = tokio::join!(joined, answered);
    let EffectOutcome::Reconciled {
        landed: Some((receipt, ..)),
        source: Source::Answer,
    } = outcome
    else {
        panic!("its answer reconciles it: {outcome:?}");
    };
    assert_eq!(receipt.id.as_deref(), Some("T-1"));
    assert_eq!(outside.came().len(), 1);
}

#[tokio::test]
async fn the_answer_of_a_dead_actors_request_is_kept() {
    let orphan = orphan([]).await;
    orphan.teller.send(TICKET.to_owned()).unwrap();
    let outcome = orphan.calling.reconcile(Millis(60_000)).await;
    assert!(
        matches!(
            outcome,
            EffectOutcome::Reconciled {
                landed: Some(_),
                source: Source::Answer
            }
        ),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_refusal_of_a_dead_actors_request_says_that_it_did_not_happen() {
    let mut outside = Outside::start([status(409, "{}")]).await;
    let calling = Calling::ticket(&outside.url);
    tokio::select! {
        biased;
        () = outside.arrival() => {}
        _ = calling.send() => panic!("the arrival is seen first"),
    }
    let outcome = calling.reconcile(Millis(60_000)).await;
    assert_eq!(
        outcome,
        EffectOutcome::Reconciled {
            landed: None,
            source: Source::Answer
        }
    );
}

#[tokio::test]
async fn a_request_under_way_that_gets_no_answer_is_looked_up() {
    let orphan = orphan([status(200, &format!("[{TICKET}]"))]).await;
    let Orphan {
        calling,
        outside,
        teller,
    } = orphan;
    drop(teller);
    let outcome = calling.reconcile(Millis(60_000)).await;
    assert!(
        matches!(
            outcome,
            EffectOutcome::Reconciled {
                landed: Some(_),
                source: Source::Lookup
            }
        ),
        "{outcome:?}"
    );
    assert_eq!(outside.came().len(), 2);
}

#[tokio::test]
async fn an_answer_that_was_taken_is_looked_up_afterwards() {
    let outside = Outside::start([status(200, TICKET), status(200, &format!("[{TICKET}]"))]).await;
    let calling = Calling::ticket(&outside.url);
    calling.send().await;
    let outcome = calling.reconcile(Millis(60_000)).await;
    assert!(
        matches!(
            outcome,
            EffectOutcome::Reconciled {
                source: Source::Lookup,
                ..
            }
        ),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn nothing_is_sent_beside_a_request_with_the_same_key() {
    let orphan = orphan([]).await;
    let calling = &orphan.calling;
    let mut second = calling.intended("at:file");
    second.attempt = 2;
    calling.recorder.intend(&second, 1);
    let outcome = calling.broker.send(calling.request(second)).await;
    let EffectOutcome::NotSent { why } = outcome else {
        panic!("it is not sent: {outcome:?}");
    };
    assert_eq!(
        why,
        "another request with the same key is under way, attempt 1 of run compare-1"
    );
    assert_eq!(orphan.outside.came().len(), 1);
}

#[tokio::test]
async fn the_same_attempt_sent_twice_is_one_request() {
    let Orphan {
        outside,
        calling,
        teller,
    } = orphan([]).await;
    let answered = async { teller.send(TICKET.to_owned()).unwrap() };
    let (outcome, ()) = tokio::join!(calling.send(), answered);
    assert!(
        matches!(outcome, EffectOutcome::Landed { .. }),
        "{outcome:?}"
    );
    assert_eq!(outside.came().len(), 1);
}

#[tokio::test]
async fn another_tenants_request_with_this_key_is_not_joined() {
    let orphan = orphan([status(404, "")]).await;
    let calling = &orphan.calling;
    let mut request = calling.request(calling.intended("at:file"));
    request.tenant = "other".parse().unwrap();
    let outcome = calling.broker.reconcile(request).await;
    assert!(
        matches!(outcome, EffectOutcome::Unresolvable { .. }),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_read_whose_actor_died_does_not_hold_up_the_next_attempt() {
    let incident =
        r#"{"id":"i","version":1,"summary":"s","severity":"low","text":"t","runbooks":[]}"#;
    let (_teller, told) = oneshot::channel();
    let mut outside = Outside::start([Reply::Held(told), status(200, incident)]).await;
    let calling = Calling::of(&outside.url, "read_incident", r#"{"id":"i"}"#);
    tokio::select! {
        outcome = calling.send() => panic!("nothing was answered yet: {outcome:?}"),
        () = outside.arrival() => {}
    }
    let mut second = calling.intended("at:file");
    second.attempt = 2;
    calling.recorder.intend(&second, 1);
    let outcome = calling.broker.send(calling.request(second)).await;
    assert!(
        matches!(outcome, EffectOutcome::Landed { .. }),
        "{outcome:?}"
    );
}
