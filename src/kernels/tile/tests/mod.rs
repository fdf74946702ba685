//! Each operation against a scalar form, each access against its definition, and the invariants of `tile/mod.rs`:
//! ranges, tiles, in-place operands and instruction sets change no bit.

use super::loose_operands::{LooseOperands, compute_loose_elements};
use super::tile_kernel::tile_kernel as tile_run;
use super::*;
use crate::abi::Split;
use crate::harness::{self, In, Out};
use crate::simd::{self, Isa};
use arenagrad_arena::DType;
use arenagrad_arena::tensor::{LINE, Line};
use bytemuck::{Zeroable, cast_slice, cast_slice_mut};

mod access;
mod ops;
mod pairs;
mod uniform;

/// Line-aligned bytes.
#[derive(Clone)]
struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

impl Buffer {
    fn zeroed(len: usize) -> Buffer {
        Buffer { lines: vec![Line::zeroed(); len.div_ceil(LINE)], len }
    }

    fn of<T: bytemuck::Pod>(values: &[T]) -> Buffer {
        let bytes: &[u8] = cast_slice(values);
        let mut b = Buffer::zeroed(bytes.len());
        b.bytes_mut().copy_from_slice(bytes);
        b
    }

    fn bytes(&self) -> &[u8] {
        &cast_slice(&self.lines)[..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut cast_slice_mut(&mut self.lines)[..self.len]
    }

    fn values<T: bytemuck::Pod>(&self) -> &[T] {
        cast_slice(self.bytes())
    }
}

/// Runs a program in calls of `grain` units. `inplace` pairs an input with the output that starts as its bytes.
fn run_in(
    p: &TileProgram,
    inputs: &[Buffer],
    inplace: &[(usize, usize)],
    grain: usize,
) -> (Vec<Buffer>, Option<usize>) {
    let code = TileCode::new(p);
    let mut outs: Vec<Buffer> = p.outputs.iter().map(|o| Buffer::zeroed(p.len * p.elem(*o).unwrap().size())).collect();
    for (i, j) in inplace {
        outs[*j] = inputs[*i].clone();
    }
    let mut scratch = Buffer::zeroed(program_scratch_len(p));
    let mut first: Option<usize> = None;
    let mut unit = 0;
    while unit < count_units(p.len) {
        let (lo, hi) = (unit * UNIT, ((unit + grain) * UNIT).min(p.len));
        scratch.bytes_mut().fill(0xa5);
        let over = |i: usize| inplace.iter().find(|(k, _)| *k == i).map(|(_, j)| *j);
        let size = |j: usize| p.elem(p.outputs[j]).unwrap().size();
        let mut operands = LooseOperands {
            inputs: inputs.iter().enumerate().map(|(i, b)| over(i).map_or_else(|| Ok(b.bytes()), Err)).collect(),
            outs: outs.iter_mut().enumerate().map(|(j, b)| &mut b.bytes_mut()[lo * size(j)..hi * size(j)]).collect(),
            slots: scratch.bytes_mut(),
        };
        let fault = &mut |e: usize, _| first = Some(first.map_or(e, |f| f.min(e)));
        compute_loose_elements(&code, &mut operands, (lo, hi), fault);
        unit += grain;
    }
    (outs, first)
}

/// Xorshift64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn float(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64 * 8.0 - 4.0
    }
}

fn full(elem: DType) -> Input {
    Input { elem, access: Access::Full }
}

/// y = gelu(x·w + b)·r − s with every kind of broadcast, a comparison, a constant and three outputs.
fn mixture(len: usize) -> (TileProgram, Vec<Buffer>) {
    let mut rng = Rng(7);
    let mut floats = |n: usize| Buffer::of(&(0..n).map(|_| rng.float() as f32).collect::<Vec<_>>());
    let row = 24;
    let inputs = vec![floats(len), floats(1), floats(row), floats(len.div_ceil(row).max(1)), floats(len)];
    let strided = Access::Strided { dims: vec![len], strides: vec![-1], base: len.saturating_sub(1) };
    let input = |access| Input { elem: DType::F32, access };
    let step = |op, args: &[u16]| TileStep::new(op, DType::F32, args, [0.25, 0.0]);
    let p = TileProgram {
        inputs: vec![
            full(DType::F32),
            input(Access::Scalar),
            input(Access::Suffix(row)),
            input(Access::Prefix(row)),
            input(strided),
        ],
        steps: vec![
            step(TileOp::Mul, &[0, 1]),
            step(TileOp::Add, &[5, 2]),
            step(TileOp::Gelu, &[6]),
            step(TileOp::Fill, &[]),
            step(TileOp::Mul, &[7, 3]),
            step(TileOp::Sub, &[9, 4]),
            step(TileOp::Gt, &[10, 8]),
            TileStep::new(TileOp::Select, DType::F32, &[11, 10, 8], [0.0; 2]),
            step(TileOp::Exp, &[0]),
        ],
        outputs: vec![12, 11, 12],
        len,
    };
    (p, inputs)
}

#[test]
fn ranges_and_lengths_change_no_bit() {
    for len in [0, 1, 31, TILE - 1, TILE, TILE + 1, UNIT - 1, UNIT, UNIT + 1, 7 * UNIT + 129] {
        let (p, inputs) = mixture(len);
        assert_eq!(p.check(), Ok(()));
        let (want, _) = run_in(&p, &inputs, &[], usize::MAX / UNIT / 2);
        for grain in [1, 2, 3, 7] {
            let (got, _) = run_in(&p, &inputs, &[], grain);
            for (g, w) in got.iter().zip(&want) {
                assert_eq!(g.bytes(), w.bytes(), "length {len}, {grain} units a call");
            }
        }
        assert_eq!(want[0].bytes(), want[2].bytes());
        // The same element by element.
        let short = len.min(600);
        for e in (0..short).step_by(37) {
            let x: Vec<&[f32]> = inputs.iter().map(|b| b.values::<f32>()).collect();
            let hidden = x[0][e] * x[1][0] + x[2][e % 24];
            let y = crate::vmath::gelu(hidden) * x[3][e / 24] - x[4][len - 1 - e];
            let y = if y > 0.25 { y } else { 0.25 };
            assert_eq!(y.to_bits(), want[0].values::<f32>()[e].to_bits());
        }
    }
}

#[test]
fn in_place_is_out_of_place() {
    let (p, inputs) = mixture(3 * UNIT + 5);
    let (want, _) = run_in(&p, &inputs, &[], 1);
    for pair in [(0, 0), (0, 2)] {
        let (got, _) = run_in(&p, &inputs, &[pair], 2);
        for (g, w) in got.iter().zip(&want) {
            assert_eq!(g.bytes(), w.bytes());
        }
    }
    // One step, and both operands written in place by two outputs.
    let p = TileProgram {
        inputs: vec![full(DType::F32), full(DType::F32)],
        steps: vec![TileStep::new(TileOp::Sub, DType::F32, &[0, 1], [0.0; 2])],
        outputs: vec![2, 0],
        len: 2 * TILE + 3,
    };
    let ins: Vec<Buffer> =
        (1..3).map(|k| Buffer::of(&(0..p.len).map(|i| (i * k % 97) as f32).collect::<Vec<_>>())).collect();
    let (want, _) = run_in(&p, &ins, &[], 1);
    for pairs in [&[(0, 0), (1, 1)][..], &[(0, 1), (1, 0)], &[(1, 0)], &[(0, 0)]] {
        let (got, _) = run_in(&p, &ins, pairs, 1);
        assert_eq!(got[0].bytes(), want[0].bytes());
        assert_eq!(got[1].bytes(), want[1].bytes());
    }
}

/// Runs a program with one result as the executor does, in place of input `over`.
fn run_as_executed<T: bytemuck::Pod>(p: &TileProgram, inputs: &[&[T]], over: Option<usize>) -> harness::Outcome {
    let of = |(i, x): (usize, &&[T])| if over == Some(i) { In::of(x).over(0) } else { In::of(x) };
    let reads: Vec<In> = inputs.iter().enumerate().map(of).collect();
    let lines = program_scratch_len(p) / LINE;
    let writes = [Out::of::<T>(p.len, UNIT), Out(lines, LINE, Split::PerThread(lines))];
    let code: crate::abi::Prepared = std::sync::Arc::new(TileCode::new(p));
    harness::run_prepared(tile_run, (&[], Some(&code)), &reads, &writes, count_units(p.len))
}

/// A program of one step may run in place of either operand, in any ranges of units, with equal results and faults.
#[test]
fn one_step_in_place() {
    let len = 2 * UNIT + 2 * TILE + 3;
    let step = |op, elem| TileProgram {
        inputs: vec![full(elem), full(elem)],
        steps: vec![TileStep::new(op, elem, &[0, 1], [0.0; 2])],
        outputs: vec![2],
        len,
    };
    let [a, b] = [3, 7].map(|k| (0..len as i32).map(|i| i * k % 97 + 1).collect::<Vec<_>>());
    let mut zero = b.clone();
    zero[UNIT + TILE + 5] = 0;
    for p in [step(TileOp::Sub, DType::I32), step(TileOp::Div, DType::I32)] {
        let want = run_as_executed(&p, &[&a, &b], None);
        assert!(want.is_ok());
        let fails = run_as_executed(&p, &[&a, &zero], None);
        assert_eq!(fails.clone().err(), (p.steps[0].op == TileOp::Div).then_some(UNIT + TILE + 5));
        for over in [0, 1] {
            let got = run_as_executed(&p, &[&a, &b], Some(over));
            assert_eq!(harness::written_elements::<i32>(&got, 0), harness::written_elements::<i32>(&want, 0));
            assert_eq!(run_as_executed(&p, &[&a, &zero], Some(over)).err(), fails.clone().err());
        }
    }
    let [a, b] = [a, b].map(|x| x.iter().map(|&x| x as f32).collect::<Vec<_>>());
    let mut pair = step(TileOp::Mul, DType::F32);
    pair.inputs.push(full(DType::F32));
    pair.steps[0].args = [0, 1, 0];
    pair.steps.push(TileStep::new(TileOp::Add, DType::F32, &[3, 2], [0.0; 2]));
    pair.outputs = vec![4];
    let mut counter = step(TileOp::Fill, DType::F32);
    counter.inputs.pop();
    counter.steps = vec![
        TileStep::new(TileOp::Fill, DType::F32, &[], [1.0, 0.0]),
        TileStep::new(TileOp::Add, DType::F32, &[0, 1], [0.0; 2]),
    ];
    let programs = [(step(TileOp::Add, DType::F32), &[&a[..], &b][..]), (pair, &[&a, &b, &b]), (counter, &[&a])];
    for (p, inputs) in programs {
        assert!(TileCode::new(&p).direct);
        let want = run_as_executed(&p, inputs, None);
        for over in 0..inputs.len() {
            let got = run_as_executed(&p, inputs, Some(over));
            assert_eq!(harness::written_elements::<f32>(&got, 0), harness::written_elements::<f32>(&want, 0));
        }
    }
}

/// A step that adds to what its result is in place of, or subtracts from it, has the bits of one that reads another
/// buffer.
#[test]
fn sums_in_place_of_their_addend() {
    let step = |op, elem, args: &[u16]| TileStep::new(op, elem, args, [0.25, 0.0]);
    let two = |elem, args: &[u16]| vec![step(TileOp::Add, elem, args)];
    let pair_of = |op, args: &[u16]| vec![step(TileOp::Mul, DType::F32, &[1, 2]), step(op, DType::F32, args)];
    let pair = |args: &[u16]| pair_of(TileOp::Add, args);
    let constant = vec![
        step(TileOp::Fill, DType::F32, &[]),
        step(TileOp::Mul, DType::F32, &[1, 3]),
        step(TileOp::Add, DType::F32, &[4, 0]),
    ];
    let number = |args: &[u16]| vec![step(TileOp::Fill, DType::F32, &[]), step(TileOp::Add, DType::F32, args)];
    // The steps, and whether the result may add to operand 0.
    let rows = [
        (DType::F32, two(DType::F32, &[0, 1]), true),
        (DType::F32, two(DType::F32, &[1, 0]), true),
        (DType::F64, two(DType::F64, &[0, 1]), true),
        (DType::I32, two(DType::I32, &[0, 1]), false),
        (DType::F32, two(DType::F32, &[0, 0]), false),
        (DType::F32, vec![step(TileOp::Sub, DType::F32, &[0, 1])], true),
        (DType::F64, vec![step(TileOp::Sub, DType::F64, &[1, 0])], true),
        (DType::I32, vec![step(TileOp::Sub, DType::I32, &[0, 1])], false),
        (DType::F32, pair(&[3, 0]), true),
        (DType::F32, pair(&[0, 3]), true),
        (DType::F32, pair_of(TileOp::Sub, &[0, 3]), true),
        (DType::F32, pair_of(TileOp::Sub, &[3, 0]), false),
        (DType::F32, constant, true),
        (DType::F32, number(&[0, 3]), true),
        (DType::F32, number(&[3, 0]), true),
        (DType::F32, [pair(&[3, 0]), vec![step(TileOp::Exp, DType::F32, &[0])]].concat(), false),
    ];
    for (elem, steps, adds) in rows {
        for len in [1, TILE - 3, TILE, 2 * UNIT + TILE + 5] {
            // Two results, of which the second keeps a program of one step from the direct loop.
            for more in [false, true] {
                let last = 3 + steps.len() as u16 - 1;
                let first = if steps.last().is_some_and(|s| s.op == TileOp::Exp) { last - 1 } else { last };
                let mut p =
                    TileProgram { inputs: vec![full(elem); 3], steps: steps.clone(), outputs: vec![first], len };
                if first != last {
                    p.outputs.push(last);
                }
                if more {
                    p.steps.push(step(TileOp::Mul, elem, &[1, 2]));
                    p.outputs.push(last + 1);
                }
                let code = TileCode::new(&p);
                assert_eq!(code.adds_in_place(0, 0), adds, "{:?}", p.steps);
                let buffers: Vec<Buffer> = (0..3)
                    .map(|k| match elem {
                        DType::F64 => {
                            Buffer::of(&(0..len).map(|i| (i * (k + 3) % 97) as f64 / 7.0).collect::<Vec<_>>())
                        }
                        DType::I32 => Buffer::of(&(0..len).map(|i| (i * (k + 3) % 97) as i32).collect::<Vec<_>>()),
                        _ => Buffer::of(&(0..len).map(|i| (i * (k + 3) % 97) as f32 / 7.0).collect::<Vec<_>>()),
                    })
                    .collect();
                let (want, _) = run_in(&p, &buffers, &[], 1);
                for pair in [(0, 0), (1, 0)] {
                    let (got, _) = run_in(&p, &buffers, &[pair], 2);
                    for (g, w) in got.iter().zip(&want) {
                        assert_eq!(g.bytes(), w.bytes(), "{:?}, length {len}, input {} in place", p.steps, pair.0);
                    }
                }
            }
        }
    }
}

#[test]
fn instruction_sets_agree() {
    let (p, inputs) = mixture(UNIT + 77);
    let (want, _) = run_in(&p, &inputs, &[], 1);
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
        simd::limit(isa);
        let (got, _) = run_in(&p, &inputs, &[], 1);
        for (g, w) in got.iter().zip(&want) {
            assert_eq!(g.bytes(), w.bytes(), "{isa:?}");
        }
    }
    simd::limit(simd::detect_isa());
}

/// An operand that is a constant, of which a loop reads one number, gives the bits of an input that holds it.
#[test]
fn constants_in_loops_change_no_bit() {
    let values = [0.0, -0.0, 1.0, -2.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-45, 3e38];
    let x: Vec<f32> = (0..TILE + 9).map(|i| values[i % 9] as f32 * if i % 2 == 0 { 1.0 } else { 0.5 }).collect();
    let truths: Vec<u8> = (0..x.len()).map(|i| (i % 3 == 0) as u8).collect();
    for (&op, constant) in TileOp::ALL.iter().flat_map(|op| values.map(|c| (op, c))) {
        if !supports_operand_type(op, DType::F32) || op.arity() < 2 || op == TileOp::Cast {
            continue;
        }
        for k in 0..op.arity() {
            let of = |k: usize| op.operand(DType::F32, k);
            if of(k) != DType::F32 {
                continue;
            }
            let inputs: Vec<Input> = (0..op.arity()).map(|k| full(of(k))).collect();
            let last = inputs.len() as u16;
            let args: Vec<u16> = (0..last).collect();
            let whole = TileProgram {
                inputs,
                steps: vec![TileStep::new(op, DType::F32, &args, [0.0; 2])],
                outputs: vec![last],
                len: x.len(),
            };
            let mut with = whole.clone();
            with.steps.insert(0, TileStep::fill(DType::F32, constant));
            with.steps[1].args[k] = last;
            with.outputs = vec![last + 1];
            let held = vec![constant as f32; x.len()];
            let input = |i: usize| match of(i) {
                DType::F32 if i == k => Buffer::of(&held),
                DType::F32 => Buffer::of(&x),
                _ => Buffer::of(&truths),
            };
            let buffers: Vec<Buffer> = (0..op.arity()).map(input).collect();
            let (want, have) = (run_in(&whole, &buffers, &[], 1).0, run_in(&with, &buffers, &[], 1).0);
            // The bits of a NaN are not defined.
            let bits = |b: &Buffer| -> Vec<u32> {
                match op.compares() {
                    true => b.bytes().iter().map(|&b| u32::from(b)).collect(),
                    false => b.values::<f32>().iter().map(|x| if x.is_nan() { 0 } else { x.to_bits() }).collect(),
                }
            };
            let (want, have) = (bits(&want[0]), bits(&have[0]));
            let bad = want.iter().zip(&have).position(|(a, b)| a != b);
            assert_eq!(bad, None, "{op:?}, operand {k} = {constant}");
        }
    }
}

/// More inputs and results than small calls have room for.
#[test]
fn wide_programs() {
    for inputs in [8, 9, 16, 17, MAX_INPUTS] {
        let outputs = (inputs - 1).min(MAX_OUTPUTS);
        let steps = (1..inputs as u16).map(|i| TileStep::new(TileOp::Mul, DType::F32, &[0, i], [0.0; 2]));
        let p = TileProgram {
            inputs: vec![full(DType::F32); inputs],
            steps: steps.collect(),
            outputs: (0..outputs).map(|j| (inputs + j) as u16).collect(),
            len: TILE + 3,
        };
        let buffers: Vec<Buffer> = (0..inputs).map(|i| Buffer::of(&vec![i as f32 + 2.0; p.len])).collect();
        // Results in place of inputs that later steps read.
        let over: Vec<(usize, usize)> = (0..outputs).map(|j| (inputs - 1 - j, j)).collect();
        for pairs in [&[][..], &over] {
            let (outs, _) = run_in(&p, &buffers, pairs, 1);
            for (j, out) in outs.iter().enumerate() {
                assert_eq!(out.values::<f32>(), vec![2.0 * (j as f32 + 3.0); p.len], "{inputs} inputs, result {j}");
            }
        }
    }
}

#[test]
fn division_by_zero_names_the_first_element() {
    let len = 3 * UNIT;
    let mut divisor = vec![3i32; len];
    divisor[2 * UNIT + 9] = 0;
    divisor[UNIT + 300] = 0;
    let p = TileProgram {
        inputs: vec![full(DType::I32), full(DType::I32)],
        steps: vec![TileStep::new(TileOp::Div, DType::I32, &[0, 1], [0.0; 2])],
        outputs: vec![2],
        len,
    };
    let ins = [Buffer::of(&vec![-7i32; len]), Buffer::of(&divisor)];
    for grain in [1, 3] {
        let (got, fault) = run_in(&p, &ins, &[], grain);
        assert_eq!(fault, Some(UNIT + 300));
        assert_eq!(got[0].values::<i32>()[UNIT + 300], 0);
        assert_eq!(got[0].values::<i32>()[0], -2);
    }
    let mut out = vec![0u8; 4 * len];
    assert_eq!(evaluate_program(&p, &[ins[0].bytes(), ins[1].bytes()], &mut [&mut out]), Err(UNIT + 300));
}

#[test]
fn dead_steps_and_shared_slots() {
    // A long chain needs few slots; a dead step needs none.
    let mut p = TileProgram { inputs: vec![full(DType::F32)], steps: vec![], outputs: vec![], len: 4 * TILE };
    for s in 0..100u16 {
        p.steps.push(TileStep::new(TileOp::Add, DType::F32, &[s, s.saturating_sub(1)], [0.0; 2]));
    }
    p.steps.push(TileStep::new(TileOp::Exp, DType::F64, &[0], [0.0; 2]));
    assert!(p.check().is_err());
    p.steps.pop();
    p.steps.push(TileStep::new(TileOp::Exp, DType::F32, &[0], [0.0; 2]));
    p.outputs = vec![100];
    assert!(program_scratch_len(&p) <= 5 * TILE * 4, "{}", program_scratch_len(&p));
    let mut out = vec![0f32; p.len];
    let x = vec![1e-15f32; p.len];
    evaluate_program(&p, &[cast_slice(&x)], &mut [cast_slice_mut(&mut out)]).unwrap();
    let (mut a, mut b) = (1e-15f32, 1e-15f32);
    for _ in 0..100 {
        (a, b) = (a + b, a);
    }
    assert_eq!(out, vec![a; p.len]);
}
