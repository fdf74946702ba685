//! Low-rank adaptations: names of other libraries, and merging into the weights.
//!
//! [`nn::lora_linear`](crate::nn::lora_linear) has loralib's names: `fc.weight`, `fc.lora_A`, `fc.lora_B`. PEFT calls
//! them `base_model.model.fc.base_layer.weight`, `base_model.model.fc.lora_A.weight` and so on, with the same shapes.
//! Invariant: the scale of an adaptation stands beside its factors, as `fc.lora_scale`, so that no caller repeats it.

use super::floats::{read_checkpoint_float, write_checkpoint_float};
use super::{Tensor, bad_checkpoint};
use crate::error::{Error, Kind, Result};
use crate::session::{Binding, Program};
use hashbrown::HashMap;

/// The ends of the names of an adaptation.
pub(super) const PARTS: [&str; 3] = [".lora_A", ".lora_B", ".lora_scale"];

/// The name that [`nn::lora_linear`](crate::nn::lora_linear) gives what PEFT calls `name`, whatever the adapter is
/// called: for [`Load::rename`](super::Load::rename). Of a module in `modules_to_save`, the trained copy has the
/// module's name, and the original is left out. Names of loralib, and all other names, stay.
/// [`Adapter`](super::Adapter) reads the scales, too, which stand in another file.
///
/// ```
/// use arenagrad::train::peft_name;
/// assert_eq!(peft_name("base_model.model.fc.lora_A.weight").as_deref(), Some("fc.lora_A"));
/// assert_eq!(peft_name("base_model.model.fc.lora_B.french.weight").as_deref(), Some("fc.lora_B"));
/// assert_eq!(peft_name("base_model.model.fc.base_layer.bias").as_deref(), Some("fc.bias"));
/// assert_eq!(peft_name("head.modules_to_save.french.weight").as_deref(), Some("head.weight"));
/// assert_eq!(peft_name("head.original_module.weight"), None);
/// assert_eq!(peft_name("fc.lora_B").as_deref(), Some("fc.lora_B"));
/// ```
pub fn peft_name(name: &str) -> Option<String> {
    let name = name.strip_prefix("base_model.model.").unwrap_or(name);
    for part in [".lora_A", ".lora_B"] {
        if let Some((layer, rest)) = name.rsplit_once(part)
            && let Some(adapter) = format!("{rest}.").strip_prefix('.').and_then(|rest| rest.strip_suffix("weight."))
            && adapter.matches('.').count() == usize::from(!adapter.is_empty())
        {
            return Some(format!("{layer}{part}"));
        }
    }
    if let Some((module, rest)) = name.split_once(".modules_to_save.") {
        // What follows is the adapter's name and the name in the module.
        return Some(rest.split_once('.').map_or(name.to_string(), |(_, own)| format!("{module}.{own}")));
    }
    if name.contains(".original_module.") {
        return None;
    }
    Some(name.replace(".base_layer.", "."))
}

/// Whether `name` is a part of an adaptation that [`nn::lora_linear`](crate::nn::lora_linear) does not build.
pub(super) fn is_unbuilt_part(name: &str) -> bool {
    let bias = [".lora_A.", ".lora_B."].iter().any(|part| name.contains(part)) && name.ends_with(".bias");
    bias || name.contains("lora_magnitude_vector") || name.contains("lora_embedding_")
}

/// The params and buffers of `program` with its adaptations merged into the weights: `W + s·B·A` under the name of each
/// weight that has `lora_A` and `lora_B`, with the s that `lora_scale` holds, and all others as they are. The layers'
/// plain versions have these names and shapes. Sums are made in f64 and rounded once, so the merged layer differs from
/// the adapted one by rounding.
///
/// Errors: there is no adaptation; the weight, one of the factors or the scale is missing or has no value; their shapes
/// do not fit; they are not floats of one dtype; a scale is not finite.
pub fn merge(program: &Program) -> Result<Vec<Tensor>> {
    let weights: Vec<(&Binding, &[u8])> = program.persistent().filter(|(b, _)| b.is_weight()).collect();
    let by_name: HashMap<&str, (&Binding, &[u8])> = weights.iter().map(|w| (w.0.name.as_str(), *w)).collect();
    let find = |name: String| match by_name.get(name.as_str()) {
        None => Err(Error::new(Kind::Name, format!("there is no {name:?} to merge"))),
        Some(_) if !program.holds_value(&name) => {
            Err(Error::new(Kind::Data, format!("{name:?} was neither initialised nor loaded, and cannot be merged")))
        }
        Some(found) => Ok(*found),
    };
    let (mut merged, mut adapted) = (Vec::new(), false);
    for &(b, bytes) in &weights {
        if let Some(layer) = PARTS.iter().find_map(|end| b.name.strip_suffix(end)) {
            // All parts and the weight must be there.
            [".weight"].iter().chain(&PARTS).try_for_each(|end| find(format!("{layer}{end}")).map(|_| ()))?;
            continue;
        }
        let mut t = Tensor { name: b.name.clone(), dtype: b.dtype, dims: b.dims.to_vec(), bytes: bytes.to_vec() };
        let layer = b.name.strip_suffix(".weight");
        if let Some(layer) = layer.filter(|l| by_name.contains_key(format!("{l}.lora_A").as_str())) {
            let [a, b, scale] = PARTS.map(|end| find(format!("{layer}{end}")));
            add_product(&mut t, a?, b?, scale?)?;
            adapted = true;
        }
        merged.push(t);
    }
    match adapted {
        true => Ok(merged),
        false => Err(Error::new(Kind::Name, "the program has no params lora_A and lora_B to merge")),
    }
}

/// The number that the scale of a layer holds.
fn read_scale((b, bytes): (&Binding, &[u8])) -> Result<f64> {
    if !b.dtype.is_real_float() || !b.dims.is_empty() {
        return Err(Error::new(Kind::Shape, format!("{:?} is {}{}; a scale is one float", b.name, b.dtype, b.dims)));
    }
    match read_checkpoint_float(b.dtype, bytes) {
        scale if scale.is_finite() => Ok(scale),
        scale => Err(bad_checkpoint(format!("{:?} is {scale}; it must be finite", b.name))),
    }
}

/// Adds `scale·B·A` to `w`.
fn add_product(w: &mut Tensor, a: (&Binding, &[u8]), b: (&Binding, &[u8]), scale: (&Binding, &[u8])) -> Result<()> {
    let floats = w.dtype.is_real_float();
    let ([outputs, inputs], [r, a1], [b0, b1]) = (&w.dims[..], &a.0.dims[..], &b.0.dims[..]) else {
        return Err(bad_checkpoint(format!("{:?} and its adaptation are no matrices", w.name)));
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
    let (dtype, size, scale) = (w.dtype, w.dtype.size(), read_scale(scale)?);
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
            if let Some(layer) = name.strip_suffix(".lora_A") {
                g.buffer(&format!("{layer}.lora_scale"), [], *dtype, Init::Constant(2.0));
            }
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
            let merged = merge(&p).unwrap();
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
            let e = merge(&layer(w, a, b)).unwrap_err();
            assert_eq!((e.kind, e.message), (Kind::Shape, format!("\"fc.weight\" is {told}")));
        }
    }

    #[test]
    fn a_scale_that_is_no_finite_float_or_has_no_value_is_refused() {
        let single = DType::F32;
        let g = Builder::new("adapted");
        for (name, dims) in [("fc.weight", [3, 2]), ("fc.lora_A", [1, 2]), ("fc.lora_B", [3, 1])] {
            g.param(name, dims, single, Init::Ones);
        }
        g.buffer("fc.lora_scale", [2], single, Init::Ones);
        let mut p = Session::new().compile(&g.finish([]).unwrap()).unwrap();
        let told = |p: &Program| merge(p).unwrap_err().message;
        assert_eq!(told(&p), "\"fc.lora_A\" was neither initialised nor loaded, and cannot be merged");
        p.init(0).unwrap();
        assert_eq!(told(&p), "\"fc.lora_scale\" is f32[2]; a scale is one float");
        let mut p = layer(single, (single, [1, 2]), (single, [3, 1]));
        p.values_mut::<f32>("fc.lora_scale").unwrap()[0] = f32::INFINITY;
        assert_eq!(told(&p), "\"fc.lora_scale\" is inf; it must be finite");
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
            let e = merge(&program(&params)).unwrap_err();
            assert_eq!((e.kind, e.message), (Kind::Name, format!("there is no {lack:?} to merge")));
        }
    }
}
