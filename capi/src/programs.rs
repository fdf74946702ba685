//! Functions that make programs, run them and tell of them.

#![allow(unsafe_code, unsafe_op_in_unsafe_fn)]

use crate::border::{self, Options, Out, call};
use crate::fault::{Fault, c_text};
use crate::handles;
use crate::kinds::ag_status;
use crate::owned::OwnedProgram;
use crate::structs::{ag_graph, ag_method, ag_options, ag_program};
use arenagrad::Precision;
use arenagrad::session::{Convolutions, Keep, Program, Session};
use std::ffi::{c_char, c_void};
use std::ptr::null;

/// The default choices: one thread, no limit of memory, f32, no search for NaN.
#[unsafe(no_mangle)]
pub extern "C" fn ag_options_default() -> ag_options {
    ag_options {
        size: size_of::<ag_options>(),
        max_memory: 0,
        precision: null(),
        keep: null(),
        threads: 1,
        find_nan: 0,
        convolutions: null(),
    }
}

/// The value called `word` of `key`, which has these.
fn word_of<T: Copy>(key: &str, word: &str, known: &[(T, &'static str)]) -> Result<T, Fault> {
    let found = known.iter().find(|(_, name)| *name == word).map(|(value, _)| *value);
    found.ok_or_else(|| {
        let all: Vec<&str> = known.iter().map(|(_, name)| *name).collect();
        Fault::usage(format!("options.{key} is {word:?}; it may be {}", all.join(", ")))
    })
}

/// The session of these options.
fn session(o: &Options<'_>) -> Result<Session, Fault> {
    if o.find_nan > 1 {
        return Err(Fault::usage(format!("options.find_nan is {}; it is 0 or 1", o.find_nan)));
    }
    let mut session = Session::new().threads(o.threads as usize).find_nan(o.find_nan == 1);
    if let Some(word) = o.precision {
        session = session.precision(word_of("precision", word, Precision::ALL)?);
    }
    if let Some(word) = o.keep {
        session = session.keep(word_of("keep", word, Keep::ALL)?);
    }
    if let Some(word) = o.convolutions {
        session = session.convolutions(word_of("convolutions", word, Convolutions::ALL)?);
    }
    Ok(if o.max_memory > 0 { session.memory_budget(o.max_memory) } else { session })
}

/// A handle of `program`.
pub fn owned(program: Program) -> Result<ag_program, Fault> {
    Ok(ag_program { id: handles::add_program(OwnedProgram::new(program)?)? })
}

/// Compiles a graph into a program: passes, plan, proof, one allocation. `options` may be NULL. The method is called
/// "step".
///
/// Errors: AG_PLAN if the budget is too small, with the least that can be met, or if `threads` is out of its range;
/// AG_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_compile(
    graph: ag_graph,
    options: *const ag_options,
    program: *mut ag_program,
) -> ag_status {
    call("ag_compile", || {
        let out = Out::new("program", program)?;
        let graph = handles::graph(graph.id)?;
        out.put(owned(session(&border::options(options, ag_options_default())?)?.compile(&*graph)?)?);
        Ok(())
    })
}

/// Compiles several graphs into one program, whose methods have one set of params and states and one block of memory.
/// Errors as for `ag_compile`; AG_NAME if two methods have one name; params of one name that differ.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_compile_all(
    methods: *const ag_method,
    n_methods: usize,
    options: *const ag_options,
    program: *mut ag_program,
) -> ag_status {
    call("ag_compile_all", || {
        let out = Out::new("program", program)?;
        let methods = border::slice("methods", methods, n_methods)?;
        let graphs = methods.iter().map(|m| handles::graph(m.graph.id)).collect::<Result<Vec<_>, Fault>>()?;
        let names = methods.iter().map(|m| border::text("methods.name", m.name)).collect::<Result<Vec<_>, Fault>>()?;
        let all: Vec<_> = names.into_iter().zip(graphs.iter().map(|g| &**g)).collect();
        let session = session(&border::options(options, ag_options_default())?)?;
        out.put(owned(session.compile_all(&all)?)?);
        Ok(())
    })
}

/// Compiles the graphs of an exported program anew, with other options, and gives the program the params and states of
/// the file: for a file that `ag_program_open` refuses with AG_PLAN, as another version of the library exported it, or
/// it is for another processor. The file is read as a whole, and all checksums are compared. `options` may be NULL.
///
/// Errors: AG_IO; AG_DATA if `path` is a folder or a pipe; AG_SYNTAX if the file is damaged, or no exported program;
/// those of `ag_compile`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_compile_exported(
    path: *const c_char,
    options: *const ag_options,
    program: *mut ag_program,
) -> ag_status {
    call("ag_compile_exported", || {
        let out = Out::new("program", program)?;
        let path = border::path("path", path)?;
        let session = session(&border::options(options, ag_options_default())?)?;
        out.put(owned(session.compile_exported(&path)?)?);
        Ok(())
    })
}

/// As `ag_compile_exported`, of a file that is in memory: `n_bytes` at `bytes`, at any address. Errors as for
/// `ag_compile_exported`, but AG_IO and AG_DATA.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_compile_exported_bytes(
    bytes: *const c_void,
    n_bytes: usize,
    options: *const ag_options,
    program: *mut ag_program,
) -> ag_status {
    call("ag_compile_exported_bytes", || {
        let out = Out::new("program", program)?;
        let bytes = border::slice("bytes", bytes.cast::<u8>(), n_bytes)?;
        let session = session(&border::options(options, ag_options_default())?)?;
        out.put(owned(session.compile_exported_bytes(bytes)?)?);
        Ok(())
    })
}

/// Frees a program and the memory of its tensors. A step that another thread runs goes on to its end.
#[unsafe(no_mangle)]
pub extern "C" fn ag_program_free(program: ag_program) -> ag_status {
    call("ag_program_free", || handles::free("program", program.id))
}

/// Fills params and states with their start values, which depend on the seed and their names alone.
#[unsafe(no_mangle)]
pub extern "C" fn ag_init(program: ag_program, seed: u64) -> ag_status {
    call("ag_init", || handles::program(program.id)?.with(|p| Ok(p.init(seed)?)))
}

/// Runs one step of the first method. It allocates nothing.
///
/// Errors: AG_DATA if an input was never written, a param or state neither initialised nor loaded, or an index is out
/// of range. A step that fails leaves params and states as they were.
#[unsafe(no_mangle)]
pub extern "C" fn ag_step(program: ag_program) -> ag_status {
    call("ag_step", || handles::program(program.id)?.with(|p| Ok(p.step()?)))
}

/// Runs one step of a method. Errors as for `ag_step`; AG_NAME if there is no such method.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_run(program: ag_program, method: *const c_char) -> ag_status {
    call("ag_run", || {
        let method = border::text("method", method)?;
        let program = handles::program(program.id)?;
        program.with(|p| {
            let method = program.method(p, Some(method))?.method;
            Ok(p.run(method)?)
        })
    })
}

/// The memory plan of a method (NULL: the first one), as text. Free it with `ag_string_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_plan_text(program: ag_program, method: *const c_char, text: *mut *mut c_char) -> ag_status {
    call("ag_plan_text", || {
        let out = Out::new("text", text)?;
        let method = border::text_or_null("method", method)?;
        let program = handles::program(program.id)?;
        let plan = program.with(|p| {
            let method = program.method(p, method)?.method;
            Ok(p.plan_of(method)?.to_string())
        })?;
        out.put(handles::give_text(c_text(&plan)));
        Ok(())
    })
}
