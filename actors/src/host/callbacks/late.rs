//! A callback for a run that has ended: appended to its chain by the kernel's own decision, without an actor, as nothing follows from it.

use coppice_kernel::{
    Command, Driver, Identity, Input, Output, Prepared, Refusal, Room, Start, Turn,
};
use coppice_messages::{
    Commit,
    event::{callback::Received, run::ClaimReason},
};
use coppice_store::{Verdict, clock};
use tokio::sync::oneshot;

use super::{Callbacks, silent};
use crate::{
    api::{ApiError, Code},
    faults::{Action, AtWork, When, duration, kill_host},
    inspect::with_causes,
    limits::{FOLDS_MAX, RECORD_WAIT},
    run::{Folded, fold},
    services::Key,
};

impl Callbacks {
    /// Whether the ended run has decided about it, and what came of that is recorded.
    pub(super) async fn late(
        &self,
        key: &Key,
        received: &Received,
        before: usize,
    ) -> Result<bool, ApiError> {
        let command = Command::Callback(received.clone());
        let _turn = self.late.lock().await;
        for _ in 0..FOLDS_MAX {
            let Some(folded) = self.folded(key).await? else {
                return Ok(false);
            };
            if self.coming(key, received)?.times > before {
                // The actor took it in with the last that it recorded.
                return Ok(true);
            }
            let outputs = self.decided(key, folded, &command);
            let mut published = None;
            for output in outputs {
                match output {
                    Output::Publish(prepared) => published = Some(prepared),
                    Output::Refuse(Refusal::TooManyCallbacks) => return Err(too_many(key)),
                    Output::Refuse(refusal) => {
                        tracing::debug!(run = %key.1, %refusal, "a late callback changes nothing");
                    }
                    // Whoever drives the run does what it owes; an ended one is driven by nobody.
                    Output::Do(..)
                    | Output::Drop(_)
                    | Output::Arm(_)
                    | Output::Ended
                    | Output::Stop { .. } => {}
                }
            }
            let Some(prepared) = published else {
                return Ok(true);
            };
            let commit = prepared.commit.clone();
            self.strike(When::Before, &commit).await;
            match self.recorded(key, prepared).await? {
                Verdict::Admitted { .. } => {
                    self.strike(When::After, &commit).await;
                    return Ok(true);
                }
                // Something else of this run came first: it is decided again.
                Verdict::Refused(_) => {}
                Verdict::Unknown => {
                    let message = "the host is stopping: send it again";
                    return Err(ApiError::new(Code::Stopping, message));
                }
            }
        }
        Ok(false)
    }

    async fn strike(&self, when: When, commit: &Commit) {
        if let Some(faults) = &self.services.faults {
            for action in faults.strikes(when, commit, AtWork::HostAlone) {
                match action {
                    Action::KillHost => kill_host(),
                    Action::Delay(span) => clock::pause(duration(span)).await,
                    // Without an actor they do not strike.
                    Action::KillActor | Action::Panic | Action::Duplicate | Action::Drop => {}
                }
            }
        }
    }

    fn decided(&self, key: &Key, folded: Folded, command: &Command) -> Vec<Output> {
        let identity = Identity {
            host: self.services.host.clone(),
            trace: folded.trace,
            parent: folded.parent,
        };
        let blobs = self.services.store.log().blobs_of(&key.0);
        let mut driver = Driver::new(folded.state, identity, Start::Again(ClaimReason::Start));
        // Evidence is recorded however little room there is.
        let turn = Turn::new(clock::now(), Room::Enough, &blobs);
        driver.handle(Input::Command(command.clone()), turn)
    }

    /// The state of a run that has ended; none when it has not.
    async fn folded(&self, key: &Key) -> Result<Option<Folded>, ApiError> {
        let (services, key) = (self.services.clone(), key.clone());
        let work = move || fold(services.store.log(), &services.releases, &key.0, &key.1);
        let unreadable = |said: String| ApiError::new(Code::Blocked, said);
        let folded = tokio::task::spawn_blocking(work).await;
        let folded = folded.map_err(|_| unreadable("folding its run was cut off".to_owned()))?;
        let folded = folded.map_err(|error| unreadable(with_causes(&error)))?;
        Ok(folded.filter(|folded| folded.state.ended().is_some()))
    }

    async fn recorded(&self, key: &Key, prepared: Prepared) -> Result<Verdict, ApiError> {
        let (tell, told) = oneshot::channel();
        let waiter = Box::new(move |verdict| {
            // Who asked may have stopped waiting.
            let _ = tell.send(verdict);
        });
        let Prepared { bytes, hash, .. } = prepared;
        let store = &self.services.store;
        store.submit(key.0.clone(), bytes.into(), hash, waiter);
        match tokio::time::timeout(RECORD_WAIT, told).await {
            Ok(verdict) => Ok(verdict.unwrap_or(Verdict::Unknown)),
            Err(_) => Err(silent()),
        }
    }
}

fn too_many(key: &Key) -> ApiError {
    let refusal = Refusal::TooManyCallbacks;
    ApiError::new(Code::Busy, format!("{}: {refusal}", key.1))
}
