//! What becomes of a request whose own task breaks off.

use super::*;

#[tokio::test]
async fn a_request_whose_task_panics_is_unknown_and_does_not_hold_its_key() {
    let flights = Flights::default();
    let key = (
        TenantId::default_tenant(),
        EffectKey(coppice_messages::Digest::ZERO),
    );
    let attempt = |attempt| Attempt {
        run: "compare-1".parse().expect("an id"),
        epoch: 1,
        attempt,
    };
    let broken = flights.begin(&key, attempt(1), async { panic!("on purpose") });
    let outcome = flights
        .take(&key, &broken.expect("nothing is under way"))
        .await;
    assert!(
        matches!(outcome, EffectOutcome::Unknown { .. }),
        "{outcome:?}"
    );
    let declined = EffectOutcome::NotSent {
        why: "as told".to_owned(),
    };
    let answer = std::future::ready(declined.clone());
    let second = flights.begin(&key, attempt(2), answer);
    let outcome = flights
        .take(&key, &second.expect("nothing is under way"))
        .await;
    assert_eq!(outcome, declined);
}
