//! Tensors of GGUF files for the leaves of a program.
//!
//! Invariant: names, types and shapes are checked before the first byte of the program changes. If a file cannot be
//! read to its end after that, the leaves that the load was to fill count as unset, so that no step uses half of them.

use super::gguf_file::{Gguf, GgufTensor};
use super::tensor_type::TensorType;
use crate::error::{Error, Kind, Result};
use crate::kernels::gguf::{BlockType, decode_gguf_blocks};
use crate::nodes::DType;
use crate::session::encoded_readers::EncodedReader;
use crate::session::{Binding, Program, Role};
use crate::train::checkpoint::floats::{read_checkpoint_float, write_checkpoint_float};
use crate::train::{Load, LoadReport};
use hashbrown::HashMap;

/// Elements that are converted at once: whole blocks of every type.
const PIECE: usize = 1 << 14;

/// How the bytes of a tensor become those of a leaf.
#[derive(Clone, Copy, Debug, PartialEq)]
enum GgufConversion {
    /// As they are.
    Copy,
    /// Floats of one type to those of another.
    Cast(DType),
    /// Blocks to numbers.
    Decode(BlockType),
}

/// True if `reader` reads a tensor in this encoding and of these dimensions as what it is.
fn fits(reader: &EncodedReader, encoding: &str, dims: &[usize]) -> bool {
    let (columns, lead) = dims.split_last().unwrap_or((&1, &[]));
    let same = |m: [usize; 2]| m == [lead.iter().product(), *columns];
    reader.encoding == encoding && reader.matrix.is_none_or(same)
}

/// A tensor for a leaf.
struct Pair {
    leaf: String,
    tensor: GgufTensor,
    by: GgufConversion,
}

impl Program {
    /// Reads inputs, params and states from an open GGUF file, by name, and says what fitted. A `u8` leaf of rank 1
    /// gets the bytes of a tensor of blocks as they are, for [`Var::gguf_matmul`](crate::graph::Var::gguf_matmul); the
    /// blocks must have the type and the shape that the graph reads. Any other leaf gets a tensor of its shape and
    /// type. With [`Load::cast`], a float leaf also gets floats of another type, and the numbers of blocks.
    ///
    /// The report does not list inputs without a tensor: they may be the batch.
    ///
    /// Errors, which name the file and the tensor and leave the program unchanged: what [`Load`] forbids, and
    /// [`Load::transpose`]; no tensor has a leaf; a tensor has another shape, or another number of bytes than a `u8`
    /// leaf; its type differs, or that of its blocks, or cannot be read ([`TensorType::Other`]); two tensors are for
    /// one leaf.
    pub fn load_gguf(&mut self, file: &Gguf, how: Load<'_>) -> Result<LoadReport> {
        let at = |e: Error| e.context(file.path().display());
        if let Some(p) = how.transpose.first() {
            return Err(at(Error::new(
                Kind::Name,
                format!("transpose {p:?}: tensors of GGUF files are not transposed"),
            )));
        }
        let (pairs, report) = self.gguf_pairs(file, &how).map_err(at)?;
        for pair in &pairs {
            let done = self.fill_from_gguf(file, pair);
            if let Err(e) = done {
                pairs.iter().for_each(|pair| self.forget(&pair.leaf));
                return Err(e.context("the load stopped half-way; load again or initialise"));
            }
        }
        Ok(report)
    }

    /// The tensors of `file` for the leaves of this program, checked.
    fn gguf_pairs(&self, file: &Gguf, how: &Load<'_>) -> Result<(Vec<Pair>, LoadReport)> {
        let leaves: Vec<&Binding> = self.bindings().iter().filter(|b| b.role != Role::Output).collect();
        let by_name: HashMap<&str, usize> = leaves.iter().enumerate().map(|(i, b)| (b.name.as_str(), i)).collect();
        let (mut found, mut report): (Vec<Option<&GgufTensor>>, _) = (vec![None; leaves.len()], LoadReport::default());
        for t in file.tensors() {
            let Some(name) = how.rename.map_or_else(|| Some(t.name.clone()), |f| f(&t.name)) else { continue };
            let Some(&i) = by_name.get(name.as_str()) else {
                report.unmatched(&t.name, |_| false)?;
                continue;
            };
            if let Some(first) = found[i].replace(t) {
                return Err(Error::new(Kind::Name, format!("{:?} and {:?} are both for {name:?}", first.name, t.name)));
            }
        }
        let mut pairs = Vec::new();
        for (&leaf, tensor) in leaves.iter().zip(found) {
            let Some(tensor) = tensor else {
                report.without_tensor(leaf);
                continue;
            };
            let by = choose_conversion(leaf, tensor, how, &mut report)?;
            report.loaded.push(leaf.name.clone());
            pairs.push(Pair { leaf: leaf.name.clone(), tensor: tensor.clone(), by });
        }
        report.check(how, "leaves", &leaves)?;
        Ok((pairs, report))
    }

    /// Reads one tensor into its leaf.
    fn fill_from_gguf(&mut self, file: &Gguf, pair: &Pair) -> Result<()> {
        let t = &pair.tensor;
        let (leaf, bytes) = self.leaf_mut(0, "input, param or state", &pair.leaf, &|role| role != Role::Output)?;
        let size = leaf.dtype.size();
        let mut read = Vec::new();
        let mut numbers = Vec::new();
        for (k, out) in bytes.chunks_mut(PIECE * size).enumerate() {
            let (first, n) = (k * PIECE, out.len() / size);
            match pair.by {
                GgufConversion::Copy => file.read(t, first * size, out)?,
                GgufConversion::Cast(from) => {
                    read.resize(n * from.size(), 0);
                    file.read(t, first * from.size(), &mut read)?;
                    for (out, x) in out.chunks_exact_mut(size).zip(read.chunks_exact(from.size())) {
                        write_checkpoint_float(leaf.dtype, out, read_checkpoint_float(from, x));
                    }
                }
                GgufConversion::Decode(block) => {
                    let bytes = |elements: usize| elements / block.elements() * block.bytes();
                    read.resize(bytes(n), 0);
                    file.read(t, bytes(first), &mut read)?;
                    numbers.resize(n, 0.0);
                    decode_gguf_blocks(block, &read, &mut numbers);
                    for (out, x) in out.chunks_exact_mut(size).zip(&numbers) {
                        write_checkpoint_float(leaf.dtype, out, f64::from(*x));
                    }
                }
            }
        }
        Ok(())
    }
}

/// How `t` becomes the value of `leaf`, or why it cannot.
fn choose_conversion(
    leaf: &Binding,
    t: &GgufTensor,
    how: &Load<'_>,
    report: &mut LoadReport,
) -> Result<GgufConversion> {
    let (name, dims) = (t.kind.name(), &t.dims);
    let differ = |why: &str| {
        let text = format!("{:?} is {name}{dims:?} in the file, not {}{}{why}", t.name, leaf.dtype, leaf.dims);
        Err(Error::new(Kind::Shape, text))
    };
    if let TensorType::Other(_) = t.kind {
        return differ("; this type cannot be read here");
    }
    if let (TensorType::Blocks(b), DType::U8) = (t.kind, leaf.dtype) {
        if leaf.dims[..] != [t.bytes] {
            return differ(&format!("; its blocks are u8[{}]", t.bytes));
        }
        // Blocks of several types have the same number of bytes.
        return match leaf.encoded.iter().find(|reader| !fits(reader, b.name(), dims)) {
            Some(reader) => differ(&format!("; the program reads {:?} as {reader}", leaf.name)),
            None => Ok(GgufConversion::Copy),
        };
    }
    if dims[..] != leaf.dims[..] {
        let long = |dims: &[usize]| dims.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
        match (long(dims) == long(&leaf.dims), how.reshape) {
            (true, true) => report.reshaped.push(leaf.name.clone()),
            (true, false) => return differ("; `reshape` would allow it"),
            (false, _) => return differ(""),
        }
    }
    let by = match t.kind {
        TensorType::Plain(d) if d == leaf.dtype => return Ok(GgufConversion::Copy),
        TensorType::Plain(d) if d.is_real_float() && leaf.dtype.is_real_float() => GgufConversion::Cast(d),
        TensorType::Blocks(b) if leaf.dtype.is_real_float() => GgufConversion::Decode(b),
        _ => return differ(""),
    };
    if !how.cast {
        return differ("; `cast` would convert it");
    }
    report.cast.push(leaf.name.clone());
    Ok(by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Builder, Var};
    use crate::session::encoded_readers::encoded_readers;

    /// Blocks of 32 elements in 34 bytes.
    const T: BlockType = BlockType::Q8_0;

    /// As what ops read four blocks, in the graph of what `read` makes of them and of an x of 3 rows of 32 elements.
    fn readers(read: impl for<'g> Fn(&'g Builder, Var<'g>, Var<'g>) -> Var<'g>) -> Vec<String> {
        let g = Builder::new("blocks");
        let (w, x) = (g.input("w", [4, 34], DType::U8), g.input("x", [3, 32], DType::F32));
        let graph = g.finish([read(&g, w, x).named("y")]).unwrap();
        let view = graph.view();
        let (blocks, _) = view.find_leaf("w").unwrap();
        encoded_readers(&view).unwrap()[blocks].iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_bytes_of_a_view_are_read_as_the_view_is() {
        assert_eq!(readers(|_, w, x| x.gguf_matmul(w.reshape([136]), T, 4)), ["Q8_0[4, 32]"]);
        assert_eq!(readers(|_, w, _| w.reshape([2, 68]).reshape([136]).gguf_dequant(T, [2, 64])), ["Q8_0[2, 64]"]);
        // Two ops that read them alike are one reader.
        let twice = readers(|_, w, x| {
            let w = w.reshape([136]);
            x.gguf_matmul(w, T, 4) + (x * 2.0).gguf_matmul(w, T, 4) + w.gguf_dequant(T, [1, 128]).sum(..)
        });
        assert!(twice.len() == 2 && ["Q8_0[4, 32]", "Q8_0[1, 128]"].iter().all(|r| twice.iter().any(|t| t == r)));
    }

    #[test]
    fn of_a_part_the_type_is_known_and_not_the_matrix() {
        assert_eq!(readers(|_, w, x| x.gguf_matmul(w.narrow(0, 1, 2).reshape([68]), T, 2)), ["Q8_0"]);
        // Each iteration of a loop reads a row.
        let rows = readers(|g, w, x| {
            let start = g.full(0.0, [3, 1], DType::F32);
            g.scan(&[start], &[w], |c, w| (vec![c[0] + x.gguf_matmul(w[0], T, 1)], vec![])).0[0]
        });
        assert_eq!(rows, ["Q8_0"]);
    }

    #[test]
    fn loops_and_branches_read_what_they_capture() {
        let constant = readers(|g, w, x| {
            let (w, start) = (w.reshape([136]), g.full(0.0, [4], DType::F32));
            g.scan(&[start], &[x], |c, x| (vec![c[0] + x[0].gguf_matmul(w, T, 4)], vec![])).0[0]
        });
        assert_eq!(constant, ["Q8_0[4, 32]"]);
        let branches = readers(|g, w, _| {
            let (w, on) = (w.reshape([136]), g.input("on", [], DType::Bool));
            let other = || w.gguf_dequant(T, [2, 64]).reshape([4, 32]);
            g.cond(on, || vec![w.gguf_dequant(T, [4, 32])], || vec![other()])[0]
        });
        assert_eq!(branches, ["Q8_0[4, 32]", "Q8_0[2, 64]"]);
    }

    #[test]
    fn what_is_computed_of_bytes_says_nothing_about_them() {
        assert!(readers(|_, w, x| x.gguf_matmul((w + w).reshape([136]), T, 4)).is_empty());
        let g = Builder::new("none");
        let y = g.input("w", [4], DType::U8).reshape([2, 2]);
        assert!(encoded_readers(&g.finish([y.named("y")]).unwrap().view()).is_none());
    }
}
