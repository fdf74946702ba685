//! Functions that tell what the library is and what went wrong.

#![allow(unsafe_code, unsafe_op_in_unsafe_fn)]

use crate::border::{Out, call};
use crate::fault::with_last;
use crate::handles;
use crate::kinds::ag_status;
use crate::structs::ag_error;
use std::ffi::{CStr, c_char};
use std::ptr::null;

/// The version, as text: "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn ag_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}

/// The name of a status: "AG_SHAPE"; "unknown" for a number that is none.
#[unsafe(no_mangle)]
pub extern "C" fn ag_status_name(status: i32) -> *const c_char {
    let found = ag_status::ALL.iter().find(|s| **s as i32 == status);
    found.map_or(c"unknown", |s| s.name()).as_ptr()
}

/// Tells the last error of this thread: of its last call that did not return AG_OK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_last_error(error: *mut ag_error) -> ag_status {
    call("ag_last_error", || {
        let out = Out::new("error", error)?;
        out.put(with_last(|last| match last {
            Some(e) => ag_error {
                status: e.status,
                message: e.message.as_ptr(),
                file: e.file.as_ref().map_or(null(), |file| file.as_ptr()),
                line: e.line,
                column: e.column,
            },
            None => ag_error { status: ag_status::AG_OK, message: c"".as_ptr(), file: null(), line: 0, column: 0 },
        }));
        Ok(())
    })
}

/// Frees a text that a function of this library gave. NULL is no error.
#[unsafe(no_mangle)]
pub extern "C" fn ag_string_free(text: *mut c_char) -> ag_status {
    call("ag_string_free", || handles::free_text(text))
}
