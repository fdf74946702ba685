//! Lowering: what calls of an op may be, and the instructions, outputs and updates that come of them.

use super::ops::{DEF, FRESH, PICK, SCALE, TAIL, TWO, node, one};
use crate::error::Result;
use crate::kernels::abi::{Args, Split};
use crate::kernels::cost_model::CostClass;
use crate::nodes::ir::call::{Buf, Call, Looks};
use crate::nodes::ir::lower_cx::LowerFn;
use crate::nodes::ir::opdef::{Flags, Lower, OpDef};
use crate::nodes::{Builder, DType, Init, Var};
use crate::sched::instructions::{BufKind, Instructions, Operand, Update};
use crate::sched::lower::lower;
use crate::sched::modelled_time::InstrTime;

const F32: DType = DType::F32;

fn idle(_: &mut Args<'_>) {}

fn call() -> Call {
    Call::new(idle, [], 1)
}

fn op(lower: LowerFn) -> &'static OpDef {
    Box::leak(Box::new(OpDef { name: "t_op", lower: Lower::Kernel(lower), ..DEF }))
}

/// The code of an input of 256 bytes and one node of `def`, which reads the input, or a value made of it.
fn lowered(def: &'static OpDef, made: bool, threads: usize) -> Result<Instructions> {
    let g = Builder::new("g");
    let x = g.input("x", [64], F32);
    let x = if made { one(&g, &FRESH, &[x]) } else { x };
    g.output("y", one(&g, def, &[x]));
    let graph = g.finish([]).unwrap();
    Ok(lower(graph.view(), threads)?.code)
}

/// Lowerings that break one rule each, and the refusal.
const WRONG: &[(&str, LowerFn)] = &[
    ("a view of operand 1 as result 0, which do not exist", |cx| {
        cx.view(0, 1, 0);
        Ok(())
    }),
    ("a view of operand 0 as result 1, which do not exist", |cx| {
        cx.view(1, 0, 0);
        Ok(())
    }),
    ("scratch of threads, and nothing else, is split by threads", |cx| {
        cx.call(call().divided(Buf::Out(0), Split::PerThread(64)));
        Ok(())
    }),
    ("scratch of threads, and nothing else, is split by threads", |cx| {
        let (s, _) = cx.scratch(4, 4);
        cx.call(call().writes(Buf::Out(0), 64).writes(s, 4));
        Ok(())
    }),
    ("a call writes an operand or a view", |cx| {
        cx.view(0, 0, 0);
        cx.call(call().writes(Buf::Out(0), 64));
        Ok(())
    }),
    ("in-place pair (1, 0) names no operands", |cx| {
        cx.call(call().reads_args(1).writes(Buf::Out(0), 64).inplace(&[(1, 0)]));
        Ok(())
    }),
    ("a call writes 65 operands; 64 is the limit", |cx| {
        let all = (0..64).fold(call().writes(Buf::Out(0), 64), |all, _| all.writes(cx.temp(4, 4), 4));
        cx.call(all);
        Ok(())
    }),
    ("a call looks through read 1, which does not exist", |cx| {
        cx.call(call().reads_args(1).writes(Buf::Out(0), 64).looks(1, 8));
        Ok(())
    }),
    ("a call names result 1, which does not exist", |cx| {
        cx.call(call().writes(Buf::Out(0), 64).writes(Buf::Out(1), 64));
        Ok(())
    }),
    ("a call names temporary 0, which does not exist", |cx| {
        cx.call(call().reads(&[Buf::Temp(0)]).writes(Buf::Out(0), 64));
        Ok(())
    }),
    ("scratch of 9223372036854775808 elements of 1 bytes does not fit in memory", |cx| {
        cx.temp(1, isize::MAX as usize + 1);
        Ok(())
    }),
    ("scratch of 4611686018427387904 elements of 1 bytes does not fit in memory", |cx| {
        cx.scratch(1, 1 << 62);
        Ok(())
    }),
];

/// Just within the rules.
const RIGHT: &[LowerFn] = &[
    |cx| {
        cx.view(0, 0, 0);
        Ok(())
    },
    |cx| {
        cx.call(call().reads(&[Buf::Arg(0); 255]).writes(Buf::Out(0), 64).inplace(&[(254, 0)]));
        Ok(())
    },
    |cx| {
        let all = (0..63).fold(call().writes(Buf::Out(0), 64), |all, _| all.writes(cx.temp(4, 4), 4));
        cx.call(all);
        Ok(())
    },
    |cx| {
        cx.temp(1, isize::MAX as usize);
        cx.call(call().writes(Buf::Out(0), 64));
        Ok(())
    },
];

#[test]
fn calls_that_break_a_rule_are_refused() {
    for &(why, wrong) in WRONG {
        for made in [false, true] {
            let e = lowered(op(wrong), made, 2).unwrap_err().message;
            assert!(e.starts_with("t_op: ") && e.contains(why), "{why}: {e}");
        }
    }
    for (k, &right) in RIGHT.iter().enumerate() {
        assert!(lowered(op(right), true, 2).is_ok(), "{k}");
    }
}

/// A window has elements of the operand's size.
#[test]
fn a_view_of_elements_of_another_size_is_refused() {
    static BYTES: OpDef = OpDef {
        name: "t_bytes",
        infer: |cx| cx.result(DType::Bool, &[64]),
        lower: Lower::Kernel(|cx| {
            cx.view(0, 0, 0);
            Ok(())
        }),
        ..DEF
    };
    let e = lowered(&BYTES, false, 1).unwrap_err().message;
    assert_eq!(e, "t_bytes: result 0 at element 0 is no window of operand 0");
}

/// Temporaries come before results, scratch of threads has a part for each, and a call without units is left out. Time
/// is counted without scratch of threads.
#[test]
fn calls_become_instructions_over_buffers() {
    let def = op(|cx| {
        let (t, scratch) = (cx.temp(4, 10), cx.scratch(2, 6));
        let first = Call::new(idle, [7], 2).reads_args(1).writes(t, 5).scratch(scratch);
        cx.call(first.cost_class(CostClass::SORT).flops(50).ops(100));
        cx.call(Call::new(idle, [], 0).reads_args(1).writes(Buf::Out(0), 64));
        let last = call().reads(&[t, Buf::Arg(0)]).divided(Buf::Out(0), Split::Whole);
        cx.call(last.inplace(&[(1, 0)]).whole(3));
        Ok(())
    });
    let code = lowered(def, false, 3).unwrap();
    assert_eq!((code.len(), code.groups(), &code.effect[..]), (2, 1, &[false][..]));
    assert_eq!(code.bytes, [256, 40, 36, 256]);
    assert_eq!(code.kind, [BufKind::Input, BufKind::Scratch, BufKind::Scratch, BufKind::Output]);
    let of = |buf, len, size, split| Operand { buf, off: 0, len, size, split };
    let [x, t] = [of(0, 64, 4, Split::Whole), of(1, 10, 4, Split::Whole)];
    assert_eq!(code.reads_of(0), [x]);
    assert_eq!(code.reads_of(1), [t, x]);
    assert_eq!(code.writes_of(0), [of(1, 10, 4, Split::PerUnit(5)), of(2, 18, 2, Split::PerThread(6))]);
    assert_eq!(code.writes_of(1), [of(3, 64, 4, Split::Whole)]);
    assert_eq!((code.params_of(0), code.params_of(1)), (&[7][..], &[][..]));
    assert_eq!((code.pairs_of(0), code.pairs_of(1)), (&[][..], &[(1, 0)][..]));
    assert_eq!((code.units, code.flops, code.whole), (vec![2, 1], vec![50, 0], vec![0, 3]));
    let times = [(CostClass::SORT, 100, 256 + 40), (CostClass::COPY, 0, 40 + 256 + 256)];
    assert_eq!(code.time, times.map(|(class, ops, bytes)| InstrTime::of(class, ops, bytes)));
    assert_eq!(code.copies, [false; 2]);
}

/// Outputs and next values that are leaves are copied, each once. Empty leaves, and leaves that stay, have no update.
#[test]
fn outputs_and_next_values_have_bytes_of_their_own() {
    let g = Builder::new("g");
    let (x, w) = (g.input("x", [64], F32), g.param("w", [64], F32, Init::Ones));
    let [s, v] = ["s", "v"].map(|name| g.state(name, [64], F32, Init::Zeros));
    let (e, b) = (g.state("e", [0], F32, Init::Zeros), g.state("b", [1], DType::Bool, Init::Zeros));
    let c = g.constant(&[1.0; 64], [64]);
    let (y, x_tail) = (one(&g, &FRESH, &[x]), one(&g, &TAIL, &[x]));
    let z = one(&g, &FRESH, &[w]);
    let z_tail = one(&g, &TAIL, &[z]);
    for (leaf, next) in [(w, x), (s, y), (v, v), (e, one(&g, &FRESH, &[e])), (b, one(&g, &FRESH, &[b]))] {
        g.update(leaf, next);
    }
    let outputs = [("x", x), ("x again", x), ("x tail", x_tail), ("c", c), ("z", z), ("z tail", z_tail)];
    for (name, value) in outputs {
        g.output(name, value);
    }
    let code = lower(g.finish([]).unwrap().view(), 1).unwrap().code;
    let part = |buf, off, bytes| Operand::of_bytes(buf, off, bytes, Split::Whole);
    // The leaves and the constant are buffers 0 to 6. Then `y`, `z`, the next values of `e` and `b`, and the copies.
    assert_eq!(code.bytes[7..], [256, 256, 0, 1, 256, 128, 256]);
    let (made, out) = (BufKind::Activation, BufKind::Output);
    assert_eq!(code.kind[7..], [made, out, made, made, out, out, made]);
    let (x_copy, constant) = (part(11, 0, 256), part(6, 0, 256));
    assert_eq!(code.outputs, [x_copy, x_copy, part(12, 0, 128), constant, part(8, 0, 256), part(8, 128, 128)]);
    let update = |leaf, from| Update { leaf, from };
    assert_eq!(code.updates, [update(1, part(13, 0, 256)), update(2, part(7, 0, 256)), update(5, part(10, 0, 1))]);
    assert_eq!(code.copies, [false, false, false, true, true, true]);
    let from = [3, 4, 5].map(|i| code.reads_of(i)[0]);
    assert_eq!(from, [part(0, 0, 256), part(0, 128, 128), part(0, 0, 256)]);
}

#[test]
fn what_has_no_reader_and_no_effect_is_left_out() {
    static EFFECT: OpDef = OpDef {
        name: "t_effect",
        flags: Flags::EFFECT,
        lower: Lower::Kernel(|cx| {
            cx.call(call().reads_args(1).divided(Buf::Out(0), Split::Whole));
            Ok(())
        }),
        ..DEF
    };
    let g = Builder::new("g");
    let x = g.input("x", [64], F32);
    let _unread = one(&g, &SCALE, &[one(&g, &FRESH, &[x])]);
    g.output("y", node(&g, &TWO, &[one(&g, &FRESH, &[x])])[1]);
    let _effect = one(&g, &EFFECT, &[one(&g, &FRESH, &[x])]);
    let graph = g.finish([]).unwrap();
    let code = lower(graph.view(), 1).unwrap().code;
    let ops: Vec<&str> = code.node.iter().map(|&n| graph.view().def_of(n).name).collect();
    assert_eq!(ops, ["t_fresh", "t_two", "t_effect"]);
    assert_eq!(code.effect, [false, false, true]);
}

#[test]
fn indices_are_checked_unless_they_are_known_to_be_good() {
    let checks = |indices: fn(&Builder) -> Var<'_>| {
        let g = Builder::new("g");
        let x = g.input("x", [8], F32);
        g.output("y", one(&g, &PICK, &[x, indices(&g)]));
        let code = lower(g.finish([]).unwrap().view(), 1).unwrap().code;
        code.checks.iter().map(|c| (c.off, c.bytes, c.looks)).collect::<Vec<_>>()
    };
    let looks = Looks { read: 1, below: Some(8), or: None, early: false };
    assert!(checks(|g| g.iota(0, [8], DType::I32)).is_empty());
    assert_eq!(checks(|g| g.iota(0, [9], DType::I32)), [(0, 36, looks)]);
    assert_eq!(checks(|g| g.input("at", [8], DType::I32)), [(0, 32, looks)]);
}
