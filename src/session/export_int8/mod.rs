//! Export of a network that was trained for codes: products of integers in place of products of rounded numbers.
//!
//! A rounded number is a result of `fake_quantize` or `lsq`. If no input reaches it, it is a weight, and its codes
//! become a constant; else it is an activation, and its codes are computed. If both operands of a product have codes,
//! directly or through ops that only move elements, the product becomes a product of the codes. Invariant: a value of
//! the exported graph has the type of the value that it replaces, and the same numbers, except for the rounding of
//! sums; equal numbers have equal codes.

use super::{Program, Session};
use crate::arena::{Node, Side, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ops::quant::attrs::{FakeQuantizeAttrs, LsqAttrs};
use crate::nodes::ops::quant::lsq::quantize_to_codes;
use crate::nodes::{Builder, DType, Emit, Graph, GraphBuf, LeafKind, Op, Quantize, Var};
use crate::passes::copier::Copier;
use crate::passes::moves::{axis_after_move, move_keeps_elements};
use crate::passes::rebuild::{RebuildVisit, finish_rebuild, rebuild_buf, rebuilt_by_pass};

mod products;

use products::export_product;

/// The integer network of `graph`, an evaluating graph that [`qat`](fn@crate::graph::quant::qat) rounded (or that was
/// built with [`Var::fake_quantize`](crate::graph::Var::fake_quantize) or [`Var::lsq`](crate::graph::Var::lsq)), with
/// the params and states of `program`. It has the inputs and outputs of `graph`, and neither params nor states: codes
/// of weights are `i8` constants, matrix products and `conv2d` sum products of codes in `i32`, biases and what is not
/// rounded stay as they are.
///
/// # Errors
/// The graph updates states (it is one for training); `program` lacks a param or a state, has another type for it, or
/// has never set it; a scale of the program is not above 0 and finite; no product of the graph has two rounded operands
/// with constant scales.
///
/// ```
/// use arenagrad::graph::quant::Qat;
/// use arenagrad::prelude::*;
/// use arenagrad::session::export_int8;
/// # fn main() -> Result<()> {
/// let net = |training: bool| -> Result<GraphBuf> {
///     let g = Builder::new("net");
///     let y = nn::linear(&g, "fc", g.input("x", [8, 4], DType::F32), 3).named("y");
///     let loss = y.square().mean(..).named("loss");
///     g.finish([loss, y])?.qat(&Qat::int8().weights("*.weight").training(training))
/// };
/// let mut step = Session::new().compile(&train(&net(true)?, "loss", optim::Sgd::new(0.1))?)?;
/// step.init(0)?;
/// step.values_mut::<f32>("x")?.fill(0.5);
/// step.step()?;
/// let integers = export_int8(&net(false)?, &step)?;
/// assert_eq!(integers.view().leaves().count(), 1); // the input
/// let mut p = Session::new().compile(&integers)?;
/// p.values_mut::<f32>("x")?.fill(0.5);
/// p.step()?;
/// # Ok(())
/// # }
/// ```
pub fn export_int8<'a>(graph: impl Into<Graph<'a>>, program: &Program) -> Result<GraphBuf> {
    let g = graph.into();
    if let Some(&(leaf, _)) = g.updates.first() {
        let name = g.leaf(leaf).map_or("", |l| l.1);
        let text = format!("export_int8: the graph updates {name:?}; export the evaluating graph");
        return Err(Error::new(Kind::Verify, text));
    }
    let known = values_known_to_export(g);
    let sites = Int8ExportSites::find(g, &known);
    let constants = sites.evaluate(g, program)?;
    let mut found = false;
    let exported = rebuilt_by_pass("export_int8", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let is_kept = |n: Node| g.def_of(n).is_leaf() && known[g.out(n)];
        let mut c = Copier::new(g, &b).without(is_kept);
        for l in g.leaves().filter(|l| l.kind != LeafKind::Input) {
            c.map[l.value] = b.constant_bytes(
                exported_leaf_bytes(g, l.value, l.name, program)?,
                g.dims(l.value),
                g.dtype[l.value.at()],
            );
        }
        let mut export =
            Int8Export { sites: &sites, constants: &constants, codes: Side::filled(g.values(), None), found: false };
        c.run(&mut |v| export.rewrite(v));
        c.signature();
        found = export.found;
        drop(c);
        finish_rebuild(b, bump)
    })?;
    if !found {
        let text = "export_int8: no product of the graph has two rounded operands with one scale for activations, \
                    and constant scales; see qat";
        return Err(Error::new(Kind::Verify, text));
    }
    // What nothing reads goes: constants of weights in floats.
    rebuild_buf(exported.view(), &mut |_| None)
}

/// The bytes of the param or state `name` of `program`, which must have the type of `v`.
fn exported_leaf_bytes<'p>(g: Graph<'_>, v: Value, name: &str, program: &'p Program) -> Result<&'p [u8]> {
    let Some((b, bytes)) = program.persistent().find(|(b, _)| b.name == name) else {
        return Err(Error::new(Kind::Name, format!("export_int8: the program has no param or state {name:?}")));
    };
    if !program.holds_value(name) {
        let text = format!("export_int8: {name:?} was neither initialised nor loaded in the program");
        return Err(Error::new(Kind::Data, text));
    }
    if b.dtype != g.dtype[v.at()] || b.dims != g.dims(v) {
        let text =
            format!("export_int8: {name:?} is {}{} in the program, and {} in the graph", b.dtype, b.dims, g.ty_text(v));
        return Err(Error::new(Kind::Shape, text));
    }
    Ok(bytes)
}

/// The values of the entry that no input reaches and no effect makes.
fn values_known_to_export(g: Graph<'_>) -> Side<Value, bool> {
    let mut known = Side::filled(g.values(), false);
    for n in g.region_nodes(g.entry()) {
        let def = g.def_of(n);
        let fixed = match def.is_leaf() {
            true => g.op[n.at()] == Op::PARAM || g.op[n.at()] == Op::STATE,
            false => def.is_pure() && g.args_of(n).iter().all(|&a| known[a]),
        };
        g.outs_of(n).for_each(|v| known[v] = fixed);
    }
    known
}

/// A rounded number whose codes fit `i8`.
#[derive(Clone, Copy, Debug)]
struct Int8ExportSite {
    node: Node,
    /// No input reaches it.
    weight: bool,
    axis: Option<i64>,
    lo: i64,
    hi: i64,
    /// What is taken from codes and zero point, so that the codes fit `i8`.
    shift: i64,
}

/// All of them, in the order of their nodes.
struct Int8ExportSites(Vec<Int8ExportSite>);

/// What was computed of a site: scale, zero point and, of a weight, codes, as bytes.
struct Int8ExportConstants {
    scale: Vec<u8>,
    zero: Vec<i32>,
    codes: Vec<u8>,
}

impl Int8ExportSites {
    fn find(g: Graph<'_>, known: &Side<Value, bool>) -> Int8ExportSites {
        let mut all = Vec::new();
        for n in g.region_nodes(g.entry()) {
            let (axis, lo, hi) = match g.op[n.at()] {
                Op::FAKE_QUANTIZE => {
                    let a = FakeQuantizeAttrs::of(&g.attrs(n));
                    (a.axis, a.lo, a.hi)
                }
                Op::LSQ => {
                    let a = LsqAttrs::of(&g.attrs(n));
                    (a.axis, a.lo, a.hi)
                }
                _ => continue,
            };
            // A shift of up to 128 leaves a zero point of 0 within `i8`.
            let shift = if lo >= -128 && hi <= 127 { 0 } else { (lo + 128).min(128.max(hi - 127)) };
            let args = g.args_of(n);
            if hi - shift <= 127 && args[1..].iter().all(|&a| known[a]) {
                all.push(Int8ExportSite { node: n, weight: known[args[0]], axis, lo, hi, shift });
            }
        }
        Int8ExportSites(all)
    }

    /// Computes scales, zero points and codes from the params and states of `program`.
    fn evaluate(&self, g: Graph<'_>, program: &Program) -> Result<Vec<Int8ExportConstants>> {
        let part = rebuilt_by_pass("export_int8", |bump| {
            let b = Builder::rewriting(Emit::like(&g));
            let mut c = Copier::new(g, &b);
            c.run(&mut |_| None);
            for (i, site) in self.0.iter().enumerate() {
                let args: Vec<Var<'_>> = g.args_of(site.node).iter().map(|&a| c.map[a]).collect();
                let zero = match args.get(2) {
                    Some(z) => *z - site.shift as f64,
                    None => b.full(-site.shift as f64, args[1].dims(), DType::I32),
                };
                b.output(&format!("scale.{i}"), args[1]);
                b.output(&format!("zero.{i}"), zero);
                if site.weight {
                    b.output(&format!("codes.{i}"), site.codes(g, args[0], args[1], Some(zero)));
                }
            }
            drop(c);
            finish_rebuild(b, bump)
        })?;
        let part = rebuild_buf(part.view(), &mut |_| None)?;
        let within = |e: Error| e.context("export_int8");
        let mut p = Session::new().threads(1).compile(&part).map_err(within)?;
        for l in part.view().leaves().filter(|l| l.kind != LeafKind::Input) {
            p.write_bytes(l.name, exported_leaf_bytes(part.view(), l.value, l.name, program)?)?;
        }
        p.step().map_err(within)?;
        let dtype = |i: usize| g.dtype[g.args_of(self.0[i].node)[1].at()];
        let one = |(i, site): (usize, &Int8ExportSite)| -> Result<Int8ExportConstants> {
            let name = format!("scale.{i}");
            let (scale, fine): (Vec<u8>, bool) = match dtype(i) {
                DType::F64 => {
                    let s = p.values::<f64>(&name)?;
                    (bytemuck::cast_slice(s).to_vec(), s.iter().all(|&s| s > 0.0 && s.is_finite()))
                }
                _ => {
                    let s = p.values::<f32>(&name)?;
                    (bytemuck::cast_slice(s).to_vec(), s.iter().all(|&s| s > 0.0 && s.is_finite()))
                }
            };
            // A scale of activations is 0 until a training step has run.
            if !fine {
                let message = "export_int8: a scale is not above 0 and finite; train before you export";
                return Err(Error::new(Kind::Data, message).at(g.location(site.node)));
            }
            let codes = match site.weight {
                true => bytemuck::cast_slice(p.values::<i8>(&format!("codes.{i}"))?).to_vec(),
                false => Vec::new(),
            };
            Ok(Int8ExportConstants { scale, zero: p.values::<i32>(&format!("zero.{i}"))?.to_vec(), codes })
        };
        self.0.iter().enumerate().map(one).collect()
    }
}

impl Int8ExportSite {
    /// The codes of `x`, each that of the site in `g`. `lsq` divides by the scale; `fake_quantize` and `quantize`
    /// multiply by its reciprocal.
    fn codes<'g>(&self, g: Graph<'_>, x: Var<'g>, scale: Var<'g>, zero: Option<Var<'g>>) -> Var<'g> {
        if g.op[self.node.at()] == Op::LSQ {
            return quantize_to_codes(x, scale, &LsqAttrs::of(&g.attrs(self.node)), self.shift);
        }
        let options = Quantize::i8().range((self.lo - self.shift, self.hi - self.shift));
        x.quantize(scale, zero, Quantize { axis: self.axis, ..options })
    }
}

/// The codes of a value of the source graph, in the exported graph.
#[derive(Clone, Copy, Debug)]
struct Int8ExportCodes {
    codes: Value,
    scale: Value,
    /// The axis that the scales are for.
    axis: Option<usize>,
    /// The zero point; `None` if there are several.
    zero: Option<i32>,
}

/// The walk that writes the exported graph.
struct Int8Export<'s> {
    sites: &'s Int8ExportSites,
    constants: &'s [Int8ExportConstants],
    codes: Side<Value, Option<Int8ExportCodes>>,
    /// Whether a product of integers was written.
    found: bool,
}

impl Int8Export<'_> {
    fn rewrite<'g>(&mut self, v: &RebuildVisit<'_, 'g>) -> Option<Vec<Var<'g>>> {
        let out = v.src.out(v.node);
        if let Ok(i) = self.sites.0.binary_search_by_key(&v.node, |s| s.node) {
            return Some(vec![self.round(v, i)]);
        }
        let codes = |i: usize| v.src.args_of(v.node).get(i).and_then(|&a| self.codes[a]);
        if move_keeps_elements(v.src, v.node) {
            self.codes[out] = codes(0).and_then(|c| moved_export_codes(v, c));
            return None;
        }
        let y = export_product(v, v.op(), codes(0)?, codes(1)?)?;
        self.found = true;
        Some(vec![y])
    }

    /// The rounded number of site `i`, by its codes.
    fn round<'g>(&mut self, v: &RebuildVisit<'_, 'g>, i: usize) -> Var<'g> {
        let (g, site, known) = (v.g, &self.sites.0[i], &self.constants[i]);
        let (x, scale) = (v.args[0], v.args[1]);
        let s = g.constant_bytes(&known.scale, scale.dims(), scale.dtype());
        let any_zero = known.zero.iter().any(|&z| z != 0);
        let zero = any_zero.then(|| g.constant_bytes(bytemuck::cast_slice(&known.zero), scale.dims(), DType::I32));
        let codes = match site.weight {
            true => g.constant_bytes(&known.codes, x.dims(), DType::I8),
            false => site.codes(v.src, x, s, zero),
        };
        let zero_point = match known.zero.split_first() {
            Some((first, rest)) => rest.iter().all(|z| z == first).then_some(*first),
            None => Some(0),
        };
        let axis = site.axis.and_then(|a| usize::try_from(a).ok());
        self.codes[v.src.out(v.node)] = Some(Int8ExportCodes { codes: codes.v, scale: s.v, axis, zero: zero_point });
        codes.dequantize(s, zero, site.axis)
    }
}

/// The codes `c` after the move `v`; `None` if its scales lose their axis.
fn moved_export_codes(v: &RebuildVisit<'_, '_>, c: Int8ExportCodes) -> Option<Int8ExportCodes> {
    let axis = match c.axis {
        Some(axis) => Some(axis_after_move(v.src, v.node, axis)?),
        None => None,
    };
    let moved = v.g.with(|e| e.copy(&v.src, v.node, &[c.codes], v.regions));
    Some(Int8ExportCodes { codes: moved.iter().next()?, axis, ..c })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{FakeQuantize, Init};

    const F32: DType = DType::F32;

    /// Whether the rounded number is a weight, and the shift of its codes; `None` if its codes do not fit `i8`.
    fn site(of: impl for<'g> Fn(&'g Builder) -> Var<'g>) -> Option<(bool, i64)> {
        let g = Builder::new("site");
        let graph = g.finish([of(&g).named("y")]).unwrap();
        let sites = Int8ExportSites::find(graph.view(), &values_known_to_export(graph.view()));
        sites.0.first().map(|s| (s.weight, s.shift))
    }

    #[test]
    fn codes_are_shifted_into_i8_if_they_lie_elsewhere() {
        let shift = |lo: i64, hi: i64| {
            site(|g| {
                let w = g.param("w", [4], F32, Init::Ones);
                w.fake_quantize(g.full(0.1, [], F32), None, FakeQuantize::affine(lo, hi))
            })
        };
        for (lo, hi) in [(-128, 127), (-127, 127), (-90, 110), (0, 127)] {
            assert_eq!(shift(lo, hi), Some((true, 0)), "{lo}..={hi}");
        }
        // A zero point of 0 is shifted to a number of `i8`, as far as that is possible.
        for (lo, hi, by) in
            [(0, 255, 128), (0, 128, 128), (1, 200, 128), (2, 257, 130), (-129, 100, -1), (-200, 55, -72)]
        {
            assert_eq!(shift(lo, hi), Some((true, by)), "{lo}..={hi}");
        }
        for (lo, hi) in [(0, 256), (-128, 128), (-129, 127), (-200, 56)] {
            assert_eq!(shift(lo, hi), None, "{lo}..={hi}");
        }
    }

    #[test]
    fn scales_and_zero_points_do_not_depend_on_inputs() {
        let of = |scale: bool, zero: Option<bool>| {
            site(|g| {
                let scale = if scale { g.full(0.1, [], F32) } else { g.input("s", [], F32) };
                let zero = zero.map(|known| match known {
                    true => g.full(3.0, [], DType::I32),
                    false => g.input("z", [], DType::I32),
                });
                g.input("x", [4], F32).fake_quantize(scale, zero, FakeQuantize::affine(-100, 90))
            })
        };
        let activation = Some((false, 0));
        assert_eq!([of(true, None), of(false, None)], [activation, None]);
        assert_eq!([of(true, Some(true)), of(true, Some(false)), of(false, Some(true))], [activation, None, None]);
    }
}
