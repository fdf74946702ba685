//! Loading all that a program keeps from a file, and loading weights from other places.
//!
//! Invariant: names, dtypes, shapes and bools are checked before the first byte of the program changes. If a file
//! cannot be read to its end after that, the leaves that the load was to fill count as unset, so that no step uses half
//! of them.

use super::floats::{read_checkpoint_float, write_checkpoint_float};
use super::lora::is_unbuilt_part;
use super::stored::Stored;
use super::strided;
use super::weights::Weights;
use super::{Digest, bad_checkpoint};
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::DType;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ops::random::var::RNG_STATE;
use crate::passes::optimiser::EMA;
use crate::session::{Binding, Program, Role};
use crate::train::saved_names::is_saved_trainer_tensor;
use hashbrown::HashMap;
use std::borrow::Cow;
use std::path::Path;

/// Bytes that are read at once where elements are converted or looked at.
const PIECE: usize = 1 << 16;

/// What a load does about names that only one side has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unmatched {
    /// They are an error.
    #[default]
    Refuse,
    /// They are listed in the [`LoadReport`].
    Allow,
}

/// How [`Program::load_weights`] treats tensors of the file and leaves of the program that do not match. By default
/// all of them do. Whatever is allowed, a load that matches nothing is an error.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct Load<'a> {
    /// Params and buffers without a tensor. Batch norm's `num_batches_tracked` may always be missing.
    pub missing: Unmatched,
    /// Tensors without a param or state. Those of an optimiser (`opt.*`, averages of other tensors), a trainer or the
    /// random key, and `num_batches_tracked`, may always be there. A part of an adaptation that
    /// [`nn::lora_linear`](crate::nn::lora_linear) does not build (`lora_magnitude_vector`, a bias of `lora_B`) is
    /// always an error, as the layer would compute something else without it.
    pub unexpected: Unmatched,
    /// Whether a tensor may have other axes of length 1 than its leaf. The default is false.
    pub reshape: bool,
    /// Whether floats are converted to the leaf's type, rounded to nearest: `f16` and `bf16` to `f32`, say. The default
    /// is false: another dtype is an error.
    pub cast: bool,
    /// The name of the leaf for each name in the file; `None` leaves the tensor out. By default names are equal.
    pub rename: Option<&'a dyn Fn(&str) -> Option<String>>,
    /// Patterns of names in the file, as those of [`Optimiser::group`](crate::optim::Optimiser::group). The last two
    /// axes of the tensors that match are exchanged before shapes are compared: `["*.c_attn.weight"]` for a matrix
    /// that is stored as `[in, out]`. A pattern that matches no tensor of a leaf is an error.
    pub transpose: &'a [&'a str],
}

setters! {
    ['a] Load<'a> {
        missing: Unmatched,
        unexpected: Unmatched,
        reshape: bool,
        cast: bool,
        rename: &'a dyn Fn(&str) -> Option<String> => Some(rename),
        transpose: &'a [&'a str],
    }
}

/// What [`Program::load_weights`] did. All names are the program's, except those in `unexpected`.
#[must_use = "it tells which params have no values from the file"]
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LoadReport {
    /// Params and states that have their values from the file.
    pub loaded: Vec<String>,
    /// Params and buffers that have no tensor in the file. They keep their values.
    pub missing: Vec<String>,
    /// States that have no tensor in the file and need none, such as those of an optimiser. They keep their values.
    pub kept: Vec<String>,
    /// Tensors of the file that no param or state has the name of.
    pub unexpected: Vec<String>,
    /// Tensors that were loaded although their shape has other axes of length 1.
    pub reshaped: Vec<String>,
    /// Tensors whose elements were converted.
    pub cast: Vec<String>,
    /// Tensors whose last two axes were exchanged.
    pub transposed: Vec<String>,
}

impl LoadReport {
    /// Notes that `tensor` has no leaf. An error if the program computes something else without it. `has` tells what
    /// else the file holds.
    pub(in crate::train) fn unmatched(&mut self, tensor: &str, has: impl Fn(&str) -> bool) -> Result<()> {
        if is_unbuilt_part(tensor) {
            let text = format!("{tensor:?} is a part of an adaptation (DoRA, a bias of lora_B) that no layer here has");
            return Err(Error::new(Kind::Name, text));
        }
        if !is_state_of_training(tensor, has) && !is_batch_count(tensor) {
            self.unexpected.push(tensor.to_string());
        }
        Ok(())
    }

    /// Notes that `leaf` has no tensor.
    pub(in crate::train) fn without_tensor(&mut self, leaf: &Binding) {
        match leaf.is_weight() && !is_batch_count(&leaf.name) {
            true => self.missing.push(leaf.name.clone()),
            false if leaf.role == Role::State || leaf.is_weight() => self.kept.push(leaf.name.clone()),
            false => {}
        }
    }

    /// Refuses what `how` does not allow, and a load of nothing into `leaves`, which are called a `what`.
    pub(in crate::train) fn check(&self, how: &Load<'_>, what: &str, leaves: &[&Binding]) -> Result<()> {
        let list = |names: &[String]| names::list_names(names.iter().map(String::as_str));
        let refused = |choice, names: &[String]| choice == Unmatched::Refuse && !names.is_empty();
        let mut parts = Vec::new();
        if refused(how.missing, &self.missing) {
            parts.push(format!("no tensors for {}", list(&self.missing)));
        }
        if refused(how.unexpected, &self.unexpected) {
            parts.push(format!("no {what} for the tensors {}", list(&self.unexpected)));
        }
        if !parts.is_empty() {
            return Err(Error::new(Kind::Name, format!("there are {}", parts.join(", and "))));
        }
        if self.loaded.is_empty() && !leaves.is_empty() {
            let theirs = if self.unexpected.is_empty() { "none".to_string() } else { list(&self.unexpected) };
            let ours = names::list_names(leaves.iter().map(|b| b.name.as_str()));
            let text = format!("no name matches: the tensors are {theirs}; the program has {ours}");
            return Err(Error::new(Kind::Name, text));
        }
        Ok(())
    }
}

/// Whether the tensor `name` of a checkpoint is of the training alone, so that a program that evaluates does without
/// it: a state of an optimiser, of a trainer or of the random key, or the average of another tensor. `has` tells
/// whether the file holds a tensor of a name.
pub fn is_state_of_training(name: &str, has: impl Fn(&str) -> bool) -> bool {
    let average = name.strip_prefix(EMA).is_some_and(has);
    average || name.starts_with("opt.") || name == RNG_STATE || is_saved_trainer_tensor(name)
}

/// Whether `name` is the count of batches that torch's batch norm keeps. No result depends on it unless the momentum is
/// a mean over all batches, which [`nn::batch_norm`](crate::nn::batch_norm) does not have.
pub(in crate::train) fn is_batch_count(name: &str) -> bool {
    name.rsplit('.').next() == Some("num_batches_tracked")
}

/// A tensor for a leaf.
pub(super) struct Pair<'a> {
    leaf: &'a Binding,
    stored: Cow<'a, Stored>,
}

impl Program {
    /// Reads back all params and states from a file that [`Program::save`] or a [`Trainer`](crate::train::Trainer)
    /// wrote. Returns whether it holds a digest.
    ///
    /// The file may have more states of optimiser, trainer and random key than the program, which then evaluates what
    /// the other one trained.
    ///
    /// Errors, which name the file and the tensor and leave the program unchanged: those of [`Weights::open`]; a param
    /// or a state is missing or has another dtype or shape; the file has another tensor that this program does not
    /// have; an element of a bool is neither 0 nor 1.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<Digest> {
        let path = path.as_ref();
        let file = Weights::open(path)?;
        let own = |name: &str| self.persistent().any(|(b, _)| b.name == name);
        let other = |name: &str| (!is_saved_trainer_tensor(name) || own(name)).then(|| name.to_string());
        let (pairs, report) = self.load_pairs(&file, &Load { rename: Some(&other), ..Load::default() })?;
        if let Some(name) = report.kept.first() {
            let text = format!("{}: there is no tensor for state {name:?}", path.display());
            return Err(Error::new(Kind::Name, text));
        }
        let plan = checkpoint_load_plan(&pairs);
        self.load_into(&file, plan)?;
        Ok(file.digest())
    }

    /// Reads params and states from opened weights, and says what fitted.
    ///
    /// Errors, which name the file and the tensor and leave the program unchanged: what [`Load`] forbids; a pattern of
    /// `transpose` matches no tensor that is loaded, or one of fewer than two axes; no tensor has a leaf; a tensor's
    /// shape differs in more than axes of length 1; its dtype differs and is no float; two tensors are for one leaf; an
    /// element of a bool is neither 0 nor 1.
    pub fn load_weights(&mut self, file: &Weights, how: Load<'_>) -> Result<LoadReport> {
        let (pairs, report) = self.load_pairs(file, &how)?;
        let plan = checkpoint_load_plan(&pairs);
        self.load_into(file, plan)?;
        Ok(report)
    }

    /// The tensors of `file` for the leaves of this program, checked.
    pub(super) fn load_pairs<'a>(&'a self, file: &'a Weights, how: &Load<'_>) -> Result<(Vec<Pair<'a>>, LoadReport)> {
        let leaves: Vec<&Binding> = self.persistent().map(|(b, _)| b).collect();
        let by_name: HashMap<&str, usize> = leaves.iter().enumerate().map(|(i, b)| (b.name.as_str(), i)).collect();
        let (mut found, mut report): (Vec<Option<&Stored>>, _) = (vec![None; leaves.len()], LoadReport::default());
        for t in file.tensors() {
            let Some(name) = how.rename.map_or_else(|| Some(t.name.clone()), |f| f(&t.name)) else { continue };
            let Some(&i) = by_name.get(name.as_str()) else {
                report
                    .unmatched(&t.name, |name| file.find(name).is_some())
                    .map_err(|e| e.context(file.path(t).display()))?;
                continue;
            };
            if let Some(first) = found[i].replace(t) {
                let e = format!("{:?} and {:?} are both for {name:?}", first.name, t.name);
                return Err(Error::new(Kind::Name, e).context(file.path(t).display()));
            }
        }
        for t in file.unusable() {
            let Some(name) = how.rename.map_or_else(|| Some(t.name.clone()), |f| f(&t.name)) else { continue };
            match by_name.get(name.as_str()) {
                None => {
                    report
                        .unmatched(&t.name, |name| file.find(name).is_some())
                        .map_err(|e| e.context(t.path.display()))?;
                }
                Some(&i) if found[i].is_none() => return Err(t.error().context(t.path.display())),
                // The list names another tensor for this leaf.
                Some(_) => {}
            }
        }
        let mut pairs = Vec::new();
        for (&leaf, stored) in leaves.iter().zip(found) {
            let Some(stored) = stored else {
                report.without_tensor(leaf);
                continue;
            };
            let at = |e: Error| e.context(file.path(stored).display());
            let stored = match how.transpose.iter().any(|p| names::matches_name(p, &stored.name)) {
                true => {
                    report.transposed.push(leaf.name.clone());
                    Cow::Owned(strided::transposed(stored).map_err(at)?)
                }
                false => Cow::Borrowed(stored),
            };
            let turned = |e: Error| if let Cow::Owned(_) = stored { e.context("after `transpose`") } else { e };
            check_load_fits(leaf, &stored, how, &mut report).map_err(|e| at(turned(e)))?;
            check_loaded_bools(file, &stored)?;
            report.loaded.push(leaf.name.clone());
            pairs.push(Pair { leaf, stored });
        }
        let at = |e: Error| file.tensors().first().map_or(e.clone(), |t| e.context(file.path(t).display()));
        report.check(how, "params or states", &leaves).map_err(at)?;
        check_transpose(how.transpose, pairs.iter().map(|p| p.stored.name.as_str())).map_err(at)?;
        Ok((pairs, report))
    }

    /// Reads the tensors of `plan` into the leaves of those names.
    pub(super) fn load_into(&mut self, file: &Weights, plan: Vec<(String, Stored)>) -> Result<()> {
        let mut piece = Vec::new();
        for (name, stored) in &plan {
            let (leaf, bytes) = self.persistent_mut(name)?;
            let done = match leaf.dtype == stored.dtype {
                true => file.read_stored(stored, 0, bytes),
                false => checkpoint_load_cast(file, stored, leaf.dtype, bytes, &mut piece),
            };
            if let Err(e) = done {
                plan.iter().for_each(|(name, _)| self.forget(name));
                return Err(e.context("the load stopped half-way; load again or initialise"));
            }
        }
        Ok(())
    }
}

/// Names and tensors of `pairs`, without borrows of the program.
pub(super) fn checkpoint_load_plan(pairs: &[Pair<'_>]) -> Vec<(String, Stored)> {
    pairs.iter().map(|p| (p.leaf.name.clone(), p.stored.as_ref().clone())).collect()
}

/// Refuses a pattern that matches none of `names`, those of the tensors that are loaded.
fn check_transpose<'n>(patterns: &[&str], names: impl Iterator<Item = &'n str> + Clone) -> Result<()> {
    match patterns.iter().find(|p| !names.clone().any(|name| names::matches_name(p, name))) {
        Some(p) => {
            let text =
                format!("transpose {p:?} matches no tensor that is loaded{}", names::list_names_instead(p, names));
            Err(Error::new(Kind::Name, text))
        }
        None => Ok(()),
    }
}

/// Whether `stored` can be the value of `leaf`.
fn check_load_fits(leaf: &Binding, stored: &Stored, how: &Load<'_>, report: &mut LoadReport) -> Result<()> {
    let (dtype, dims) = (stored.dtype, &stored.dims[..]);
    let differ = |why: &str| {
        let here = format!("{}{}", leaf.dtype, leaf.dims);
        let text = format!("{:?} is {dtype}{dims:?} in the file, not {here}{why}", stored.name);
        Err(Error::new(Kind::Shape, text))
    };
    if dims != &leaf.dims[..] {
        let long = |dims: &[usize]| dims.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
        match (long(dims) == long(&leaf.dims), how.reshape) {
            (true, true) => report.reshaped.push(leaf.name.clone()),
            (true, false) => return differ("; `reshape` would allow it"),
            (false, _) => return differ(""),
        }
    }
    if dtype != leaf.dtype {
        match (dtype.is_real_float() && leaf.dtype.is_real_float(), how.cast) {
            (true, true) => report.cast.push(leaf.name.clone()),
            (true, false) => return differ("; `cast` would convert it"),
            (false, _) => return differ(""),
        }
    }
    Ok(())
}

/// Refuses a bool other than 0 and 1.
fn check_loaded_bools(file: &Weights, t: &Stored) -> Result<()> {
    let mut piece = vec![0; if t.dtype == DType::Bool { PIECE.min(t.bytes) } else { 0 }];
    let mut at = 0;
    while !piece.is_empty() && at < t.bytes {
        let piece = &mut piece[..PIECE.min(t.bytes - at)];
        file.read_stored(t, at, piece)?;
        if let Some(k) = t.dtype.misfit(piece) {
            let text = format!("element {} of {:?} is {}; a bool is 0 or 1", at + k, t.name, piece[k]);
            return Err(bad_checkpoint(text).context(file.path(t).display()));
        }
        at += piece.len();
    }
    Ok(())
}

/// Reads `t` in pieces and writes its floats to `into`, as elements of `dtype`.
fn checkpoint_load_cast(file: &Weights, t: &Stored, dtype: DType, into: &mut [u8], piece: &mut Vec<u8>) -> Result<()> {
    let (from, to) = (t.dtype.size(), dtype.size());
    piece.resize(PIECE, 0);
    for (k, out) in into.chunks_mut(PIECE / from * to).enumerate() {
        let read = &mut piece[..out.len() / to * from];
        file.read_stored(t, k * PIECE, read)?;
        for (out, x) in out.chunks_exact_mut(to).zip(read.chunks_exact(from)) {
            write_checkpoint_float(dtype, out, read_checkpoint_float(t.dtype, x));
        }
    }
    Ok(())
}
