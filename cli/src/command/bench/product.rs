//! The product's side: the store's publisher and recorder.

use std::sync::atomic::{AtomicU64, Ordering};

use coppice_messages::ids::TenantId;
use coppice_store::{Store, Verdict, clock};
use tokio::sync::oneshot;

use super::{
    chain::Chain,
    hot_path::{Measured, gathered},
};
use crate::failure::{Failure, Problem};

static NTH: AtomicU64 = AtomicU64::new(0);

/// Appends `of_each` commits to each of so many chains at one time.
pub(super) async fn run(store: &Store, chains: u32, of_each: u32) -> Result<Measured, Failure> {
    let tenant = TenantId::default_tenant();
    let mut tasks = Vec::new();
    for _ in 0..chains {
        let mut chain = Chain::new(&tenant, "coppice", NTH.fetch_add(1, Ordering::Relaxed))?;
        let (store, tenant) = (store.clone(), tenant.clone());
        tasks.push(tokio::spawn(async move {
            let mut waits = Vec::new();
            for _ in 0..of_each {
                let from = clock::mono();
                let (bytes, hash) = chain.next()?;
                let (told, recorded) = oneshot::channel();
                let waiter = Box::new(move |verdict| {
                    // Nobody listens only when the measurement was given up.
                    let _gone = told.send(verdict);
                });
                store.submit(tenant.clone(), bytes, hash, waiter);
                match recorded.await {
                    Ok(Verdict::Admitted { .. }) => waits.push(from.elapsed()),
                    other => {
                        let message = format!("a commit was not recorded: {other:?}");
                        return Err(Failure::Environment(Problem::new(message)));
                    }
                }
            }
            Ok(waits)
        }));
    }
    gathered(tasks).await
}
