//! Safetensors files in memory.

use crate::reply::bad_call;
use arenagrad::error::{Kind, Result};
use arenagrad::session::{Binding, Program};
use arenagrad::train::checkpoint::{Loaded, check_values, encode, entries, is_state_of_training};

/// A file of all params and states, or of the weights alone: what `Program::save` and `save_weights` write.
pub fn saved(program: &Program, weights: bool) -> Result<Vec<u8>> {
    let wanted = |b: &Binding| !weights || b.is_weight();
    check_values(program, wanted)?;
    encode(&entries(program, wanted))
}

/// Writes the file's tensors to the params and states of their names. A state without a tensor keeps its value. A
/// program without an optimiser leaves out what training alone needs, and every program what a trainer added.
///
/// Errors, which change nothing: the file is none, or damaged; a weight has no tensor; a tensor has no leaf, or another
/// type or shape.
pub fn load(program: &mut Program, file: Vec<u8>) -> Result<()> {
    let file = Loaded::parse(file)?;
    if let Some(t) = file.unusable().first() {
        return Err(t.error());
    }
    let trains = program.persistent().any(|(b, _)| b.name.starts_with("opt."));
    let of_training = |name: &str| is_state_of_training(name, |other| file.find(other).is_some());
    for e in file.entries() {
        if of_training(e.name) && !(trains && e.name.starts_with("opt.")) {
            continue;
        }
        if !program.persistent().any(|(b, _)| b.name == e.name) {
            return Err(bad_call(Kind::Name, format!("the program has no param or state {:?}", e.name)));
        }
    }
    let mut found = Vec::new();
    for b in program.persistent().map(|(b, _)| b) {
        match file.find(&b.name) {
            None if !b.is_weight() => {}
            _ => found.push(file.expect(&b.name, b.dtype, &b.dims)?),
        }
    }
    for e in found {
        let (_, bytes): (&Binding, _) = program.persistent_mut(e.name)?;
        bytes.copy_from_slice(e.bytes);
    }
    Ok(())
}
