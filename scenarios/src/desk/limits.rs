//! Every bound of the desk, in one place.

use std::time::Duration;

/// Greatest body of a request.
pub(super) const BODY_BYTES: usize = 1024 * 1024;
/// Greatest idempotency key.
pub(super) const KEY_BYTES: usize = 255;
/// Greatest title of a ticket, in characters.
pub(super) const TITLE_CHARS: usize = 200;
/// Greatest name, request id, order or search text, in characters.
pub(super) const NAME_CHARS: usize = 200;
/// Greatest refund, in minor units.
pub(super) const REFUND_MINOR: u64 = 100_000_000;
/// Most digits of a generated incident's number.
pub(super) const INCIDENT_DIGITS: usize = 9;
/// Greatest reply that a world may ask for.
pub(super) const OVERSIZE_BYTES: u64 = 64 * 1024 * 1024;
/// Longest pause that a world may ask for.
pub(super) const PAUSE_MS: u64 = 10 * 60 * 1000;
/// How long the witness is waited for.
pub(super) const WITNESS_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of stdin read (and thrown away) at a time.
pub(super) const STDIN_BYTES: usize = 64;
/// How often one callback may be delivered, and how often be lost.
pub(super) const WEBHOOK_TIMES_MAX: u32 = 100;
/// How long one try of a callback may take.
pub(super) const DELIVERY_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a callback is tried; then it is given up.
pub(super) const DELIVERY_LONGEST: Duration = Duration::from_secs(120);
/// First pause before a callback is tried again.
pub(super) const AGAIN_FIRST: Duration = Duration::from_millis(50);
/// Longest pause before a callback is tried again.
pub(super) const AGAIN_LONGEST: Duration = Duration::from_secs(1);
