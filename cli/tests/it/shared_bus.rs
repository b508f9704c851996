//! A nats-server that is nobody's own, as operators run one: with users, and with what they may say.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

use coppice_store::{clock, nats_server};

/// A running server, killed when dropped.
pub struct SharedBus {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

/// The user of every test.
pub const USER: &str = "ops";
/// Its secret, which must be found nowhere that people look.
pub const PASSWORD: &str = "s3cret-of-the-bus";

impl SharedBus {
    /// A server whose user may say everything but this.
    pub fn denying(subject: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("nats.conf");
        std::fs::write(&file, config(directory.path(), port, subject)).expect("written");
        Self {
            child: listening(&file, port),
            port,
            directory,
        }
    }

    /// Kills it and starts it again: nobody is connected any more.
    pub fn restart(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
        self.child = listening(&self.directory.path().join("nats.conf"), self.port);
    }

    /// A server whose user may say everything.
    pub fn start() -> Self {
        Self::denying("nothing.at.all")
    }

    /// Lets its user say everything but this from now on.
    pub fn deny(&self, subject: &str) {
        let file = self.directory.path().join("nats.conf");
        let config = config(self.directory.path(), self.port, subject);
        std::fs::write(file, config).expect("written");
        crate::support::signal("HUP", self.child.id());
    }

    /// Where it is, with user and password.
    pub fn url(&self) -> String {
        format!("nats://{USER}:{PASSWORD}@127.0.0.1:{}", self.port)
    }

    /// The options of a host on it, with a data directory.
    pub fn options<'a>(&self, url: &'a str, data: &'a str) -> [&'a str; 8] {
        [
            "--nats",
            url,
            "--realm",
            "staging",
            "--data",
            data,
            "--http",
            "127.0.0.1:0",
        ]
    }
}

impl Drop for SharedBus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listening(config: &std::path::Path, port: u16) -> Child {
    let child = Command::new(nats_server::find().expect("nats-server"))
        .arg("-c")
        .arg(config)
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    until("the server listens", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    child
}

fn config(directory: &std::path::Path, port: u16, denied: &str) -> String {
    format!(
        "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {:?}, max_file_store: 20GB }}\n\
         authorization {{ users = [ {{ user: {USER}, password: {PASSWORD:?}, permissions: {{ publish: {{ deny: {denied:?} }} }} }} ] }}\n",
        directory.join("js")
    )
}

/// Waits for something that must come true within a minute.
#[track_caller]
pub fn until(what: &str, is: impl Fn() -> bool) {
    let from = clock::mono();
    while !is() {
        assert!(from.elapsed().as_secs() < 60, "{what}");
        std::thread::yield_now();
    }
}
