//! Which products of a step a pattern of params claims.

#![allow(clippy::unwrap_used)]

use arenagrad::Precision::{self, Bf16, Bf16x2, F32};
use arenagrad::tools::arena::{Node, ids::Id};
use arenagrad::tools::ir::text::parse;
use arenagrad::tools::passes::product_precision::{Precisions, count_product_precisions, product_precisions};

/// The first results of the nodes that are not computed in f32, in order, or the error.
fn claimed(text: &str, groups: &[(&str, Precision)]) -> Result<Vec<(String, Precision)>, String> {
    let graph = parse(text).unwrap();
    let g = graph.view();
    let groups = groups.iter().map(|&(pattern, p)| (pattern.to_string(), p)).collect();
    let of = product_precisions(g, &Precisions { base: F32, groups }).map_err(|e| e.to_string())?;
    let nodes = (0..g.nodes()).map(Node::new).filter(|n| of[n.at()] != F32);
    Ok(nodes.map(|n| (g.str(g.names[g.out(n).at()]).to_string(), of[n.at()])).collect())
}

/// The names alone, of what `pattern` claims.
fn names(text: &str, pattern: &str) -> Vec<String> {
    claimed(text, &[(pattern, Bf16)]).unwrap().into_iter().map(|c| c.0).collect()
}

/// Two params with as many elements, one of which is read transposed and negated.
const SGD: &str = "graph @sgd {
  %x = input : f32[3,5]
  %y = input : f32[3,7]
  %w = param init=ones scale=0 frozen=false : f32[5,7]
  %v = param init=ones scale=0 frozen=false : f32[7,5]
  %lr = input : f32[]
  %a = matmul %x, %w ta=false tb=false
  %t = transpose %v perm=[1,0]
  %b = matmul %x, %t ta=false tb=false
  %n = neg %v
  %c = matmul %y, %n ta=false tb=false
  %gw = matmul %x, %y ta=true tb=false
  %gv = matmul %y, %x ta=true tb=false
  %nw, %nv = sgd %w, %gw, %v, %gv, %lr weight_decay=0.1
  update %w <- %nw
  update %v <- %nv
  return a=%a, b=%b, c=%c
}";

#[test]
fn a_pattern_claims_the_products_with_a_param_and_that_of_its_gradient() {
    assert_eq!(names(SGD, "w"), ["a", "gw"]);
    assert_eq!(names(SGD, "v"), ["b", "gv"]);
    // The first group that claims a product has it.
    let all = claimed(SGD, &[("w", Bf16), ("*", Bf16x2)]).unwrap();
    let of = |name: &str, p: Precision| (name.to_string(), p);
    assert_eq!(all, [of("a", Bf16), of("b", Bf16x2), of("gw", Bf16), of("gv", Bf16x2)]);
    let all = claimed(SGD, &[("*", Bf16x2), ("w", Bf16)]).unwrap();
    assert!(all.len() == 4 && all.iter().all(|c| c.1 == Bf16x2), "{all:?}");
}

#[test]
fn a_step_of_several_params_reads_the_gradient_of_each() {
    let text = "graph @adam {
      %x = input : f32[3,5]
      %y = input : f32[3,7]
      %w = param init=ones scale=0 frozen=false : f32[5,7]
      %v = param init=ones scale=0 frozen=false : f32[7,5]
      %m1 = state init=zeros scale=0 : f32[5,7]
      %s1 = state init=zeros scale=0 : f32[5,7]
      %m2 = state init=zeros scale=0 : f32[7,5]
      %s2 = state init=zeros scale=0 : f32[7,5]
      %lr = input : f32[]
      %t = input : i64[]
      %gw = matmul %x, %y ta=true tb=false
      %gv = matmul %y, %x ta=true tb=false
      %nw, %nm1, %ns1, %nv, %nm2, %ns2 = adam %w, %gw, %m1, %s1, %v, %gv, %m2, %s2, %lr,
        %t beta1=0.9 beta2=0.999 eps=0.1 weight_decay=0 decoupled=false
      update %w <- %nw
      update %v <- %nv
      return lr=%lr
    }";
    assert_eq!((names(text, "w"), names(text, "v")), (vec!["gw".to_string()], vec!["gv".to_string()]));
}

#[test]
fn a_product_with_a_step_behind_it_is_one_of_its_param() {
    let text = "graph @fused {
      %x = input : f32[3,5]
      %y = input : f32[3,7]
      %p = param init=ones scale=0 frozen=false : f32[5,7]
      %m = state init=zeros scale=0 : f32[5,7]
      %v = state init=zeros scale=0 : f32[5,7]
      %lr = input : f32[]
      %t = input : i64[]
      %np, %nm, %nv = matmul_adam %x, %y, %p, %m, %v, %lr,
        %t ta=true tb=false beta1=0.9 beta2=0.999 eps=0.1 weight_decay=0 decoupled=false
      update %p <- %np
      update %m <- %nm
      update %v <- %nv
      return lr=%lr
    }";
    assert_eq!(names(text, "p"), ["np"]);
}

/// Column sums of a gated product are the gradient of a bias, which no product computes.
#[test]
fn a_bias_claims_no_product() {
    let text = "graph @bias {
      %x = input : f32[4,3]
      %w = input : f32[3,6]
      %r = input : f32[4,6]
      %b = param init=ones scale=0 frozen=false : f32[6]
      %e = param init=ones scale=0 frozen=false : f32[4,6]
      %lr = input : f32[]
      %d, %db = matmul_dact %x, %w, %r ta=false tb=false by=relu
      %nb = sgd %b, %db, %lr weight_decay=0.1
      %ne = sgd %e, %d, %lr weight_decay=0.1
      update %b <- %nb
      update %e <- %ne
      return lr=%lr
    }";
    assert_eq!(names(text, "e"), ["d"]);
    let why = "precision: \"b\" matches params, but none that a product of f32 matrices reads";
    assert_eq!(claimed(text, &[("b", Bf16)]), Err(why.to_string()));
}

#[test]
fn patterns_without_a_product_of_f32_are_errors() {
    let e = claimed(SGD, &[("w", Bf16), ("q*", Bf16)]).unwrap_err();
    assert!(e.starts_with("precision: \"q*\" matches no param; there are w, v"), "{e}");
    // An input is no param.
    assert!(claimed(SGD, &[("x", Bf16)]).unwrap_err().contains("\"x\" matches no param"));
    let wide = "graph @wide {
      %x = input : f64[3,5]
      %w = param init=ones scale=0 frozen=false : f64[5,7]
      %a = matmul %x, %w ta=false tb=false
      return a=%a
    }";
    assert!(claimed(wide, &[("w", Bf16)]).unwrap_err().contains("none that a product of f32 matrices reads"));
}

#[test]
fn products_of_each_precision_are_counted() {
    let graph = parse(SGD).unwrap();
    let choice = Precisions { base: F32, groups: vec![("w".to_string(), Bf16)] };
    let of = product_precisions(graph.view(), &choice).unwrap();
    assert_eq!(count_product_precisions(graph.view(), &of), [3, 0, 0, 2]);
    assert_eq!(count_product_precisions(graph.view(), &[]), [5, 0, 0, 0]);
}
