//! Opening a store: every part in the order in which the next one needs it, and the parts that closing must wait for.

use std::{io, path::PathBuf, sync::Arc, thread};

use async_nats::Client;
use futures::FutureExt as _;
use tokio::{
    sync::{Mutex, mpsc, watch},
    task::JoinHandle,
};

use super::{BusOptions, Endpoint, Inner, Options, Store, beat, connect::connections};
use crate::{
    bus::{Bus, BusError, Credentials, Refusals},
    closing,
    data_dir::DataDir,
    fatal::{Fatal, FatalCell},
    follow::Follower,
    health::{Health, LogDisk, PrivateServer},
    limits::{ARRIVALS_MAX, DRAIN_WAIT},
    log::{
        Log, LogReader, OpenLogError, ReadError, Unread,
        heal::{self, Healing},
    },
    mark,
    nats_server::{ManagedServer, Role, RoleCredentials, ServerError},
    presence::{self, PresenceError},
    publisher::Publisher,
    recorder::{
        Audience, Fed, Indexes, Progress, Recorder,
        feed::{Dropped, Feed},
        reader::{Reader, Recording},
    },
    room::{self, Storage},
    subjects::Realm,
    suspect,
    system_chain::SystemChains,
};

/// Why a store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log or its directory.
    #[error(transparent)]
    Log(#[from] OpenLogError),
    /// The log opens, but cannot be read.
    #[error(
        "the log cannot be read: start again, and it is looked through and, if it is damaged, read again from the stream"
    )]
    Read(
        #[from]
        #[source]
        ReadError,
    ),
    /// The private nats-server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The bus.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// Another host is in the realm.
    #[error(transparent)]
    Presence(#[from] PresenceError),
    /// The recorder's thread.
    #[error("the recorder's thread cannot be started")]
    Thread(#[source] io::Error),
    /// The stream and the log do not fit each other, or the log cannot be written.
    #[error(transparent)]
    Fatal(Fatal),
}

type Thread = thread::JoinHandle<()>;

/// What runs for a store, in the order in which it is ended.
pub(super) struct Parts {
    closing: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    recorder: Thread,
    feed: Option<JoinHandle<()>>,
    server: Option<ManagedServer>,
    progress: watch::Receiver<Progress>,
    /// Keeps the mark, once the log is known to have what its mark says.
    marks: Option<JoinHandle<()>>,
    fatal: FatalCell,
    // Released last: as long as anything of this store runs, no other may open the directory.
    log: Log,
}

impl Parts {
    fn of(
        closing: watch::Sender<bool>,
        (tasks, recorder, feed): (Vec<JoinHandle<()>>, Thread, Option<JoinHandle<()>>),
        progress: watch::Receiver<Progress>,
        fatal: FatalCell,
        log: Log,
    ) -> Self {
        Self {
            closing,
            tasks,
            recorder,
            feed,
            server: None,
            progress,
            marks: None,
            fatal,
            log,
        }
    }

    pub fn server(&self) -> Option<&ManagedServer> {
        self.server.as_ref()
    }

    fn begin_marking(&mut self) {
        // What could not be read is not in this log any more.
        suspect::forget(&self.log.directory().suspect());
        let path = self.log.directory().mark();
        self.marks = Some(tokio::spawn(mark::keep(
            path,
            self.progress.clone(),
            self.closing.subscribe(),
        )));
    }

    pub async fn close(self, publisher: &Publisher) {
        self.closing.send_replace(true);
        publisher.close();
        for task in self.tasks {
            join(task).await;
        }
        // The reader is gone, so the recorder ends after what it was given; the feed, after what the recorder gave it.
        let recorder = self.recorder;
        let ended = tokio::task::spawn_blocking(move || recorder.join().is_ok()).await;
        if !matches!(ended, Ok(true)) {
            tracing::error!("the recorder panicked");
        }
        if let Some(mut feed) = self.feed
            && tokio::time::timeout(DRAIN_WAIT, &mut feed).await.is_err()
        {
            feed.abort();
        }
        if let Some(server) = self.server {
            server.stop().await;
        }
        if let Some(marks) = self.marks {
            // Waited for, so that it does not write after what is written here.
            join(marks).await;
            let total = self.progress.borrow().total;
            if let Err(error) = mark::write(&self.log.directory().mark(), &total) {
                tracing::warn!(%error, "the log's high-water mark cannot be written");
            }
        }
        if matches!(self.fatal.get(), Some(Fatal::LogRead { .. })) {
            suspect::note(&self.log.directory().suspect());
        }
        drop(self.log);
    }
}

async fn join(task: JoinHandle<()>) {
    if let Err(error) = task.await {
        tracing::error!(%error, "a part of the store panicked");
    }
}

/// Takes the directory, starts what runs, and waits until the log has what the stream had.
pub(super) async fn open(options: Options) -> Result<Store, OpenError> {
    let directory = DataDir::create_or_take(&options.data).map_err(OpenLogError::from)?;
    let (server, endpoint) = bus_of(&options, &directory).await?;
    let service = server.as_ref().map_or_else(
        || endpoint.clone(),
        |server| private_endpoint(server, Role::Service),
    );
    let private = server.as_ref().map(|server| PrivateServer {
        restarter: server.restarter(),
        disk: directory.nats(),
    });
    let note = directory.suspect();
    let opened = match start(&options, (&endpoint, &service), directory, private).await {
        Ok(started) => started.caught_up().await,
        Err(error) => Err(error),
    };
    let mut started = match opened {
        Ok(started) => started,
        Err(error) => {
            if matches!(error, OpenError::Read(_)) {
                suspect::note(&note);
            }
            if let Some(server) = server {
                server.stop().await;
            }
            return Err(error);
        }
    };
    started.parts.server = server;
    let Started {
        parts,
        bus,
        service,
        refusals,
        publisher,
        indexes,
        dropped,
        progress,
        storage,
        fatal,
        ..
    } = started;
    let reader = parts.log.reader();
    let reader = reader.telling(stopping(note, publisher.clone(), fatal.clone()));
    Ok(Store {
        inner: Arc::new(Inner {
            publisher,
            reader,
            indexes,
            system: SystemChains::default(),
            dropped,
            progress,
            storage,
            fatal,
            bus,
            refusals,
            service,
            endpoint,
            parts: Mutex::new(Some(parts)),
        }),
    })
}

/// How the host connects, to a private server that is started for it or to one that runs.
async fn bus_of(
    options: &Options,
    directory: &DataDir,
) -> Result<(Option<ManagedServer>, Endpoint), OpenError> {
    match &options.bus {
        BusOptions::Private { guard } => {
            let (realm, bytes) = (Realm::local(), options.stream_bytes_max);
            let started =
                ManagedServer::start(&directory.nats(), guard.clone(), &realm, bytes).await?;
            let endpoint = private_endpoint(&started, Role::Host);
            Ok((Some(started), endpoint))
        }
        BusOptions::Shared {
            url,
            realm,
            credentials,
        } => {
            let endpoint = Endpoint {
                url: url.clone(),
                realm: realm.clone(),
                credentials: credentials.clone(),
                inbox_prefix: Role::Watcher.inbox_prefix().to_owned(),
            };
            Ok((None, endpoint))
        }
    }
}

/// A log that cannot be read ends the store; nothing that anybody concludes from what it does not give is recorded.
fn stopping(note: PathBuf, publisher: Publisher, fatal: FatalCell) -> Unread {
    Unread::telling(move |error| {
        suspect::note(&note);
        fatal.set(Fatal::log_read(error));
        publisher.close();
    })
}

/// How a role connects to a private server.
pub(crate) fn private_endpoint(server: &ManagedServer, role: Role) -> Endpoint {
    let RoleCredentials {
        user,
        password,
        inbox_prefix,
    } = server.credentials(role);
    Endpoint {
        url: server.url(),
        realm: Realm::local(),
        credentials: Credentials::Password { user, password },
        inbox_prefix,
    }
}

/// A store whose parts run, before it has caught up with the stream.
struct Started {
    parts: Parts,
    bus: Bus,
    service: Client,
    refusals: Refusals,
    publisher: Publisher,
    indexes: Indexes,
    dropped: Dropped,
    progress: watch::Receiver<Progress>,
    target: watch::Receiver<Option<u64>>,
    healing: Option<Healing>,
    storage: watch::Receiver<Storage>,
    fatal: FatalCell,
}

/// The disks that hold the log and, of a private server, the stream.
fn disks(options: &Options, directory: &DataDir) -> Vec<std::path::PathBuf> {
    let private = matches!(options.bus, BusOptions::Private { .. });
    let stream = private.then(|| directory.nats());
    std::iter::once(directory.log()).chain(stream).collect()
}

/// What is known of the space that is left, and who looks at it.
fn watch_room(
    options: &Options,
    log: &Log,
    bus: &Bus,
    closed: &watch::Receiver<bool>,
) -> (
    watch::Receiver<Storage>,
    impl Future<Output = ()> + Send + 'static,
) {
    let disks = disks(options, log.directory());
    let (say, storage) = watch::channel(room::on_disks(&disks, options.reserve));
    let room = room::watch(bus.clone(), disks, options.reserve, say, closed.clone());
    (storage, room)
}

/// The recorder on a thread of its own, and where its messages go in.
fn on_its_thread(
    recorder: Recorder,
) -> Result<(mpsc::Sender<Fed>, thread::JoinHandle<()>), OpenError> {
    let (arrivals_in, arrivals) = mpsc::channel(ARRIVALS_MAX);
    let thread = thread::Builder::new()
        .name("coppice-recorder".to_owned())
        .spawn(move || recorder.run(arrivals))
        .map_err(OpenError::Thread)?;
    Ok((arrivals_in, thread))
}

fn follower(reader: &LogReader, private: bool, complete: bool) -> Result<Follower, ReadError> {
    let follower = Follower::new(reader.stream_position()?, reader.first_message()?);
    Ok(match (private, complete) {
        (true, true) => follower.alone(),
        (true, false) => follower.from_the_first(),
        (false, _) => follower,
    })
}

fn health(
    log: &Log,
    bus: &Bus,
    server: Option<PrivateServer>,
    (publisher, fatal): (&Publisher, &FatalCell),
) -> Health {
    Health {
        log: LogDisk::of(log),
        publisher: publisher.clone(),
        link: bus.link(),
        server,
        fatal: fatal.clone(),
    }
}

async fn start(
    options: &Options,
    (endpoint, service): (&Endpoint, &Endpoint),
    directory: DataDir,
    server: Option<PrivateServer>,
) -> Result<Started, OpenError> {
    let refusals = Refusals::default();
    let (bus, service, feed) = connections(options, endpoint, service, &refusals).await?;
    let (feed, feed_task) = feed.unzip();
    let dropped = feed.as_ref().map(Feed::dropped).unwrap_or_default();
    // A log that is read again from the stream has not what the stream has; without a mark nothing says that it has.
    let marked = mark::read(&directory.mark()).is_some();
    let (log, healing) = heal::open(directory)?;
    let reader = log.reader();
    let private = server.is_some();
    let follower = follower(&reader, private, marked && healing.is_none())?;
    let (fatal, publisher) = (FatalCell::new(), Publisher::new());
    let indexes = Indexes::default();
    let (progress_in, progress) = watch::channel(Progress::default());
    let health = health(&log, &bus, server, (&publisher, &fatal));
    let audience = Audience {
        publisher: publisher.clone(),
        indexes: indexes.clone(),
        feed,
        hooks: Arc::clone(&options.hooks),
        progress: progress_in,
        fatal: fatal.clone(),
        log: health.log.clone(),
    };
    let recorder = Recorder::new(Arc::clone(&reader.tables), audience)?;
    let (arrivals_in, recorder) = on_its_thread(recorder)?;
    let ((target_in, target), (closing, closed)) = (watch::channel(None), watch::channel(false));
    let to = Recording {
        fed: arrivals_in,
        progress: progress.clone(),
        target: target_in,
    };
    let known = (log.reader(), publisher.clone());
    let following = (follower, private);
    let reader = Reader::new(bus.clone(), following, known, to, fatal.clone()).run();
    let (realm, beaten) = (&endpoint.realm, (progress.clone(), dropped.clone()));
    let beat = beat::run((&bus, realm), &options.host, beaten);
    let sender = publisher.clone().run(bus.clone(), log.reader());
    let (storage, room) = watch_room(options, &log, &bus, &closed);
    let presence = presence::keep(options, (&service, realm), log.reader(), &fatal);
    let part = |name, work| closing::spawn_part(name, work, fatal.clone(), closed.clone());
    let tasks = vec![
        part("publisher", sender.boxed()),
        part("reader", reader.boxed()),
        part("beat", beat.boxed()),
        part("room", room.boxed()),
        part("presence", presence.boxed()),
        part("health", health.watch(closed.clone()).boxed()),
    ];
    let running = (tasks, recorder, feed_task);
    let parts = Parts::of(closing, running, progress.clone(), fatal.clone(), log);
    Ok(Started {
        parts,
        bus,
        service,
        refusals,
        publisher,
        indexes,
        dropped,
        progress,
        target,
        healing,
        storage,
        fatal,
    })
}

impl Started {
    /// Waits until the log has what the stream had at the start: whoever folds the log before would miss it.
    async fn caught_up(mut self) -> Result<Self, OpenError> {
        let reached = async {
            loop {
                let target = match self.target.wait_for(Option::is_some).await {
                    Ok(target) => target.unwrap_or_default(),
                    Err(_) => return false,
                };
                tokio::select! {
                    reached = self.progress.wait_for(|p| p.stream >= target) => {
                        return reached.is_ok();
                    }
                    changed = self.target.changed() => if changed.is_err() {
                        return false;
                    }
                }
            }
        };
        let fault = tokio::select! {
            reached = reached => (!reached).then(|| self.fatal.get()).map(|fatal| {
                fatal.unwrap_or(Fatal::PartEnded { part: "recorder" })
            }),
            fatal = self.fatal.wait() => Some(fatal),
        };
        let missing = self
            .healing
            .as_ref()
            .filter(|_| fault.is_none())
            .and_then(|healing| healing.missing(&self.parts.log.reader()));
        let missing = missing.map(|(first, last)| Fatal::InNeither { first, last });
        let Some(fatal) = fault.or(missing) else {
            self.parts.begin_marking();
            return Ok(self);
        };
        let fatal = self.with_what_is_known(fatal);
        self.parts.close(&self.publisher).await;
        if let Some(healing) = self.healing {
            healing.undo();
        }
        Err(OpenError::Fatal(fatal))
    }

    /// With how far the log had come, and where else there may be something of it.
    fn with_what_is_known(&self, fatal: Fatal) -> Fatal {
        let Fatal::StreamGone { mut gone, .. } = fatal else {
            return fatal;
        };
        gone.had = self.healing.as_ref().and_then(Healing::had);
        gone.older = self.healing.as_ref().and_then(Healing::older);
        let aside = self.parts.log.directory().logs_set_aside();
        let own = self.healing.as_ref().and_then(Healing::aside);
        let aside = aside.into_iter().filter(|path| Some(path) != own);
        Fatal::StreamGone {
            gone,
            aside: aside.collect(),
        }
    }
}
