//! Standard output and standard error.
//!
//! Invariants: no print panics. A write to standard output that fails, on a full disk for instance, ends the command
//! with one line and exit code 1. A reader that closed the pipe is no error: the rest is dropped, and the exit code
//! stays the command's. Text that cannot be written to standard error is lost.
//! The message of a failure is printed as one line.

use crate::fail::{Run, fail_expectation};
use std::fmt::Display;
use std::io::{BufWriter, ErrorKind, Result, StdoutLock, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// True once the reader of standard output has closed the pipe.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// True if the reader of standard output has closed the pipe. A command that only prints may stop then.
pub fn stdout_reader_is_gone() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// The result of a write, without the error of a closed pipe.
fn checked_stdout(done: Result<()>) -> Run {
    match done {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        Err(e) => Err(fail_expectation(format!("standard output: {e}"))),
    }
}

/// Prints a text, with a newline at its end.
pub fn emit_stdout(text: impl Display) -> Run {
    let text = text.to_string();
    let mut out = BufferedStdout::new();
    out.write(&text)?;
    out.write(if text.ends_with('\n') { "" } else { "\n" })?;
    out.flush()
}

/// Writes a line to standard error.
pub fn note_stderr(text: impl Display) {
    let text = text.to_string();
    // A failure here has no other place to be reported.
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
}

/// Writes a warning to standard error. The command goes on.
pub fn warn_stderr(text: impl Display) {
    note_stderr(format!("arenagrad: warning: {text}"));
}

/// The exit code of a result. Prints a failure as one line.
pub fn exit_code(done: Run) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => {
            note_stderr(format!("arenagrad: {}", fail.message.trim_end().replace('\n', "; ")));
            ExitCode::from(fail.code)
        }
    }
}

/// Standard output, locked and buffered, for texts that come in pieces.
pub struct BufferedStdout(BufWriter<StdoutLock<'static>>);

impl BufferedStdout {
    /// Locks standard output.
    pub fn new() -> BufferedStdout {
        BufferedStdout(BufWriter::new(std::io::stdout().lock()))
    }

    /// Prints a piece.
    pub fn write(&mut self, text: &str) -> Run {
        if stdout_reader_is_gone() { Ok(()) } else { checked_stdout(self.0.write_all(text.as_bytes())) }
    }

    /// Flushes the buffer.
    pub fn flush(&mut self) -> Run {
        if stdout_reader_is_gone() { Ok(()) } else { checked_stdout(self.0.flush()) }
    }
}
