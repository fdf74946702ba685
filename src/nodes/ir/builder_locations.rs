//! The source lines of the nodes that a builder adds.

use crate::error::Location;
use crate::nodes::ir::builder::Builder;
use std::panic;

impl Builder {
    /// Later nodes get the caller's line, unless a pass sets locations.
    #[track_caller]
    pub(in crate::nodes) fn record_location(&self) {
        if self.track.get() {
            self.come_from(panic::Location::caller());
        }
    }

    /// Sets `at` as the source location of later nodes. A pass calls it with the location of its own caller.
    pub fn come_from(&self, at: &panic::Location<'_>) {
        self.come_from_line(at.file(), at.line());
    }

    /// As [`Builder::come_from`], with a line of any file.
    pub fn come_from_line(&self, file: &str, line: u32) {
        self.with(|e| {
            let file = e.strings.intern(file);
            e.set_location(Location::Source(file, line));
        });
    }

    /// Calls `f`. All its nodes get line `line` of `file`, for texts that are no Rust.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// let g = Builder::new("g");
    /// let x = g.input("x", [2, 3], DType::F32);
    /// g.at_source("net.py", 7, || x.matmul(x));
    /// assert!(g.finish([x]).unwrap_err().to_string().ends_with("at net.py:7"));
    /// ```
    pub fn at_source<R>(&self, file: &str, line: u32, f: impl FnOnce() -> R) -> R {
        self.come_from_line(file, line);
        let track = self.track.replace(false);
        let result = f();
        self.track.set(track);
        result
    }

    /// Later nodes get the line that those of `other` have now.
    pub(super) fn come_from_line_of(&self, other: &Builder) {
        if let Location::Source(file, line) = other.with(|e| e.location()) {
            self.come_from_line(&file, line);
        }
    }

    /// Calls `f`. All its nodes get the line of the caller of this method, because `track_caller` does not reach into
    /// closures.
    #[track_caller]
    pub fn with_caller<R>(&self, f: impl FnOnce() -> R) -> R {
        self.with_location(panic::Location::caller(), f)
    }

    /// Calls `f`. All its nodes get the line `at`, unless a scope around this one or a pass sets locations.
    pub(in crate::nodes) fn with_location<R>(&self, at: &panic::Location<'_>, f: impl FnOnce() -> R) -> R {
        if self.track.get() {
            self.come_from(at);
        }
        let track = self.track.replace(false);
        let result = f();
        self.track.set(track);
        result
    }
}
