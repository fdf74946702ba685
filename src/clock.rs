//! The time: the only file of the library that asks the system for it.
//!
//! A module for browsers (`wasm32-unknown-unknown`) imports nothing from its page, so it has no clock. There every
//! moment is the same, all times in reports and traces are zero, and the page measures what it calls.

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
mod of_system {
    pub use std::time::Instant;
    use std::time::{SystemTime, UNIX_EPOCH};

    /// Seconds since the start of 1970; zero if the system's date is before it.
    pub fn seconds_since_1970() -> f64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
    }
}
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub use of_system::{Instant, seconds_since_1970};

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod stopped {
    use std::time::Duration;

    /// As [`std::time::Instant`] where there is no clock: there is one moment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Instant;

    impl Instant {
        /// The moment.
        pub fn now() -> Instant {
            Instant
        }

        /// Zero.
        pub fn elapsed(&self) -> Duration {
            Duration::ZERO
        }

        /// Zero.
        pub fn duration_since(&self, _: Instant) -> Duration {
            Duration::ZERO
        }
    }

    /// Zero.
    pub fn seconds_since_1970() -> f64 {
        0.0
    }
}
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub use stopped::{Instant, seconds_since_1970};
