//! Calls of tile programs: faults, in-place pairs, and numbers as the bits of elements.

use crate::kernels::tile::{Access, Input, TileOp, TileProgram, TileStep};
use crate::nodes::ir::builder::Builder;
use crate::nodes::ir::call::Buf;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::common::lowered_in_tests::LoweredInTests;
use crate::nodes::ops::common::lowering::{element_bits, kernel_dtype, one_step_program, steps_may_fault};

fn lowered(op: Op, args: &[(&[usize], DType)]) -> LoweredInTests {
    LoweredInTests::of(op, args, &[], &[true])
}

#[test]
fn a_result_may_take_the_place_of_an_operand_with_elements_of_its_size() {
    let (x, i, on) = ((&[3, 5][..], DType::F32), (&[3, 5][..], DType::I32), (&[3, 5][..], DType::Bool));
    for (op, args, pairs) in [
        (Op::ADD, &[x, x][..], &[(0, 0), (1, 0)][..]),
        (Op::SELECT, &[on, x, x], &[(1, 0), (2, 0)]),
        (Op::AND, &[on, on], &[(0, 0), (1, 0)]),
        (Op::LT, &[i, i], &[]),
    ] {
        let l = lowered(op, args);
        assert_eq!((&l.calls[0].inplace[..], l.calls.len()), (pairs, 1));
        assert_eq!(l.calls[0].reads, (0..args.len()).map(Buf::Arg).collect::<Vec<_>>());
    }
    // Without elements there is nothing to do.
    assert!(lowered(Op::ADD, &[(&[0, 5], DType::F32), (&[0, 5], DType::F32)]).calls.is_empty());
}

#[test]
fn an_operand_that_is_named_twice_is_read_once() {
    let g = Builder::new("square");
    let (x, on) = (g.input("x", [4], DType::F32), g.input("on", [4], DType::Bool));
    let graph = g.finish([(x * x).named("y"), on.select(x, x).named("z")]).unwrap();
    let view = graph.view();
    for (op, want, args) in [(Op::MUL, vec![0], [0, 0, 0]), (Op::SELECT, vec![0, 1], [0, 1, 1])] {
        let n = view.region_nodes(view.entry()).find(|&n| view.def_of(n).name == op_name(op)).unwrap();
        let (program, operands) = one_step_program(&LowerCx::new(view, n, &[true])).unwrap();
        assert_eq!((operands, program.steps[0].args, program.outputs[0]), (want.clone(), args, want.len() as u16));
    }
}

fn op_name(op: Op) -> &'static str {
    crate::nodes::ops::table::OPS[op.0 as usize].name
}

#[test]
fn divisions_of_integers_by_what_may_be_0_may_stop_the_step() {
    let (x, i) = ((&[5][..], DType::F32), (&[5][..], DType::I32));
    assert!(lowered(Op::REMAINDER, &[i, i]).calls[0].looks.is_some());
    assert!(lowered(Op::REMAINDER, &[x, x]).calls[0].looks.is_none());
    assert!(lowered(Op::ADD, &[i, i]).calls[0].looks.is_none());
    // The input is value 0, the constant value 1, the sum value 2.
    let of = |dtype: DType, constant: f64, op: TileOp, args: [u16; 2]| {
        let steps = vec![
            TileStep::fill(dtype, constant),
            TileStep::new(TileOp::Add, dtype, &[0, 1], [0.0; 2]),
            TileStep::new(op, dtype, &args, [0.0; 2]),
        ];
        let inputs = vec![Input { elem: dtype, access: Access::Full }];
        steps_may_fault(&TileProgram { inputs, steps, outputs: vec![3], len: 8 })
    };
    assert!(!of(DType::I32, 3.0, TileOp::Remainder, [0, 1]));
    assert!(!of(DType::I32, 1.0, TileOp::FloorDivide, [0, 1]));
    assert!(of(DType::I32, 0.0, TileOp::Remainder, [0, 1]));
    assert!(of(DType::I32, 3.0, TileOp::Remainder, [1, 0]));
    assert!(of(DType::I32, 3.0, TileOp::Remainder, [0, 2]));
    assert!(!of(DType::F32, 0.0, TileOp::Remainder, [0, 1]));
    assert!(!of(DType::I32, 0.0, TileOp::Mul, [0, 1]));
}

#[test]
fn numbers_have_the_bits_of_their_type() {
    assert_eq!(element_bits(1.5, DType::F32), u64::from(1.5f32.to_bits()));
    assert_eq!(element_bits(1.5, DType::C64), u64::from(1.5f32.to_bits()));
    assert_eq!(element_bits(1.5, DType::F64), 1.5f64.to_bits());
    assert_eq!((element_bits(1.0, DType::F16), element_bits(1.0, DType::BF16)), (0x3c00, 0x3f80));
    assert_eq!((element_bits(300.0, DType::U8), element_bits(-1.0, DType::I8)), (255, u64::MAX));
    assert_eq!([0.0, 0.5, 1.0].map(|x| element_bits(x, DType::Bool)), [0, 1, 1]);
    assert_eq!(kernel_dtype(DType::C128), Err("no kernel for c128".to_string()));
    assert_eq!(kernel_dtype(DType::BF16), Ok(DType::BF16));
}
