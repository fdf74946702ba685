//! Says which mutant is on in this process. The mutated copy of the sources calls this crate.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU8, Ordering::Relaxed};

/// The number of the mutant that is on; with the highest bit set, a state.
static ON: AtomicU32 = AtomicU32::new(UNREAD);
const UNREAD: u32 = 1 << 31;
const RECORD: u32 = UNREAD + 1;

/// The most mutants of a copy.
const MOST: usize = 1 << 18;
static SEEN: [AtomicU8; MOST] = [const { AtomicU8::new(0) }; MOST];
static FILE: OnceLock<Option<File>> = OnceLock::new();

/// True if mutant `n` is on.
#[inline]
pub fn is(n: u32) -> bool {
    let on = ON.load(Relaxed);
    on == n || (on & UNREAD != 0 && asked(n))
}

/// Reads `MUTANT`; with `MUTANTS_SEEN`, appends the number of each mutant that is asked for to that file, once.
#[cold]
fn asked(n: u32) -> bool {
    if ON.load(Relaxed) == UNREAD {
        let number = std::env::var("MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
        let record = std::env::var_os("MUTANTS_SEEN").is_some();
        ON.store(if record { RECORD } else { number }, Relaxed);
        return is(n);
    }
    if SEEN.get(n as usize).is_some_and(|seen| seen.swap(1, Relaxed) == 0) {
        let file = FILE.get_or_init(|| {
            let path = std::env::var_os("MUTANTS_SEEN")?;
            OpenOptions::new().append(true).create(true).open(path).ok()
        });
        if let Some(mut file) = file.as_ref() {
            file.write_all(&n.to_le_bytes()).expect("the file of seen mutants can be written");
        }
    }
    false
}
