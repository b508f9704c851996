//! What the tool broker finds: effects that are intended, recorded and without an outcome.

use coppice_messages::{
    Digest, Event, Operation, Payload, Spent, Timestamp, Value,
    event::{
        effect::{self, Intended},
        run::{self, ClaimReason},
    },
    ids::{EffectKey, TenantId},
};

use coppice_store::Holder;

use crate::support::{Chain, admit, open};

fn key(chain: &Chain, operation: &str) -> EffectKey {
    let tool = "create_ticket".parse().expect("a tool");
    EffectKey::derive(&chain.tenant, &tool, &chain.run, operation)
}

fn intended(key: EffectKey) -> Event {
    Event::Effect(effect::Event::Intended(Box::new(Intended {
        key,
        node: "file".parse().expect("a node"),
        call: 0,
        tool: "create_ticket".parse().expect("a tool"),
        tool_digest: Digest::of(b"contract"),
        operation: Operation::Create,
        arguments: Payload::Inline(Value::from("arguments")),
        action: Digest::of(b"action"),
        attempt: 1,
        send_by: Timestamp(5),
        policy: None,
        reserved: Spent::default(),
    })))
}

fn declined(key: EffectKey) -> Event {
    Event::Effect(effect::Event::Declined(effect::Declined {
        key,
        attempt: 1,
        code: "422".to_owned(),
        message: "no".to_owned(),
        usage: Spent::default(),
    }))
}

fn claimed() -> Event {
    Event::Run(run::Event::Claimed(run::Claimed {
        owner: "h".parse().expect("a host"),
        why: ClaimReason::Restart,
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_is_open_from_its_intent_to_its_outcome_or_to_the_next_epoch() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let mut chain = Chain::new("r1");
    let (one, two) = (key(&chain, "one"), key(&chain, "two"));
    let is_open = |key| {
        store.open_effect(
            &TenantId::default_tenant(),
            &"r1".parse().expect("a run"),
            key,
        )
    };

    let intents = chain.commit(vec![intended(one), intended(two)]);
    let pos = admit(&store, &intents).await;
    let found = is_open(&one).expect("open");
    assert_eq!((found.epoch, found.attempt, found.pos), (1, 1, pos));
    assert_eq!(found.action, Digest::of(b"action"));
    assert_eq!(found.arguments, Payload::Inline(Value::from("arguments")));
    assert_eq!(found.send_by, Timestamp(5));

    admit(&store, &chain.commit(vec![declined(one)])).await;
    assert_eq!(is_open(&one), None);
    assert!(is_open(&two).is_some());

    chain.epoch = 2;
    admit(&store, &chain.commit(vec![claimed()])).await;
    assert_eq!(is_open(&two), None, "who claims sends nothing of before");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_that_comes_to_a_key_is_told_who_holds_it_over_a_restart_too() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let (mut first, mut second, mut third) = (Chain::new("r1"), Chain::new("r2"), Chain::new("r3"));
    let shared = key(&first, "one");
    let holder = |store: &coppice_store::Store, run: &str| {
        let run = run.parse().expect("a run");
        let found = store.open_effect(&TenantId::default_tenant(), &run, &shared);
        found.expect("open").held_by
    };

    let held_by_first = Some(Holder::Run(first.run.clone()));
    admit(&store, &first.commit(vec![intended(shared)])).await;
    admit(&store, &second.commit(vec![intended(shared)])).await;
    assert_eq!(holder(&store, "r1"), None);
    assert_eq!(holder(&store, "r2"), held_by_first);
    store.close().await;
    drop(store);

    let store = open(data.path()).await;
    admit(&store, &third.commit(vec![intended(shared)])).await;
    assert_eq!(holder(&store, "r3"), held_by_first);
    store.close().await;
}
