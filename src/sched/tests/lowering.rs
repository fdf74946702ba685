//! Lowering: what calls of an op may be, and the instructions, outputs and updates that come of them.

use super::ops::{DEF, FRESH, one};
use crate::error::Result;
use crate::kernels::abi::{Args, Split};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerFn;
use crate::nodes::ir::opdef::{Lower, OpDef};
use crate::nodes::{Builder, DType};
use crate::sched::instructions::Instructions;
use crate::sched::lower::lower;

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
