//! Every bound of the shells and ports: what happens when it is reached stands beside it.

use std::time::Duration;

/// Requests to tools at one time over the whole host; further ones wait, and are not sent once their `send_by` has passed.
pub const REQUESTS_MAX: usize = 1_024;
/// How long an answer that nobody took is kept for the next incarnation; then only a look-up can tell.
pub const ANSWER_KEPT: Duration = Duration::from_secs(60);
/// Greatest body of a refusal; of a larger one only the status is looked at.
pub const REFUSAL_BYTES_MAX: u64 = 64 << 10;
/// What a look-up's answer may have around the result that it holds; a larger one is unusable.
pub const LOOKUP_FRAME_BYTES: u64 = 64 << 10;
/// Characters kept of what the outside says in a refusal; the rest is cut off.
pub const WORDS_MAX: usize = 300;
/// Longest wait that the outside can ask for; a longer one is cut to this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
/// How long the command that gives a credential may take; then the request does not leave.
pub const CREDENTIAL_WAIT: Duration = Duration::from_secs(3);
/// Longest credential; a longer one is not sent.
pub const CREDENTIAL_BYTES_MAX: usize = 8 << 10;
/// Secrets that are masked in what comes back; beyond it the oldest is forgotten.
pub const SECRETS_KEPT: usize = 1_024;
/// How long the token counts that a request to an HTTP tool carries.
pub const TOKEN_VALID: Duration = Duration::from_secs(60);
/// First pause before a question that changes nothing is asked again.
pub const ASK_AGAIN_FIRST: Duration = Duration::from_millis(50);
/// Longest pause before a question that changes nothing is asked again.
pub const ASK_AGAIN_LONGEST: Duration = Duration::from_secs(2);
/// The window over which a tool's calls are counted.
pub const RATE_WINDOW: Duration = Duration::from_secs(60);
/// Greatest proposal of a model, arguments and answers apart, which become blobs; a larger one is malformed.
pub const PROPOSAL_BYTES_MAX: usize = 64 << 10;
/// Compiled schemas kept; beyond it all are forgotten and compiled anew as they are needed.
pub const SCHEMAS_KEPT: usize = 1_024;
/// Model scripts kept; beyond it all are forgotten and read anew as they are needed.
pub const SCRIPTS_KEPT: usize = 256;
/// Threads for what blocks: chains that are folded, pages that are read. Further work waits; a thread of its own for each of a thousand
/// children that are woken at one time would take the memory and time of a thousand threads.
pub const BLOCKING_THREADS: usize = 16;
/// Due times are compared with the wall clock at least this often.
pub const CLOCK_COMPARED: Duration = Duration::from_secs(1);
/// Runs with an actor; a further tree is refused with `busy`, children never.
pub const AWAKE_MAX: usize = 20_000;
/// How often one incarnation folds its chain anew after the recorder refused a commit of it; then its actor fails and is supervised.
pub const FOLDS_MAX: u32 = 3;
/// Greatest page of `tail` and `list`; the rest is on the next page.
pub const PAGE_BYTES: usize = 512 << 10;
/// A page of an archive, which takes twice as many bytes in its reply; the rest is on the next page.
pub const COPY_PAGE_BYTES: usize = 384 << 10;
/// Archives that a host makes at one time; a further one is refused with `busy`.
pub const COPIES_MAX: usize = 4;
/// After this long without a request for a page an archive is given up when another is asked for.
pub const COPY_IDLE: Duration = Duration::from_secs(60);
/// Findings of verify and audit that are listed; the rest is cut off.
pub const FINDINGS_MAX: usize = 1_000;
/// Greatest request and reply: what every server takes in one message.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Texts of an input that count as references which the root may read and pass on; what goes beyond cannot be named by a delegation.
pub const INPUT_REFS_MAX: usize = 256;
/// How long the recorder may be silent before commands from outside are refused with `log_unavailable`.
pub const LOG_SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long a client waits for one answer.
pub const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// First pause before something that a client or a parent process tries again.
pub const AGAIN_FIRST: Duration = Duration::from_millis(50);
/// Longest pause before something that a client or a parent process tries again.
pub const AGAIN_LONGEST: Duration = Duration::from_secs(2);
/// How long a host waits for a data directory that another process holds; then it ends, and says which process.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How long a host may take to stop in order; then its parent kills it.
pub const HOST_STOP_WAIT: Duration = Duration::from_secs(30);
/// How often a client that waits for a run's end looks for itself, should the feed have missed it.
pub const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long an actor may take to say its state; then its run is not compared.
pub const LIVE_WAIT: Duration = Duration::from_secs(2);
/// How long a stopping host tries to record that it stopped; a bus that is gone must not hold it up.
pub const LAST_WORD_WAIT: Duration = Duration::from_secs(5);
/// Compiled releases kept; beyond it all are forgotten and compiled anew as they are needed.
pub const RELEASES_KEPT: usize = 256;
/// Blocked runs that the status names; the others it counts.
pub const BLOCKED_NAMED: usize = 20;
/// How often a run is told something before whoever asked is sent away to ask again.
pub const TELL_TIMES: u32 = 5;
/// Runs that nobody of their tree drives any more and the host takes care of at one time; further ones wait.
pub const ORPHANS_AT_ONCE_MAX: usize = 10_000;
/// Such runs that wait; of what goes beyond the next host takes care.
pub const ORPHANS_WAITING_MAX: usize = 100_000;
/// How often the actor of such a run may die; then it is blocked until the next host.
pub const ORPHANS_CRASHES_MAX: u32 = 3;
/// Bytes of a signal's name and id, and of who cancels and why.
pub const SIGNAL_TEXT_MAX: usize = 256;
/// Bytes of what an ending host tells its parent on its standard output; the rest is not read.
pub const LAST_WORD_BYTES: u64 = 4 << 10;
/// Greatest body of a callback over HTTP; a larger one is refused with status 413.
pub const CALLBACK_BYTES_MAX: usize = 128 << 10;
/// Callbacks that are taken in at one time; a further one is answered `busy` (status 429), and its sender tries again.
pub const CALLBACKS_AT_ONCE: usize = 64;
/// Refused callbacks of no run that are recorded in one [`REFUSALS_WINDOW`]; further ones are answered `busy`, and only counted.
pub const REFUSALS_RECORDED_MAX: u32 = 600;
/// See [`REFUSALS_RECORDED_MAX`].
pub const REFUSALS_WINDOW: Duration = Duration::from_secs(60);
/// How long recording a callback may take; then its sender is told `log_unavailable`, and tries again.
pub const RECORD_WAIT: Duration = Duration::from_secs(10);
/// Bytes of the file from which the secrets for callbacks are made.
pub const CALLBACK_SECRET_BYTES: usize = 32;
/// Bytes of a callback that are read and thrown away, so that a sender who reads no answer before it has sent everything sees the 413;
/// beyond them it may see a closed connection.
pub const HTTP_DISCARDED_MAX: usize = 16 << 20;
/// Connections to the host's HTTP port at one time; a further one takes the place of the oldest that has sent no whole header, else of
/// the oldest that is not being answered. When all are being answered it waits.
pub const HTTP_CONNECTIONS_MAX: usize = 256;
/// How long a connection to the host's HTTP port may take until the end of its first header; then it is closed.
pub const HTTP_HEADER_LONGEST: Duration = Duration::from_secs(5);
/// Longest life of one connection to the host's HTTP port; then it is closed, so that whoever says nothing holds no place.
pub const HTTP_CONNECTION_LONGEST: Duration = Duration::from_secs(60);
/// The HTTP port that a host takes when it is free and nobody says another.
pub const HTTP_PORT: u16 = 7717;
/// Files of a policy set.
pub const POLICY_FILES_MAX: usize = 64;
/// Bytes of a policy set's files together.
pub const POLICY_BYTES_MAX: usize = 1 << 20;
/// Policies of a set.
pub const POLICIES_MAX: usize = 1_000;
/// Entities of a policy set, actions included.
pub const POLICY_ENTITIES_MAX: usize = 2_000;
/// Bytes of a policy's reason.
pub const POLICY_REASON_MAX: usize = 500;
/// People whom a policy can ask to approve one action.
pub const POLICY_PEOPLE_MAX: u32 = 10;
/// Policies and reasons that a decision names; the rest of them is not named.
pub const POLICY_NAMED_MAX: usize = 8;
/// Bytes of texts and keys of arguments that policies look at; a call with more is denied.
pub const POLICY_ARGUMENT_BYTES: usize = 64 << 10;
/// Values in the arguments that policies look at; a call with more is denied.
pub const POLICY_ARGUMENT_PARTS: usize = 1_024;
/// How often the files of a policy set are compared with what is in force.
pub const POLICY_POLLED: Duration = Duration::from_secs(1);
