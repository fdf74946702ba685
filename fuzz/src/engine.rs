//! The engine as targets use it: a drawn graph, bytes for its leaves, a few steps, and the bytes after them.

use crate::script::Script;
use arenagrad::error::{Error, Kind};
use arenagrad::graph::{Builder, DType, GraphBuf};
use arenagrad::session::{Binding, Program, Role, Session};
use arenagrad::tools::arena::rng::SplitMix64;
use arenagrad::tools::fuzz::{GraphOptions, draw_graph, random_graph};
use arenagrad::tools::ir::emit::Emit;
use arenagrad::tools::passes::copier::Copier;
use arenagrad::tools::passes::rebuild::{finish_rebuild, rebuilt_by_pass};

/// The graph that the next decisions draw, of up to `nodes` drawn nodes and what they need.
pub fn drawn_graph(script: &mut Script<'_>, nodes: u32) -> GraphBuf {
    match script.below(4) {
        // Operands of the shapes of conformance cases, seldom connected.
        0 => random_graph(nodes, &mut script.draws()).unwrap_or_else(|e| panic!("a drawn graph is valid: {e}")),
        _ => drawn_graph_with(script, nodes, |options| options),
    }
}

/// As [`drawn_graph`], with options that `f` changes.
pub fn drawn_graph_with(script: &mut Script<'_>, nodes: u32, f: impl FnOnce(GraphOptions) -> GraphOptions) -> GraphBuf {
    let options = GraphOptions::default().nodes(nodes).largest_axis(64).largest_value(1 << 9);
    let options = f(options.depth(1 + script.below(8)).regions(script.below(4) == 0));
    draw_graph(&options, &mut script.draws()).unwrap_or_else(|e| panic!("a drawn graph is valid: {e}"))
}

/// `g` with one more output, the sum of its first output of F32 or F64, and the name of that output; none if there is
/// no such output.
pub fn with_loss(g: &GraphBuf) -> Option<(GraphBuf, String)> {
    let v = g.view();
    let summed = v.outputs().iter().copied().find(|&y| matches!(v.ty(y).dtype, DType::F32 | DType::F64))?;
    let is_taken = |name: &str| v.find_output(name).is_some() || v.leaves().any(|l| l.name == name);
    let name = (0..).map(|i| format!("loss{i}")).find(|name| !is_taken(name))?;
    let made = rebuilt_by_pass("loss", |bump| {
        let b = Builder::rewriting(Emit::like(&v));
        let mut c = Copier::new(v, &b);
        c.run(&mut |_| None);
        c.signature();
        let y = c.map[summed];
        b.output(&name, if y.dims().is_empty() { y } else { y.sum(..) });
        drop(c);
        finish_rebuild(b, bump)
    });
    Some((made.unwrap_or_else(|e| panic!("a sum of an output: {e}\n{g:?}")), name))
}

/// A reader's error: it says what is wrong and, after `place`, where.
pub fn reader_error(e: &Error, place: &str) {
    assert!(e.kind == Kind::Data, "{e:?}");
    let at = e.message.strip_prefix(place).unwrap_or_else(|| panic!("the error has no place: {e:?}"));
    assert!(at.starts_with(|c: char| c.is_ascii_digit()), "{e:?}");
    assert!(e.message.len() < 4096, "{} bytes of message", e.message.len());
}

/// Bytes for a tensor: small reals, small indices, mostly 0 and 1.
fn leaf_bytes(b: &Binding, rng: &mut SplitMix64) -> Vec<u8> {
    let n = b.dims.numel();
    let mut real = || ((rng.bits() >> 40) as f64 / (1 << 24) as f64) * 3.0 - 1.5;
    match b.dtype {
        DType::F32 => (0..n).flat_map(|_| (real() as f32).to_le_bytes()).collect(),
        DType::C64 => (0..2 * n).flat_map(|_| (real() as f32).to_le_bytes()).collect(),
        DType::F64 => (0..n).flat_map(|_| real().to_le_bytes()).collect(),
        DType::C128 => (0..2 * n).flat_map(|_| real().to_le_bytes()).collect(),
        DType::BF16 => (0..n).flat_map(|_| half_of_single(real())).collect(),
        DType::F16 => (0..n).flat_map(|_| [rng.bits() as u8, 0x38 | (rng.bits() as u8 & 0x83)]).collect(),
        _ => {
            let mut bytes = vec![0; b.bytes];
            let size = b.bytes / n.max(1);
            let most = if b.dtype == DType::Bool { 2 } else { 3 };
            bytes.chunks_mut(size.max(1)).for_each(|e| e[0] = (rng.bits() % most) as u8);
            bytes
        }
    }
}

/// The upper half of a single: a bfloat16.
fn half_of_single(x: f64) -> [u8; 2] {
    let [_, _, low, high] = (x as f32).to_le_bytes();
    [low, high]
}

/// Fills all inputs, params and states of `p` with bytes that follow from `seed` and the leaf's place.
pub fn fill_leaves(p: &mut Program, seed: u64) {
    let leaves: Vec<Binding> = p.bindings().iter().filter(|b| b.role != Role::Output).cloned().collect();
    for (i, b) in leaves.iter().enumerate() {
        let bytes = leaf_bytes(b, &mut SplitMix64(seed ^ (i as u64) << 32));
        if let Err(e) = p.write_bytes(&b.name, &bytes) {
            panic!("{:?}: {e}", b.name);
        }
    }
}

/// The bytes of all outputs, params and states.
pub fn left_bytes(p: &Program) -> Vec<(String, Vec<u8>)> {
    let kept = p.bindings().iter().filter(|b| b.role != Role::Input);
    kept.map(|b| (b.name.clone(), canonical(b.dtype, p.bytes_of(b)))).collect()
}

/// Bytes in which every NaN is the same.
pub fn canonical(dtype: DType, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match dtype {
        DType::F32 | DType::C64 => bytes
            .as_chunks_mut::<4>()
            .0
            .iter_mut()
            .filter(|b| f32::from_le_bytes(**b).is_nan())
            .for_each(|b| *b = f32::NAN.to_le_bytes()),
        DType::F64 | DType::C128 => bytes
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .filter(|b| f64::from_le_bytes(**b).is_nan())
            .for_each(|b| *b = f64::NAN.to_le_bytes()),
        DType::F16 | DType::BF16 => {
            let (exponent, fraction) = if dtype == DType::F16 { (0x7C00, 0x03FF) } else { (0x7F80, 0x007F) };
            let nan = |x: u16| x & exponent == exponent && x & fraction != 0;
            bytes
                .as_chunks_mut::<2>()
                .0
                .iter_mut()
                .filter(|b| nan(u16::from_le_bytes(**b)))
                .for_each(|b| *b = 0x7FFFu16.to_le_bytes());
        }
        _ => {}
    }
    bytes
}

/// What `steps` steps of `g` leave: the bytes of outputs, params and states, or the error of the first step that fails.
pub type Outcome = Result<Vec<(String, Vec<u8>)>, Error>;

/// Compiles `g` and runs it. A graph that does not compile is a finding.
pub fn outcome(g: &GraphBuf, session: &Session, seed: u64, steps: usize) -> Outcome {
    let mut p = session.compile(g).unwrap_or_else(|e| panic!("a valid graph compiles: {e}\n{g:?}"));
    run_steps(&mut p, seed, steps)
}

/// Fills the leaves of `p` and runs it. A step that fails for another reason than its data is a finding.
pub fn run_steps(p: &mut Program, seed: u64, steps: usize) -> Outcome {
    fill_leaves(p, seed);
    for _ in 0..steps {
        if let Err(e) = p.step() {
            assert!(e.kind == Kind::Data, "a step fails: {e:?}");
            return Err(e);
        }
    }
    Ok(left_bytes(p))
}

/// Two outcomes of one graph are the same, to the bit.
pub fn assert_same(what: &str, a: &Outcome, b: &Outcome, g: &GraphBuf) {
    match (a, b) {
        (Ok(a), Ok(b)) => {
            for ((name, a), (other, b)) in a.iter().zip(b) {
                assert!(name == other && a == b, "{what}: {name:?} differs\n{a:02x?}\n{b:02x?}\n{g:?}");
            }
            assert_eq!(a.len(), b.len(), "{what}");
        }
        // An index may be out of range; then it is so every way.
        (Err(a), Err(b)) => assert!(a.kind == Kind::Data && b.kind == Kind::Data, "{what}: {a:?} and {b:?}\n{g:?}"),
        (a, b) => panic!("{what}: {:?} against {:?}\n{g:?}", a.as_ref().err(), b.as_ref().err()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bfloat16_has_a_mantissa() {
        assert_eq!(u16::from_le_bytes(half_of_single(1.25)), 0x3FA0);
        assert_eq!(u16::from_le_bytes(half_of_single(-1.5)), 0xBFC0);
    }

    #[test]
    fn most_drawn_graphs_have_an_output_to_sum_up() {
        let summed = (0..40u64).filter(|&seed| {
            let mut rng = SplitMix64(seed);
            let bytes: Vec<u8> = (0..256).map(|_| rng.bits() as u8).collect();
            let g = drawn_graph(&mut Script::new(&bytes), 8);
            let Some((with, name)) = with_loss(&g) else { return false };
            let v = with.view();
            assert!(v.find_output(&name).is_some_and(|y| v.dims(y).is_empty()), "{with:?}");
            true
        });
        assert!(summed.count() > 20);
    }
}
