//! The only place of the product that reads a clock or sleeps. Everything else takes time as a value.
//!
//! Two clocks: [`now`] is UTC, can step, and is never used for order or durations; [`mono`] never steps and runs on while the machine is
//! suspended, so that a deadline in durations means what it says after a laptop was closed.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

use coppice_messages::Timestamp;

/// A point on the clock that never steps; comparable within one boot of the machine only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(Duration);

impl Mono {
    /// How long ago this was; zero when it lies in the future.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        mono() - self
    }
}

impl Add<Duration> for Mono {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

impl Sub for Mono {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// UTC, in microseconds.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that the others are to take time from"
)]
pub fn now() -> Timestamp {
    let since_epoch = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
}

/// The clock that never steps and runs through suspend.
#[must_use]
#[expect(
    unsafe_code,
    reason = "the standard library has no clock that runs through suspend on Linux"
)]
pub fn mono() -> Mono {
    // On macOS the monotonic clock of the system runs through suspend; on Linux only the boot-time clock does.
    #[cfg(target_os = "linux")]
    const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, exclusively borrowed timespec; the call writes it or leaves it as it is.
    unsafe {
        libc::clock_gettime(CLOCK, &raw mut time);
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Mono(Duration::new(seconds, nanos))
}

/// Waits.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the pause that the others are to take"
)]
pub async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// The pause before attempt number `attempt` (from 0) of something that is tried for ever: doubling from `first` up to `longest`.
#[must_use]
pub fn backoff(attempt: u32, first: Duration, longest: Duration) -> Duration {
    first.saturating_mul(1 << attempt.min(16)).min(longest)
}
