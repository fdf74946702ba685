//! What quantisation-aware training rounds in a graph, and with how many scales.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::quant::Qat;
use arenagrad::graph::{GraphBuf, LeafKind};
use arenagrad::tools::ir::text::{parse, print};

/// The operands that are rounded, in order, each with the axis along which it has scales; -1: it has one scale.
fn rounded(g: &GraphBuf) -> Vec<(String, i64)> {
    let text = print(g.view());
    let of = |line: &str| {
        let (_, op) = line.split_once(" = fake_quantize ")?;
        let axis = op.split_once("axis=").map_or(-1, |(_, a)| a.split(' ').next().unwrap().parse().unwrap());
        Some((op.split(',').next().unwrap().to_string(), axis))
    };
    text.lines().filter_map(of).collect()
}

fn states(g: &GraphBuf) -> Vec<String> {
    g.view().leaves().filter(|l| l.kind == LeafKind::State).map(|l| l.name.to_string()).collect()
}

fn is(found: &[(String, i64)], want: &[(&str, i64)]) {
    assert_eq!(found.iter().map(|(name, axis)| (&name[..], *axis)).collect::<Vec<_>>(), want);
}

/// Weights on either side of a product, stored either way.
const NET: &str = "graph @net {
  %x = input : f32[4,6]
  %d = input : f32[6,3]
  %a.weight = param init=ones scale=0 frozen=false : f32[6,5]
  %b.weight = param init=ones scale=0 frozen=false : f32[7,5]
  %c.weight = param init=ones scale=0 frozen=false : f32[6,5]
  %e.weight = param init=ones scale=0 frozen=false : f32[2,5]
  %h = matmul %x, %a.weight ta=false tb=false
  %k = matmul %h, %b.weight ta=false tb=true
  %t = matmul %c.weight, %d ta=true tb=false
  %u = matmul %e.weight, %t ta=false tb=false
  return k=%k, u=%u
}";

#[test]
fn weights_have_a_scale_for_each_channel_of_the_result() {
    let graph = parse(NET).unwrap();
    let all = graph.qat(&Qat::int8().weights("*.weight")).unwrap();
    let weights = [("%a.weight", 1), ("%b.weight", 0), ("%c.weight", 1), ("%e.weight", 0)];
    let [a, b, c, e] = weights;
    is(&rounded(&all), &[("%x", -1), a, ("%h", -1), b, c, ("%d", -1), e, ("%t", -1)]);
    assert_eq!(states(&all), ["a.input.scale", "b.input.scale", "c.input.scale", "e.input.scale"]);
    assert!(print(all.view()).contains("%a.input = fake_quantize %x, "));
    let options = || Qat::int8().weights("*.weight").inputs(false);
    is(&rounded(&graph.qat(&options()).unwrap()), &weights);
    let one = weights.map(|(name, _)| (name, -1));
    is(&rounded(&graph.qat(&options().per_channel(false)).unwrap()), &one);
    // What a pattern does not match stays, and so does what only such a weight is multiplied with.
    is(&rounded(&graph.qat(&Qat::int8().weights("a.*")).unwrap()), &[("%x", -1), a]);
}

/// Products that see the same channels share the scales. Those that see others share one scale.
#[test]
fn a_weight_of_several_products_is_rounded_once() {
    let text = |second: &str| {
        format!(
            "graph @tied {{
              %x = input : f32[4,6]
              %y = input : f32[4,5]
              %z = input : f32[4,6]
              %w = param init=ones scale=0 frozen=false : f32[6,5]
              %h = matmul %x, %w ta=false tb=false
              %k = {second}
              return h=%h, k=%k
            }}"
        )
    };
    let options = Qat::int8().weights("w").inputs(false);
    let of = |second: &str| rounded(&parse(&text(second)).unwrap().qat(&options).unwrap());
    is(&of("matmul %z, %w ta=false tb=false"), &[("%w", 1)]);
    is(&of("matmul %y, %w ta=false tb=true"), &[("%w", -1)]);
    // Other readers see the rounded weight, too.
    is(&of("exp %w"), &[("%w", 1)]);
}

/// Channels are followed through a transpose and get lost in a reshape. The weights of a convolution have them first.
#[test]
fn channels_are_followed_through_moves() {
    let text = "graph @moves {
      %x = input : f32[4,6]
      %i = input : f32[1,2,8]
      %v = param init=ones scale=0 frozen=false : f32[5,6]
      %w = param init=ones scale=0 frozen=false : f32[30]
      %c = param init=ones scale=0 frozen=false : f32[3,2,3]
      %t = transpose %v perm=[1,0]
      %h = matmul %x, %t ta=false tb=false
      %r = reshape %w shape=[6,5]
      %k = matmul %x, %r ta=false tb=false
      %l = conv1d %i, %c stride=[1] pad=[0,0] dilation=[1] groups=1
      return h=%h, k=%k, l=%l
    }";
    let options = Qat::int8().weights("*").inputs(false);
    is(&rounded(&parse(text).unwrap().qat(&options).unwrap()), &[("%v", 0), ("%w", -1), ("%c", 0)]);
}

/// What is rounded as an activation or as a weight is not rounded again for a product.
#[test]
fn activations_are_rounded_where_they_are_made() {
    let text = "graph @acts {
      %x = input : f32[4,6]
      %w = param init=ones scale=0 frozen=false : f32[6,6]
      %v = param init=ones scale=0 frozen=false : f32[6,5]
      %h = matmul %x, %w ta=false tb=false
      %0 = relu %h
      %1 = reshape %0 shape=[2,2,6]
      %k = reshape %1 shape=[4,6]
      %l = matmul %k, %v ta=false tb=false
      %m = matmul %w, %v ta=false tb=false
      return l=%l, m=%m
    }";
    let graph = parse(text).unwrap();
    let of = |o: Qat| (states(&graph.qat(&o).unwrap()), rounded(&graph.qat(&o).unwrap()).len());
    let names = |list: &[&str]| list.iter().map(|s| s.to_string()).collect::<Vec<_>>();
    let options = || Qat::int8().weights("*");
    assert_eq!(of(options()), (names(&["w.input.scale", "v.input.scale"]), 4));
    assert_eq!(of(options().activations("x")), (names(&["x.scale", "v.input.scale"]), 4));
    // The operand itself, and what it is made of by moves.
    assert_eq!(of(options().activations("x").activations("k")), (names(&["x.scale", "k.scale"]), 4));
    assert_eq!(of(options().activations("h").inputs(false)), (names(&["h.scale"]), 3));
}

#[test]
fn a_constant_may_be_an_activation() {
    let text = "graph @first {
      %k = full value=0.3 : f32[2]
      %x = input : f32[2]
      %y = mul %k, %x
      return y=%y
    }";
    let done = parse(text).unwrap().qat(&Qat::int8().activations("k")).unwrap();
    assert_eq!((states(&done), rounded(&done).len()), (vec!["k.scale".to_string()], 1));
}

/// A loop captures a weight that is rounded in front of it. Products in its body are left alone.
#[test]
fn bodies_of_loops_are_left_alone() {
    let text = "region @body(%c: f32[4,6], %w: f32[6,6]) {
      %1 = matmul %c, %w ta=false tb=false
      yield %1
    }
    graph @loop {
      %x = input : f32[4,6]
      %w = param init=ones scale=0 frozen=false : f32[6,6]
      %y = scan %x, %w body=@body carries=1 consts=1 length=3 reverse=false
      return y=%y
    }";
    let done = parse(text).unwrap().qat(&Qat::int8().weights("w")).unwrap();
    is(&rounded(&done), &[("%w", -1)]);
    assert!(states(&done).is_empty());
}

#[test]
fn bits_are_those_of_the_first_rounding_of_the_weight_itself() {
    let text = "graph @bits {
      %x = input : f32[3]
      %s = input : f32[]
      %w = param init=ones scale=0 frozen=false : f32[3]
      %v = param init=ones scale=0 frozen=false : f32[]
      %a = exp %w
      %b = fake_quantize %w, %s lo=-8 hi=7 ste=identity
      %c = fake_quantize %w, %s lo=-127 hi=127 ste=identity
      %d = fake_quantize %x, %v lo=-127 hi=127 ste=identity
      return a=%a, b=%b, c=%c, d=%d
    }";
    let graph = parse(text).unwrap();
    assert_eq!(graph.quantized_weight_bits("w").unwrap(), Some(4));
    assert_eq!(graph.quantized_weight_bits("v").unwrap(), None);
    for (bits, fits) in [(1, false), (2, true), (8, true), (9, false)] {
        let done = parse(NET).unwrap().qat(&Qat::with_bits(bits).weights("*.weight"));
        assert_eq!(done.map_err(|e| e.message).is_ok(), fits, "{bits}");
    }
}
