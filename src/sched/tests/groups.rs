//! Dependencies among groups, and the orders that rules make of them, on code by hand.

use super::code::Code;
use crate::arena::tensor::LINE;
use crate::sched::instructions::{BufKind, Update};
use crate::sched::order::deps::{DepLists, Deps};
use crate::sched::order::list::order_by_rule;
use crate::sched::order::{CANDIDATES, Rule};

const NONE: u32 = u32::MAX;

fn lists(l: &DepLists, n: usize) -> Vec<Vec<u32>> {
    (0..n).map(|i| l.of(i).to_vec()).collect()
}

#[test]
fn items_of_one_index_keep_their_order() {
    let l = DepLists::new(3, &[(2, 7), (0, 5), (2, 6), (0, 9)]);
    assert_eq!(lists(&l, 3), [vec![5, 9], vec![], vec![7, 6]]);
    assert_eq!(l.items, [5, 9, 7, 6]);
}

#[test]
fn groups_depend_on_data_and_on_effects_before_them() {
    let mut c = Code::new();
    let (x, w, v) = (c.input(1), c.param(1), c.param(1));
    let (m, s) = (c.bytes(BufKind::State, LINE), c.bytes(BufKind::State, LINE));
    let (t, a, b, next_w, next_v) = (c.scratch(1), c.made(1), c.made(1), c.made(1), c.made(1));
    let (next_m, long, y) = (c.output(1), c.made(2), c.output(1));
    // Operands that groups use twice, or in falling order, count once.
    c.push(&[x, x], &[a, t], &[]);
    c.push(&[t, x], &[a], &[]);
    c.close();
    c.push(&[w], &[b], &[]);
    c.0.close(true);
    c.group(&[a, w], &[next_w]);
    c.push(&[x], &[], &[]);
    c.0.close(true);
    c.push(&[b, v], &[next_m], &[]);
    c.0.close(true);
    c.group(&[w, b], &[next_v]);
    c.group(&[a], &[long]);
    c.group(&[s], &[y]);
    c.update(m, next_m);
    c.update(w, next_w);
    c.update(v, next_v);
    let from = c.line(long, 1);
    c.0.updates.push(Update { leaf: s, from });
    let d = Deps::new(&c.0);
    assert_eq!(
        lists(&d.reads, 8),
        [vec![x, t], vec![w], vec![w, a], vec![x], vec![v, b], vec![w, b], vec![a], vec![s]]
    );
    let made = [vec![t, a], vec![b], vec![next_w], vec![], vec![next_m], vec![next_v], vec![long], vec![y]];
    assert_eq!(lists(&d.writes, 8), made);
    assert_eq!(d.writer, [NONE, NONE, NONE, NONE, NONE, 0, 0, 1, 2, 5, 4, 6, 7]);
    let readers = lists(&d.readers, 13);
    assert_eq!(readers[..8], [vec![0, 3], vec![1, 2, 5], vec![4], vec![], vec![7], vec![0], vec![2, 6], vec![4, 5]]);
    assert!(readers[8..].iter().all(Vec::is_empty));
    let after = [vec![2, 6], vec![4, 5, 3], vec![], vec![4], vec![], vec![], vec![], vec![]];
    assert_eq!(lists(&d.after, 8), after);
    assert_eq!(lists(&d.before, 8), [vec![], vec![], vec![0], vec![1], vec![1, 3], vec![1], vec![0], vec![]]);
    // Readers of the old value come first. An output is copied into its leaf, so its maker waits for no reader.
    assert_eq!(lists(&d.preferred, 8), [vec![], vec![2], vec![], vec![], vec![5], vec![2], vec![], vec![6]]);
    // A part of a buffer is copied, too.
    let lands: Vec<u32> = (0..13).filter(|&b| d.lands[b as usize]).collect();
    assert_eq!(lands, [next_w, next_v]);
    assert_eq!((d.stops, d.waits), (vec![false; 8], vec![]));
}

/// What may stop the step, and what it needs, cannot wait for it.
#[test]
fn next_values_wait_for_all_that_may_stop_unless_it_needs_them() {
    let mut c = Code::new();
    let (x, i, j) = (c.input(1), c.input(1), c.input(1));
    let leaves = [(); 5].map(|()| c.param(1));
    let n = [(); 5].map(|()| c.made(1));
    let (p, q, y, z) = (c.made(1), c.made(1), c.output(1), c.output(1));
    let (at_i, at_j) = (c.check(i, Some(8)), c.check(j, Some(8)));
    c.group(&[x], &[p, n[0]]);
    c.group(&[p], &[q]);
    c.checking(&[q, i], &[y], &[at_i]);
    c.group(&[x], &[n[1]]);
    c.checking(&[x, j], &[n[2]], &[at_j]);
    c.group(&[x], &[n[3], n[4]]);
    c.group(&[n[0]], &[z]);
    for k in [3, 0, 1, 4, 2] {
        c.update(leaves[k], n[k]);
    }
    let d = Deps::new(&c.0);
    assert_eq!(d.stops, [false, false, true, false, true, false, false]);
    assert_eq!(d.waits, [3, 5]);
}

#[test]
fn groups_serve_updates_alone_or_not() {
    let mut c = Code::new();
    let x = c.input(1);
    let mut serve = Vec::new();
    // What a next value is made of, with a temporary, and the next value.
    let (gradient, t, next) = (c.made(1), c.scratch(1), c.next(1));
    c.group(&[x], &[gradient, t]);
    c.group(&[gradient], &[next]);
    serve.extend([true, true]);
    // What an output is made of as well; and what is of another size.
    let (shared, y, long, next) = (c.made(1), c.output(1), c.made(2), c.next(1));
    c.group(&[x], &[shared]);
    c.group(&[shared], &[y]);
    c.group(&[x], &[long]);
    c.group(&[shared, long], &[next]);
    serve.extend([false, false, false, true]);
    // A next value that another one is made of, and one that an output is made of.
    let (first, second, third, y) = (c.next(2), c.next(1), c.next(1), c.output(1));
    c.group(&[x], &[first]);
    c.group(&[first], &[second]);
    c.group(&[x], &[third]);
    c.group(&[third], &[y]);
    serve.extend([true, true, false, false]);
    // An effect.
    let (gradient, next) = (c.made(1), c.next(1));
    c.push(&[x], &[gradient], &[]);
    c.0.close(true);
    c.group(&[gradient], &[next]);
    serve.extend([false, true]);
    // No result but a temporary, no result at all, and results that nothing reads.
    let (t, next, unread, other) = (c.scratch(1), c.next(1), c.made(1), c.made(1));
    c.group(&[x], &[t]);
    c.group(&[x], &[]);
    c.group(&[x], &[next, unread]);
    c.group(&[x], &[other]);
    serve.extend([false; 4]);
    // Outputs: beside a next value, and for one.
    let (next, y, z, last) = (c.next(1), c.output(1), c.output(1), c.next(1));
    c.group(&[x], &[next, y]);
    c.group(&[x], &[z]);
    c.group(&[z], &[last]);
    serve.extend([false, false, true]);
    // Leaves of one byte.
    let mut byte = || {
        let (leaf, from) = (c.bytes(BufKind::State, 1), c.bytes(BufKind::Activation, 1));
        c.update(leaf, from);
        from
    };
    let (read, unread) = (byte(), byte());
    let next = c.next(1);
    c.group(&[x], &[read]);
    c.group(&[read], &[next]);
    c.group(&[x], &[unread]);
    serve.extend([true; 3]);
    assert_eq!(Deps::new(&c.0).serves, serve);
}

fn order(c: &Code, rule: Rule) -> Vec<u32> {
    order_by_rule(&c.0, &Deps::new(&c.0), rule)
}

/// A next value comes behind the readers of its leaf, as soon as it can. Where two wait for one another, the first one
/// comes when nothing else is left.
#[test]
fn next_values_come_behind_the_readers_of_their_leaves() {
    let mut c = Code::new();
    let (x, w, u, v) = (c.input(1), c.param(1), c.param(1), c.param(1));
    let n = [(); 3].map(|()| c.made(1));
    let y = [(); 3].map(|()| c.output(1));
    c.group(&[w, x], &[n[0]]);
    c.group(&[w], &[y[0]]);
    c.group(&[w], &[y[1]]);
    c.group(&[x], &[y[2]]);
    c.group(&[v], &[n[1]]);
    c.group(&[u], &[n[2]]);
    c.update(w, n[0]);
    c.update(u, n[1]);
    c.update(v, n[2]);
    for &(name, rule) in CANDIDATES {
        assert_eq!(order(&c, rule), [1, 2, 0, 3, 4, 5], "{name}");
    }
}

/// Threads have a barrier in front of the group behind the last one that may stop the step. The next values come there.
#[test]
fn next_values_come_one_group_behind_the_last_that_may_stop_the_step() {
    let mut c = Code::new();
    let (x, i, j, next) = (c.input(1), c.input(1), c.input(1), c.next(1));
    let y = [(); 4].map(|()| c.output(1));
    let (at_i, at_j) = (c.check(i, Some(8)), c.check(j, Some(8)));
    c.group(&[x], &[next]);
    c.checking(&[x, i], &[y[0]], &[at_i]);
    c.checking(&[x, j], &[y[1]], &[at_j]);
    c.group(&[x], &[y[2]]);
    c.group(&[x], &[y[3]]);
    for &(name, rule) in CANDIDATES {
        assert_eq!(order(&c, rule), [1, 2, 3, 0, 4], "{name}");
    }
}

#[test]
fn the_eager_rule_takes_what_serves_updates_first() {
    let mut c = Code::new();
    let (x, y, next) = (c.input(1), c.output(1), c.next(1));
    c.group(&[x], &[y]);
    c.group(&[x], &[next]);
    assert_eq!((order(&c, Rule::Program), order(&c, Rule::Eager)), (vec![0, 1], vec![1, 0]));
}

/// Results, without temporaries and what is made in a leaf, minus operands that no other group will read.
#[test]
fn the_net_rule_takes_what_frees_more_than_it_allocates_first() {
    let mut c = Code::new();
    let (x, next) = (c.input(1), c.next(2));
    let (a, b, both) = (c.made(4), c.made(3), c.made(5));
    let (long, t) = (c.output(2), c.scratch(9));
    let y = [(); 4].map(|()| c.output(1));
    let four = c.output(4);
    c.group(&[x], &[a, b, both]); // 12
    c.group(&[x], &[next]); // 0: made in the leaf
    c.group(&[x], &[long]); // 2
    c.group(&[both], &[y[0]]); // 1, as another group reads it, too
    c.group(&[b], &[four]); // 4 - 3
    c.group(&[both], &[y[1]]); // 1, and behind the other reader 1 - 5
    c.group(&[a], &[y[2], t]); // 1 - 4
    c.group(&[next], &[y[3]]); // 1: the leaf's bytes are not freed
    assert_eq!(order(&c, Rule::Net), [1, 7, 2, 0, 6, 3, 5, 4]);
}

/// Of what fits below the peak so far, temporaries included, what leaves the fewest bytes; else what allocates least.
#[test]
fn the_peak_rule_stays_below_the_peak_so_far() {
    let mut c = Code::new();
    let (x, a, b, d) = (c.input(1), c.made(6), c.made(4), c.output(1));
    let (s, t, u) = (c.scratch(1), c.scratch(1), c.scratch(4));
    let (four, three, one, last) = (c.output(4), c.output(3), c.output(1), c.output(1));
    c.group(&[x], &[a]);
    c.group(&[x], &[b, s]);
    c.group(&[a], &[last]);
    c.group(&[b], &[d]);
    c.group(&[d], &[four]);
    c.group(&[d], &[three, t]);
    c.group(&[d], &[one, u]);
    // 5 lines are less than 6. Then 1 fits. Then 4 and 4 fit, and 3 of the latter stay. Then nothing fits.
    assert_eq!(order(&c, Rule::Peak), [1, 3, 5, 4, 6, 0, 2]);
}

#[test]
fn the_peak_rule_counts_what_a_group_frees() {
    let mut c = Code::new();
    let x = c.input(1);
    let (a, b, both, d, three) = (c.made(4), c.made(1), c.made(5), c.made(1), c.made(1));
    let n = [(); 6].map(|()| c.next(1));
    c.group(&[x], &[a, b, both, d, three]);
    c.group(&[b, three], &[n[0]]); // 1
    c.group(&[a], &[n[1]]); // 4
    c.group(&[both, three], &[n[2]]); // 0
    c.group(&[d, three], &[n[3]]); // 0, and 1 behind the other two
    c.group(&[both], &[n[4]]); // 0, and 5 behind the other one
    c.group(&[d], &[n[5]]); // 0, and 1 behind the other one
    assert_eq!(order(&c, Rule::Peak), [0, 2, 1, 3, 5, 4, 6]);
}

/// Nothing fits below a peak of nothing. Then what is left does not count.
#[test]
fn the_peak_rule_begins_with_what_allocates_least() {
    let mut c = Code::new();
    let (x, kept) = (c.input(1), c.bytes(BufKind::Output, 1));
    let unread = c.bytes(BufKind::Activation, 1);
    c.group(&[x], &[kept]);
    c.group(&[x], &[unread]);
    assert_eq!(order(&c, Rule::Peak), [0, 1]);
}

#[test]
fn the_depth_rule_visits_the_operand_with_the_most_bytes_behind_it_first() {
    let mut c = Code::new();
    let (x, b, a, d) = (c.input(1), c.made(3), c.made(2), c.made(1));
    let (e, f) = (c.made(1), c.made(1));
    let y = [(); 2].map(|()| c.output(1));
    c.group(&[x], &[b]);
    c.group(&[x], &[a]);
    c.group(&[b], &[d]);
    c.group(&[a, d], &[y[0]]);
    c.group(&[x], &[e]);
    c.group(&[x], &[f]);
    c.group(&[e, f], &[y[1]]);
    assert_eq!(order(&c, Rule::Depth), [0, 2, 1, 3, 4, 5, 6]);

    // A group is visited once, for the first of its readers.
    let mut c = Code::new();
    let (x, p, q, r) = (c.input(1), c.made(1), c.made(2), c.made(4));
    let y = [(); 2].map(|()| c.output(1));
    c.group(&[x], &[y[0]]);
    c.group(&[x], &[p]);
    c.group(&[x], &[q]);
    c.group(&[p], &[r]);
    c.group(&[p, q, r], &[y[1]]);
    assert_eq!(order(&c, Rule::Depth), [0, 1, 3, 2, 4]);
}
