//! The functions that a page calls.
//!
//! Invariant: a call is finished before the next one begins, because a module without threads runs one at a time. So
//! the state is never borrowed twice.

use crate::module::Module;
use crate::reply::{Call, bad_call, error_json};
use arenagrad::error::Kind;
use std::cell::RefCell;

thread_local! {
    static MODULE: RefCell<Module> = RefCell::default();
    /// The message of a panic. Not a part of the module, which the call that panicked may have borrowed.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs a call. Negative is an error, which is in the reply.
fn call(f: impl FnOnce(&mut Module) -> Call) -> i32 {
    MODULE.with_borrow_mut(|m| {
        m.reply.clear();
        match f(m) {
            Ok(n) => i32::try_from(n).unwrap_or(i32::MAX),
            Err(e) => {
                m.reply = error_json(&e).to_string().into_bytes();
                -1
            }
        }
    })
}

/// The functions of the module, which are given their names by the macro: `name(arguments) = expression of the module`.
macro_rules! exports {
    ($($(#[$doc:meta])* $name:ident($m:ident $(, $arg:ident: $t:ty)*) = $e:expr;)*) => {
        $(
            $(#[$doc])*
            // SAFETY: no other function of the module has this name.
            #[allow(unsafe_code)]
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($arg: $t),*) -> i32 {
                call(|$m| $e)
            }
        )*
    };
}

exports! {
    /// Makes room for a request of this many bytes.
    ag_request(m, bytes: u32) = {
        m.request.clear();
        let full = |_| bad_call(Kind::Memory, format!("no memory for a request of {bytes} bytes"));
        m.request.try_reserve_exact(bytes as usize).map_err(full)?;
        m.request.resize(bytes as usize, 0);
        Ok(0)
    };
    /// Parses a graph; its number.
    ag_parse(m) = m.parse();
    /// Adds gradients and an optimiser to a graph; the number of the new graph.
    ag_train(m, graph: u32) = m.train(graph);
    /// Leaves a graph's text.
    ag_graph_text(m, graph: u32) = m.graph_text(graph);
    /// Compiles graphs; the number of the program.
    ag_compile(m) = m.compile();
    /// Opens the exported program in the request; the number of the program.
    ag_open(m) = m.open();
    /// Leaves a program as the bytes of an `.agp`.
    ag_export(m, program: u32) = m.export(program);
    /// Leaves a program's methods and tensors.
    ag_tensors(m, program: u32) = m.tensors(program);
    /// Fills params and states with start values.
    ag_init(m, program: u32, seed: u64) = m.init(program, seed);
    /// Counts a tensor of a method as written.
    ag_mark(m, program: u32, method: u32) = m.mark(program, method);
    /// Runs a method once.
    ag_run(m, program: u32, method: u32) = m.run(program, method);
    /// Leaves a method's plan: as a picture if `svg` is not 0.
    ag_plan(m, program: u32, method: u32, svg: u32) = m.plan(program, method, svg != 0);
    /// Leaves a safetensors file: without states if `weights` is not 0.
    ag_save(m, program: u32, weights: u32) = m.save(program, weights != 0);
    /// Reads a safetensors file.
    ag_load(m, program: u32) = m.load(program);
    /// Leaves the order of an epoch.
    ag_permutation(m, n: u32, seed: u64, epoch: u64) = m.permutation(n, seed, epoch);
    /// Frees a graph or a program.
    ag_free(m, object: u32) = m.free(object);
}

/// The address of the request, as long as [`ag_request`] said.
// SAFETY: no other function of the module has this name.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn ag_request_at() -> *mut u8 {
    MODULE.with_borrow_mut(|m| m.request.as_mut_ptr())
}

/// The address of the reply.
// SAFETY: no other function of the module has this name.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn ag_reply_at() -> *const u8 {
    MODULE.with_borrow(|m| m.reply.as_ptr())
}

/// The length of the reply, in bytes.
// SAFETY: no other function of the module has this name.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn ag_reply_bytes() -> usize {
    MODULE.with_borrow(|m| m.reply.len())
}

/// Notes the message of a panic, for [`ag_panic_at`]. The page calls it once, before all else.
// SAFETY: no other function of the module has this name.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn ag_start() {
    std::panic::set_hook(Box::new(|panic| PANIC.with_borrow_mut(|text| *text = panic.to_string())));
}

/// The address of the message of the panic that ended the module.
// SAFETY: no other function of the module has this name.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn ag_panic_at() -> *const u8 {
    PANIC.with_borrow(|text| text.as_ptr())
}

/// The length of that message, in bytes; zero without a panic.
// SAFETY: no other function of the module has this name.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn ag_panic_bytes() -> usize {
    PANIC.with_borrow(String::len)
}
