//! NATS in, fjall down: publisher, recorder, admission, log, blobs, managed nats-server.
//!
//! Every fact of Coppice takes one way: submitted as a commit, published to a JetStream stream in batches, read back in the stream's order by
//! the recorder, admitted when it extends its run's hash chain in the current epoch, written to a fjall log in one batch with one fsync, and
//! only then told to whoever waits for it and to the feed. The store decides nothing about a run.

mod address;
pub mod admission;
pub mod archive;
mod bus;
pub mod clock;
mod closing;
mod data_dir;
mod fatal;
mod faults;
pub mod follow;
pub mod given;
mod gone;
mod health;
pub mod limits;
pub mod log;
pub mod mark;
pub mod nats_server;
mod open_effects;
mod passage;
mod presence;
mod publisher;
pub mod ranges;
mod recent_ends;
mod recorder;
pub mod room;
mod store;
mod subjects;
mod suspect;
mod system_chain;
pub mod trim;
pub mod verify;
pub mod wire;

pub use self::{
    address::{InvalidAddress, ServerAddress},
    bus::{BusError, Credentials},
    data_dir::{ARCHIVE_OF_BACKUP, DataDir, DataDirError},
    fatal::Fatal,
    faults::{FaultHooks, NoFaults},
    gone::Gone,
    log::{Log, LogReader, OpenLogError, ReadError},
    nats_server::{GuardCommand, Role, ServerError, guard_main},
    open_effects::{Holder, OpenEffect},
    presence::{PresenceError, Present},
    publisher::{BlobError, BlobWaiter, Verdict, Waiter, hold, refill},
    recent_ends::RecentEnd,
    recorder::feed::FeedEvent,
    room::{Reserve, RoomWatch, Storage},
    store::{BusOptions, Endpoint, OpenError, Options, Status, Store},
    subjects::{InvalidRealm, Lane, Realm},
    system_chain::SystemEventError,
};
