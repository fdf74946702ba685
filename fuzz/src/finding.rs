//! The outcome of an input: nothing wrong, or a finding.
//!
//! Invariant: a panic on any thread is a finding, even if the engine turns it into an error.

use crate::memory::{begin_memory, memory_since};
use crate::targets::Target;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Mutex;

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The panic's message, or what was exceeded.
    pub message: String,
    /// Where the code panicked; empty for memory.
    pub place: String,
}

impl Finding {
    /// Findings with one key are taken for one defect: place, and the message without its numbers.
    pub fn key(&self) -> String {
        let line = self.message.lines().next().unwrap_or_default();
        let words: String = line.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
        format!("{} {words}", self.place)
    }
}

static LAST: Mutex<Option<Finding>> = Mutex::new(None);

/// The first panic since the last call.
fn take_last() -> Option<Finding> {
    LAST.lock().unwrap_or_else(|e| e.into_inner()).take()
}

/// From now on panics are kept instead of printed.
pub fn keep_panics() {
    set_hook(Box::new(|info| {
        let text = panic_text(info.payload());
        let place = info.location().map_or(String::new(), |l| format!("{}:{}", l.file(), l.line()));
        let found = Finding { message: text.to_string(), place };
        LAST.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(found);
    }));
}

/// Runs `f`, which may refuse its arguments by a panic; gives the message if it did. Such a panic is no finding, under
/// no harness: hooks do not see it.
pub fn refusal(f: impl FnOnce()) -> Option<String> {
    let hook = take_hook();
    set_hook(Box::new(|_| ()));
    let done = catch_unwind(AssertUnwindSafe(f));
    set_hook(hook);
    done.err().map(|payload| panic_text(&*payload).to_string())
}

/// The message of a panic.
fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Runs `target` on `data`. Call [`keep_panics`] first.
pub fn run_input(target: &Target, data: &[u8]) -> Option<Finding> {
    let _ = take_last();
    let start = begin_memory();
    let done = catch_unwind(AssertUnwindSafe(|| (target.run)(data)));
    let used = memory_since(start);
    if let Some(found) = take_last() {
        return Some(found);
    }
    if done.is_err() {
        return Some(Finding { message: "a panic without a message".into(), place: String::new() });
    }
    let limit = target.memory.limit(data.len());
    let over = used > limit;
    over.then(|| Finding { message: format!("{used} bytes in use, of at most {limit}"), place: String::new() })
}
