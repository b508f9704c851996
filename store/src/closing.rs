//! How the tasks of a store end: when they are told to, and, all of them, when one has a fatal fault or ends by itself.

use tokio::{sync::watch, task::JoinHandle};

use crate::fatal::{Fatal, FatalCell};

/// Runs a part of the store that never ends by itself.
pub(crate) fn spawn_part(
    part: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
    fatal: FatalCell,
    mut closing: watch::Receiver<bool>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        // A task of its own, so that a panic is seen here.
        let mut work = tokio::spawn(work);
        tokio::select! {
            () = told(&mut closing) => {}
            _ = fatal.wait() => {}
            ended = &mut work => {
                if let Err(error) = ended {
                    tracing::error!(%error, part, "a part of the store panicked");
                }
                if !*closing.borrow() {
                    fatal.set(Fatal::PartEnded { part });
                }
                return;
            }
        }
        work.abort();
        // Its result is the abortion.
        let _ = work.await;
    })
}

/// Resolves when the task is to end, also when whoever would say so is gone.
pub(crate) async fn told(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}
