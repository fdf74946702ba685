//! Wrong calls of op definitions, and wrong tapes.

use super::ops::{self, COLUMNS, FRESH, REVERSE, one};
use super::random::planned;
use crate::kernels::abi::{Args, Split};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Lower, OpDef};
use crate::nodes::{Builder, DType};
use crate::sched::checker::check_plan;
use crate::sched::pack::lines;
use crate::sched::races::race_free;
use crate::sched::schedule;
use crate::sched::share::share_tapes_above;

fn idle(_: &mut Args<'_>) {}

fn call(reads: &[Buf], writes: &[(Buf, Split)], units: usize, inplace: &[(usize, usize)]) -> Call {
    let (reads, writes, inplace) = (reads.to_vec(), writes.to_vec(), inplace.to_vec());
    Call { reads, writes, inplace, ..Call::new(idle, [], units) }
}

/// The error of scheduling one node of an op with this lowering, on 8 elements.
fn error(def: &'static OpDef) -> String {
    let g = Builder::new("g");
    let x = g.input("x", [8], DType::F32);
    g.output("y", one(&g, def, &[x]));
    schedule(g.finish([]).unwrap().view(), 2).err().unwrap().to_string()
}

const fn def(name: &'static str, lower: fn(&mut LowerCx<'_>) -> Result<(), String>) -> OpDef {
    OpDef { name, lower: Lower::Kernel(lower), ..ops::DEF }
}

const OUT: (Buf, Split) = (Buf::Out(0), Split::PerUnit(4));

macro_rules! refused {
    ($($name:ident: $lower:expr => $message:literal;)*) => {
        $(
            #[test]
            fn $name() {
                static DEF: OpDef = def(stringify!($name), $lower);
                let e = error(&DEF);
                assert!(e.contains($message), "{e}");
            }
        )*
    };
}

refused! {
    a_result_that_no_call_writes: |_| Ok(()) => "no call writes result 0";
    units_that_leave_a_rest: |cx| {
        cx.call(call(&[Buf::Arg(0)], &[OUT], 1, &[]));
        Ok(())
    } => "leave a rest";
    columns_that_leave_a_rest: |cx| {
        cx.call(call(&[Buf::Arg(0)], &[(Buf::Out(0), Split::Columns { row: 4, width: 1 })], 2, &[]));
        Ok(())
    } => "2 units of 1 columns of 4 leave a rest";
    columns_of_rows_that_leave_a_rest: |cx| {
        cx.call(call(&[Buf::Arg(0)], &[(Buf::Out(0), Split::Columns { row: 3, width: 2 })], 2, &[]));
        Ok(())
    } => "leave a rest";
    columns_of_rows_of_nothing: |cx| {
        cx.call(call(&[Buf::Arg(0)], &[(Buf::Out(0), Split::Columns { row: 0, width: 2 })], 2, &[]));
        Ok(())
    } => "leave a rest";
    columns_without_end: |cx| {
        let split = Split::Columns { row: 4, width: usize::MAX / 2 + 1 };
        cx.call(call(&[Buf::Arg(0)], &[(Buf::Out(0), split)], 2, &[]));
        Ok(())
    } => "leave a rest";
    units_that_write_one_operand_whole: |cx| {
        cx.call(call(&[Buf::Arg(0)], &[(Buf::Out(0), Split::Whole)], 2, &[]));
        Ok(())
    } => "write one operand whole";
    a_call_that_writes_its_operand: |cx| {
        cx.call(call(&[], &[(Buf::Arg(0), Split::PerUnit(4)), OUT], 2, &[]));
        Ok(())
    } => "writes an operand";
    a_call_that_names_what_is_not_there: |cx| {
        cx.call(call(&[Buf::Arg(1)], &[OUT], 2, &[]));
        Ok(())
    } => "names operand 1";
    a_pair_that_names_what_is_not_there: |cx| {
        cx.call(call(&[Buf::Arg(0)], &[OUT], 2, &[(0, 1)]));
        Ok(())
    } => "in-place pair";
    a_pair_of_a_read_behind_those_that_pairs_can_name: |cx| {
        cx.call(call(&[Buf::Arg(0); 256], &[OUT], 2, &[(254, 0), (255, 0)]));
        Ok(())
    } => "in-place pair (255, 0)";
    per_thread_scratch_that_is_read: |cx| {
        let s = cx.scratch(4, 2);
        cx.call(call(&[], &[s], 2, &[]));
        cx.call(call(&[s.0], &[OUT], 2, &[]));
        Ok(())
    } => "how work was split";
    a_temporary_that_is_read_first: |cx| {
        let t = cx.temp(4, 8);
        cx.call(call(&[t], &[OUT], 2, &[]));
        Ok(())
    } => "read before it is written";
    a_result_that_is_read_as_it_is_written: |cx| {
        cx.call(call(&[Buf::Arg(0)], &[OUT], 2, &[]));
        cx.call(call(&[Buf::Out(0)], &[OUT], 2, &[]));
        Ok(())
    } => "overlaps read";
    a_window_that_is_too_large: |cx| {
        cx.view(0, 0, 1);
        Ok(())
    } => "no window";
    scratch_without_end: |cx| {
        let s = cx.scratch(4, usize::MAX / 8);
        cx.call(call(&[], &[s, OUT], 2, &[]));
        Ok(())
    } => "does not fit in memory";
}

/// An operand that is no leaf is not written either, nor is a part of it.
#[test]
fn a_call_that_writes_what_another_node_made_is_refused() {
    static WHOLE: OpDef = def("writes_its_operand", |cx| {
        cx.call(call(&[], &[(Buf::Arg(0), Split::PerUnit(4)), OUT], 2, &[]));
        Ok(())
    });
    static VIEW: OpDef = OpDef {
        infer: |cx| {
            let d = cx.dtype(0);
            cx.result(d, &[4])
        },
        ..def("makes_and_writes_a_view", |cx| {
            cx.view(0, 0, 4);
            cx.call(call(&[], &[OUT], 1, &[]));
            Ok(())
        })
    };
    for def in [&WHOLE, &VIEW] {
        let g = Builder::new("g");
        let x = one(&g, &FRESH, &[g.input("x", [8], DType::F32)]);
        g.output("y", one(&g, def, &[x]));
        let e = schedule(g.finish([]).unwrap().view(), 2).err().unwrap().to_string();
        assert!(e.contains("a call writes an operand or a view"), "{e}");
    }
}

#[test]
fn tapes_without_their_barriers_race() {
    let g = Builder::new("g");
    let x = g.input("x", [64], DType::F32);
    g.output("y", one(&g, &REVERSE, &[one(&g, &FRESH, &[x])]));
    let plan = check_plan(planned(g.finish([]).unwrap().view(), 2, lines::pack_lines).plan).unwrap();
    let right = share_tapes_above(&plan, 1);
    assert_eq!(right.thread(0).iter().filter(|e| e.barrier).count(), 1);
    race_free(&plan, &right).unwrap();
    let mut wrong = right.clone();
    wrong.entries.retain(|e| !e.barrier);
    wrong.at = vec![0, 2, 4];
    assert!(race_free(&plan, &wrong).unwrap_err().contains("without a barrier"));
    let mut wrong = right.clone();
    wrong.entries[0].to += 1;
    assert!(race_free(&plan, &wrong).unwrap_err().contains("not run once"));
    let mut wrong = right;
    wrong.entries.swap(0, 1);
    assert!(race_free(&plan, &wrong).is_err());
}

#[test]
fn tapes_whose_columns_overlap_race() {
    let g = Builder::new("g");
    let x = g.input("x", [64], DType::F32);
    g.output("y", one(&g, &REVERSE, &[one(&g, &COLUMNS, &[x])]));
    let plan = check_plan(planned(g.finish([]).unwrap().view(), 2, lines::pack_lines).plan).unwrap();
    let right = share_tapes_above(&plan, 1);
    let columns = |t: usize| right.thread(t)[0];
    assert_eq!((columns(0).from, columns(0).to, columns(1).from, columns(1).to), (0, 3, 3, 6));
    assert_eq!(right.thread(0).iter().filter(|e| e.barrier).count(), 1);
    race_free(&plan, &right).unwrap();
    for (entry, from, to) in [(0, 0, 4), (0, 0, 2), (0, 1, 3), (3, 2, 6), (3, 3, 7), (3, 0, 6)] {
        let mut wrong = right.clone();
        (wrong.entries[entry].from, wrong.entries[entry].to) = (from, to);
        assert!(race_free(&plan, &wrong).unwrap_err().contains("not run once"), "{entry}: {from}..{to}");
    }
    let mut wrong = right.clone();
    wrong.entries.retain(|e| !e.barrier);
    wrong.at = vec![0, 2, 4];
    assert!(race_free(&plan, &wrong).unwrap_err().contains("without a barrier"));
}
