//! Publishing a commit, and the faults that strike around it.

use coppice_kernel::Prepared;
use coppice_messages::{Commit, Digest};
use coppice_store::{Store, clock};
use ractor::ActorRef;

use super::{Message, awake::Incarnation, tasks::Task};
use crate::{
    faults::{Action, AtWork, When},
    services::Key,
};

impl Incarnation {
    /// Stores what the commit cites, then hands it to the publisher. The verdict comes back as a message.
    pub(super) async fn publish(&mut self, prepared: Prepared) {
        if self.services.faults.is_some() {
            Box::pin(self.strike(When::Before, &prepared.commit)).await;
        }
        let Prepared {
            commit,
            bytes,
            hash,
            blobs,
        } = prepared;
        self.under_way = self.services.faults.as_ref().map(|_| commit);
        let (store, tenant) = (self.services.store.clone(), self.key.0.clone());
        let submit = Submit {
            actor: self.myself.clone(),
            key: self.key.clone(),
            bytes,
            hash,
        };
        if blobs.is_empty() {
            submit.to(&store);
            return;
        }
        self.publishing = Some(Task::run(async move {
            for bytes in blobs.into_values() {
                if let Err(error) = store.put_blob(tenant.clone(), bytes).await {
                    let why = error.to_string();
                    let _ = submit.actor.cast(Message::Unstored { why });
                    return;
                }
            }
            submit.to(&store);
        }));
    }

    /// The commit under way is recorded; nothing that follows from it is carried out yet.
    pub(super) async fn strike_after(&mut self) {
        if let Some(commit) = self.under_way.take() {
            Box::pin(self.strike(When::After, &commit)).await;
        }
    }

    async fn strike(&self, when: When, commit: &Commit) {
        let Some(faults) = &self.services.faults else {
            return;
        };
        for action in faults.strikes(when, commit, AtWork::Actor) {
            match action {
                Action::KillHost => crate::faults::kill_host(),
                Action::KillActor => {
                    self.myself.kill();
                    // The kill cuts the handler off here.
                    std::future::pending::<()>().await;
                }
                Action::Panic => panic!("a panic on purpose, by an injected fault"),
                // Refused where the fault is read: an event is no callback.
                Action::Duplicate | Action::Drop => {}
                Action::Delay(span) => clock::pause(crate::faults::duration(span)).await,
            }
        }
    }
}

struct Submit {
    actor: ActorRef<Message>,
    key: Key,
    bytes: Vec<u8>,
    hash: Digest,
}

impl Submit {
    fn to(self, store: &Store) {
        let Self {
            actor,
            key,
            bytes,
            hash,
        } = self;
        let waiter = Box::new(move |verdict| {
            // An actor that is gone is told by its chain.
            let _ = actor.cast(Message::Spoken { hash, verdict });
        });
        store.submit(key.0, bytes.into(), hash, waiter);
    }
}
