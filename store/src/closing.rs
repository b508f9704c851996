//! The word by which the tasks of a store are told to end.

use tokio::sync::watch;

/// Resolves when the task is to end, also when whoever would say so is gone.
pub(crate) async fn told(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}
