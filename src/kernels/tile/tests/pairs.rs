//! Two steps that one loop computes have the bits of two steps, whichever of their operands are constants or scalars.

use super::*;

/// What an operand of a step is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operand {
    /// Input `k`, of floats.
    Input(u16),
    /// An input of truths.
    Truths,
    Constant(f64),
    /// A scalar input: number `k` of [`SCALARS`].
    Uniform(usize),
    /// The result of the first step.
    First,
}

const CONSTANTS: [f64; 4] = [-2.5, 0.0, -0.0, f64::NAN];

const SCALARS: [f32; 2] = [0.3, f32::NAN];

/// The ways in which a step of `op` can read floats: inputs, constants and scalars.
fn operands(op: TileOp, inputs: [u16; 3]) -> Vec<Vec<Operand>> {
    let of = |k: usize| match op.operand(DType::F32, k) {
        DType::Bool => Operand::Truths,
        _ => Operand::Input(inputs[k]),
    };
    let all: Vec<Operand> = (0..op.arity()).map(of).collect();
    let mut ways = vec![all.clone()];
    let numbers = CONSTANTS.map(Operand::Constant).into_iter().chain((0..SCALARS.len()).map(Operand::Uniform));
    for (k, number) in (0..op.arity()).flat_map(|k| numbers.clone().map(move |number| (k, number))) {
        let mut way = all.clone();
        way[k] = number;
        // With a second one behind it.
        let next = (k + 1 < op.arity()).then(|| {
            let mut way = way.clone();
            way[k + 1] = Operand::Uniform(0);
            way
        });
        ways.extend(std::iter::once(way).chain(next));
    }
    ways.retain(|way| (0..op.arity()).all(|k| all[k] != Operand::Truths || way[k] == Operand::Truths));
    ways
}

/// A program of two steps. With `apart`, the result of the first is an output, so that no loop computes both.
fn program(first: (TileOp, &[Operand]), second: (TileOp, &[Operand]), len: usize, apart: bool) -> TileProgram {
    let scalars = vec![Input { elem: DType::F32, access: Access::Scalar }; SCALARS.len()];
    let inputs = [vec![full(DType::F32); 5], vec![full(DType::Bool)], scalars].concat();
    let mut p = TileProgram { inputs, steps: vec![], outputs: vec![], len };
    let mut made = 0;
    for (s, (op, operands)) in [first, second].into_iter().enumerate() {
        let args: Vec<u16> = operands
            .iter()
            .map(|operand| match *operand {
                Operand::Input(i) => i,
                Operand::Truths => 5,
                Operand::Uniform(k) => 6 + k as u16,
                Operand::First => made,
                Operand::Constant(c) => {
                    p.steps.push(TileStep::fill(DType::F32, c));
                    (p.inputs.len() + p.steps.len() - 1) as u16
                }
            })
            .collect();
        p.steps.push(TileStep::new(op, DType::F32, &args, [0.5, 2.0]));
        made = (p.inputs.len() + p.steps.len() - 1) as u16;
        if apart || s == 1 {
            p.outputs.insert(0, made);
        }
    }
    p
}

#[test]
fn pairs_have_the_bits_of_two_steps() {
    use TileOp::*;
    let firsts = [Neg, Recip, Exp, Add, Sub, Mul, Div, Max, Eq, Ne, Lt, Le, Gt, Ge];
    let seconds = [Neg, Recip, Exp, Add, Sub, Mul, Div, Max, Min, Select, Lt];
    let values = [0.0, -0.0, 1.0, -2.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-45, 3e38, -1.0, 0.3];
    let len = TILE + 21;
    // Drawn, so that each value meets each other one.
    let value = |i: usize, e: usize| {
        let drawn = ((e * 8 + i) as u32).wrapping_mul(0x9e37_79b9);
        values[((drawn ^ drawn >> 15).wrapping_mul(0x85eb_ca6b) >> 16) as usize % values.len()]
    };
    let input = |i: usize| Buffer::of(&(0..len).map(|e| value(i, e)).collect::<Vec<_>>());
    let mut buffers: Vec<Buffer> = (0..5).map(input).collect();
    buffers.push(Buffer::of(&(0..len).map(|e| (e % 3 == 0) as u8).collect::<Vec<_>>()));
    buffers.extend(SCALARS.map(|x| Buffer::of(&[x])));
    let bits = |b: &Buffer, truths: bool| -> Vec<u32> {
        match truths {
            true => b.bytes().iter().map(|&b| u32::from(b)).collect(),
            // The bits of a NaN are not defined.
            false => b.values::<f32>().iter().map(|x| if x.is_nan() { 0 } else { x.to_bits() }).collect(),
        }
    };
    let mut joined = 0;
    for (&first, &second) in firsts.iter().flat_map(|f| seconds.iter().map(move |s| (f, s))) {
        for before in operands(first, [0, 1, 2]) {
            let ways =
                (0..second.arity()).flat_map(|k| operands(second, [2, 3, 4]).into_iter().map(move |way| (k, way)));
            for (k, mut behind) in ways {
                let takes = if first.compares() { Operand::Truths } else { Operand::Input(2 + k as u16) };
                if behind[k] != takes {
                    continue;
                }
                behind[k] = Operand::First;
                let of = |apart| program((first, &before), (second, &behind), len, apart);
                let (one, two) = (of(false), of(true));
                assert_eq!(one.check(), Ok(()));
                joined += usize::from(TileCode::new(&one).steps.len() == 1);
                let (have, want) = (run_in(&one, &buffers, &[], 1).0, run_in(&two, &buffers, &[], 1).0);
                let truths = second.compares();
                let same = bits(&have[0], truths) == bits(&want[0], truths);
                assert!(same, "{first:?} of {before:?}, {second:?} of {behind:?}");
            }
        }
    }
    // Of the pairs of arithmetic, and of selections by a comparison.
    assert!(joined > 2000, "{joined} pairs");
}
