//! The border: pointers of C as values of Rust, and results as statuses.
//!
//! Invariants: no panic leaves [`call`]. A pointer is checked for NULL and alignment, and a length for its bound,
//! before anything is read.

#![allow(unsafe_code)]

use crate::fault::{self, Fault};
use crate::kinds::ag_status;
use crate::structs::{ag_options, ag_size};
use std::ffi::{CStr, c_char};
use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// The status of what `function` does: `f`. An error and a panic become this thread's last error.
pub fn call(function: &str, f: impl FnOnce() -> Result<(), Fault>) -> ag_status {
    let done = catch_unwind(AssertUnwindSafe(|| match f() {
        Ok(()) => ag_status::AG_OK,
        Err(fault) => fault::keep(function, fault),
    }));
    done.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        fault::keep(function, Fault::panic(format!("internal error: {text}")))
    })
}

/// Fails unless a pointer called `what` can be that of `n` elements.
fn check<T>(what: &str, pointer: *const T, n: usize) -> Result<(), Fault> {
    if pointer.is_null() {
        return Err(Fault::usage(format!("{what} is NULL")));
    }
    if !pointer.is_aligned() {
        return Err(Fault::usage(format!("{what} is {pointer:p}, which is not a multiple of {}", align_of::<T>())));
    }
    let most = isize::MAX as usize;
    match size_of::<T>().checked_mul(n).and_then(|bytes| bytes.checked_add(pointer.addr())) {
        Some(end) if n <= most && end - pointer.addr() <= most => Ok(()),
        _ => Err(Fault::usage(format!("{what} has {n} elements, more than memory can hold"))),
    }
}

/// A text that ends with a zero byte, in UTF-8.
///
/// # Safety
/// `text` is NULL or such a text, which stays as it is while the result is used.
pub unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str, Fault> {
    check(what, text, 1)?;
    // SAFETY: it is not NULL, and the caller says the rest.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|e| Fault::usage(format!("{what} is no UTF-8: {e}")))
}

/// As [`text`], or `None` for NULL.
///
/// # Safety
/// As that of [`text`].
pub unsafe fn text_or_null<'a>(what: &str, pointer: *const c_char) -> Result<Option<&'a str>, Fault> {
    // SAFETY: the caller says so.
    (!pointer.is_null()).then(|| unsafe { text(what, pointer) }).transpose()
}

/// The path of a text that ends with a zero byte.
///
/// # Safety
/// As that of [`text`].
pub unsafe fn path(what: &str, path: *const c_char) -> Result<PathBuf, Fault> {
    // SAFETY: the caller says so.
    let path = unsafe { text(what, path) }?;
    if path.is_empty() {
        return Err(Fault::usage(format!("{what} is empty")));
    }
    Ok(PathBuf::from(path))
}

/// `n` elements at `data`, which may be NULL if there are none.
///
/// # Safety
/// If `data` passes for a pointer to `n` elements, it is one. All bit patterns of `T` are values. The elements stay as
/// they are while the result is used.
pub unsafe fn slice<'a, T>(what: &str, data: *const T, n: usize) -> Result<&'a [T], Fault> {
    if n == 0 {
        return Ok(&[]);
    }
    check(what, data, n)?;
    // SAFETY: it is aligned, not NULL, and not too long; the caller says the rest.
    Ok(unsafe { std::slice::from_raw_parts(data, n) })
}

/// As [`slice`], writable.
///
/// # Safety
/// As that of [`slice`], and no other thread uses the elements.
pub unsafe fn slice_mut<'a, T>(what: &str, data: *mut T, n: usize) -> Result<&'a mut [T], Fault> {
    if n == 0 {
        return Ok(&mut []);
    }
    check(what, data, n)?;
    // SAFETY: it is aligned, not NULL, and not too long; the caller says the rest.
    Ok(unsafe { std::slice::from_raw_parts_mut(data, n) })
}

/// A place of C for a result.
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// The place at `out`.
    ///
    /// # Safety
    /// `out` is NULL, misaligned, or a place for a `T` while this value lives.
    pub unsafe fn new(what: &str, out: *mut T) -> Result<Out<T>, Fault> {
        check(what, out, 1)?;
        Ok(Out(out))
    }

    /// Writes the result.
    pub fn put(self, value: T) {
        // SAFETY: whoever made this value said that it is a place for a `T`.
        unsafe { self.0.write(value) }
    }
}

/// The sizes of symbols: `n` at `sizes`.
///
/// # Safety
/// As that of [`slice`], and each symbol as [`text`] has it.
pub unsafe fn sizes<'a>(sizes: *const ag_size, n: usize) -> Result<Vec<(&'a str, usize)>, Fault> {
    // SAFETY: the caller says so.
    let sizes = unsafe { slice("sizes", sizes, n) }?;
    // SAFETY: the caller says so.
    sizes.iter().map(|s| Ok((unsafe { text("sizes.symbol", s.symbol) }?, s.size))).collect()
}

/// The bytes of [`ag_options`] in the first version of this interface.
const FIRST_OPTIONS: usize = 40;

/// What [`ag_options`] say. Words are `None` for NULL.
pub struct Options<'a> {
    pub max_memory: usize,
    pub precision: Option<&'a str>,
    pub keep: Option<&'a str>,
    pub threads: u32,
    pub find_nan: u32,
    pub convolutions: Option<&'a str>,
}

/// Options: `default`, and over them those at `options`, unless it is NULL.
///
/// # Safety
/// `options` is NULL, or has as many bytes as its first field says, and its words are as [`text`] has them.
pub unsafe fn options<'a>(options: *const ag_options, default: ag_options) -> Result<Options<'a>, Fault> {
    let mut o = default;
    if !options.is_null() {
        check("options", options, 1)?;
        // SAFETY: it is aligned and not NULL, and begins with its size.
        let size = unsafe { options.cast::<usize>().read() };
        let most = size_of::<ag_options>();
        if !(FIRST_OPTIONS..=most).contains(&size) {
            let range = format!("it goes from {FIRST_OPTIONS} to {most}");
            return Err(Fault::usage(format!("options.size is {size}; {range}: use ag_options_default()")));
        }
        // SAFETY: the source has `size` bytes, which are no more than the options have; any bytes are options.
        unsafe { std::ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut o).cast::<u8>(), size) };
    }
    // SAFETY: the caller says so.
    let word = |key, at| unsafe { text_or_null(key, at) };
    let (precision, keep) = (word("options.precision", o.precision)?, word("options.keep", o.keep)?);
    let convolutions = word("options.convolutions", o.convolutions)?;
    let (threads, find_nan) = (o.threads, o.find_nan);
    Ok(Options { max_memory: o.max_memory, precision, keep, threads, find_nan, convolutions })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::with_last;

    fn message() -> String {
        with_last(|last| last.unwrap().message.to_str().unwrap().to_string())
    }

    #[test]
    #[allow(clippy::panic, reason = "what is tested")]
    fn a_panic_is_a_status() {
        assert_eq!(call("ag_f", || panic!("{} is wrong", 7)), ag_status::AG_PANIC);
        assert_eq!(message(), "ag_f: internal error: 7 is wrong");
        assert_eq!(call("ag_f", || panic!("wrong")), ag_status::AG_PANIC);
        assert_eq!(message(), "ag_f: internal error: wrong");
        assert_eq!(call("ag_f", || std::panic::panic_any(7)), ag_status::AG_PANIC);
        assert_eq!(call("ag_f", || Ok(())), ag_status::AG_OK);
        assert_eq!(call("ag_f", || Err(Fault::usage("no"))), ag_status::AG_USAGE);
        assert_eq!(message(), "ag_f: no");
    }

    #[test]
    fn wrong_pointers_are_refused() {
        let of = |r: Result<(), Fault>| r.unwrap_err().message;
        assert_eq!(of(check("x", std::ptr::null::<u64>(), 1)), "x is NULL");
        let odd = std::ptr::without_provenance::<u64>(0x1001);
        assert_eq!(of(check("x", odd, 1)), "x is 0x1001, which is not a multiple of 8");
        let one = [0u64; 1];
        for n in [usize::MAX, usize::MAX / 8, isize::MAX as usize / 8 + 1] {
            assert!(of(check("x", one.as_ptr(), n)).contains("more than memory can hold"));
        }
        assert!(check("x", one.as_ptr(), 1).is_ok());
    }

    #[test]
    fn options_of_another_size_are_refused() {
        assert!(size_of::<ag_options>() >= FIRST_OPTIONS);
        let null = std::ptr::null();
        let (threads, find_nan, convolutions) = (1, 0, null);
        let default =
            ag_options { size: 40, max_memory: 0, precision: null, keep: null, threads, find_nan, convolutions };
        for size in [0, 39, size_of::<ag_options>() + 1, usize::MAX] {
            let wrong = ag_options { size, ..default };
            // SAFETY: it has the bytes of options.
            let e = unsafe { options(&raw const wrong, default) }.err().unwrap().message;
            assert!(e.starts_with(&format!("options.size is {size}; it goes from 40 to ")), "{e}");
        }
        let right = ag_options { threads: 3, ..default };
        // SAFETY: it has the bytes of options.
        assert_eq!(unsafe { options(&raw const right, default) }.unwrap().threads, 3);
    }
}
