//! A nats-server of the test's own, which it can kill, and whose store it can copy, delete and put back.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use async_nats::jetstream::{self, context::GetStreamErrorKind};
use bytes::Bytes;
use coppice_messages::Commit;
use coppice_store::{BusOptions, Credentials, Options, Realm, nats_server, wire};

use crate::support::{encode, options};

/// A running server, killed when dropped.
pub struct Server {
    program: PathBuf,
    pub directory: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
}

impl Server {
    /// The server that the product would take.
    pub async fn start() -> Self {
        Self::of(nats_server::find().expect("nats-server")).await
    }

    /// A server of this program, listening.
    pub async fn of(program: PathBuf) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        let config = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {:?} }}\n",
            directory.path().join("js")
        );
        fs::write(directory.path().join("nats.conf"), config).expect("written");
        let mut server = Self {
            program,
            directory,
            port,
            child: None,
        };
        server.run().await;
        server
    }

    /// Starts it again.
    pub async fn run(&mut self) {
        let child = Command::new(&self.program)
            .arg("-c")
            .arg(self.directory.path().join("nats.conf"))
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        self.child = Some(child);
        self.client().await;
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("gone");
        }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// A client of it, once it answers.
    pub async fn client(&self) -> async_nats::Client {
        let client = async_nats::ConnectOptions::new()
            .retry_on_initial_connect()
            .reconnect_delay_callback(|_| std::time::Duration::from_millis(10))
            .connect(self.url())
            .await
            .expect("a client");
        let js = jetstream::new(client.clone());
        // It listens before its JetStream is there; each question takes a round trip.
        while let Err(error) = js.get_stream("NONE").await {
            if matches!(error.kind(), GetStreamErrorKind::JetStream(_)) {
                break;
            }
        }
        client
    }

    /// JetStream, as anybody who may publish.
    pub async fn jetstream(&self) -> jetstream::Context {
        jetstream::new(self.client().await)
    }

    /// How a host connects to it.
    pub fn options(&self, data: &Path) -> Options {
        let mut options = options(data);
        options.bus = BusOptions::Shared {
            url: self.url().parse().expect("an address"),
            realm: Realm::shared("staging").expect("a realm"),
            credentials: Credentials::None,
        };
        options.stream_bytes_max = 64 << 20;
        options
    }

    /// Copies its store aside, or a copy back over it. It must not run.
    pub fn copy_store(&self, from: &str, to: &str) {
        let (from, to) = (
            self.directory.path().join(from),
            self.directory.path().join(to),
        );
        let _ = fs::remove_dir_all(&to);
        copy(&from, &to);
    }

    pub fn delete_store(&self) {
        fs::remove_dir_all(self.directory.path().join("js")).expect("removed");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Copies a directory.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// Publishes commits as another host would.
pub async fn publish(js: &jetstream::Context, commits: &[&Commit]) -> u64 {
    let bytes: Vec<Bytes> = commits.iter().map(|commit| encode(commit)).collect();
    let message = wire::encode_commits(&bytes);
    let subject = "coppice.v1.staging.commit.default";
    let sent = js.publish(subject, message).await.expect("sent");
    sent.await.expect("acknowledged").sequence
}
