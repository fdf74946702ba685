//! Bugs of other memory planners, each with a test that this planner does not have it. Numbers are issues of the
//! projects named.

use super::ops::{self, ADD, FRESH, REVERSE, SCALE, SUM, TAIL, TWO, one};
use super::random::{How, Planned, bits, expected, outcome, planned};
use crate::arena::tensor::LINE;
use crate::nodes::{Builder, DType, GraphBuf, Init};
use crate::sched::alias::decide_aliases;
use crate::sched::checker::check_plan;
use crate::sched::instructions::{BufKind, OUT_OF_PLACE};
use crate::sched::lower::lower;
use crate::sched::pack::lines;

const F32: DType = DType::F32;
const N: usize = 64;

fn holds(buf: &GraphBuf) {
    let g = buf.view();
    let want = expected(&g, 3);
    let Planned { lowered: l, plan: p, .. } = planned(g, 1, lines::pack_lines);
    let p = check_plan(p).unwrap();
    for how in [How::Solo, How::Poisoned] {
        let (o, s) = outcome(&g, &l, &p, how, 3);
        assert_eq!((bits(&o), bits(&s)), (bits(&want.0), bits(&want.1)));
    }
}

/// Copies that a plan makes beside the graph's own instructions.
fn copies(buf: &GraphBuf) -> usize {
    planned(buf.view(), 1, lines::pack_lines).plan.code.copies.iter().filter(|&&c| c).count()
}

/// A result may start where an operand ends its life only on the identical bytes (openxla/xla 46543).
#[test]
fn touching_lifetimes_share_identical_bytes_only() {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    let y = one(&g, &SCALE, &[one(&g, &FRESH, &[x])]);
    g.output("y", y);
    let buf = g.finish([]).unwrap();
    let Planned { ordered: o, plan: right, .. } = planned(buf.view(), 1, lines::pack_lines);
    let fresh = (0..o.live.len()).find(|&b| o.code.kind[b] == BufKind::Activation).unwrap();
    assert!(o.alias.class.iter().filter(|&&c| c as usize == fresh).count() == 2, "the scale works in place");
    assert!(check_plan(right.clone()).is_ok());
    let mut wrong = right.clone();
    wrong.bytes += LINE;
    let out = right.code.outputs[0].buf as usize;
    wrong.offset[out] += LINE;
    assert!(check_plan(wrong).unwrap_err().to_string().contains("in place on another extent"));
}

/// An operand that is read twice, once through a shifted window, cannot be overwritten (openxla/xla 49176).
#[test]
fn an_operand_that_is_read_through_a_window_too_is_not_overwritten() {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    let y = one(&g, &FRESH, &[x]);
    let (lo, hi) = (y.slice(&[0], &[N / 2], &[1]), one(&g, &TAIL, &[y]));
    let sum = one(&g, &ADD, &[one(&g, &SCALE, &[lo]), hi]);
    let twice = one(&g, &ADD, &[y, y]);
    g.output("a", sum);
    g.output("b", twice);
    let buf = g.finish([]).unwrap();
    let Planned { ordered: o, plan: right, .. } = planned(buf.view(), 1, lines::pack_lines);
    for (i, node) in right.code.node.iter().enumerate() {
        let reads = right.code.reads_of(i);
        if reads.len() == 2 && reads[0].buf == reads[1].buf {
            let mut wrong = right.clone();
            let at = right.code.read_range(i).start;
            assert_eq!(right.inplace[at..at + 2], [OUT_OF_PLACE; 2], "{node}");
            wrong.inplace[at] = 0;
            wrong.offset[right.code.writes_of(i)[0].buf as usize] = right.offset[reads[0].buf as usize];
            assert!(check_plan(wrong).is_err());
        }
    }
    assert_eq!(o.alias.inplace.len(), right.inplace.len());
}

/// A later reader of the old value does not cost the update its place: it is moved before (openxla/xla 45912).
#[test]
fn readers_of_the_old_value_come_first() {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    let w = g.param("w", [N], F32, Init::Ones);
    g.update(w, one(&g, &ADD, &[w, x]));
    g.output("y", one(&g, &FRESH, &[w]));
    let buf = g.finish([]).unwrap();
    assert_eq!(copies(&buf), 0);
    holds(&buf);
}

/// A reader of the old value that needs the new one cannot be moved: then there is a copy, and it is right.
#[test]
fn a_reader_that_needs_both_values_costs_a_copy() {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    let w = g.param("w", [N], F32, Init::Ones);
    let next = one(&g, &ADD, &[w, x]);
    g.update(w, next);
    g.output("y", one(&g, &ADD, &[w, one(&g, &FRESH, &[next])]));
    let buf = g.finish([]).unwrap();
    assert_eq!(copies(&buf), 1);
    holds(&buf);
}

/// Where and whether the update of a leaf is made in the leaf, for each order of the instructions: exactly where no
/// other instruction reads the old value afterwards, and its maker may work in place.
#[test]
fn no_order_updates_a_leaf_that_is_still_read() {
    for (maker, in_place) in [(&ADD, true), (&REVERSE, false)] {
        let g = Builder::new("g");
        let (x, w) = (g.input("x", [N], F32), g.param("w", [N], F32, Init::Ones));
        let next = if in_place { one(&g, maker, &[w, x]) } else { one(&g, maker, &[w]) };
        g.update(w, next);
        g.output("y", one(&g, &FRESH, &[w]));
        g.output("z", one(&g, &SCALE, &[w]));
        let code = lower(g.finish([]).unwrap().view(), 1).unwrap().code;
        let (leaf, from) = (code.updates[0].leaf, code.updates[0].from.buf);
        let mut orders = 0;
        for_each_order(code.len(), &mut |seq| {
            let (alias, copies) = decide_aliases(&code, seq);
            let made = seq.iter().position(|&i| code.writes_of(i as usize).iter().any(|o| o.buf == from)).unwrap();
            let late = seq[made + 1..].iter().any(|&i| code.reads_of(i as usize).iter().any(|o| o.buf == leaf));
            let shares = alias.class[from as usize] == leaf;
            assert_eq!((shares, copies.len()), (in_place && !late, usize::from(!shares)), "{seq:?}");
            orders += 1;
        });
        assert_eq!(orders, 6);
    }
}

/// A maker that reads its leaf twice, once as the operand whose bytes it may take over, does not take them over.
#[test]
fn a_leaf_that_its_update_reads_twice_is_copied() {
    let g = Builder::new("g");
    let w = g.param("w", [N], F32, Init::Ones);
    g.update(w, one(&g, &ADD, &[w, w]));
    let buf = g.finish([]).unwrap();
    assert_eq!(copies(&buf), 1);
    holds(&buf);
}

/// Calls `f` with each order of `n` instructions.
fn for_each_order(n: usize, f: &mut impl FnMut(&[u32])) {
    fn rest(order: &mut Vec<u32>, from: usize, f: &mut impl FnMut(&[u32])) {
        if from == order.len() {
            return f(order);
        }
        for k in from..order.len() {
            order.swap(from, k);
            rest(order, from + 1, f);
            order.swap(from, k);
        }
    }
    rest(&mut (0..n as u32).collect(), 0, f);
}

/// An output without a reader keeps its bytes to the end (onnxruntime 21019).
#[test]
fn an_output_that_nothing_reads_is_kept() {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    let two = ops::node(&g, &TWO, &[x]);
    g.output("unread", two[1]);
    let mut y = two[0];
    for _ in 0..6 {
        y = one(&g, &FRESH, &[y]);
    }
    g.output("y", y);
    holds(&g.finish([]).unwrap());
}

/// An output that is a window keeps the whole buffer behind it (pytorch 187678), and two names for one value are one
/// buffer (torch-spyre 4022).
#[test]
fn outputs_that_are_windows_are_kept() {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    let y = one(&g, &FRESH, &[x]);
    let tail = one(&g, &TAIL, &[one(&g, &TAIL, &[y])]);
    g.output("tail", tail);
    g.output("tail again", tail);
    g.output("flat", y.reshape([8, 8]));
    let mut z = one(&g, &FRESH, &[y]);
    for _ in 0..6 {
        z = one(&g, &SCALE, &[one(&g, &FRESH, &[z])]);
    }
    g.output("z", one(&g, &SUM, &[z]));
    let buf = g.finish([]).unwrap();
    holds(&buf);
    let p = planned(buf.view(), 1, lines::pack_lines).plan;
    assert_eq!(p.code.outputs[0], p.code.outputs[1]);
    assert_eq!((p.code.outputs[0].off, p.code.outputs[2].off), (3 * N, 0));
    assert_eq!(p.code.outputs[0].buf, p.code.outputs[2].buf, "a view of a view has the root's buffer");
}

/// What does not change from step to step is there in the next step too (PTOAS 913).
#[test]
fn inputs_and_params_without_updates_last() {
    let g = Builder::new("g");
    let (x, w) = (g.input("x", [N], F32), g.param("w", [N], F32, Init::Ones));
    let s = g.state("s", [N], F32, Init::Zeros);
    let y = one(&g, &SCALE, &[one(&g, &ADD, &[x, w])]);
    g.update(s, one(&g, &ADD, &[s, y]));
    let buf = g.finish([]).unwrap();
    assert_eq!(copies(&buf), 0);
    holds(&buf);
}

/// An output that is a leaf has bytes of its own: the caller may write the leaf and still read the output.
#[test]
fn outputs_share_no_bytes_with_leaves() {
    let g = Builder::new("g");
    let (x, w) = (g.input("x", [N], F32), g.param("w", [N], F32, Init::Ones));
    let next = one(&g, &ADD, &[w, x]);
    g.update(w, next);
    g.output("x", x);
    g.output("old", one(&g, &TAIL, &[w]));
    g.output("new", next);
    let buf = g.finish([]).unwrap();
    holds(&buf);
    let p = planned(buf.view(), 1, lines::pack_lines).plan;
    assert!(p.code.outputs.iter().all(|o| !p.code.kind[o.buf as usize].is_leaf()));
}

/// Eager updates and the order of groups: gradients of one size each die before the next is made.
#[test]
fn updates_run_as_soon_as_they_can() {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    let ws: Vec<_> = (0..8).map(|i| g.param(&format!("w{i}"), [N], F32, Init::Ones)).collect();
    let grads: Vec<_> = ws.iter().map(|&w| one(&g, &FRESH, &[one(&g, &ADD, &[x, w])])).collect();
    for (&w, &d) in ws.iter().zip(&grads) {
        g.update(w, one(&g, &ADD, &[w, d]));
    }
    let buf = g.finish([]).unwrap();
    let Planned { ordered: o, plan: p, .. } = planned(buf.view(), 1, lines::pack_lines);
    let pinned = 9 * N * 4;
    assert_eq!(p.bytes, o.bound as usize * LINE);
    assert!(p.bytes <= pinned + 2 * N * 4, "{} bytes above the leaves", p.bytes - pinned);
    holds(&buf);
}

/// Lifetimes that touch are not enough to share bytes in part: a result one line off overlaps the operand
/// while both are needed (openxla/xla 46543, the partial overlap itself).
#[test]
fn a_shifted_slot_for_a_result_is_refused() {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    g.output("y", one(&g, &FRESH, &[one(&g, &FRESH, &[x])]));
    let right = planned(g.finish([]).unwrap().view(), 1, lines::pack_lines).plan;
    let (from, to) = (right.code.reads_of(1)[0].buf as usize, right.code.outputs[0].buf as usize);
    for shift in [0, 1, 2, 3] {
        let mut wrong = right.clone();
        wrong.offset[to] = wrong.offset[from] + shift * LINE;
        wrong.bytes += 8 * LINE;
        assert!(check_plan(wrong).unwrap_err().to_string().contains("overlaps read"), "{shift} lines off");
    }
}

/// A window of the operand that dies is not the operand: what updates part of a buffer from another part of it must not
/// write over it (openxla/xla 49176, the shifted slice).
#[test]
fn a_result_is_not_made_over_a_window() {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    let y = one(&g, &FRESH, &[x]);
    // The last reader of `y` reads its tail: in place it would be one buffer at two offsets.
    let tail = one(&g, &SCALE, &[one(&g, &TAIL, &[y])]);
    g.output("y", tail);
    let buf = g.finish([]).unwrap();
    holds(&buf);
    let Planned { ordered: o, plan: right, .. } = planned(buf.view(), 1, lines::pack_lines);
    assert!(o.alias.inplace.iter().all(|&w| w == OUT_OF_PLACE));
    let read = right.code.reads_of(1)[0];
    assert!(read.off > 0, "the read is a window");
    let mut wrong = right.clone();
    wrong.inplace[right.code.read_range(1).start] = 0;
    wrong.offset[right.code.outputs[0].buf as usize] = right.offset[read.buf as usize];
    assert!(check_plan(wrong).is_err());
}

/// A sum takes over whichever operand dies: the first, the second, and one of them if both do.
#[test]
fn gradients_are_summed_in_place() {
    for (keep_a, keep_b) in [(false, false), (true, false), (false, true), (true, true)] {
        let g = Builder::new("g");
        let x = g.input("x", [N], F32);
        let (a, b) = (one(&g, &FRESH, &[x]), one(&g, &FRESH, &[one(&g, &FRESH, &[x])]));
        let sum = one(&g, &ADD, &[a, b]);
        let late = [keep_a.then_some(a), keep_b.then_some(b)].into_iter().flatten();
        g.output("late", late.fold(one(&g, &FRESH, &[sum]), |y, v| one(&g, &ADD, &[v, y])));
        let buf = g.finish([]).unwrap();
        holds(&buf);
        let Planned { ordered: o, plan: p, .. } = planned(buf.view(), 1, lines::pack_lines);
        let value = |v: crate::nodes::Var<'_>| (0..p.code.value.len()).find(|&b| p.code.value[b] == v.v).unwrap();
        let class = |v| o.alias.class[value(v)];
        let over = [class(sum) == class(a), class(sum) == class(b)];
        let want = if keep_a && keep_b { 0 } else { 1 };
        assert_eq!(over.iter().filter(|&&o| o).count(), want, "a kept: {keep_a}, b kept: {keep_b}");
        assert!(!(over[0] && keep_a || over[1] && keep_b), "what is read later is not overwritten");
    }
}

/// A long sum of gradients is one buffer that each addend is added to, so its length costs nothing.
#[test]
fn a_sum_of_many_gradients_is_as_large_as_one_of_two() {
    let peak = |n: usize| {
        let g = Builder::new("g");
        let x = g.input("x", [N], F32);
        let mut last = one(&g, &FRESH, &[x]);
        let mut sum = one(&g, &SCALE, &[last]);
        for _ in 1..n {
            last = one(&g, &FRESH, &[last]);
            sum = one(&g, &ADD, &[sum, last]);
        }
        g.output("sum", sum);
        let buf = g.finish([]).unwrap();
        if n < 10 {
            holds(&buf);
        }
        planned(buf.view(), 1, lines::pack_lines).plan.bytes
    };
    assert_eq!(peak(3), peak(40));
}

/// A result that takes over an operand lives on in it: the class is alive until the last of its members is read, and a
/// plan that cuts it short is refused (pytorch 187678, the lifetime).
#[test]
fn a_class_lives_as_long_as_its_last_member() {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    let a = one(&g, &FRESH, &[x]);
    let b = one(&g, &SCALE, &[a]);
    let mut z = one(&g, &FRESH, &[b]);
    for _ in 0..4 {
        z = one(&g, &FRESH, &[z]);
    }
    g.output("y", one(&g, &ADD, &[b, z]));
    let buf = g.finish([]).unwrap();
    holds(&buf);
    let Planned { ordered: o, plan: right, .. } = planned(buf.view(), 1, lines::pack_lines);
    let of = |v: crate::nodes::Var<'_>| (0..right.code.value.len()).find(|&i| right.code.value[i] == v.v).unwrap();
    let root = of(a);
    assert_eq!(o.alias.class[of(b)] as usize, root, "the second takes over the first");
    let mut live = o.live.clone();
    live.end[root] = live.first[root] + 2;
    let (offset, bytes) = crate::sched::planned_offsets(&o.code, &o.alias, &live, lines::pack_lines).unwrap();
    assert!(check_plan(crate::sched::plan::Plan { offset, bytes, ..right }).is_err());
}

/// Two names for one storage at two offsets: each reads its own part, and neither is overwritten while the other is
/// needed (torch-spyre 4022).
#[test]
fn two_windows_of_one_buffer_keep_their_offsets() {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    let y = one(&g, &FRESH, &[x]);
    // The second half, and the last quarter.
    let half = one(&g, &TAIL, &[y]);
    let quarter = one(&g, &TAIL, &[half]);
    let (first, second) = (one(&g, &SCALE, &[quarter]), one(&g, &SCALE, &[half]));
    g.output("a", one(&g, &ADD, &[first, one(&g, &TAIL, &[second])]));
    g.output("b", one(&g, &ADD, &[second, half]));
    g.output("c", one(&g, &ADD, &[one(&g, &FRESH, &[first]), quarter]));
    let buf = g.finish([]).unwrap();
    holds(&buf);
    let p = planned(buf.view(), 1, lines::pack_lines).plan;
    let mut offsets: Vec<usize> = p.code.reads.iter().filter(|o| o.off > 0).map(|o| o.off).collect();
    offsets.sort_unstable();
    offsets.dedup();
    assert!(offsets.contains(&(2 * N)) && offsets.contains(&(3 * N)), "{offsets:?}");
}

/// The least result takes over an operand like any other: one byte needs no line of its own.
#[test]
fn a_result_of_one_byte_is_made_in_place() {
    for (n, dtype) in [(1, DType::Bool), (1, F32), (N, F32)] {
        let g = Builder::new("g");
        let x = g.input("x", [n], dtype);
        g.output("y", one(&g, &SCALE, &[one(&g, &FRESH, &[x])]));
        let plan = planned(g.finish([]).unwrap().view(), 1, lines::pack_lines).plan;
        assert_eq!(plan.inplace, [OUT_OF_PLACE, 0], "{n} of {dtype}");
        check_plan(plan).unwrap();
    }
}
