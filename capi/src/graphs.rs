//! Functions on graphs.

#![allow(unsafe_code, unsafe_op_in_unsafe_fn)]

use crate::border::{self, Out, call};
use crate::fault::{Fault, c_text};
use crate::handles;
use crate::kinds::ag_status;
use crate::structs::{ag_graph, ag_size};
use arenagrad::graph::{GraphBuf, Sizes};
use arenagrad::optim;
use arenagrad::tools::ir::text;
use arenagrad::tools::ir::verify::{Stage, verify};
use arenagrad_tables::text as tables;
use std::ffi::c_char;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Largest file of a graph, in bytes. The parser refuses a longer text anyway.
const LIMIT: u64 = 64 << 20;

/// The graph of a text.
fn parse(text: &str, sizes: &[(&str, usize)]) -> Result<GraphBuf, Fault> {
    let graph = text::parse_with_sizes(text, &[], &Sizes::new(sizes)?)?;
    match verify(graph.view(), Stage::Block).first() {
        Some(e) => Err(e.clone().into()),
        None => Ok(graph),
    }
}

/// The text in a file.
fn read(path: &Path) -> Result<String, Fault> {
    let of = |e: std::io::Error| Fault::from(arenagrad::Error::from(e).context(path.display()));
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_string(&mut text)).map_err(of)?;
    Ok(text)
}

/// Reads a graph from its text form, which need not end with a zero byte. `sizes` are those of the text's symbols, and
/// may be NULL if `n_sizes` is 0.
///
/// Errors: AG_SYNTAX and others of the text, with line and column.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_graph_parse(
    text: *const c_char,
    text_bytes: usize,
    sizes: *const ag_size,
    n_sizes: usize,
    graph: *mut ag_graph,
) -> ag_status {
    call("ag_graph_parse", || {
        let out = Out::new("graph", graph)?;
        let text = border::slice("text", text.cast::<u8>(), text_bytes)?;
        let text = std::str::from_utf8(text).map_err(|e| Fault::usage(format!("text is no UTF-8: {e}")))?;
        let graph = parse(text, &border::sizes(sizes, n_sizes)?)?;
        out.put(ag_graph { id: handles::add_graph(graph)? });
        Ok(())
    })
}

/// Reads a graph from a file with its text form, at most 64 MiB. Errors as for `ag_graph_parse`, with the file; AG_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_graph_read(
    path: *const c_char,
    sizes: *const ag_size,
    n_sizes: usize,
    graph: *mut ag_graph,
) -> ag_status {
    call("ag_graph_read", || {
        let out = Out::new("graph", graph)?;
        let path = border::path("path", path)?;
        let sizes = border::sizes(sizes, n_sizes)?;
        let graph = read(&path).and_then(|text| parse(&text, &sizes));
        let graph = graph.map_err(|fault| fault.in_file(&path.display().to_string()))?;
        out.put(ag_graph { id: handles::add_graph(graph)? });
        Ok(())
    })
}

/// The text form of a graph. Free it with `ag_string_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_graph_text(graph: ag_graph, text: *mut *mut c_char) -> ag_status {
    call("ag_graph_text", || {
        let out = Out::new("text", text)?;
        out.put(handles::give_text(c_text(&handles::graph(graph.id)?.to_string())));
        Ok(())
    })
}

/// Makes a graph of one training step: `graph`, its backward pass, and the update of its params by an optimiser, so
/// that the scalar output called `loss` falls. `optimiser` is TOML with the keys of the table [optimiser] of a run's
/// configuration, of which `lr` must be given: "kind = 'adamw'\nlr = 1e-3". The new graph has an input `lr`, whose
/// default is that rate.
///
/// Errors: AG_SYNTAX with the line of `optimiser`; AG_NAME if there is no such output; AG_DERIVATIVE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_train(
    graph: ag_graph,
    loss: *const c_char,
    optimiser: *const c_char,
    step: *mut ag_graph,
) -> ag_status {
    call("ag_train", || {
        let out = Out::new("step", step)?;
        let graph = handles::graph(graph.id)?;
        let loss = border::text("loss", loss)?;
        let optimiser = tables::optimiser(border::text("optimiser", optimiser)?)?;
        let step = optim::train(&*graph, loss, optimiser)?;
        out.put(ag_graph { id: handles::add_graph(step)? });
        Ok(())
    })
}

/// Frees a graph. Programs that were compiled from it stay.
#[unsafe(no_mangle)]
pub extern "C" fn ag_graph_free(graph: ag_graph) -> ag_status {
    call("ag_graph_free", || handles::free("graph", graph.id))
}
