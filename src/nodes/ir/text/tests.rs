//! Tests of details of the text form. Properties of random graphs are in `tests/graphs/props.rs`, messages in
//! `tests/filetests`.

use super::*;
use crate::arena::Value;
use crate::error::Location;
use crate::fuzz::{check_any_graph, check_any_text};
use crate::nodes::ir::attrs::Owned;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ops::table::OPS;
use crate::nodes::{Builder, Op};

const MLP: &str = "\
region @body(%c: f32[4], %x: f32[4]) {
  %y = add %c, %x : f32[4]
  yield %y
}
graph @mlp {
  %x = input : f32[4]
  %fc1.weight = param init=uniform scale=0.0357 frozen=false : f32[4]
  %2 = call %x, %fc1.weight body=@body : f32[4]
  %3 = constant data=0x0000803f : f32[1]
  update %fc1.weight <- %2
  return loss=%2, out1=%3
}
";

#[test]
fn what_is_printed_is_what_was_read() {
    let g = parse(MLP).unwrap();
    assert_eq!(print(g.view()), MLP);
    check_any_graph(&g);
    assert_eq!(g.view().find_leaf("fc1.weight").map(|l| l.0), Some(Value(4)));
    let (v, n) = (g.view(), crate::arena::Node(2));
    assert_eq!(v.locs[v.loc[n.0 as usize] as usize], Location::Text(2, 3));
}

#[test]
fn names_that_are_not_unique_or_not_plain_keep_all_the_same() {
    let g = Builder::new("odd \"graph\"\n");
    let x = g.input("x", [2], DType::F32);
    let (a, b, c) = (x.exp().named("h"), x.tanh().named("h"), x.sin().named("7"));
    let d = x.cos().named("x");
    let body = |e, k: f64| g.region(e, &[x.ty()], |a| vec![(a[0] * k).exp().named("tab\there")]);
    let (r, s, t) = (body("f", 1.0), body("f", 2.0), body("", 3.0));
    let calls: Vec<_> = [r, s, t].map(|r| g.call(r, &[x])[0]).to_vec();
    g.output("é \u{1}", a + b + c + d);
    let g = g.finish(calls).unwrap();
    let text = print(g.view());
    for part in ["%x = input", "%1\"h\" = exp %x", "%\"7\" = sin", "%4\"x\" = cos", "@0\"f\"(", "@2(", "\"é \\u{1}\"="]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    check_any_graph(&g);
}

#[test]
fn numbers_keep_their_bits() {
    let all = [0.0, -0.0, 0.1, 1.0, 1e300, 5e-324, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 1.0 / 3.0];
    let odd = [f64::from_bits(0x7ff0_0000_0000_0001), f64::from_bits(0xfff8_0000_dead_beef)];
    let g = Builder::new("numbers");
    let outs: Vec<_> = all.into_iter().chain(odd).map(|x| g.full(x, [1], DType::F64)).collect();
    check_any_graph(&g.finish(outs).unwrap());
}

#[test]
fn equal_nodes_of_a_text_are_one_node() {
    let g = parse("graph @g {\n %x = input : f32[2]\n %a = exp %x\n %b = exp %x\n %c = add %a, %b\n return y=%c }")
        .unwrap();
    assert_eq!((g.view().nodes(), g.view().values()), (3, 3));
    assert!(print(g.view()).contains("%c = add %a, %a : f32[2]"));
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_text() {
    let text = "graph @g {\n  %x = input : f32[2]\n  return y=%z\n}";
    assert!(parse(&format!("\u{feff}{}", text.replace("%z", "%x"))).is_ok());
    assert_eq!(parse(&format!("\u{feff}{text}")).unwrap_err(), parse(text).unwrap_err());
    assert!(parse(&format!("\u{feff}\u{feff}{text}")).is_err());
}

#[test]
fn attributes_alone() {
    let mut e = Emit::new("");
    let fields = Op::MATMUL;
    let schema = OPS[fields.0 as usize].attrs;
    assert_eq!(parse_attrs(schema, "tb=true ta=false", &mut e).unwrap(), [Owned::Bool(false), Owned::Bool(true)]);
    assert_eq!(parse_attrs(&[], "", &mut e).unwrap(), []);
    let message = |text: &str, e: &mut Emit| parse_attrs(schema, text, e).unwrap_err().to_string();
    assert_eq!(message("ta=true", &mut e), "1:1: attribute tb of the op is missing");
    assert_eq!(message("ta=true ta=true tb=true", &mut e), "1:9: attribute ta of the op is given twice");
    // As in a graph, attributes stand on one line.
    assert!(message("ta=true\ntb=true", &mut e).contains("an attribute"));
    assert_eq!(message("ta=1", &mut e), "1:4: attribute ta of the op takes true or false, not 1");
    e.open_region("case_body");
    let a = parse_type("f32[3]", &mut e).unwrap();
    let v = e.region_arg(a);
    let r = e.close_region(&[v]);
    let call = OPS[Op::CALL.0 as usize].attrs;
    assert_eq!(parse_attrs(call, "body=@case_body", &mut e).unwrap(), [Owned::Region(r)]);
    let full = OPS[Op::FULL.0 as usize].attrs;
    let attrs = parse_attrs(full, "value=-inf dtype=f32 shape=[2,3]", &mut e).unwrap();
    assert_eq!(attrs[..2], [Owned::F64(f64::NEG_INFINITY), Owned::DType(DType::F32)]);
}

#[test]
fn types_alone() {
    let mut e = Emit::new("");
    let tys = parse_types("f[3,4] i32[] f64[0]", DType::F64, &mut e).unwrap();
    assert_eq!(tys.iter().map(|t| t.dtype).collect::<Vec<_>>(), [DType::F64, DType::I32, DType::F64]);
    assert_eq!(e.shapes.dims(tys[0].shape)[..], [3, 4]);
    for bad in
        ["", "f32", "f32[", "f32[-1]", "q[1]", "f32[1]x", "f32[99999999999999999999]", "f32[4294967296,4294967296]"]
    {
        assert!(parse_type(bad, &mut e).is_err(), "{bad}");
    }
}

#[test]
fn every_case_of_every_definition_parses() {
    for def in OPS.iter().filter(|d| d.name != "call") {
        for case in def.cases {
            let mut e = Emit::new("");
            let tys = parse_types(case.args, DType::F32, &mut e);
            assert!(tys.is_ok(), "{}: {}: {tys:?}", def.name, case.args);
            if !case.attrs.contains('@') {
                let attrs = parse_attrs(def.attrs, case.attrs, &mut e);
                assert!(attrs.is_ok(), "{}: {}: {attrs:?}", def.name, case.attrs);
            }
        }
    }
}

#[test]
fn custom_ops_are_parsed_if_their_definitions_are_given() {
    static DOUBLE: OpDef = OpDef { name: "double_it", ..crate::nodes::ops::pointwise::math::RELU };
    let text = "graph @g {\n  %x = input : f32[2]\n  %y = double_it %x : f32[2]\n  return y=%y\n}\n";
    assert_eq!(print(parse_with(text, &[&DOUBLE]).unwrap().view()), text);
    let hint = "an op of your own is read by `parse_with`, given its definition";
    assert_eq!(parse(text).unwrap_err().to_string(), format!("3:8: there is no op double_it; {hint}"));
}

#[test]
fn sizes_are_bounded() {
    let long = " ".repeat(MAX_TEXT + 1);
    assert!(parse(&long).unwrap_err().message.contains("larger than 64 MiB"));
    let name = format!("graph @{} {{ return }}", "a".repeat(1 << 17));
    assert!(parse(&name).unwrap_err().message.len() < 300);
    // The parser stops after `MAX_ERRORS` errors; deep brackets do not recurse.
    let wrong = format!("graph @g {{\n{}return\n}}", "%x = foo\n".repeat(10_000));
    assert_eq!(parse_all(&wrong, &[]).unwrap_err().len(), MAX_ERRORS);
    check_any_text(&"[".repeat(1 << 16));
    check_any_text(&format!("graph @g {{ %x = transpose perm={}", "[".repeat(1 << 16)));
}

#[test]
fn one_mistake_is_one_error() {
    let text = "graph @g {\n %x = input : f32[2]\n %y = foo %x\n %z = exp %y\n %w = add %z, %x\n return l=%w\n}";
    let errors = parse_all(text, &[]).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
}

#[test]
fn outputs_stand_on_the_line_of_return() {
    for text in ["graph @g { return }", "graph @g {\n  return\n}"] {
        assert_eq!(parse(text).unwrap().view().outputs().len(), 0, "{text}");
    }
}

#[test]
fn a_node_without_results_stands_alone() {
    static SINK: OpDef = OpDef { name: "sink", infer: |_| Ok(()), ..crate::nodes::ops::pointwise::math::RELU };
    let g = Builder::new("g");
    let x = g.input("x", [2], DType::F32);
    g.custom(&SINK, &[x], &[]);
    let graph = g.finish([(x + x).named("y")]).unwrap();
    assert!(print(graph.view()).contains("\n  sink %x\n"), "{}", print(graph.view()));
}
