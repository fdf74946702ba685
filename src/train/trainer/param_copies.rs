//! Moving averages of params as entries of a file, and copies of params and buffers between programs.
//!
//! Invariant: a copy that fails changes nothing.

use crate::error::{Error, Kind, Result};
use crate::session::{Binding, Program};
use crate::train::checkpoint::{Entry, check_values, entries, is_batch_count};
use hashbrown::HashMap;

/// The weights of a program, with the moving averages of its params in their places: entries of a weights file. Params
/// without an average (frozen ones, and all before the first step) and buffers have their own values. Empty if the
/// [optimiser](crate::passes::optimiser::Optimiser::ema) keeps no averages.
pub fn averages(program: &Program) -> Vec<Entry<'_>> {
    let averages = program.persistent().filter_map(|(b, bytes)| Some((b.averages.as_deref()?, bytes)));
    let averages: HashMap<&str, &[u8]> = averages.collect();
    if averages.is_empty() {
        return Vec::new();
    }
    let mut all = entries(program, Binding::is_weight);
    // Before the first step an average is zeros.
    let begun = |name: &str| averages.get(name).copied().filter(|bytes| bytes.iter().any(|&byte| byte != 0));
    all.iter_mut().for_each(|e| e.bytes = begun(e.name).unwrap_or(e.bytes));
    all
}

/// Copies the params and buffers of `from` into those of the same names of `to`, an inference program for instance:
/// with the statistics of batch norm, then. States of the optimiser and of the caller stay as they are. Errors as for
/// [`set_params`]; and a param of `from` was neither initialised nor loaded.
pub fn copy_params(from: &Program, to: &mut Program) -> Result<()> {
    check_values(from, Binding::is_weight)?;
    set_params(&entries(from, Binding::is_weight), to)
}

/// As [`copy_params`], with the moving averages of the params. Frozen params and buffers have none and are copied
/// themselves. Fails with [`Kind::Name`] if the program keeps no averages.
pub fn copy_averages(from: &Program, to: &mut Program) -> Result<()> {
    let source = averages(from);
    if source.is_empty() {
        return Err(Error::new(Kind::Name, "the program keeps no moving averages; see Optimiser::ema"));
    }
    check_values(from, Binding::is_weight)?;
    set_params(&source, to)
}

/// Copies the first entry of each name into the params and buffers of `to`, such as the [merged](crate::train::merge)
/// weights of another program. Entries that `to` has no param or buffer for are left out. Fails with [`Kind::Name`] or
/// [`Kind::Shape`] if a param or a buffer of `to` has no entry of its dtype and shape; then `to` is unchanged. Batch
/// norm's `num_batches_tracked`, which no result depends on, may be missing.
pub fn set_params(source: &[Entry<'_>], to: &mut Program) -> Result<()> {
    let mut by_name: Vec<&Entry<'_>> = source.iter().collect();
    // The sort is stable: the first entry of a name stays first.
    by_name.sort_by_key(|e| e.name);
    let mut found = Vec::new();
    for p in entries(to, Binding::is_weight) {
        let first = by_name.partition_point(|e| e.name < p.name);
        let e = match by_name.get(first).filter(|e| e.name == p.name) {
            Some(e) => e,
            None if is_batch_count(p.name) => continue,
            None => return Err(Error::new(Kind::Name, format!("there are no values for {:?}", p.name))),
        };
        if p.dtype != e.dtype || p.dims != e.dims {
            let text = format!("{:?} is {}{:?}, its values are {}{:?}", p.name, p.dtype, p.dims, e.dtype, e.dims);
            return Err(Error::new(Kind::Shape, text));
        }
        found.push(*e);
    }
    for e in found {
        to.persistent_mut(e.name)?.1.copy_from_slice(e.bytes);
    }
    Ok(())
}
