//! Lengths of stretches and their bytes, worked out by hand.

use super::*;
use crate::nodes::ir::text::parse;
use crate::passes::remat::remat_facts;

/// A group of loops that run in stretches for the whole length.
fn group(length: usize, carried: u64, stacked: u64, copied: u64) -> RematLoopGroup {
    let (forward, backward) = (Vec::new(), Vec::new());
    RematLoopGroup { forward, backward, length, carried, stacked, copied, flops: 0, stretched: LOOP_PARTS }
}

#[test]
fn stretches_of_equal_lengths_save_copies() {
    // 6 starts and 17 iterations take 3236 bytes, 5 starts and 20 iterations 3280; but 17 does not divide 100.
    let (free, copied) = (group(100, 256, 100, 0), group(100, 256, 100, 1000));
    assert_eq!((free.each(), free.saved()), (17, 10_000 - 3236));
    assert_eq!((copied.each(), copied.saved()), (20, 10_000 - 3280));
    assert_eq!([17, 20, 100].map(|each| copied.bytes(each)), [4236, 3280, 10_256]);
}

#[test]
fn the_best_stretch_of_a_very_long_loop_is_found_at_once() {
    let long = group(1 << 40, 8, 8, 0);
    assert_eq!((long.each(), long.saved()), (1 << 20, (8 << 40) - (16 << 20)));
}

#[test]
fn a_stretch_is_one_iteration_or_more_and_no_longer_than_the_loop() {
    // Starts cost next to nothing, or all.
    assert_eq!([group(7, 1, 1000, 0), group(4, 1000, 1, 0)].map(|g| (g.each(), g.saved())), [(1, 5993), (4, 0)]);
    // Loops without carries have no starts.
    assert_eq!((group(2, 0, 64, 128).each(), group(2, 0, 64, 128).saved()), (1, 64));
}

#[test]
fn the_first_parts_of_a_loop_may_run_in_stretches() {
    let part = |stretched| RematLoopGroup { stretched, flops: 1000, ..group(10, 256, 100, 30) };
    assert_eq!([1, 2, 3, 4].map(|k| part(k).iterations()), [3, 5, 8, 10]);
    assert_eq!([1, 2, 3, 4].map(|k| part(k).flops()), [300, 500, 800, 1000]);
    // Five divides ten, but the other half of the loop is not in stretches.
    assert_eq!([2, 4].map(|k| part(k).bytes(5)), [256 + 500 + 30, 2 * 256 + 500]);
}

/// A forward loop over `length` rows and a backward loop over its stack. The forward loop nests `depth` loops.
fn nested(length: usize, depth: usize, reverse: bool) -> GraphBuf {
    let mut text = String::from("region @r0(%c : f32[16]) {\n %n = exp %c\n yield %n\n}\n");
    for i in 1..depth {
        let inner = i - 1;
        text += &format!(
            "region @r{i}(%c : f32[16]) {{
                %n = scan %c body=@r{inner} carries=1 consts=0 length=2 reverse=false
                yield %n
            }}\n"
        );
    }
    let inside = match depth {
        0 => "%k = exp %c".to_string(),
        _ => format!("%k = scan %c body=@r{} carries=1 consts=0 length=2 reverse=false", depth - 1),
    };
    text += &format!(
        "region @f(%c : f32[16], %x : f32[16]) {{
            {inside}
            %n = mul %k, %x
            %s = tanh %n
            yield %n, %s
        }}
        region @b(%g : f32[16], %s : f32[16]) {{
            %p = mul %g, %s
            yield %p, %p
        }}
        graph @loops {{
            %x = input : f32[{length},16]
            %start = input : f32[16]
            %c1, %s1 = scan %start, %x body=@f carries=1 consts=0 length={length} reverse={reverse}
            %loss = reduce_sum %c1 axes=[0] keep=false
            %d1, %y1 = scan %start, %s1 body=@b carries=1 consts=0 length={length} reverse={}
            return loss=%loss, d1=%d1, y1=%y1
        }}",
        !reverse
    );
    parse(&text).unwrap()
}

#[test]
fn a_group_is_measured_by_its_carries_stacks_and_operations() {
    let buf = nested(256, 0, false);
    let (g, f) = (buf.view(), remat_facts(buf.view()));
    let groups = remat_loop_groups(g, &f);
    let [group] = &groups[..] else { panic!("{groups:?}") };
    let loops: Vec<Node> = g.region_nodes(g.entry()).filter(|&n| remat_loop_of(g, n).is_some()).collect();
    assert_eq!([&group.forward[..], &group.backward], [&loops[..1], &loops[1..]]);
    // A row has 64 bytes. The backward loop has a stack of its own, of 256 rows.
    let RematLoopGroup { length, carried, stacked, copied, flops, stretched, .. } = *group;
    assert_eq!((length, carried, stacked, copied), (256, 64, 64, 256 * 64));
    assert_eq!((flops, stretched), (f.flops[loops[0]], LOOP_PARTS));
    // 16 starts, and 16 rows.
    assert_eq!((group.each(), group.saved()), (16, 256 * 64 - 32 * 64));
}

#[test]
fn stretches_take_one_more_level_of_loops() {
    // The loop itself and the loop over its stretches are two of the levels that kernels know.
    let found = |depth: usize| {
        let buf = nested(256, depth, false);
        remat_loop_groups(buf.view(), &remat_facts(buf.view())).len()
    };
    assert_eq!([0, DEPTH - 2, DEPTH - 1].map(found), [1, 1, 0]);
}

#[test]
fn the_last_iterations_to_run_are_the_plain_ones() {
    let plain = |reverse: bool, stretched: usize| {
        let buf = nested(256, 0, reverse);
        let groups = remat_loop_groups(buf.view(), &remat_facts(buf.view()));
        RematLoopGroup { stretched, ..groups[0].clone() }.plain(buf.view())
    };
    assert_eq!([plain(false, 1), plain(false, 3), plain(false, 4)], [64..256, 192..256, 256..256]);
    assert_eq!([plain(true, 1), plain(true, 3), plain(true, 4)], [0..192, 0..64, 0..0]);
}

#[test]
fn loops_of_two_iterations_without_carries_are_a_group() {
    let text = |length: usize| {
        format!(
            "region @f(%x : f32[16]) {{
                %y = exp %x
                %r = sin %x
                yield %y, %r
            }}
            region @b(%g : f32[16], %s : f32[16]) {{
                %p = mul %g, %s
                yield %p
            }}
            graph @rows {{
                %x = input : f32[{length},16]
                %start = input : f32[16]
                %ys, %rs = scan %x body=@f carries=0 consts=0 length={length} reverse=false
                %loss = reduce_sum %ys axes=[0,1] keep=false
                %d = scan %start, %rs body=@b carries=1 consts=0 length={length} reverse=true
                return loss=%loss, d=%d
            }}"
        )
    };
    let saved = |length: usize| {
        let buf = parse(&text(length)).unwrap();
        remat_loop_groups(buf.view(), &remat_facts(buf.view())).iter().map(RematLoopGroup::saved).collect::<Vec<u64>>()
    };
    // All but one row of 64 bytes.
    assert_eq!([saved(2), saved(3)], [[64], [128]]);
    assert_eq!(saved(1), [] as [u64; 0]);
}

/// Two forward loops, the second with two stacks, and the backward loops `loops`.
fn graph_of_two_scans(loops: &str) -> GraphBuf {
    parse(&format!(
        "region @f(%c : f32[16], %x : f32[16]) {{
            %n = mul %c, %x
            %s = exp %n
            yield %n, %s
        }}
        region @h(%c : f32[16], %x : f32[16]) {{
            %n = mul %c, %x
            %s = exp %n
            %t = tanh %s
            yield %n, %s, %t
        }}
        region @one(%g : f32[16], %s : f32[16]) {{
            %p = mul %g, %s
            yield %p
        }}
        region @two(%g : f32[16], %s : f32[16], %t : f32[16]) {{
            %p = mul %s, %t
            %q = add %g, %p
            yield %q
        }}
        graph @loops {{
            %x = input : f32[256,16]
            %start = input : f32[16]
            %c1, %s1 = scan %start, %x body=@f carries=1 consts=0 length=256 reverse=false
            %c2, %s2, %t2 = scan %start, %x body=@h carries=1 consts=0 length=256 reverse=false
            %sum = add %c1, %c2
            %loss = reduce_sum %sum axes=[0] keep=false
            {loops}
            return loss=%loss, d1=%d1, d2=%d2
        }}"
    ))
    .unwrap()
}

/// The groups of `g`: the positions of their forward loops and backward loops among all loops, and their bytes.
fn found(g: &GraphBuf) -> Vec<(Vec<usize>, Vec<usize>, [u64; 3])> {
    let g = g.view();
    let loops: Vec<Node> = g.region_nodes(g.entry()).filter(|&n| remat_loop_of(g, n).is_some()).collect();
    let places = |list: &[Node]| {
        let mut at: Vec<usize> = list.iter().filter_map(|n| loops.iter().position(|l| l == n)).collect();
        at.sort_unstable();
        at
    };
    let groups = remat_loop_groups(g, &remat_facts(g));
    let of = |r: &RematLoopGroup| (places(&r.forward), places(&r.backward), [r.carried, r.stacked, r.copied]);
    groups.iter().map(of).collect()
}

#[test]
fn loops_are_one_group_if_a_backward_loop_reads_stacks_of_both() {
    // The third loop reads a stack of each, the fourth one of them again.
    let g = graph_of_two_scans(
        "%d1 = scan %start, %s1, %s2 body=@two carries=1 consts=0 length=256 reverse=true
        %d2 = scan %start, %s2, %t2 body=@two carries=1 consts=0 length=256 reverse=true",
    );
    assert_eq!(found(&g), [(vec![0, 1], vec![2, 3], [128, 192, 0])]);
}

#[test]
fn groups_that_save_most_for_each_operation_come_first() {
    // The second loop has half as many operations more, and twice the stacks.
    let g = graph_of_two_scans(
        "%d1 = scan %start, %s1 body=@one carries=1 consts=0 length=256 reverse=true
        %d2 = scan %start, %s2, %t2 body=@two carries=1 consts=0 length=256 reverse=true",
    );
    let (short, long) = ((vec![0], vec![2], [64, 64, 0]), (vec![1], vec![3], [64, 128, 0]));
    assert_eq!(found(&g), [long, short]);
}

#[test]
fn a_backward_loop_over_leaves_is_in_no_group() {
    let g = graph_of_two_scans(
        "%d1 = scan %start, %x body=@one carries=1 consts=0 length=256 reverse=true
        %d2 = scan %start, %s2, %t2 body=@two carries=1 consts=0 length=256 reverse=true",
    );
    assert_eq!(found(&g), [(vec![1], vec![3], [64, 128, 0])]);
}
