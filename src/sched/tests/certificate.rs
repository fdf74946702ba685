//! The certificate of orders, on code by hand, in lines.

use super::code::Code;
use crate::sched::order::bound::{BLOCK, BUDGET, order_bound};
use crate::sched::order::deps::Deps;

fn certificate(c: &Code) -> u64 {
    order_bound(&c.0, &Deps::new(&c.0), &vec![u64::MAX; c.0.groups()]).unwrap()
}

/// Operands are alive from the start of a group on, temporaries while they are used, and results that others read up
/// to its end.
#[test]
fn a_group_holds_what_it_reads_and_makes() {
    let mut c = Code::new();
    let (x, a, s, t, y) = (c.input(1), c.made(5), c.scratch(3), c.scratch(7), c.output(1));
    c.group(&[x], &[a]);
    c.push(&[x], &[s, t], &[]);
    c.push(&[a, s], &[y], &[]);
    c.close();
    assert_eq!(certificate(&c), 1 + 5 + 3 + 7);

    let mut c = Code::new();
    let (x, own, other, y) = (c.input(1), c.made(2), c.made(1), c.output(3));
    let (s, t, z) = (c.scratch(1), c.scratch(5), c.output(1));
    c.push(&[x], &[own, other, y], &[]);
    c.push(&[own], &[s], &[]);
    c.push(&[x], &[t], &[]);
    c.close();
    c.group(&[own, other], &[z]);
    assert_eq!(certificate(&c), 1 + 2 + 1 + 3 + 5);
}

/// Each operand that dies, and each result, shares bytes once.
#[test]
fn a_result_takes_over_one_operand() {
    let mut c = Code::new();
    let (x, a, b, y) = (c.input(1), c.made(2), c.made(2), c.output(2));
    c.group(&[x], &[a]);
    c.group(&[x], &[b]);
    c.in_place(&[a, b], &[y], &[(0, 0), (1, 0)]);
    assert_eq!(certificate(&c), 1 + 2 + 2);

    let mut c = Code::new();
    let (x, a, y, z) = (c.input(1), c.made(2), c.made(2), c.made(2));
    c.group(&[x], &[a]);
    c.in_place(&[a], &[y, z], &[(0, 0), (0, 1)]);
    assert_eq!(certificate(&c), 1 + 2 + 2);

    // Operand 63 as well.
    let mut c = Code::new();
    let (x, a, y, z) = (c.input(1), c.made(2), c.made(2), c.made(2));
    c.group(&[x], &[a]);
    let reads: Vec<u32> = [x; 63].into_iter().chain([a]).collect();
    c.in_place(&reads, &[y, z], &[(63, 0), (63, 1)]);
    assert_eq!(certificate(&c), 1 + 2 + 2);

    // Operand 64 is another one than operand 0.
    let mut c = Code::new();
    let (x, a, b, y, z) = (c.input(1), c.made(2), c.made(2), c.made(2), c.made(2));
    c.group(&[x], &[a, b]);
    let reads: Vec<u32> = [a].into_iter().chain([x; 63]).chain([b]).collect();
    c.in_place(&reads, &[y, z], &[(0, 0), (64, 1)]);
    assert_eq!(certificate(&c), 1 + 2 + 2);

    // A param is not taken over, but the operand behind it is.
    let mut c = Code::new();
    let (x, w, a, y) = (c.input(1), c.param(2), c.made(2), c.output(2));
    c.group(&[x], &[a]);
    c.in_place(&[w, a], &[y], &[(0, 0), (1, 0)]);
    assert_eq!(certificate(&c), 1 + 2 + 2);
}

/// A result that was there before shares no bytes with an operand, nor does one of another size.
#[test]
fn only_a_new_result_of_its_size_takes_over_an_operand() {
    let mut c = Code::new();
    let (x, a, y, s) = (c.input(1), c.made(2), c.output(2), c.scratch(3));
    c.group(&[x], &[a]);
    c.push(&[x], &[y], &[]);
    c.push(&[a], &[y, s], &[(0, 0)]);
    c.close();
    assert_eq!(certificate(&c), 1 + 2 + 2 + 3);

    let mut c = Code::new();
    let (x, a, y) = (c.input(1), c.made(2), c.output(1));
    c.group(&[x], &[a]);
    c.in_place(&[a], &[y], &[(0, 0)]);
    assert_eq!(certificate(&c), 1 + 2 + 1);
}

/// What an ancestor makes and a descendant reads is alive meanwhile: here the first buffer. One that nothing uses is
/// not, nor is a next value, which may be made in its leaf.
#[test]
fn values_that_wait_for_a_reader_are_alive() {
    let mut c = Code::new();
    let (a, x, _unused) = (c.made(3), c.input(1), c.scratch(2));
    let (b, d, y) = (c.made(4), c.made(1), c.output(1));
    c.group(&[x], &[a]);
    c.group(&[a], &[b]);
    c.group(&[b], &[d]);
    c.group(&[a, d], &[y]);
    assert_eq!(certificate(&c), 1 + 3 + 4 + 1);

    let mut c = Code::new();
    let (x, next, y, z) = (c.input(1), c.next(4), c.output(1), c.output(1));
    c.group(&[x], &[next]);
    c.group(&[next], &[y]);
    c.group(&[y, next], &[z]);
    assert_eq!(certificate(&c), 1 + 4 + 1 + 1);
}

/// The groups of each block are visited alone: two values that wait at different times do not add up.
#[test]
fn blocks_do_not_mix() {
    let n = BLOCK + 44;
    let mut c = Code::new();
    let (x, p, q) = (c.input(1), c.made(3), c.made(4));
    let links: Vec<u32> = (0..n).map(|_| c.made(1)).collect();
    for g in 0..n {
        // Groups of the second block stand at the positions of groups between 5 and 25 in the first.
        let (mut reads, mut writes) = (vec![if g == 0 { x } else { links[g - 1] }], vec![links[g]]);
        match g {
            5 => writes.push(p),
            25 => reads.push(p),
            260 => writes.push(q),
            280 => reads.push(q),
            _ => (),
        }
        c.group(&reads, &writes);
    }
    let alive: Vec<u64> = (0..n).map(|g| if g < BLOCK { 100 } else { 99 }).collect();
    assert_eq!(order_bound(&c.0, &Deps::new(&c.0), &alive).unwrap(), 1 + 4 + 1 + 1);
}

/// Groups are visited by falling live lines: one that holds less than the outputs ends the visit.
#[test]
fn the_fullest_groups_are_visited_first() {
    let mut c = Code::new();
    let (x, a, y, s) = (c.input(1), c.made(1), c.output(10), c.scratch(5));
    c.group(&[x], &[a]);
    c.group(&[a], &[y, s]);
    assert_eq!(order_bound(&c.0, &Deps::new(&c.0), &[2, 17]).unwrap(), 1 + 1 + 10 + 5);
}

/// A block costs word operations for its buffers and for the edges among groups. The first block is always visited.
#[test]
#[cfg_attr(miri, ignore = "a budget's worth of buffers takes Miri too long")]
fn the_visit_ends_where_its_budget_is_spent() {
    let mut c = Code::new();
    let (x, e, s) = (c.input(1), c.made(0), c.scratch(9));
    for _ in 3..BUDGET / 16 - 2 {
        c.scratch(0);
    }
    c.group(&[x], &[e]);
    (0..3).for_each(|_| c.group(&[e], &[]));
    while c.0.groups() < BLOCK {
        c.group(&[x], &[]);
    }
    let last = c.0.groups();
    c.group(&[x], &[s]);
    let bound = |c: &Code| {
        let alive: Vec<u64> = (0..c.0.groups()).map(|g| if g == last { 10 } else { 11 }).collect();
        order_bound(&c.0, &Deps::new(&c.0), &alive).unwrap()
    };
    assert_eq!(bound(&c), 1 + 9);
    // One edge more.
    c.group(&[e], &[]);
    assert_eq!(bound(&c), 1);
}
