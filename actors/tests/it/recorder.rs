//! A recorder in memory, and a release of the library for it.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use coppice_actors::record::Record;
use coppice_messages::{
    Digest,
    event::effect::Intended,
    ids::{EffectKey, RunId, TenantId},
};
use coppice_store::{BlobError, OpenEffect};
use coppice_topology::{Bundle, Document, DocumentKind, Documents, Plan, bundle};
use futures::future::BoxFuture;

/// Open intents and blobs, as a test puts them there.
#[derive(Default)]
pub struct Recorder {
    open: Mutex<HashMap<EffectKey, OpenEffect>>,
    blobs: Mutex<BTreeMap<Digest, Vec<u8>>>,
    /// After so many looks the open intents are gone.
    looks_left: Mutex<Option<u32>>,
    /// Whether a cancel of the run or of an ancestor is recorded.
    cancelled: Mutex<Option<String>>,
}

impl Recorder {
    /// A recorder with the documents of a release.
    pub fn with(documents: BTreeMap<Digest, Vec<u8>>) -> Arc<Self> {
        Arc::new(Self {
            blobs: Mutex::new(documents),
            ..Self::default()
        })
    }

    /// What the log shows once this intent is recorded.
    pub fn intend(&self, intended: &Intended, epoch: u64) {
        let effect = OpenEffect {
            epoch,
            attempt: intended.attempt,
            action: intended.action,
            tool: intended.tool.clone(),
            arguments: intended.arguments.clone(),
            send_by: intended.send_by,
            pos: 1,
            held_by: None,
        };
        self.open.lock().unwrap().insert(intended.key, effect);
    }

    /// Shows open intents only so often.
    pub fn show_open_intents(&self, times: u32) {
        *self.looks_left.lock().unwrap() = Some(times);
    }

    /// A cancel is recorded.
    pub fn cancel(&self, whose: &str) {
        *self.cancelled.lock().unwrap() = Some(whose.to_owned());
    }

    /// Every blob, as text.
    pub fn everything(&self) -> String {
        let blobs = self.blobs.lock().unwrap();
        let texts = blobs.values().map(|bytes| String::from_utf8_lossy(bytes));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// One blob, as text.
    pub fn text(&self, digest: &Digest) -> String {
        let blobs = self.blobs.lock().unwrap();
        String::from_utf8_lossy(&blobs[digest]).into_owned()
    }

    pub fn forget(&self, blob: &Digest) {
        self.blobs.lock().unwrap().remove(blob);
    }

    pub fn put(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        self.blobs.lock().unwrap().insert(digest, bytes.to_owned());
        digest
    }
}

impl Record for Recorder {
    fn open_effect(&self, _: &TenantId, run: &RunId, key: &EffectKey) -> Option<OpenEffect> {
        if let Some(left) = self.looks_left.lock().unwrap().as_mut() {
            *left = left.checked_sub(1)?;
        }
        let open = self.open.lock().unwrap().get(key).cloned();
        open.filter(|_| *run == crate::broker::run())
    }

    fn cancelled(&self, _: &TenantId, _: &RunId) -> Option<String> {
        self.cancelled.lock().unwrap().clone()
    }

    fn intent_pos(&self, _: &TenantId, _: &RunId, key: &EffectKey, attempt: u32) -> Option<u64> {
        let open = self.open.lock().unwrap();
        let effect = open.get(key).filter(|effect| effect.attempt == attempt)?;
        Some(effect.pos)
    }

    fn blob(&self, _: &TenantId, digest: &Digest) -> Option<Bytes> {
        let found = self.blobs.lock().unwrap().get(digest).cloned();
        found.map(Bytes::from)
    }

    fn put_blob(&self, _: TenantId, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, BlobError>> {
        let digest = self.put(&bytes);
        Box::pin(std::future::ready(Ok(digest)))
    }
}

struct Library;

fn library() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/library")
}

impl Documents for Library {
    fn find(&self, kind: DocumentKind, name: &str) -> Option<Document> {
        let file = kind.path(name);
        let bytes = std::fs::read(library().join(&file)).ok()?;
        Some(Document { file, bytes })
    }
}

/// The release of one of the library's topologies.
pub fn release(topology: &str) -> Bundle {
    let file = format!("topologies/{topology}.yaml");
    let bytes = std::fs::read(library().join(&file)).unwrap();
    bundle(&file, &bytes, &Library).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The compiled release and a recorder that has its documents.
pub fn released(topology: &str) -> (Plan, Arc<Recorder>) {
    let made = release(topology);
    (made.plan, Recorder::with(made.documents))
}
