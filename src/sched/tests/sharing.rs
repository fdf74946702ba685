//! Which buffers share bytes, how long they live, and where they lie, on code by hand.

use super::code::Code;
use super::hand::CALL;
use crate::arena::tensor::LINE;
use crate::error::Result;
use crate::kernels::abi::Split;
use crate::sched::alias::{Alias, alias, decide_aliases, settle_leaves_only};
use crate::sched::instructions::{BufKind, Instr, OUT_OF_PLACE, Operand, Update};
use crate::sched::intervals::{Intervals, intervals, lifetimes_in_order};
use crate::sched::pack::Packing;
use crate::sched::planned_offsets;

const OUT: u8 = OUT_OF_PLACE;

/// The sharing in program order, and the leaves whose next values are copied.
fn shared(c: &Code) -> (Alias, Vec<u32>) {
    let program: Vec<u32> = (0..c.0.len() as u32).collect();
    let (a, copies) = decide_aliases(&c.0, &program);
    (a, copies.iter().map(|u| u.leaf).collect())
}

/// The `inplace` column where no next value is copied.
fn in_place(c: &Code) -> Vec<u8> {
    let (a, copied) = shared(c);
    assert_eq!(copied, [0; 0]);
    a.inplace
}

#[test]
fn a_result_takes_over_an_operand_that_dies() {
    let mut c = Code::new();
    let (x, a, b, y) = (c.input(1), c.made(1), c.made(1), c.output(1));
    c.group(&[x], &[a]);
    c.in_place(&[x, a], &[b], &[(1, 0)]);
    c.in_place(&[b], &[y], &[(0, 0)]);
    let (alias, copied) = shared(&c);
    assert_eq!((alias.class, alias.inplace, copied), (vec![x, a, a, a], vec![OUT, OUT, 0, 0], vec![]));

    // A temporary, too.
    let mut c = Code::new();
    let (x, t, y) = (c.input(1), c.scratch(1), c.output(1));
    c.push(&[x], &[t], &[]);
    c.push(&[t], &[y], &[(0, 0)]);
    c.close();
    assert_eq!(in_place(&c), [OUT, 0]);

    // One of two operands; and one of two results.
    let mut c = Code::new();
    let (x, a, b, y) = (c.input(1), c.made(1), c.made(1), c.made(1));
    c.group(&[x], &[a, b]);
    c.in_place(&[a, b], &[y], &[(0, 0), (1, 0)]);
    assert_eq!(in_place(&c), [OUT, 0, OUT]);
    let mut c = Code::new();
    let (x, a, y, z) = (c.input(1), c.made(1), c.made(1), c.made(1));
    c.group(&[x], &[a]);
    c.in_place(&[a], &[y, z], &[(0, 0), (0, 1)]);
    let (alias, _) = shared(&c);
    assert_eq!((alias.class, alias.inplace), (vec![x, a, a, z], vec![OUT, 0]));
}

/// Each of these breaks one condition.
#[test]
fn what_is_needed_is_not_taken_over() {
    // A leaf, an output, and a value that a later group reads.
    let mut c = Code::new();
    let (x, kept, late) = (c.input(1), c.output(1), c.made(1));
    let y = [(); 4].map(|()| c.made(1));
    c.group(&[x], &[kept, late]);
    c.in_place(&[x], &[y[0]], &[(0, 0)]);
    c.in_place(&[kept], &[y[1]], &[(0, 0)]);
    c.in_place(&[late], &[y[2]], &[(0, 0)]);
    c.group(&[late], &[y[3]]);
    assert_eq!(in_place(&c), [OUT; 5]);

    // A value that is read twice, and one of another size.
    let mut c = Code::new();
    let (x, a, b, y, z) = (c.input(1), c.made(1), c.made(2), c.made(1), c.made(1));
    c.group(&[x], &[a, b]);
    c.in_place(&[a, a], &[y], &[(0, 0)]);
    c.in_place(&[b], &[z], &[(0, 0)]);
    assert_eq!(in_place(&c), [OUT; 4]);

    // A result that was there before, and an operand that is written again.
    let mut c = Code::new();
    let (x, a, b, y, z) = (c.input(1), c.made(1), c.made(1), c.made(1), c.made(1));
    c.group(&[x], &[a]);
    c.push(&[x], &[y, b], &[]);
    c.push(&[a], &[y], &[(0, 0)]);
    c.push(&[b], &[z], &[(0, 0)]);
    c.push(&[x], &[b], &[]);
    c.close();
    assert_eq!(in_place(&c), [OUT; 5]);

    // A value without bytes.
    let mut c = Code::new();
    let (x, a, y) = (c.input(1), c.made(0), c.made(0));
    c.group(&[x], &[a]);
    c.in_place(&[a], &[y], &[(0, 0)]);
    assert_eq!(in_place(&c), [OUT; 2]);

    // What took over an operand has its own readers, and an output is kept.
    let mut c = Code::new();
    let (x, a, b) = (c.input(1), c.made(1), c.made(1));
    let y = [(); 2].map(|()| c.made(1));
    c.group(&[x], &[a]);
    c.in_place(&[a], &[b], &[(0, 0)]);
    c.in_place(&[b], &[y[0]], &[(0, 0)]);
    c.group(&[b], &[y[1]]);
    assert_eq!(in_place(&c), [OUT, 0, OUT, OUT]);
    let mut c = Code::new();
    let (x, a, kept, y) = (c.input(1), c.made(1), c.output(1), c.made(1));
    c.group(&[x], &[a]);
    c.in_place(&[a], &[kept], &[(0, 0)]);
    c.in_place(&[kept], &[y], &[(0, 0)]);
    assert_eq!(in_place(&c), [OUT, 0, OUT]);
}

/// A window of an operand is not the operand, and scratch of threads is no result.
#[test]
fn windows_and_scratch_of_threads_share_no_bytes() {
    let mut c = Code::new();
    let (x, a, y) = (c.input(1), c.made(2), c.made(1));
    c.group(&[x], &[a]);
    let reads = [c.line(a, 1)];
    c.0.push(&Instr { reads: &reads, writes: &[c.whole(y)], pairs: &[(0, 0)], ..CALL });
    c.close();
    assert_eq!(in_place(&c), [OUT; 2]);

    let mut c = Code::new();
    let (x, a, t) = (c.input(1), c.made(1), c.scratch(1));
    c.group(&[x], &[a]);
    let writes = [Operand { split: Split::PerThread(LINE), ..c.whole(t) }];
    c.0.push(&Instr { reads: &[c.whole(a)], writes: &writes, pairs: &[(0, 0)], ..CALL });
    c.close();
    assert_eq!(in_place(&c), [OUT; 2]);
}

/// A later call of a group that changes what an earlier one wrote works in place by itself, on all of it.
#[test]
fn a_call_changes_its_own_group_s_result_in_place() {
    let mut c = Code::new();
    let (x, y) = (c.input(1), c.output(2));
    c.push(&[x], &[y], &[]);
    c.push(&[x, y], &[y], &[(0, 0), (1, 0)]);
    let reads = [c.line(y, 0)];
    c.0.push(&Instr { reads: &reads, writes: &[c.whole(y)], pairs: &[(0, 0)], ..CALL });
    c.close();
    assert_eq!(in_place(&c), [OUT, OUT, 0, OUT]);
}

#[test]
fn a_next_value_is_made_in_its_leaf_where_that_is_allowed() {
    // No group reads the leaf; its maker alone does, in place, beside an operand that dies, too.
    let mut c = Code::new();
    let (x, w, v) = (c.input(1), c.param(1), c.param(1));
    let (a, m, n) = (c.made(1), c.made(1), c.made(1));
    c.group(&[x], &[a, m]);
    c.in_place(&[a, v], &[n], &[(0, 0), (1, 0)]);
    c.update(w, m);
    c.update(v, n);
    let (alias, copied) = shared(&c);
    assert_eq!((alias.class, alias.inplace, copied), (vec![x, w, v, a, w, v], vec![OUT, OUT, 0], vec![]));

    // It is made for two leaves, is an output, or a part of a buffer.
    let mut c = Code::new();
    let (x, w, v, u, s) = (c.input(1), c.param(1), c.param(1), c.param(1), c.param(1));
    let (n, y, long) = (c.made(1), c.output(1), c.made(2));
    c.group(&[x], &[n, y, long]);
    c.update(w, n);
    c.update(v, n);
    c.update(u, y);
    let from = c.line(long, 0);
    c.0.updates.push(Update { leaf: s, from });
    let (alias, copied) = shared(&c);
    assert_eq!((alias.class, copied), (vec![x, w, v, u, s, w, y, long], vec![v, u, s]));
}

/// The maker reads the leaf in part, or may make another result there, or the result over another operand.
#[test]
fn a_maker_that_cannot_work_on_the_leaf_makes_a_copy() {
    let mut c = Code::new();
    let (w, n) = (c.param(2), c.made(2));
    let reads = [c.line(w, 0)];
    c.0.push(&Instr { reads: &reads, writes: &[c.whole(n)], pairs: &[(0, 0)], ..CALL });
    c.close();
    c.update(w, n);
    let (alias, copied) = shared(&c);
    assert_eq!((alias.class, copied), (vec![w, n], vec![w]));

    let mut c = Code::new();
    let (x, w, n, other) = (c.input(1), c.param(1), c.made(1), c.made(1));
    c.in_place(&[w, x], &[n, other], &[(1, 0), (0, 1)]);
    c.update(w, n);
    let (alias, copied) = shared(&c);
    assert_eq!((alias.class, copied), (vec![x, w, n, other], vec![w]));
}

/// Copies are made behind the last instruction: until then nothing is made over what they read.
#[test]
fn a_next_value_that_is_copied_is_kept_to_the_end() {
    let mut c = Code::new();
    let (x, w, v) = (c.input(1), c.param(1), c.param(1));
    let (m, n, y, z) = (c.made(1), c.made(1), c.output(1), c.output(1));
    c.group(&[x], &[m, n]);
    c.in_place(&[w, m], &[y], &[(1, 0)]);
    c.in_place(&[v, n], &[z], &[(1, 0)]);
    c.update(w, m);
    c.update(v, n);
    let (decided, copied) = shared(&c);
    assert_eq!((&decided.class, copied), (&vec![x, w, v, m, n, y, z], vec![w, v]));
    assert_eq!(decided.inplace, [OUT; 5]);

    let made = alias(&mut c.0);
    assert_eq!((made.class, made.inplace), (decided.class, vec![OUT; 7]));
    assert_eq!((c.0.groups(), &c.0.copies[..]), (5, &[false, false, false, true, true][..]));
    let moved: Vec<(u32, u32)> = (3..5).map(|i| (c.0.reads_of(i)[0].buf, c.0.writes_of(i)[0].buf)).collect();
    assert_eq!(moved, [(m, w), (n, v)]);
}

/// For comparisons: next values alone share bytes.
#[test]
fn leaves_alone_may_share() {
    let mut c = Code::new();
    let (x, w, a, n, y) = (c.input(1), c.param(1), c.made(1), c.made(1), c.output(1));
    c.group(&[x], &[a]);
    c.in_place(&[a], &[y], &[(0, 0)]);
    c.group(&[x], &[n]);
    c.update(w, n);
    let a_class = settle_leaves_only(&mut c.0).class;
    assert_eq!(a_class, [x, w, a, w, y]);
}

/// Lifetimes of buffers that are pinned, read late, unused, part of a class, kept, and copied.
#[test]
fn lifetimes_are_counted_in_the_order_of_instructions() {
    let mut c = Code::new();
    let (unused, x, w, s) = (c.scratch(3), c.input(1), c.param(2), c.param(1));
    let (a, b) = (c.bytes(BufKind::Activation, 100), c.bytes(BufKind::Activation, 100));
    let (y, empty, n, m) = (c.output(1), c.output(0), c.made(2), c.made(1));
    c.group(&[x], &[a]);
    c.in_place(&[a], &[b], &[(0, 0)]);
    for made in [y, n, m] {
        c.group(&[x], &[made]);
    }
    let class = vec![unused, x, w, s, a, a, y, empty, n, m];
    let alias = Alias { class, inplace: vec![OUT, 0, OUT, OUT, OUT] };
    let copies = [(w, n), (s, m)].map(|(leaf, from)| Update { leaf, from: c.whole(from) });
    let v = lifetimes_in_order(&c.0, &[0, 2, 1, 4, 3], &copies, &alias).unwrap();
    assert_eq!(v.first, [0, 0, 0, 0, 0, 0, 1, 6, 4, 3]);
    assert_eq!(v.end, [0, 7, 7, 7, 3, 0, 7, 7, 6, 7]);
    assert_eq!(v.lines, [3, 1, 2, 1, 2, 0, 1, 0, 2, 1]);
    // 4 lines of leaves; `a`, and `y` from the second instruction on; then `m` and `n`, which wait for their copies.
    assert_eq!(v.alive(), [6, 7, 7, 6, 8, 8, 6]);
    assert_eq!((v.max_live(), v.len(), v.is_empty()), (8, 10, false));

    // Leaves are there, even if nothing runs.
    let mut c = Code::new();
    let x = c.input(1);
    let v = intervals(&c.0, &Alias { class: vec![x], inplace: vec![] }).unwrap();
    assert_eq!((v.first, v.end, v.lines), (vec![0], vec![1], vec![1]));
    let none = Intervals::default();
    assert_eq!((none.alive(), none.max_live(), none.is_empty()), (vec![], 0, true));
}

/// Params, states, inputs, constants, and then what the packer places, in this order.
#[test]
fn leaves_and_constants_lie_before_what_is_packed() {
    let mut c = Code::new();
    let (a, constant, x) = (c.made(2), c.bytes(BufKind::Constant, 100), c.input(3));
    let (state, y, w, b) = (c.bytes(BufKind::State, LINE), c.output(1), c.param(5), c.made(2));
    let class = vec![a, constant, x, state, y, w, a];
    let alias = Alias { class, inplace: vec![] };
    let live = intervals(&c.0, &alias).unwrap();
    let place = |height: u64| {
        let pack = |v: &Intervals| -> Result<Packing> {
            assert_eq!(v.lines, [2, 0, 0, 0, 1, 0, 0], "the packer places what is not pinned");
            Ok(Packing { at: vec![1, 0, 0, 0, 4, 0, 0], height, ..Packing::default() })
        };
        planned_offsets(&c.0, &alias, &live, pack).map_err(|e| e.message)
    };
    // 5 lines of params, 1 of states, 3 of inputs, 2 of constants: 11.
    let (offset, bytes) = place(7).unwrap();
    assert_eq!(offset, [12, 9, 6, 5, 15, 0, 12].map(|line| line * LINE));
    assert_eq!((offset[b as usize], bytes), (offset[a as usize], 18 * LINE));
    let most = u64::from(u32::MAX);
    assert_eq!(place(most - 11).unwrap().1, u32::MAX as usize * LINE);
    let told = "4294967296 lines of memory do not fit the arena's offsets";
    assert_eq!(place(most - 10).unwrap_err(), told);
}
