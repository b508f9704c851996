//! Every bound of the store: what happens when it is reached stands beside it.

use std::time::Duration;

/// Version of the data directory's layout. A newer one is refused at open.
pub const FORMAT: u32 = 1;

/// Commits of one message; more go into the next.
pub const MESSAGE_COMMITS_MAX: usize = 1_024;
/// How often the publisher lets others run first while each time brings it more commits; then it sends what it has.
pub const GATHER_TURNS_MAX: usize = 16;
/// A message takes at most half of the server's `max_payload`, and never more than this; more goes into the next.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// A server that takes less than this in one message is refused at start.
pub const PAYLOAD_BYTES_MIN: usize = 1 << 20;
/// Encoded bytes around one commit in a message, at most.
pub const MESSAGE_ENTRY_OVERHEAD: usize = 5;

/// Greatest blob; a larger one is refused.
pub const BLOB_BYTES_MAX: usize = 16 << 20;
/// A blob travels in chunks of this size.
pub const BLOB_CHUNK_BYTES: usize = 256 << 10;

/// Commits that the recorder gathers for one fsync; reading waits.
pub const BATCH_COMMITS_MAX: usize = 4_096;
/// Bytes that the recorder gathers for one fsync; reading waits.
pub const BATCH_BYTES_MAX: usize = 8 << 20;
/// Messages between reading and recording; reading waits.
pub const ARRIVALS_MAX: usize = 32;
/// Messages asked from the bus at once; the bus waits.
pub const READ_MESSAGES: usize = 256;
/// Bytes asked from the bus at once; the bus waits. Above the greatest message, which would otherwise never come.
pub const READ_BYTES: usize = 16 << 20;

/// Events waiting to be published on the feed; more are dropped and counted.
pub const FEED_EVENTS_MAX: usize = 65_536;
/// Refused commits kept; the oldest goes, counted.
pub const QUARANTINE_MAX: u64 = 10_000;
/// Bytes kept of one refused commit; the rest is cut off.
pub const QUARANTINE_BYTES_MAX: usize = 512 << 10;
/// Heads kept in memory; beyond it they are read from the log again.
pub const HEADS_CACHED_MAX: usize = 200_000;

/// Delegations kept in memory for the children that cite them; beyond it they are read from the log again.
pub const DELEGATIONS_CACHED_MAX: usize = 1_024;
/// Ends of runs kept in memory for whoever supervises them; the oldest go, and are read from the log.
pub const RECENT_ENDS_MAX: usize = 1_024;

/// After this long without a word from the recorder about anything that was sent, everything held is sent again.
pub const SILENCE: Duration = Duration::from_secs(2);
/// How long one acknowledgement is waited for before the message counts as lost on its way.
pub const ACK_WAIT: Duration = Duration::from_secs(2);
/// First pause before something that is tried for ever.
pub const BACKOFF_FIRST: Duration = Duration::from_millis(10);
/// Longest pause before something that is tried for ever.
pub const BACKOFF_LONGEST: Duration = Duration::from_secs(2);
/// How long a consumer may bring nothing although the stream has more; then it is not to be trusted, and another is made.
pub const STALLED: Duration = Duration::from_secs(2);
/// For how long a message of a stream that nobody else uses may be unreadable; then the stream is made anew and filled from the log.
pub const UNREADABLE_MAX: Duration = Duration::from_secs(10);
/// The bus must show life on a consumer this often; two missed make a new consumer.
pub const HEARTBEAT: Duration = Duration::from_millis(750);
/// One request for messages is answered within this time, or renewed.
pub const READ_EXPIRES: Duration = Duration::from_secs(30);
/// The bus forgets an abandoned consumer after this time.
pub const CONSUMER_IDLE: Duration = Duration::from_secs(30);
/// A request to the JetStream API is answered within this time or counts as failed.
pub const REQUEST_WAIT: Duration = Duration::from_secs(5);
/// How long one question for another host of the realm waits for its answer.
pub const PRESENCE_ASK: Duration = Duration::from_secs(1);
/// For how long a host of the realm that is there and does not answer is asked; then this one does not start.
pub const PRESENCE_WAIT: Duration = Duration::from_secs(5);
/// Time between two beats of a host.
pub const BEAT: Duration = Duration::from_secs(1);

/// How long a new nats-server may take until it answers, recovery of its store included.
pub const SERVER_START_WAIT: Duration = Duration::from_secs(60);
/// How long nats-server may take to end when asked; then it is killed.
pub const SERVER_STOP_WAIT: Duration = Duration::from_secs(5);
/// What a nats-server says of itself to whoever connects has at most this many bytes.
pub const GREETING_BYTES_MAX: u64 = 16 << 10;
/// How often a free port is looked for before the start is given up.
pub const SERVER_PORTS_TRIED: u32 = 5;
/// How often a waiting guard looks whether its host lives and its lock is free.
pub const GUARD_TICK: Duration = Duration::from_millis(10);

/// `max_bytes` of the stream; the bus then refuses new messages.
pub const STREAM_BYTES_MAX: u64 = 10 << 30;
/// Room for JetStream beside the stream itself.
pub const STREAM_BYTES_SLACK: u64 = 1 << 30;
/// Memory that JetStream may use for consumers.
pub const STREAM_MEMORY_BYTES: u64 = 256 << 20;

/// Bytes kept free on the log's disk; below it new trees and intents are refused (`storage_low`).
pub const DISK_BYTES_RESERVED: u64 = 256 << 20;
/// How full the stream may be, in percent; beyond it new trees and intents are refused (`storage_low`).
pub const STREAM_PERCENT_MAX: u64 = 90;
/// A disk that could not be written is full when it has less than this free; a host that ended for it is started again when there is more.
pub const DISK_BYTES_LEAST: u64 = 4 << 20;
/// What the log may need at once to move what is in memory to the disk: two memtables.
pub const FLUSH_BYTES: u64 = 2 * MEMTABLE_BYTES;
/// A private nats-server that has stored nothing of what was sent for this long is started again; then twice as long, and so on.
pub const SERVER_STUCK: Duration = Duration::from_secs(10);
/// Longest time after which it is started again.
pub const SERVER_STUCK_LONGEST: Duration = Duration::from_secs(60);
/// How often it is started again without storing anything in between; then the host ends.
pub const SERVER_RESTARTS_MAX: u32 = 5;
/// Time between two looks at the space that is left, at the log and at the private server.
pub const ROOM_LOOK: Duration = Duration::from_secs(1);

/// Memtable of each key family: a third less memory under load than the default for a quarter of the speed.
pub const MEMTABLE_BYTES: u64 = 16 << 20;
/// All journals of the log; they bound the time of reopening.
pub const JOURNAL_BYTES: u64 = 64 << 20;
/// Values from this size on lie beside the tree instead of in it.
pub const SEPARATED_BYTES_MIN: u32 = 4 << 10;
/// How long closing waits for what is on its way.
pub const DRAIN_WAIT: Duration = Duration::from_secs(10);

/// Bytes that an archive gathers for one frame; more go into the next.
pub const FRAME_BYTES: usize = 256 << 10;
/// Greatest frame of an archive; a larger one is not read.
pub const FRAME_BYTES_MAX: usize = 4 << 20;
/// Commits of an import that the recorder has not spoken about; reading the archive waits.
pub const IMPORTS_UNDER_WAY: usize = 4_096;

/// Bytes of a file that a person hands over (a document, an input, credentials); a larger one is refused, and no more of it is read.
pub const GIVEN_BYTES_MAX: usize = 4 << 20;
