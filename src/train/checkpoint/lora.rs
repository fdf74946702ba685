//! Low-rank adaptations: names of other libraries, and merging into the weights.
//!
//! [`nn::lora_linear`](crate::nn::lora_linear) has loralib's names: `fc.weight`, `fc.lora_A`, `fc.lora_B`. PEFT calls
//! them `base_model.model.fc.base_layer.weight`, `base_model.model.fc.lora_A.weight` and so on, with the same shapes.

use super::floats::{read_checkpoint_float, write_checkpoint_float};
use super::{Tensor, bad_checkpoint_header};
use crate::error::{Error, Kind, Result};
use crate::session::{Binding, Program, Role};

/// The name that [`nn::lora_linear`](crate::nn::lora_linear) gives what PEFT calls `name`: for
/// [`Load::rename`](super::Load::rename). The name of the adapter, if there is one, must be `default`. Names of
/// loralib, and all other names, stay.
///
/// ```
/// use arenagrad::train::peft_name;
/// assert_eq!(peft_name("base_model.model.fc.lora_A.weight").as_deref(), Some("fc.lora_A"));
/// assert_eq!(peft_name("base_model.model.fc.base_layer.bias").as_deref(), Some("fc.bias"));
/// assert_eq!(peft_name("fc.lora_B").as_deref(), Some("fc.lora_B"));
/// ```
pub fn peft_name(name: &str) -> Option<String> {
    let name = name.strip_prefix("base_model.model.").unwrap_or(name);
    for part in [".lora_A", ".lora_B"] {
        for end in [".weight", ".default.weight"] {
            if let Some(layer) = name.strip_suffix(end).and_then(|n| n.strip_suffix(part)) {
                return Some(format!("{layer}{part}"));
            }
        }
    }
    Some(name.replace(".base_layer.", "."))
}

/// The params of `program` with its adaptations merged into the weights: `W + (alpha/r)·B·A` under the name of each
/// weight that has `lora_A` and `lora_B`, and all other params as they are. The layers' plain versions have these names
/// and shapes. Sums are made in f64 and rounded once, so the merged layer differs from the adapted one by rounding.
///
/// Errors: there is no adaptation; one of the two factors or the weight is missing; their shapes do not fit; they are
/// not floats of one dtype; `alpha` is not finite.
pub fn merge(program: &Program, alpha: f64) -> Result<Vec<Tensor>> {
    let params: Vec<(&Binding, &[u8])> = program.persistent().filter(|(b, _)| b.role == Role::Param).collect();
    let find = |name: String| {
        let found = params.iter().find(|(b, _)| b.name == name).copied();
        found.ok_or_else(|| Error::new(Kind::Name, format!("there is no param {name:?} to merge")))
    };
    if !alpha.is_finite() {
        return Err(bad_checkpoint_header(format!("alpha is {alpha}; it must be finite")));
    }
    let (mut merged, mut adapted) = (Vec::new(), false);
    for &(b, bytes) in &params {
        let factor = [".lora_A", ".lora_B"].iter().find_map(|end| b.name.strip_suffix(end));
        if let Some(layer) = factor {
            // Both factors and the weight must be there.
            [".weight", ".lora_A", ".lora_B"].iter().try_for_each(|end| find(format!("{layer}{end}")).map(|_| ()))?;
            continue;
        }
        let mut t = Tensor { name: b.name.clone(), dtype: b.dtype, dims: b.dims.to_vec(), bytes: bytes.to_vec() };
        let layer = b.name.strip_suffix(".weight");
        if let Some(layer) = layer.filter(|l| find(format!("{l}.lora_A")).is_ok()) {
            merge_checkpoint_lora(&mut t, find(format!("{layer}.lora_A"))?, find(format!("{layer}.lora_B"))?, alpha)?;
            adapted = true;
        }
        merged.push(t);
    }
    match adapted {
        true => Ok(merged),
        false => Err(Error::new(Kind::Name, "the program has no params lora_A and lora_B to merge")),
    }
}

/// Adds `(alpha/r)·B·A` to `w`.
fn merge_checkpoint_lora(w: &mut Tensor, a: (&Binding, &[u8]), b: (&Binding, &[u8]), alpha: f64) -> Result<()> {
    let floats = w.dtype.is_real_float();
    let ([outputs, inputs], [r, a1], [b0, b1]) = (&w.dims[..], &a.0.dims[..], &b.0.dims[..]) else {
        return Err(bad_checkpoint_header(format!("{:?} and its adaptation are no matrices", w.name)));
    };
    let (outputs, inputs, r) = (*outputs, *inputs, *r);
    let same = w.dtype == a.0.dtype && w.dtype == b.0.dtype;
    if !floats || !same || (*a1, *b0, *b1) != (inputs, outputs, r) || r == 0 {
        let text = format!(
            "{:?} is {}[{outputs}, {inputs}]; its adaptation is {}{} and {}{}",
            w.name, w.dtype, a.0.dtype, a.0.dims, b.0.dtype, b.0.dims
        );
        return Err(Error::new(Kind::Shape, text));
    }
    let (dtype, size, scale) = (w.dtype, w.dtype.size(), alpha / r as f64);
    let all = |bytes: &[u8]| bytes.chunks_exact(size).map(|x| read_checkpoint_float(dtype, x)).collect::<Vec<f64>>();
    let (a, b) = (all(a.1), all(b.1));
    let mut row = vec![0.0; inputs];
    for (i, out) in w.bytes.chunks_exact_mut((inputs * size).max(1)).enumerate() {
        row.fill(0.0);
        for k in 0..r {
            let b = b[i * r + k];
            row.iter_mut().zip(&a[k * inputs..]).for_each(|(sum, a)| *sum += b * a);
        }
        for (out, sum) in out.chunks_exact_mut(size).zip(&row) {
            let x = read_checkpoint_float(dtype, out) + scale * sum;
            write_checkpoint_float(dtype, out, x);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Builder, DType, Init};
    use crate::session::Session;

    /// A program of params: name, type, shape. All elements are 1.
    fn program(params: &[(&str, DType, [usize; 2])]) -> Program {
        let g = Builder::new("adapted");
        for (name, dtype, dims) in params {
            g.param(name, dims, *dtype, Init::Ones);
        }
        let mut p = Session::new().compile(&g.finish([]).unwrap()).unwrap();
        p.init(0).unwrap();
        p
    }

    /// A layer of 3 outputs and 2 inputs with factors of these types and shapes.
    fn layer(w: DType, a: (DType, [usize; 2]), b: (DType, [usize; 2])) -> Program {
        program(&[("fc.weight", w, [3, 2]), ("fc.lora_A", a.0, a.1), ("fc.lora_B", b.0, b.1)])
    }

    #[test]
    fn an_adaptation_of_rank_1_is_merged_in_each_type() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let mut p = layer(dtype, (dtype, [1, 2]), (dtype, [3, 1]));
            let mut set = |name: &str, numbers: &[f64]| {
                let bytes = p.persistent_mut(name).unwrap().1.chunks_exact_mut(dtype.size());
                bytes.zip(numbers).for_each(|(to, x)| write_checkpoint_float(dtype, to, *x));
            };
            set("fc.lora_A", &[2.0, -1.0]);
            set("fc.lora_B", &[1.0, 0.5, -3.0]);
            let merged = merge(&p, 2.0).unwrap();
            let (size, bytes) = (dtype.size(), &merged[0].bytes);
            let got: Vec<f64> = bytes.chunks_exact(size).map(|x| read_checkpoint_float(dtype, x)).collect();
            assert_eq!((merged.len(), got), (1, vec![5.0, -1.0, 3.0, 0.0, -11.0, 7.0]), "{dtype}");
        }
    }

    #[test]
    fn factors_that_do_not_fit_are_refused_with_all_shapes() {
        let (half, single, double, int) = (DType::F16, DType::F32, DType::F64, DType::I32);
        for (w, a, b, told) in [
            (single, (double, [1, 2]), (single, [3, 1]), "f32[3, 2]; its adaptation is f64[1,2] and f32[3,1]"),
            (single, (single, [1, 2]), (half, [3, 1]), "f32[3, 2]; its adaptation is f32[1,2] and f16[3,1]"),
            (single, (single, [1, 3]), (single, [3, 1]), "f32[3, 2]; its adaptation is f32[1,3] and f32[3,1]"),
            (single, (single, [1, 2]), (single, [2, 1]), "f32[3, 2]; its adaptation is f32[1,2] and f32[2,1]"),
            (single, (single, [1, 2]), (single, [3, 2]), "f32[3, 2]; its adaptation is f32[1,2] and f32[3,2]"),
            (single, (single, [0, 2]), (single, [3, 0]), "f32[3, 2]; its adaptation is f32[0,2] and f32[3,0]"),
            (int, (int, [1, 2]), (int, [3, 1]), "i32[3, 2]; its adaptation is i32[1,2] and i32[3,1]"),
        ] {
            let e = merge(&layer(w, a, b), 1.0).unwrap_err();
            assert_eq!((e.kind, e.message), (Kind::Shape, format!("\"fc.weight\" is {told}")));
        }
    }

    #[test]
    fn a_layer_without_one_of_its_three_parts_is_refused() {
        let (single, parts) = (DType::F32, ["fc.weight", "fc.lora_A", "fc.lora_B"]);
        for (lacking, lack) in [(0, "fc.weight"), (1, "fc.lora_A"), (2, "fc.lora_B")] {
            let mut left = parts.to_vec();
            left.remove(lacking);
            // A layer beside it is whole.
            let whole = ["up.weight", "up.lora_A", "up.lora_B"].into_iter();
            let params: Vec<_> = left.into_iter().chain(whole).map(|name| (name, single, [1, 1])).collect();
            let e = merge(&program(&params), 1.0).unwrap_err();
            assert_eq!((e.kind, e.message), (Kind::Name, format!("there is no param {lack:?} to merge")));
        }
    }
}
