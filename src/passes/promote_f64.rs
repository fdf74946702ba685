//! Promotion to f64, for comparing gradients with finite differences.
//!
//! Every narrower float dtype of leaves, constants and casts becomes f64, and c64 becomes c128; integers and booleans
//! stay. Invariant: names of leaves and outputs and the shapes of all values stay. Only tools that check gradients use
//! it, because the promoted graph is a different program.

use super::rebuild::{finish_rebuild, rebuilt_by_pass};
use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::ir::attrs::{Attr, Owned};
use crate::nodes::ops::constant::attrs::ConstantAttrs;
use crate::nodes::{Builder, DType, Emit, Graph, GraphBuf, Op, Var};
use crate::passes::ad::prepare::inline_called_regions;

/// `g` in f64, with calls written out. Loops and choices stay, so the result runs as `g` does; custom functions with
/// derivative rules stay too, rules included.
pub fn promote_f64(g: Graph<'_>) -> Result<GraphBuf> {
    let flat = inline_called_regions(g)?;
    let g = flat.view();
    rebuilt_by_pass("promote_f64", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut map = Side::filled(g.values(), b.var(Value::NONE));
        let mut regions = Vec::new();
        for r in (0..g.regions()).map(Region::new) {
            let entry = r == g.entry();
            if !entry {
                b.with(|e| e.open_region(g.str(g.region_names[r.at()])));
            }
            for n in g.region_nodes(r) {
                b.with(|e| e.set_loc(g.loc[n.at()]));
                let outs = promoted(g, &b, n, &map, &regions);
                g.outs_of(n).zip(outs).for_each(|(v, new)| map[v] = new);
            }
            if !entry {
                let yields: Vec<Value> = g.region_yields(r).iter().map(|&y| map[y].v).collect();
                regions.push(b.with(|e| e.close_region(&yields)));
            }
        }
        for (&v, &name) in g.outputs().iter().zip(g.output_names) {
            b.output(g.str(name), map[v]);
        }
        for &(leaf, next) in g.updates {
            b.update(map[leaf], map[next]);
        }
        drop(map);
        finish_rebuild(b, bump)
    })
}

/// Writes node `n` in f64. Its results.
fn promoted<'g>(g: Graph<'_>, b: &'g Builder, n: Node, map: &Side<Value, Var<'g>>, regions: &[Region]) -> Vec<Var<'g>> {
    if g.op[n.at()] == Op::CONSTANT {
        let ConstantAttrs { dtype, data, .. } = ConstantAttrs::of(&g.attrs(n));
        let wide = promote_dtype_f64(dtype);
        return vec![b.constant_bytes(&bytes_promoted_to_f64(&data, dtype), g.dims(g.out(n)), wide)];
    }
    let mut owned: Vec<Owned> = g.attrs(n).iter().map(|(_, a)| a).collect();
    for a in &mut owned {
        match a {
            Owned::DType(d) => *d = promote_dtype_f64(*d),
            Owned::Region(r) => *a = Owned::Region(regions.get(r.at()).copied().unwrap_or(Region::NONE)),
            _ => {}
        }
    }
    let attrs: Vec<Attr<'_>> = owned.iter().map(Owned::as_attr).collect();
    let args: Vec<Var<'g>> = g.args_of(n).iter().map(|&a| map[a]).collect();
    match g.leaf(g.out(n)) {
        Some((_, name)) => vec![b.var(b.with(|e| e.leaf(g.op[n.at()], name, &attrs[1..])))],
        None => b.emit(g.op[n.at()], &args, &attrs).into(),
    }
}

/// The dtype that takes the place of `d`.
fn promote_dtype_f64(d: DType) -> DType {
    match d {
        DType::F32 | DType::F16 | DType::BF16 => DType::F64,
        DType::C64 => DType::C128,
        other => other,
    }
}

/// The bytes of a constant of dtype `from` after promotion.
fn bytes_promoted_to_f64(bytes: &[u8], from: DType) -> Vec<u8> {
    let pairs = || bytes.as_chunks::<2>().0.iter();
    match from {
        DType::F32 | DType::C64 => {
            let floats = bytes.as_chunks::<4>().0.iter();
            floats.flat_map(|b| f64::from(f32::from_le_bytes(*b)).to_le_bytes()).collect()
        }
        DType::F16 => pairs().flat_map(|b| half::f16::from_le_bytes(*b).to_f64().to_le_bytes()).collect(),
        DType::BF16 => pairs().flat_map(|b| half::bf16::from_le_bytes(*b).to_f64().to_le_bytes()).collect(),
        _ => bytes.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Location;
    use crate::nodes::Init;
    use crate::nodes::ir::text::{parse, print};

    #[test]
    fn floats_widen_and_the_signature_stays() {
        let g = Builder::new("mixed");
        let x = g.input("x", [2, 3], DType::F32);
        let w = g.param("w", [3], DType::F16, Init::Ones);
        let i = g.input("i", [2], DType::I32);
        let c = g.constant(&[0.5, -2.0, 3.0], [3]);
        let z = g.input("z", [2, 3], DType::C64);
        let y = (x * c + w.cast(DType::F32) + (z * z).abs()).sum(1) + i.cast(DType::F32);
        let graph = g.finish([y.named("y")]).unwrap();
        let wide = promote_f64(graph.view()).unwrap();
        let v = wide.view();
        let types: Vec<String> = v.leaves().map(|l| format!("{}: {}", l.name, v.ty_text(l.value))).collect();
        assert_eq!(types, ["x: f64[2,3]", "w: f64[3]", "i: i32[2]", "z: c128[2,3]"]);
        assert_eq!(v.ty_text(v.find_output("y").unwrap()), "f64[2]");
    }

    #[test]
    fn constants_keep_their_values() {
        let half = half::f16::from_f64(1.5).to_le_bytes();
        assert_eq!(bytes_promoted_to_f64(&half, DType::F16), 1.5f64.to_le_bytes());
        assert_eq!(bytes_promoted_to_f64(&(-0.25f32).to_le_bytes(), DType::F32), (-0.25f64).to_le_bytes());
        assert_eq!(bytes_promoted_to_f64(&[1, 2], DType::U8), [1, 2]);
    }

    /// A function with a rule keeps its regions, in f64 as what calls it.
    #[test]
    fn functions_with_rules_are_promoted_with_their_rules() {
        let text = "region @f(%x: f32[3]) {
              %1 = full value=0.5 : f32[3]
              %y = mul %x, %1
              yield %y
            }
            region @f.vjp(%x: f32[3], %y: f32[3], %d: f32[3]) {
              %c = mul %d, %x
              yield %c
            }
            graph @g {
              %x = input : f32[3]
              %y = custom_fn %x body=@f captures=0 vjp=@f.vjp
              return y=%y
            }";
        let wide = promote_f64(parse(text).unwrap().view()).unwrap();
        let v = wide.view();
        let want = "region @f(%0: f64[3]) {
  %1 = full value=0.5 : f64[3]
  %2 = mul %0, %1 : f64[3]
  yield %2
}
region @f.vjp(%0: f64[3], %1: f64[3], %2: f64[3]) {
  %3 = mul %2, %0 : f64[3]
  yield %3
}
graph @g {
  %x = input : f64[3]
  %1 = custom_fn %x body=@f captures=0 vjp=@f.vjp : f64[3]
  return y=%1
}
";
        assert_eq!(print(v), want);
        // Errors name the line that the promoted op stands for.
        assert!(matches!(v.location(Node::new(v.nodes() - 1)), Location::Text(12, _)));
    }
}
