//! Params and states of a program as entries of a file, and copies of params between programs.
//!
//! Invariant: a copy that fails changes nothing.

use crate::error::{Error, Kind, Result};
use crate::session::{Program, Role};
use crate::train::checkpoint::Entry;

/// The params and states of `program` whose role is `wanted`, as entries of a file.
pub fn entries(program: &Program, wanted: impl Fn(Role) -> bool) -> Vec<Entry<'_>> {
    let kept = program.persistent().filter(|(b, _)| wanted(b.role));
    kept.map(|(b, bytes)| Entry { name: &b.name, dtype: b.dtype, dims: &b.dims, bytes }).collect()
}

/// The moving averages of a program's params, under the params' names, as entries of a weights file. Empty if the
/// [optimiser](crate::passes::optimiser::Optimiser::ema) keeps none.
pub fn averages(program: &Program) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    for (b, bytes) in program.persistent() {
        found.extend(b.averages.as_deref().map(|name| Entry { name, dtype: b.dtype, dims: &b.dims, bytes }));
    }
    found
}

/// Copies the params of `from` into the params of the same names of `to`, an inference program for instance. Fails with
/// [`Kind::Name`] or [`Kind::Shape`] if a param of `to` has no counterpart of its dtype and shape; then `to` is
/// unchanged.
pub fn copy_params(from: &Program, to: &mut Program) -> Result<()> {
    set_params(&entries(from, |role| role == Role::Param), to)
}

/// As [`copy_params`], with the moving averages of the params. Frozen params have none and are copied themselves. Fails
/// with [`Kind::Name`] if the program keeps no averages.
pub fn copy_averages(from: &Program, to: &mut Program) -> Result<()> {
    let mut source = averages(from);
    if source.is_empty() {
        return Err(Error::new(Kind::Name, "the program keeps no moving averages; see Optimiser::ema"));
    }
    // Averages come first: the first entry of a name counts.
    source.extend(entries(from, |role| role == Role::Param));
    set_params(&source, to)
}

/// Copies the first entry of each name into the params of `to`, such as the [merged](crate::train::merge) weights of
/// another program. Entries that `to` has no param for are left out. Errors as for [`copy_params`].
pub fn set_params(source: &[Entry<'_>], to: &mut Program) -> Result<()> {
    let mut by_name: Vec<&Entry<'_>> = source.iter().collect();
    // The sort is stable: the first entry of a name stays first.
    by_name.sort_by_key(|e| e.name);
    let mut found = Vec::new();
    for p in entries(to, |role| role == Role::Param) {
        let first = by_name.partition_point(|e| e.name < p.name);
        let e = by_name.get(first).filter(|e| e.name == p.name);
        let e = e.ok_or_else(|| Error::new(Kind::Name, format!("there are no values for param {:?}", p.name)))?;
        if p.dtype != e.dtype || p.dims != e.dims {
            let text = format!("param {:?} is {}{:?}, its values are {}{:?}", p.name, p.dtype, p.dims, e.dtype, e.dims);
            return Err(Error::new(Kind::Shape, text));
        }
        found.push(*e);
    }
    for e in found {
        to.persistent_mut(e.name)?.1.copy_from_slice(e.bytes);
    }
    Ok(())
}
