//! Errors on their way to C: what a function returns, and what `ag_last_error` tells of it.
//!
//! Invariant: a thread's last error stays until its next call that fails.

use crate::kinds::ag_status;
use arenagrad::error::{Error, Location};
use std::cell::RefCell;
use std::ffi::CString;

/// Why a call fails.
#[derive(Debug)]
pub struct Fault {
    pub status: ag_status,
    pub message: String,
    pub location: Location,
}

impl Fault {
    /// The function was called wrongly.
    pub fn usage(message: impl Into<String>) -> Fault {
        Fault { status: ag_status::AG_USAGE, message: message.into(), location: Location::Nowhere }
    }

    /// A bug in the library.
    pub fn panic(message: impl Into<String>) -> Fault {
        Fault { status: ag_status::AG_PANIC, message: message.into(), location: Location::Nowhere }
    }

    /// The same fault, which is of the file `file`, and so are its lines.
    pub fn in_file(mut self, file: &str) -> Fault {
        self.location = match self.location.in_file(file) {
            Location::Nowhere => Location::Source(file.into(), 0),
            there => there,
        };
        self
    }
}

impl From<Error> for Fault {
    fn from(e: Error) -> Fault {
        Fault { status: ag_status::of(e.kind), message: e.message, location: e.location }
    }
}

/// The last error of a thread, as C reads it.
pub struct LastError {
    pub status: ag_status,
    pub message: CString,
    pub file: Option<CString>,
    pub line: u32,
    pub column: u32,
}

impl LastError {
    fn new(function: &str, fault: Fault) -> LastError {
        let Fault { status, message, location } = fault;
        let message = match status {
            ag_status::AG_USAGE | ag_status::AG_PANIC => format!("{function}: {message}"),
            _ => message,
        };
        let (message, file, line, column) = match location {
            Location::Source(file, line) => (message, Some(c_text(&file)), line, 0),
            Location::Text(line, column) => (message, None, line, column),
            Location::Node(node) => (format!("{message}, at {node}"), None, 0, 0),
            _ => (message, None, 0, 0),
        };
        LastError { status, message: c_text(&message), file, line, column }
    }
}

/// A text as C has it. A zero byte, which would end it, is `?`.
pub fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

thread_local! {
    static LAST: RefCell<Option<LastError>> = const { RefCell::new(None) };
}

/// Keeps the fault of `function` as this thread's last error, and gives its status.
pub fn keep(function: &str, fault: Fault) -> ag_status {
    let error = LastError::new(function, fault);
    let status = error.status;
    // A thread that is ending has no place for it any more.
    let _ = LAST.try_with(|last| last.replace(Some(error)));
    status
}

/// What `f` makes of this thread's last error.
pub fn with_last<R>(f: impl FnOnce(Option<&LastError>) -> R) -> R {
    LAST.with(|last| f(last.borrow().as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arenagrad::error::Kind;

    #[test]
    fn the_last_error_has_message_and_place() {
        let e = Error::new(Kind::Syntax, "bad\0text").at(Location::Text(3, 7));
        assert_eq!(keep("ag_f", Fault::from(e.clone()).in_file("a.ir")), ag_status::AG_SYNTAX);
        with_last(|last| {
            let last = last.unwrap();
            assert_eq!((last.message.to_str().unwrap(), last.line, last.column), ("bad?text", 3, 0));
            assert_eq!(last.file.as_deref().unwrap().to_str().unwrap(), "a.ir");
        });
        let nowhere = Fault::from(Error::new(Kind::Io, "gone")).in_file("b.ir");
        keep("ag_f", nowhere);
        with_last(|last| assert_eq!(last.map(|l| (l.file.as_deref(), l.line)), Some((Some(c"b.ir"), 0))));
        keep("ag_f", e.into());
        with_last(|last| assert_eq!(last.map(|l| (l.file.is_none(), l.line, l.column)), Some((true, 3, 7))));
        keep("ag_f", Fault::usage("x is NULL"));
        with_last(|last| assert_eq!(last.unwrap().message.to_str().unwrap(), "ag_f: x is NULL"));
        std::thread::spawn(|| with_last(|last| assert!(last.is_none()))).join().unwrap();
    }
}
