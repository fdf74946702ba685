//! What is kept, and what is written again, for graphs that are written by hand.

use super::facts::{named, value};
use super::*;
use crate::location::Location;
use crate::nodes::ir::text::parse;

/// The values that are kept if those called `again` may be computed twice. Those of 64 bytes are %x and %m, all others
/// have 256.
fn kept(backward: &str, again: &[&str]) -> String {
    let text = format!(
        "graph @cut {{
            %x = input : f32[16]
            %y = input : f32[4,16]
            %m = exp %x
            %wide = broadcast %m shape=[4,16]
            %t1 = tanh %wide
            %t2 = sin %t1
            %q = cos %y
            %d = mul %t2, %q
            %loss = reduce_sum %d axes=[0,1] keep=false
            {backward}
            return loss=%loss, g=%g
        }}"
    );
    let buf = parse(&text).unwrap();
    let (g, f) = (buf.view(), remat_facts(buf.view()));
    let twice = |_: Node, v: Value| g.names[v.at()].is_some() && again.contains(&g.str(g.names[v.at()]));
    named(g, &cut::least_cut(g, &f, &twice)).join(" ")
}

#[test]
fn the_fewest_bytes_are_kept() {
    let both = "%g = mul %t1, %t2";
    assert_eq!(kept(both, &[]), "t1 t2");
    assert_eq!(kept(both, &["t2"]), "t1");
    // Of equals the one that is nearest to the readers.
    assert_eq!(kept(both, &["t1", "t2"]), "t1");
    assert_eq!(kept(both, &["wide", "t1", "t2"]), "m");
    assert_eq!(kept(both, &["m", "wide", "t1", "t2"]), "", "all follows from a leaf");
    // A value of two operands, instead of the smallest values that these follow from.
    assert_eq!(kept("%g = neg %d", &["wide", "t1", "t2", "d"]), "d");
    assert_eq!(kept("%g = neg %d", &["wide", "t1", "t2", "d", "q"]), "m");
    assert_eq!(kept("%g = mul %d, %t1", &["wide", "t1", "t2", "d"]), "m d");
    assert_eq!(kept("%h = mul %d, %t1\n %g = mul %h, %t2", &["wide", "t1", "t2", "d"]), "m d");
}

/// A net whose values all follow from the leaf %x.
const CHAIN: &str = "graph @chain {
    %x = input : f32[16]
    %c = full value=3 : f32[16]
    %m = exp %x
    %s = mul %m, %c
    %t = tanh %s
    %loss = reduce_sum %t axes=[0] keep=false
    %g1 = mul %t, %x
    %g2 = mul %g1, %s
    %g3 = neg %g2
    %g = mul %g3, %t
    return loss=%loss, g=%g
}";

#[test]
fn copies_stand_before_the_first_reader_in_the_order_of_their_originals() {
    let buf = parse(CHAIN).unwrap();
    let (g, f) = (buf.view(), remat_facts(buf.view()));
    let list = list_choices(g, &f);
    let names: Vec<(&str, usize)> = list.iter().map(|c| (c.name.as_str(), c.nodes)).collect();
    assert_eq!(names, [("nothing", 0), ("point-wise ops", 3)]);
    assert_eq!(named(g, &list[1].kept), [] as [&str; 0]);
    let again = apply_choice(g, &f, &list[1]).unwrap();
    let h = again.view();
    let ops: Vec<&str> = h.region_nodes(h.entry()).map(|n| h.def_of(n).name).collect();
    let copies = ["optimization_barrier", "exp", "mul", "tanh"];
    let forward = ["input", "full", "exp", "mul", "tanh", "reduce_sum"];
    assert_eq!(ops, [&forward[..], &copies, &["mul", "mul", "neg", "mul"]].concat());
    // The constant is read as it is, and all readers have the copies.
    let nodes: Vec<Node> = h.region_nodes(h.entry()).collect();
    let out = |i: usize| h.out(nodes[i]);
    let args = |i: usize| h.args_of(nodes[i]).to_vec();
    assert_eq!([args(6), args(7)], [vec![out(0)], vec![out(6)]]);
    assert_eq!([args(8), args(9)], [vec![out(7), out(1)], vec![out(8)]]);
    assert_eq!(args(10), [out(9), out(0)], "a leaf is there");
    assert_eq!([args(11), args(13)], [[out(10), out(8)], [out(12), out(9)]]);
    // Each stands in the line of its original.
    let line = |i: usize| match h.location(nodes[i]) {
        Location::Text(line, _) => line,
        _ => 0,
    };
    assert_eq!([7, 8, 9, 10, 11, 12, 13].map(line), [4, 5, 6, 8, 9, 10, 11]);
    // What is kept is read through a barrier by copies, and as it is by others.
    let mut some = list[1].clone();
    some.kept[value(g, "s")] = true;
    let again = apply_choice(g, &f, &some).unwrap();
    let h = again.view();
    let ops: Vec<&str> = h.region_nodes(h.entry()).map(|n| h.def_of(n).name).collect();
    assert_eq!(ops, [&forward[..], &["optimization_barrier", "tanh", "mul", "mul", "neg", "mul"]].concat());
    let nodes: Vec<Node> = h.region_nodes(h.entry()).collect();
    let (s, copy) = (h.out(nodes[3]), h.out(nodes[7]));
    assert_eq!(h.args_of(nodes[6]), [s]);
    assert_eq!(h.args_of(nodes[8]), [copy, h.out(nodes[0])]);
    assert_eq!(h.args_of(nodes[9]), [h.out(nodes[8]), s]);
}

#[test]
fn cheap_ops_run_again_where_point_wise_ones_save_nothing() {
    let buf = parse(
        "graph @cheap {
            %x = input : f32[512,512]
            %w = param init=ones scale=0 frozen=false : f32[512,512]
            %a = matmul %x, %w ta=false tb=false
            %s = softmax %a axis=1
            %loss = reduce_sum %s axes=[0,1] keep=false
            %p = mul %a, %s
            return loss=%loss, grad.w=%p
        }",
    )
    .unwrap();
    let (g, f) = (buf.view(), remat_facts(buf.view()));
    let list = list_choices(g, &f);
    let names: Vec<(&str, usize)> = list.iter().map(|c| (c.name.as_str(), c.nodes)).collect();
    assert_eq!(names, [("nothing", 0), ("point-wise ops", 0), ("cheap ops", 1)]);
    assert_eq!([&list[1], &list[2]].map(|c| named(g, &c.kept).join(" ")), ["a s", "a"]);
    assert!(list[2].flops > 0);
}
