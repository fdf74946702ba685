//! What the program prints.
//!
//! Invariant: no print panics. A full disk behind standard output ends a command with one line and exit code 1; a
//! reader that went away is no error: what is left to print is dropped, and the exit code stays the command's. What
//! standard error does not take is lost.

use crate::fail::{Run, expectation_failed};
use std::fmt::Display;
use std::io::{BufWriter, ErrorKind, Result, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the reader of standard output went away.
static GONE: AtomicBool = AtomicBool::new(false);

/// Whether nothing that is printed has a reader any more: a command that only prints may end.
pub fn reader_is_gone() -> bool {
    GONE.load(Ordering::Relaxed)
}

fn checked(done: Result<()>) -> Run {
    match done {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => {
            GONE.store(true, Ordering::Relaxed);
            Ok(())
        }
        Err(e) => Err(expectation_failed(format!("standard output: {e}"))),
    }
}

/// Prints a text, and ends its last line.
pub fn emit(text: impl Display) -> Run {
    let text = text.to_string();
    let mut out = Out::new();
    out.write(&text)?;
    out.write(if text.ends_with('\n') { "" } else { "\n" })?;
    out.flush()
}

/// Writes a line to standard error.
pub fn note(text: impl Display) {
    let text = text.to_string();
    // There is no other place to say that it failed.
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
}

/// Writes a warning to standard error. The command goes on.
pub fn warn(text: impl Display) {
    note(format!("arenagrad: warning: {text}"));
}

/// Standard output, for texts that come in pieces.
pub struct Out(BufWriter<StdoutLock<'static>>);

impl Out {
    /// Locks it.
    pub fn new() -> Out {
        Out(BufWriter::new(std::io::stdout().lock()))
    }

    /// Prints a piece.
    pub fn write(&mut self, text: &str) -> Run {
        if reader_is_gone() { Ok(()) } else { checked(self.0.write_all(text.as_bytes())) }
    }

    /// Hands on what was printed.
    pub fn flush(&mut self) -> Run {
        if reader_is_gone() { Ok(()) } else { checked(self.0.flush()) }
    }
}
