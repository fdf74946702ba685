//! The conventions on the way of a gradient: in a loop, more than once, and beside the way.

use super::*;
use crate::nodes::{Builder, FakeQuantize, Quantize, Var};

fn rounded<'g>(x: Var<'g>, scale: Var<'g>) -> Var<'g> {
    x.fake_quantize(scale, None, FakeQuantize::bits(4))
}

#[test]
fn conventions_on_the_way_to_a_float_output_are_named_once_in_order() {
    let g = Builder::new("g");
    let (x, b) = (g.input("x", [4], DType::F64), g.input("b", [2, 4], DType::F64));
    let scale = g.constant_f64(&[0.25], []);
    let twice = rounded(rounded(x, scale), scale);
    // The carry has no reader after the loop.
    let (_, rows) = g.scan(&[twice], &[b], |c, x| (vec![c[0] + x[0]], vec![c[0] * x[0].stop_gradient()]));
    // Codes are an output, and no float.
    let codes = x.quantize(scale, None, Quantize::i8());
    let graph = g.finish([rows[0].named("z"), codes.named("codes")]).unwrap();
    let names = |leaf: &str| list_conventional_ops(graph.view(), leaf).join(", ");
    assert_eq!(["x", "b", "y"].map(names), ["fake_quantize, stop_gradient", "stop_gradient", ""]);
}
