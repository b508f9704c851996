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
