//! The law of a run's account: granted = used + reserved for calls + reserved for children + left, nothing negative.

use coppice_messages::{Account, Dimension, Operation, Spent, budget::Overdrawn};
use proptest::{collection::vec, prelude::*};

use crate::strategies::amounts;

/// What may happen to an account.
#[derive(Debug, Clone)]
enum Step {
    /// A call is reserved when it can be afforded.
    ReserveCall(Spent),
    /// The oldest call is charged with at most what was reserved for it.
    ChargeCall(Spent),
    /// A child is granted when it can be afforded.
    Delegate(Spent),
    /// The oldest child is settled with at most its grant.
    Settle(Spent),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        amounts(40).prop_map(Step::ReserveCall),
        amounts(40).prop_map(Step::ChargeCall),
        amounts(40).prop_map(Step::Delegate),
        amounts(40).prop_map(Step::Settle),
    ]
}

/// The least of both in each dimension.
fn lesser(one: &Spent, other: &Spent) -> Spent {
    one.less(&one.less(other))
}

/// An account with the reservations that it must still account for.
struct Ledger {
    account: Account,
    calls: Vec<Spent>,
    children: Vec<Spent>,
}

impl Ledger {
    fn take(&mut self, step: Step) {
        let account = &mut self.account;
        match step {
            Step::ReserveCall(amount) => {
                if account.affords(&amount).is_ok() {
                    account.calls = account.calls.plus(&amount);
                    self.calls.push(amount);
                }
            }
            Step::Delegate(amount) => {
                if account.affords(&amount).is_ok() {
                    account.children = account.children.plus(&amount);
                    self.children.push(amount);
                }
            }
            Step::ChargeCall(used) => {
                if let Some(reserved) = self.calls.pop() {
                    account.calls = account.calls.less(&reserved);
                    account.used = account.used.plus(&lesser(&used, &reserved));
                }
            }
            Step::Settle(used) => {
                if let Some(grant) = self.children.pop() {
                    account.children = account.children.less(&grant);
                    account.used = account.used.plus(&lesser(&used, &grant));
                }
            }
        }
    }
}

/// Given an account, when the law is looked at, then it holds exactly in every dimension.
fn check_law(account: &Account) -> Result<(), TestCaseError> {
    prop_assert!(account.is_conserved());
    let left = account.left();
    for dimension in Spent::dimensions() {
        let parts = [&account.used, &account.calls, &account.children, &left];
        let sum: u128 = parts
            .iter()
            .map(|part| u128::from(part.get(dimension)))
            .sum();
        prop_assert_eq!(
            sum,
            u128::from(account.granted.get(dimension)),
            "{}",
            dimension
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_law_holds_after_any_sequence(granted in amounts(200), steps in vec(step(), 0..60)) {
        let mut ledger = Ledger { account: Account::open(granted), calls: vec![], children: vec![] };
        for step in steps {
            ledger.take(step);
            check_law(&ledger.account)?;
        }
    }

    #[test]
    fn when_all_is_settled_what_is_not_used_is_left(granted in amounts(200), steps in vec(step(), 0..60)) {
        let mut ledger = Ledger { account: Account::open(granted.clone()), calls: vec![], children: vec![] };
        steps.into_iter().for_each(|step| ledger.take(step));
        for _ in 0..60 {
            ledger.take(Step::ChargeCall(Spent::step()));
            ledger.take(Step::Settle(Spent::step()));
        }
        prop_assert!(ledger.account.calls.is_nothing() && ledger.account.children.is_nothing());
        prop_assert_eq!(ledger.account.left().plus(&ledger.account.used), granted.plus(&Spent::default()));
    }

    #[test]
    fn an_account_affords_exactly_what_is_left(granted in amounts(9), used in amounts(9), asked in amounts(9)) {
        let account = Account { used: lesser(&used, &granted), ..Account::open(granted) };
        let left = account.left();
        let first_beyond = Spent::dimensions().find(|of| asked.get(*of) > left.get(*of));
        let expected = first_beyond.map_or(Ok(()), |dimension| Err(Overdrawn {
            dimension,
            asked: asked.get(dimension),
            left: left.get(dimension),
        }));
        prop_assert_eq!(account.affords(&asked), expected);
    }

    #[test]
    fn equal_shares_never_exceed_what_is_shared(left in amounts(u64::MAX), parts in 0_u64..100) {
        let share = left.share(parts);
        for dimension in Spent::dimensions() {
            let all = u128::from(share.get(dimension)) * u128::from(parts.max(1));
            prop_assert!(all <= u128::from(left.get(dimension)));
        }
    }

    #[test]
    fn adding_and_taking_away_never_overflow(one in amounts(u64::MAX), other in amounts(u64::MAX)) {
        let (sum, rest) = (one.plus(&other), one.less(&other));
        for dimension in Spent::dimensions() {
            let (a, b) = (one.get(dimension), other.get(dimension));
            prop_assert_eq!(sum.get(dimension), a.saturating_add(b));
            prop_assert_eq!(rest.get(dimension), a.saturating_sub(b));
        }
    }
}

#[test]
fn an_account_that_took_more_than_it_was_granted_breaks_the_law() {
    for dimension in ["used", "calls", "children"] {
        let mut account = Account::open(Spent::step());
        let part = match dimension {
            "used" => &mut account.used,
            "calls" => &mut account.calls,
            _ => &mut account.children,
        };
        part.steps = 2;
        assert!(!account.is_conserved(), "{dimension}");
        assert_eq!(account.left().steps, 0, "nothing is negative");
    }
}

#[test]
fn a_sum_beyond_all_numbers_does_not_hide_a_breach() {
    let most = |steps| Spent {
        steps,
        ..Spent::default()
    };
    let account = Account {
        used: most(u64::MAX),
        calls: most(1),
        ..Account::open(most(u64::MAX))
    };
    assert!(!account.is_conserved());
}

#[test]
fn an_operation_that_was_not_granted_cannot_be_afforded() {
    let asked = Spent {
        operations: [(Operation::Pay, 1)].into(),
        ..Spent::default()
    };
    let refused = Account::open(Spent::step()).affords(&asked);
    let refused = refused.expect_err("no payment was granted");
    assert_eq!(refused.dimension, Dimension::Operation(Operation::Pay));
    assert_eq!(refused.to_string(), "operations.pay: 1 asked, 0 left");
}
