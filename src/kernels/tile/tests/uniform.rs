//! Operands that are one number for all elements, scalar inputs and constants, have the bits of inputs that repeat it.

use super::super::tile_table::NOTHING;
use super::*;

fn scalar(elem: DType) -> Input {
    Input { elem, access: Access::Scalar }
}

/// `p` with whole inputs in place of scalars and other broadcasts, and what they hold.
fn written_out(p: &TileProgram, inputs: &[Buffer]) -> (TileProgram, Vec<Buffer>) {
    let (mut whole, mut buffers) = (p.clone(), inputs.to_vec());
    for (input, buffer) in whole.inputs.iter_mut().zip(&mut buffers).filter(|(i, _)| i.access != Access::Full) {
        let (access, size) = (std::mem::replace(&mut input.access, Access::Full), input.elem.size());
        let element = |i| &buffer.bytes()[access::named(&access, i) * size..][..size];
        *buffer = Buffer::of(&(0..p.len).map(element).collect::<Vec<_>>().concat());
    }
    (whole, buffers)
}

/// The bits of the elements. Those of a NaN are not defined.
fn bits(elem: DType, buffer: &Buffer) -> Vec<u64> {
    match elem {
        DType::F32 => buffer.values::<f32>().iter().map(|x| if x.is_nan() { 0 } else { x.to_bits().into() }).collect(),
        DType::F64 => buffer.values::<f64>().iter().map(|x| if x.is_nan() { 0 } else { x.to_bits() }).collect(),
        _ => buffer.bytes().iter().map(|&b| b.into()).collect(),
    }
}

/// Runs `p` with its scalars and with these written out, in calls of one and of two units.
fn same_written_out(p: &TileProgram, inputs: &[Buffer], inplace: &[(usize, usize)]) {
    assert_eq!(p.check(), Ok(()));
    let (whole, buffers) = written_out(p, inputs);
    let (want, fault) = run_in(&whole, &buffers, &[], 1);
    for grain in [1, 2] {
        let (have, found) = run_in(p, inputs, inplace, grain);
        assert_eq!(found, fault, "{:?}", p.steps);
        for (j, (have, want)) in have.iter().zip(&want).enumerate() {
            let elem = p.elem(p.outputs[j]).unwrap();
            assert_eq!(bits(elem, have), bits(elem, want), "result {j} of {:?}, length {}", p.steps, p.len);
        }
    }
}

/// Numbers of `elem`, of which none is 0.
fn numbers(elem: DType, len: usize) -> Buffer {
    let number = |i: usize| (i * 7 % 23) as i32 - 11 + i32::from(i * 7 % 23 == 11);
    match elem {
        DType::F32 => Buffer::of(&(0..len).map(|i| number(i) as f32 / 4.0).collect::<Vec<_>>()),
        DType::F64 => Buffer::of(&(0..len).map(|i| f64::from(number(i)) / 4.0).collect::<Vec<_>>()),
        DType::I32 => Buffer::of(&(0..len).map(number).collect::<Vec<_>>()),
        DType::I64 => Buffer::of(&(0..len).map(|i| i64::from(number(i))).collect::<Vec<_>>()),
        DType::Bool => Buffer::of(&(0..len).map(|i| u8::from(number(i) > 0)).collect::<Vec<_>>()),
        _ => Buffer::of(&(0..len).map(|i| number(i).unsigned_abs() as u8).collect::<Vec<_>>()),
    }
}

/// Each operation of each type, with each operand a scalar.
#[test]
fn scalars_change_no_bit() {
    let types = [DType::F32, DType::F64, DType::I32, DType::I64, DType::U8, DType::Bool];
    let mut checked = 0;
    for (&op, elem) in TileOp::ALL.iter().flat_map(|op| types.map(|elem| (op, elem))) {
        if !supports_operand_type(op, elem) || op.arity() < 2 {
            continue;
        }
        for k in 0..op.arity() {
            let of = |k: usize| op.operand(elem, k);
            let (last, len) = (op.arity() as u16, TILE + 9);
            let args: Vec<u16> = (0..last).collect();
            let mut p = TileProgram {
                inputs: (0..op.arity()).map(|k| full(of(k))).collect(),
                steps: vec![TileStep::new(op, elem, &args, [0.0; 2])],
                outputs: vec![last],
                len,
            };
            p.inputs[k].access = Access::Scalar;
            for start in [1, 2, 3] {
                let input = |i: usize| {
                    let all = numbers(of(i), len + start);
                    let size = of(i).size();
                    Buffer::of(&all.bytes()[start * size..(start + if i == k { 1 } else { len }) * size])
                };
                let inputs: Vec<Buffer> = (0..op.arity()).map(input).collect();
                same_written_out(&p, &inputs, &[]);
                checked += 1;
            }
        }
    }
    assert!(checked > 200, "{checked} programs");
}

/// A scalar that some steps read element by element has a tile; one that no step does has none.
#[test]
fn scalars_read_in_two_ways() {
    let step = |op, args: &[u16]| TileStep::new(op, DType::F32, args, [0.0; 2]);
    let inputs = vec![full(DType::F32), scalar(DType::F32)];
    for len in [1, TILE - 3, TILE, TILE + 1, 2 * UNIT + TILE + 5] {
        let buffers = [numbers(DType::F32, len), Buffer::of(&[2.5f32])];
        let once = TileProgram {
            inputs: inputs.clone(),
            steps: vec![step(TileOp::Mul, &[0, 1]), step(TileOp::Sub, &[1, 2]), step(TileOp::Max, &[0, 1])],
            outputs: vec![3, 4],
            len,
        };
        assert!(TileCode::new(&once).fetched.is_empty());
        same_written_out(&once, &buffers, &[]);
        // A power has no loop for it, and a result that it is is copied.
        let both = TileProgram {
            steps: vec![step(TileOp::Mul, &[0, 1]), step(TileOp::Pow, &[0, 1]), step(TileOp::Exp, &[1])],
            outputs: vec![2, 3, 4, 1],
            ..once.clone()
        };
        assert_eq!(TileCode::new(&both).fetched, [1]);
        same_written_out(&both, &buffers, &[]);
        // Both operands of a step, and of a pair.
        let sums = [step(TileOp::Add, &[1, 1]), step(TileOp::Mul, &[1, 1]), step(TileOp::Sub, &[3, 1])];
        let alone = TileProgram { steps: sums.to_vec(), outputs: vec![2, 4], ..once.clone() };
        same_written_out(&alone, &buffers, &[]);
    }
}

/// An input of which each tile has one element is read as one number, or gets a tile if some step reads its elements.
#[test]
fn numbers_of_tiles() {
    let strided = |dims: &[usize], strides: &[isize], base| {
        (dims.iter().product(), Access::Strided { dims: dims.to_vec(), strides: strides.to_vec(), base })
    };
    let accesses = [
        (3 * TILE, Access::Prefix(TILE)),
        (5 * TILE + 7, Access::Prefix(2 * TILE)),
        strided(&[2, 3, TILE], &[0, 1, 0], 0),
        strided(&[3, 2, 2 * TILE], &[-2, 5, 0], 4),
    ];
    for (elem, (len, access)) in [DType::F32, DType::F64].iter().flat_map(|e| accesses.iter().map(move |a| (*e, a))) {
        let step = |op, args: &[u16]| TileStep::new(op, elem, args, [0.0; 2]);
        let p = TileProgram {
            inputs: vec![full(elem), Input { elem, access: access.clone() }],
            steps: vec![step(TileOp::Mul, &[0, 1]), step(TileOp::Sub, &[1, 2]), step(TileOp::Max, &[0, 1])],
            outputs: vec![3, 4],
            len: *len,
        };
        let buffers = [numbers(elem, *len), numbers(elem, 12)];
        let slots = |p: &TileProgram| TileCode::new(p).inputs[1].slot;
        assert_eq!(TileCode::new(&p).fetched, [1]);
        // No loop on `f64` reads a number.
        assert_eq!(slots(&p) == NOTHING, elem == DType::F32);
        same_written_out(&p, &buffers, &[]);
        same_written_out(&p, &buffers, &[(0, 1)]);
        let both = TileProgram {
            steps: vec![step(TileOp::Mul, &[0, 1]), step(TileOp::Pow, &[0, 1])],
            outputs: vec![2, 3, 1],
            ..p.clone()
        };
        assert_ne!(slots(&both), NOTHING);
        same_written_out(&both, &buffers, &[]);
    }
}

/// A constant that is read as one number, element by element, and as a result.
#[test]
fn constants_read_in_two_ways() {
    let step = |op, args: &[u16]| TileStep::new(op, DType::F32, args, [0.0; 2]);
    for len in [1, TILE + 1, 2 * UNIT + TILE + 5] {
        let x = numbers(DType::F32, len);
        let mut p = TileProgram {
            inputs: vec![full(DType::F32)],
            steps: vec![TileStep::fill(DType::F32, 1.5), step(TileOp::Mul, &[0, 1]), step(TileOp::Min, &[1, 2])],
            outputs: vec![3],
            len,
        };
        let held = |p: &TileProgram| {
            let code = TileCode::new(p);
            (code.constants().count(), code.once.len())
        };
        p.steps.push(step(TileOp::Add, &[0, 1]));
        p.outputs.push(4);
        // The minimum reads a tile of it.
        assert_eq!(held(&p), (1, 1));
        p.steps.push(step(TileOp::Pow, &[0, 1]));
        p.outputs.push(5);
        assert_eq!(held(&p), (1, 1));
        p.outputs.push(1);
        assert_eq!(held(&p), (1, 0));
        let (outs, _) = run_in(&p, std::slice::from_ref(&x), &[], 1);
        let [product, sum, power, fill] = [0, 1, 2, 3].map(|j| outs[j].values::<f32>());
        for (i, &x) in x.values::<f32>().iter().enumerate() {
            assert_eq!((product[i], sum[i], fill[i]), ((1.5 * x).min(1.5), x + 1.5, 1.5));
            assert_eq!(power[i].is_nan(), x < 0.0);
        }
    }
}

/// A sum or a difference with a scalar is written in place of its other operand.
#[test]
fn sums_with_scalars_in_place() {
    let step = |op, args: &[u16]| TileStep::new(op, DType::F32, args, [0.0; 2]);
    let pair = |args: &[u16]| vec![step(TileOp::Mul, &[2, 1]), step(TileOp::Add, args)];
    // The steps, and whether the result may add to operand 0.
    let rows = [
        (vec![step(TileOp::Add, &[0, 1])], true),
        (vec![step(TileOp::Add, &[1, 0])], true),
        (vec![step(TileOp::Sub, &[0, 1])], true),
        (vec![step(TileOp::Sub, &[1, 0])], true),
        (vec![step(TileOp::Mul, &[1, 0])], false),
        (pair(&[0, 3]), true),
        (pair(&[3, 0]), true),
        (pair(&[3, 1]), false),
    ];
    for (steps, adds) in rows {
        for len in [1, TILE - 3, 2 * UNIT + TILE + 5] {
            let p = TileProgram {
                inputs: vec![full(DType::F32), scalar(DType::F32), full(DType::F32)],
                outputs: vec![2 + steps.len() as u16],
                steps: steps.clone(),
                len,
            };
            assert_eq!(TileCode::new(&p).adds_in_place(0, 0), adds, "{steps:?}");
            let buffers = [numbers(DType::F32, len), Buffer::of(&[-0.75f32]), numbers(DType::F32, len)];
            for pairs in [&[][..], &[(0, 0)], &[(2, 0)]] {
                same_written_out(&p, &buffers, pairs);
            }
        }
    }
}

/// A call of the kernel gives what operands outside of an arena give, with few inputs and with the most.
#[test]
fn tables_of_many_sizes() {
    let len = UNIT + TILE + 3;
    let buffers: Vec<Vec<f32>> = (0..MAX_INPUTS)
        .map(|i| (0..if i == 0 { len } else { 1 }).map(|e| ((i * 5 + e * 3) % 17) as f32 - 8.5).collect())
        .collect();
    for (inputs, constants) in (1..=MAX_INPUTS).step_by(3).map(|inputs| (inputs, inputs * 2 / 3)) {
        let mut p = TileProgram {
            inputs: (0..inputs).map(|i| if i == 0 { full(DType::F32) } else { scalar(DType::F32) }).collect(),
            len,
            ..TileProgram::default()
        };
        let mut sum = 0;
        for k in 1..inputs + constants {
            let mut number = k as u16;
            if k >= inputs {
                p.steps.push(TileStep::fill(DType::F32, k as f64 / 2.0));
                number = (inputs + p.steps.len() - 1) as u16;
            }
            // One reads a number, the other a tile of it.
            for op in [TileOp::Add, TileOp::Copysign] {
                p.steps.push(TileStep::new(op, DType::F32, &[sum, number], [0.0; 2]));
                sum = (inputs + p.steps.len() - 1) as u16;
            }
        }
        p.outputs = vec![sum];
        assert_eq!(p.check(), Ok(()));
        let reads: Vec<&[f32]> = buffers[..inputs].iter().map(|b| &b[..]).collect();
        let have = run_as_executed(&p, &reads, None);
        let want = run_in(&p, &reads.iter().map(|x| Buffer::of(x)).collect::<Vec<_>>(), &[], 1).0;
        assert_eq!(harness::written_elements::<f32>(&have, 0), want[0].values::<f32>(), "{inputs} inputs");
    }
}
