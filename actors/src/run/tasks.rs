//! The tasks of one incarnation: one an obligation, aborted when it is dropped.

use std::{collections::BTreeMap, panic::AssertUnwindSafe};

use coppice_kernel::Duty;
use futures::FutureExt as _;
use ractor::ActorRef;
use tokio::task::AbortHandle;

use super::Message;

/// A task that ends with its owner.
pub(super) struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Task {
    /// Runs a future whose result goes to `actor`. A panic in it is one of the run, and is told as such.
    pub fn spawn(
        actor: ActorRef<Message>,
        duty: Duty,
        work: impl Future<Output = Message> + Send + 'static,
    ) -> Self {
        // Boxed here, so that spawning does not move all of it again and again.
        let work = AssertUnwindSafe(work.boxed()).catch_unwind();
        let task = tokio::spawn(async move {
            let message = match work.await {
                Ok(message) => message,
                Err(panic) => Message::Broken {
                    duty,
                    why: panic_message(&*panic),
                },
            };
            // An actor that is gone needs no answer: the next incarnation asks again.
            let _ = actor.cast(message);
        });
        Self(task.abort_handle())
    }

    /// Runs a future that says by itself what came of it.
    pub fn run(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work).abort_handle())
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

/// What is being carried out.
#[derive(Default)]
pub(super) struct Tasks {
    running: BTreeMap<Duty, Task>,
}

impl Tasks {
    pub fn put(&mut self, duty: Duty, task: Task) {
        self.running.insert(duty, task);
    }

    pub fn drop_duty(&mut self, duty: &Duty) {
        self.running.remove(duty);
    }

    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub fn clear(&mut self) {
        self.running.clear();
    }
}
