//! Graphs with values in half precision: which readers share a widening, and what stands where.

use super::*;
use crate::nodes::ir::text::{PrintOptions, parse, print, print_with};

/// A graph with `%last = exp %x`, of 2048 bytes, that `backward` reads, which makes `%g`.
fn graph(backward: &str) -> GraphBuf {
    let text = format!(
        "graph @g {{
            %x = input : f32[32,16]
            %w = param init=ones scale=0 frozen=false : f32[32,16]
            %last = exp %x
            %f1 = exp %last
            %f2 = exp %f1
            %loss = reduce_sum %f2 axes=[0,1] keep=false
            {backward}
            return loss=%loss, grad.w=%g
        }}"
    );
    parse(&text).unwrap()
}

fn in_bf16(g: &GraphBuf) -> String {
    print(keep_half(g.view(), Keep::Bf16).unwrap().0.view())
}

#[test]
fn choices_have_names_and_types() {
    for &(keep, name) in Keep::ALL {
        assert_eq!((Keep::named(name), keep.name()), (Some(keep), name));
    }
    assert_eq!(Keep::named("f64"), None);
    let halves: Vec<_> = Keep::ALL.iter().map(|k| k.0.half_type()).collect();
    assert_eq!(halves, [None, Some(DType::BF16), Some(DType::F16)]);
}

#[test]
fn what_is_kept_is_counted() {
    let g = graph("%g = mul %w, %last");
    let kept = |keep| keep_half(g.view(), keep).unwrap().1;
    assert_eq!(kept(Keep::F16), KeptHalf { keep: Keep::F16, values: 1, bytes: 1024 });
    assert_eq!(kept(Keep::F32), KeptHalf { keep: Keep::F32, values: 0, bytes: 0 });
    // Nothing crosses the boundary but leaves.
    let g = graph("%g = mul %w, %x");
    let (same, none) = keep_half(g.view(), Keep::Bf16).unwrap();
    assert_eq!(none, KeptHalf { keep: Keep::Bf16, values: 0, bytes: 0 });
    assert_eq!(print(same.view()), print(g.view()));
}

#[test]
fn a_barrier_of_the_forward_half_is_written_again() {
    let g = parse(
        "graph @g {
            %x = input : f32[32,16]
            %w = param init=ones scale=0 frozen=false : f32[32,16]
            %h = exp %x
            %last = optimization_barrier %h
            %f1 = exp %last
            %f2 = exp %f1
            %loss = reduce_sum %f2 axes=[0,1] keep=false
            %g = mul %w, %last
            return loss=%loss, grad.w=%g
        }",
    );
    let text = in_bf16(&g.unwrap());
    // As it was, that of the widening, and on what is widened.
    assert_eq!(text.matches("= optimization_barrier ").count(), 3, "{text}");
}

/// The number of nodes of `text` that stand in `line`.
fn from_line(text: &str, line: usize) -> usize {
    text.matches(&format!("loc(\"f.ir\":{line})")).count()
}

#[test]
fn copies_stand_in_the_lines_of_their_originals() {
    let g = parse(
        "graph @g {
            %x = input : f32[32,16]
            %w = param init=ones scale=0 frozen=false : f32[32,16]
            %k = full value=3 : f32[32,16]
            %h = tanh %x
            %last = mul %h, %k
            %f1 = exp %last
            %f2 = exp %f1
            %loss = reduce_sum %f2 axes=[0,1] keep=false
            %e = mul %w, %h
            %g = mul %e, %last
            return loss=%loss, grad.w=%g
        }",
    )
    .unwrap();
    let places = PrintOptions { locations: true, file: Some("f.ir") };
    let text = print_with(keep_half(g.view(), Keep::Bf16).unwrap().0.view(), places);
    // %h with its widening and its barrier; %last twice and the rounding behind it; the readers.
    assert_eq!([5, 6, 10, 11].map(|line| from_line(&text, line)), [3, 3, 1, 1], "{text}");
}

/// A forward loop with a stack, whatever reads it, and a backward loop over the stack.
fn loops(reader: &str) -> GraphBuf {
    let text = format!(
        "region @step(%c : f32[4,8], %s : f32[4,8]) {{
            %n = add %c, %s
            %y = tanh %n
            yield %n, %y
        }}
        region @back(%c : f32[4,8], %s : f32[4,8]) {{
            %m = mul %c, %s
            yield %m
        }}
        graph @g {{
            %x = input : f32[16,4,8]
            %w = param init=ones scale=0 frozen=false : f32[4,8]
            %last, %all = scan %w, %x body=@step carries=1 consts=0 length=16 reverse=false
            {reader}
            %f2 = exp %f1
            %f3 = exp %f2
            %f4 = exp %f3
            %loss = reduce_sum %f4 axes=[0,1,2] keep=false
            %g = scan %w, %all body=@back carries=1 consts=0 length=16 reverse=true
            return loss=%loss, grad.w=%g
        }}"
    );
    parse(&text).unwrap()
}

#[test]
fn a_stack_that_the_forward_half_reads_is_rounded_behind_its_reader() {
    let text = in_bf16(&loops("%f1 = exp %all"));
    let forward = "scan %w, %x body=@step carries=1 consts=0 length=16 reverse=false : f32[4,8], f32[16,4,8]";
    assert!(text.contains(forward) && text.contains("cast %all to=bf16"), "{text}");
    assert!(text.find("%f1 = exp %all").unwrap() < text.find("cast %all to=bf16").unwrap(), "{text}");
    // A stack that only the backward half reads is made in half precision.
    let text = in_bf16(&loops("%wide = broadcast %last shape=[16,4,8]\n %f1 = exp %wide"));
    assert!(text.contains(&forward.replace("f32[16,4,8]", "bf16[16,4,8]")) && !text.contains("%all"), "{text}");
}

#[test]
fn loops_in_half_precision_stand_in_their_lines() {
    let g = loops("%wide = broadcast %last shape=[16,4,8]\n %f1 = exp %wide");
    let places = PrintOptions { locations: true, file: Some("f.ir") };
    let text = print_with(keep_half(g.view(), Keep::Bf16).unwrap().0.view(), places);
    let own: Vec<&str> = text.lines().filter(|l| l.contains("= scan ")).collect();
    assert_eq!(own.len(), 2, "{text}");
    for (line, l) in [13, 20].into_iter().zip(own) {
        assert_eq!(from_line(l, line), 1, "{l}");
    }
}
