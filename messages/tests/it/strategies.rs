//! Random values of the vocabulary, within its limits.

use std::collections::BTreeSet;

use coppice_messages::{Cause, Commit, Digest, Entry, ParentRef, Spent, Timestamp, Value, value};
use proptest::{
    collection::{btree_map, btree_set, vec},
    option,
    prelude::*,
    sample::select,
};

use crate::samples;

/// JSON data; leaves of every type, some nesting.
pub fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-value::INTEGER_MAX..=value::INTEGER_MAX).prop_map(Value::Int),
        fraction().prop_map(Value::Float),
        any::<String>().prop_map(Value::Text),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::List),
            btree_map(any::<String>(), inner, 0..4).prop_map(Value::Map),
        ]
    })
}

/// A finite number that is not whole.
pub fn fraction() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("whole numbers are integers", |number| {
        number.is_finite() && number.fract() != 0.0
    })
}

/// Amounts up to `most` of some dimensions, also operations with the count 0.
pub fn amounts(most: u64) -> impl Strategy<Value = Spent> {
    let operation = select(coppice_messages::Operation::ALL.to_vec());
    (
        [0..=most, 0..=most, 0..=most, 0..=most],
        btree_map(operation, 0..=most, 0..4),
    )
        .prop_map(|([steps, tokens, cost, network], operations)| Spent {
            steps,
            tokens,
            cost,
            network,
            operations,
        })
}

/// Some of these names.
pub fn some_of<T>(texts: &'static [&'static str]) -> impl Strategy<Value = BTreeSet<T>>
where
    T: std::str::FromStr<Err: std::fmt::Debug> + Ord + Clone + std::fmt::Debug + 'static,
{
    let names: Vec<T> = samples::all_named(texts);
    btree_set(select(names), 0..=texts.len())
}

/// Any digest.
pub fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest)
}

/// A commit with random fields and random events of every kind.
pub fn commit() -> impl Strategy<Value = Commit> {
    let cause = option::of(prop_oneof![
        any::<String>().prop_map(Cause::Command),
        (digest(), any::<u16>()).prop_map(|(commit, index)| Cause::Event { commit, index }),
    ]);
    let event = prop_oneof![
        select(samples::events()),
        json().prop_map(samples::answer_of)
    ];
    let entry = (cause, event).prop_map(|(cause, event)| Entry { cause, event });
    let parent = option::of(
        (any::<u64>(), digest()).prop_map(|(seq, commit)| ParentRef {
            run: samples::named("parent"),
            seq,
            commit,
        }),
    );
    let fields = (
        any::<u64>(),
        any::<u64>(),
        digest(),
        any::<i64>(),
        any::<String>(),
    );
    (fields, parent, vec(entry, 1..8)).prop_map(
        |((seq, epoch, prev, at, trace), parent, events)| Commit {
            seq,
            epoch,
            prev,
            at: Timestamp(at),
            trace,
            parent,
            events,
            ..samples::commit("run.claimed")
        },
    )
}
