//! Calls into fjall that may panic over what they find in its files, without a word to whoever reads standard error: the panic is an answer, and the
//! caller says in its own words what it means. Every other panic is told as ever.

use std::{
    cell::RefCell,
    panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind},
    sync::Once,
};

thread_local! {
    /// What the call under way in this thread has panicked with; none where a panic is nobody's answer.
    static ANSWER: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Calls; what a panic says, in one line, is the error.
pub(super) fn answered<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !kept(info) {
                before(info);
            }
        }));
    });
    ANSWER.set(Some(String::new()));
    let called = catch_unwind(AssertUnwindSafe(call));
    let said = ANSWER.take().unwrap_or_default();
    called.map_err(|_| said)
}

/// Keeps what a panic says, if it is an answer.
fn kept(info: &PanicHookInfo<'_>) -> bool {
    ANSWER
        .try_with(|answer| {
            let mut answer = answer.borrow_mut();
            let waits = answer.is_some();
            if let Some(said) = answer.as_mut() {
                *said = info
                    .to_string()
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ");
            }
            waits
        })
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_panics_with_is_its_answer_and_other_panics_are_none() {
        let said = answered(|| assert_eq!(1, 2, "of its files")).expect_err("it panics");
        assert!(
            said.contains("of its files") && !said.contains('\n'),
            "{said}"
        );
        assert_eq!(answered(|| 7), Ok(7));
        let waits = ANSWER.with(|answer| answer.borrow().is_some());
        assert!(!waits, "a panic after the call is told as ever");
    }
}
