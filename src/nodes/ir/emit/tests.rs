//! The first error is kept, and later nodes on its results are skipped. The number of values has a limit. Bodies
//! capture what is outside.

use super::*;
use crate::nodes::{Builder, DType, Loop, Var};

/// A graph with an open region, and the region's argument.
fn open() -> (Emit, Value, Ty) {
    let mut e = Emit::new("g");
    let ty = Ty { dtype: DType::F32, shape: e.shapes.intern(&[2]).unwrap() };
    e.open_region("r");
    let x = e.region_arg(ty);
    (e, x, ty)
}

#[test]
fn a_node_on_the_result_of_a_failed_node_is_skipped() {
    let (mut e, x, _) = open();
    assert_eq!(e.emit(Op::ADD, &[x, x], &[]).len(), 1);
    let (nodes, failed) = (e.nodes(), e.emit(Op::ADD, &[x], &[]));
    assert!(failed.is_empty() && failed.at(0) == Value::NONE && failed.at(1) == Value::NONE);
    let skipped = e.emit(Op::ADD, &[x, failed.at(0)], &[]);
    assert!(skipped.is_empty() && skipped.at(0) == Value::NONE && e.nodes() == nodes);
}

#[test]
fn a_leaf_has_a_name_that_a_text_can_have() {
    let ty = |e: &mut Emit| e.shapes.intern(&[2]).unwrap();
    for name in ["", "a\nb", "a\"b", "a\\b"] {
        let mut e = Emit::new("g");
        let attrs = [Attr::DType(DType::F32), Attr::Shape(ty(&mut e))];
        assert_eq!(e.leaf(Op::INPUT, name, &attrs), Value::NONE);
        assert_eq!((message(&mut e), e.nodes()), (format!("a leaf cannot be called {name:?}"), 0));
    }
}

#[test]
fn values_of_a_region_that_is_set_aside_are_counted_once() {
    let (mut e, x, ty) = open();
    e.emit(Op::EXP, &[x], &[]);
    e.open_capturing("inner");
    let y = e.region_arg(ty);
    e.emit(Op::EXP, &[y], &[]);
    for _ in 0..3 {
        assert_eq!(e.all_values(), 4);
        let aside = e.set_region_aside().unwrap();
        assert_eq!((e.all_values(), e.values()), (4, 2));
        e.resume_region(aside);
        assert_eq!((e.all_values(), e.values()), (4, 2));
    }
    // The entry stays.
    let (mut e, _, _) = entry();
    assert!(e.set_region_aside().is_none() && e.at_entry_region());
    assert_eq!((e.all_values(), e.values()), (2, 2));
}

const F32: DType = DType::F32;

/// A graph whose entry has two values of this type, as arguments.
fn entry() -> (Emit, [Value; 2], Ty) {
    let mut e = Emit::new("g");
    let ty = Ty { dtype: F32, shape: e.shapes.intern(&[2]).unwrap() };
    let values = [(); 2].map(|()| e.region_arg(ty));
    (e, values, ty)
}

fn message(e: &mut Emit) -> String {
    e.take_error().map(|e| e.message).unwrap_or_default()
}

#[test]
fn what_a_body_captures_stands_between_its_carries_and_its_slices() {
    let (mut e, [a, b], ty) = entry();
    e.open_loop("body");
    let (carry, slice) = (e.region_arg(ty), e.region_arg(ty));
    assert!(e.captured().is_empty());
    let (b1, a1) = (e.import_captured(b, 0), e.import_captured(a, 0));
    assert_eq!([e.import_captured(b, 0), e.import_captured(a, 0)], [b1, a1]);
    // Neither the entry nor the body has what an error left.
    assert_eq!([0, 1].map(|scope| e.import_captured(Value::NONE, scope)), [Value::NONE; 2]);
    assert_eq!(e.captured(), [b, a]);
    let sum = e.emit(Op::ADD, &[slice, b1], &[]).at(0);
    let next = e.emit(Op::ADD, &[sum, a1], &[]).at(0);
    let closed = e.close_loop_region(1, 1, &[next, carry]);
    assert_eq!((closed.captures, closed.indexed), (vec![b, a], false));
    assert!(e.error().is_none() && e.at_entry_region());
    let body = &e.done[closed.region.at()];
    assert_eq!(body.op, [Op::ARG, Op::ARG, Op::ARG, Op::ARG, Op::ADD, Op::ADD]);
    // The carry, both captures and the slice; then both sums.
    assert_eq!((body.args_of(4), body.args_of(5)), (&[Value(3), Value(1)][..], &[Value(4), Value(2)][..]));
    assert_eq!(body.yields, [Value(5), Value(0)]);
    let numbers: Vec<i64> = (0..4).map(|n| e.attrs_in(body, n).int(0)).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    let signature = &e.sigs[closed.region.at()];
    assert_eq!((signature.args.len(), signature.yields.len()), (4, 2));
    // Its values are gone.
    assert_eq!(e.import_captured(sum, 1), Value::NONE);
    assert_eq!(message(&mut e), "a value of a region that is closed is used outside it; yield it");
}

#[test]
fn each_body_on_the_way_captures_a_value_once() {
    let (mut e, [a, _], ty) = entry();
    e.open_loop("outer");
    let c = e.region_arg(ty);
    e.open_capturing("inner");
    let (a2, c2) = (e.import_captured(a, 0), e.import_captured(c, 1));
    assert!(a2 != c2 && e.import_captured(a, 0) == a2);
    let inner = e.captured();
    assert_eq!((inner.len(), inner[1]), (2, c));
    assert_eq!((e.value_in_entry(a2), e.value_in_entry(c2)), (Some(a), None));
    let sum = e.emit(Op::ADD, &[a2, c2], &[]).at(0);
    let closed = e.close_loop_region(0, 0, &[sum]);
    assert_eq!(closed.captures, inner);
    assert_eq!(e.captured(), [a]);
    assert_eq!(e.import_captured(a, 0), inner[0]);
    // An order may be asked for, and values that are not captured yet.
    let (mut e, [a, b], _) = entry();
    e.open_capturing("branch");
    let captured = e.import_captured(a, 0);
    assert_eq!(e.value_in_entry(captured), Some(a));
    e.capture_all(&[b, a]);
    assert_eq!(e.captured(), [b, a]);
    e.capture_all(&[Value::NONE]);
    assert_eq!((e.captured(), e.error()), (vec![b, a], None));
}

#[test]
fn what_no_region_can_see_is_an_error() {
    let (mut e, [a, _], ty) = entry();
    e.open_region("plain");
    assert_eq!(e.import_captured(a, 0), Value::NONE);
    assert_eq!(message(&mut e), "a region sees its own arguments only; a value from outside is used in it");
    assert_eq!(e.import_captured(Value(0), 1), Value::NONE);
    assert_eq!(message(&mut e), "%0 is no value of this region");
    let x = e.region_arg(ty);
    assert_eq!(e.import_captured(x, 1), x);
    e.close_loop_region(0, 0, &[x]);
    assert_eq!(message(&mut e), "the body of a loop is closed that was not opened");
    e.close_region(&[Value::NONE]);
    assert_eq!(message(&mut e), "a region yields a value that does not exist");
    e.open_loop("short");
    let closed = e.close_loop_region(1, 0, &[]);
    assert_eq!((closed.region, closed.captures, closed.indexed), (Region::NONE, vec![], false));
    assert_eq!(message(&mut e), "the body of a loop has fewer arguments than it was opened with");
    assert!(e.at_entry_region());
    assert_eq!(e.close_region(&[]), Region::NONE);
    assert_eq!(message(&mut e), "a region is closed that was not opened");
}

#[test]
fn the_key_of_a_loop_is_folded_with_the_number_of_its_iteration() {
    for carried in [false, true] {
        let (mut e, _, ty) = entry();
        let shape = e.shapes.intern(&[4]).unwrap();
        let key = e.region_arg(Ty { dtype: DType::U32, shape });
        assert_eq!(e.loop_key_here(key), key);
        e.open_loop("body");
        let carry = e.region_arg(ty);
        assert_eq!(e.carry_iteration_number(), None);
        let folded = e.loop_key_here(key);
        assert_eq!((e.loop_key_here(key), e.def(folded).unwrap().op), (folded, Op::RNG_FOLD));
        // A region that runs once has the key of the body around it.
        e.open_capturing("branch");
        let same = e.loop_key_here(key);
        assert_eq!((e.captured(), e.def(same).unwrap().op), (vec![folded], Op::ARG));
        e.close_loop_region(0, 0, &[same]);
        if carried {
            assert!(e.carry_iteration_number().is_some());
        }
        let closed = e.close_loop_region(1, 0, &[carry, folded]);
        assert_eq!((closed.captures, closed.indexed), (vec![key], !carried));
        let body = &e.done[closed.region.at()];
        // Arguments: the carry, the key and the number; or the carry, the number and the key.
        let operands = if carried { [Value(2), Value(1)] } else { [Value(1), Value(2)] };
        assert_eq!((body.args_of(3), &body.yields[..]), (&operands[..], &[Value(0), Value(3)][..]));
        let dtypes: Vec<DType> = operands.iter().map(|v| body.ty[v.at()].dtype).collect();
        assert!(dtypes == [DType::U32; 2] && body.ty[operands[1].at()].shape != shape);
    }
}

#[test]
fn a_derivative_passes_what_depends_on_floats_that_may_change() {
    let g = Builder::new("g");
    let asks = |v: Var<'_>| g.with(|e| e.may_carry_gradient(v.v));
    let (x, i, c) = (g.input("x", [3], F32), g.input("i", [3], DType::I32), g.constant(&[1.0; 3], [3]));
    assert!(asks(x) && asks(x + c) && asks(c * x) && asks(x.gather(i, 0)));
    assert!(
        !asks(i)
            && !asks(c)
            && !asks((c + c) * c)
            && !asks(c.gather(i, 0))
            && !asks(x.cast(DType::I32))
            && !asks(x.floor())
    );
    g.scan_with(Loop { length: Some(2), ..Loop::default() }, &[x], &[], |h, _| {
        assert!(asks(h[0]) && asks(x * c) && !asks(c.exp()));
        let inner = g.scan_with(Loop { length: Some(2), ..Loop::default() }, &[h[0]], &[], |k, _| {
            // Captured through two bodies, and through one.
            assert!(asks(k[0]) && asks(x.exp()) && asks(h[0].exp()) && !asks((c + c).exp()));
            (vec![k[0] * c], vec![])
        });
        (vec![inner.0[0]], vec![])
    });
    assert_eq!(g.with(|e| e.error().map(|e| e.message.clone())), None);
}

#[test]
fn equal_pure_nodes_are_one() {
    let (mut e, [a, b], ty) = entry();
    let sum = e.emit(Op::ADD, &[a, b], &[]);
    let nodes = e.nodes();
    // The operands of a sum may be exchanged.
    for args in [[a, b], [b, a]] {
        assert_eq!((e.emit(Op::ADD, &args, &[]), e.nodes()), (sum, nodes));
    }
    for (op, args) in [(Op::SUB, [a, b]), (Op::SUB, [b, a]), (Op::ADD, [a, a]), (Op::MUL, [a, b])] {
        assert_ne!(e.emit(op, &args, &[]), sum);
    }
    assert_eq!(e.nodes(), nodes + 4);
    // Arguments are not.
    assert_ne!(e.region_arg(ty), e.region_arg(ty));
    // Among many, too.
    let chain = |e: &mut Emit| -> Vec<Value> {
        let step = |x: &mut Value, _| {
            *x = e.emit(Op::SUB, &[*x, b], &[]).at(0);
            Some(*x)
        };
        (0..200).scan(a, step).collect()
    };
    let (first, nodes) = (chain(&mut e), e.nodes());
    assert_eq!((chain(&mut e), e.nodes()), (first, nodes));
}

/// Two nodes are compared if a few bits of their hashes agree, which are others in each graph.
#[test]
fn a_difference_is_not_that_of_the_other_order() {
    for _ in 0..1000 {
        let (mut e, [a, b], _) = entry();
        assert_ne!(e.emit(Op::SUB, &[a, b], &[]), e.emit(Op::SUB, &[b, a], &[]));
    }
}

#[test]
fn a_copy_has_the_types_of_its_operands() {
    let (mut e, [a, b], narrow) = entry();
    let sum = e.emit(Op::ADD, &[a, b], &[]).at(0);
    let y = e.emit(Op::EXP, &[sum], &[]).at(0);
    e.output("y", y);
    let bump = bumpalo::Bump::new();
    let graph = e.finish(&bump).unwrap();
    // The entry is a region, too.
    assert_eq!(graph.region_names, [graph.name]);
    let (add, exp) = (graph.def[sum.at()], graph.def[y.at()]);
    let mut e = Emit::like(&graph);
    let wide = Ty { dtype: DType::F64, ..narrow };
    let [x, w] = [narrow, wide].map(|ty| e.region_arg(ty));
    for (args, ty) in [([x], narrow), ([w], wide)] {
        let v = e.copy(&graph, exp, &args, &[]).at(0);
        assert_eq!(e.ty(v), ty);
    }
    for args in [[x, w], [w, x]] {
        assert!(e.copy(&graph, add, &args, &[]).is_empty());
        let why = message(&mut e);
        assert!(why.starts_with("add(f"), "{why}");
    }
    let both = e.copy(&graph, add, &[w, w], &[]).at(0);
    assert_eq!((e.ty(both), e.error()), (wide, None));
}

#[test]
fn results_are_consecutive_values() {
    let two = Outs { first: Value(3), len: 2 };
    assert_eq!((two.len(), two.is_empty(), two.at(1)), (2, false, Value(4)));
    assert_eq!(two.iter().collect::<Vec<_>>(), [Value(3), Value(4)]);
    // What an error left is a scalar.
    let (e, _, _) = entry();
    assert!(e.dims(Value::NONE).is_empty());
}

#[test]
fn an_op_that_is_ill_defined_or_called_as_another_is_refused() {
    let mut e = Emit::new("g");
    let exp = *e.ops[Op::EXP.0 as usize];
    let define = |name, doc| -> &'static OpDef { Box::leak(Box::new(OpDef { name, doc, ..exp })) };
    let (mine, bare, twin) = (define("mine", exp.doc), define("bare", ""), define("exp", exp.doc));
    let op = e.register(mine);
    assert_eq!((e.register(mine), message(&mut e)), (op, String::new()));
    e.register(bare);
    assert_eq!(message(&mut e), "op \"bare\": an op needs a name and a doc line");
    e.register(twin);
    assert_eq!(message(&mut e), "an op called exp exists already; a custom op is a `static`");
}

#[test]
fn attributes_that_do_not_fit_are_named() {
    let (mut e, [a, b], _) = entry();
    assert!(e.emit(Op::ADD, &[a, b], &[Attr::Int(1)]).is_empty());
    assert_eq!(message(&mut e), "add(f32[2], f32[2]): 1 attributes where 0 are asked for");
    // Nothing more is said of what an error left.
    assert!(e.emit(Op::ADD, &[a, Value::NONE], &[Attr::Int(1)]).is_empty() && e.error().is_none());
    let arg = |shape| [Attr::Int(0), Attr::DType(F32), Attr::Shape(shape)];
    let shapes = e.shapes.len() as u32;
    assert_eq!(e.emit(Op::ARG, &[], &arg(Shape(shapes - 1))).len(), 1);
    assert!(e.emit(Op::ARG, &[], &arg(Shape(shapes))).is_empty());
    assert_eq!(message(&mut e), format!("arg(): shape s{shapes} is not of this graph"));
    assert!(e.emit(Op::ARG, &[], &arg(Shape(0))[..2]).is_empty());
    assert_eq!(message(&mut e), "arg(): 2 attributes where 3 are asked for");
    let name = Sym(e.strings.len() as u32);
    assert!(e.emit(Op::INPUT, &[], &[Attr::Sym(name), Attr::DType(F32), Attr::Shape(Shape(0))]).is_empty());
    assert_eq!(message(&mut e), format!("input(): string ${} is not of this graph", name.0));
    assert!(e.emit(Op::ADD, &[a], &[]).is_empty());
    assert_eq!(message(&mut e), "add(f32[2]): 1 operands where 2 are asked for");
}

#[test]
fn what_is_not_complete_does_not_finish() {
    let finished = |e: &mut Emit| e.finish_shared(&bumpalo::Bump::new()).err().map(|e| e.message).unwrap_or_default();
    let (mut e, [a, _], _) = entry();
    e.open_region("r");
    assert_eq!(finished(&mut e), "a region is still open");
    let (mut e, [_, b], _) = entry();
    e.output("y", b);
    e.output("z", Value::NONE);
    assert_eq!(finished(&mut e), "an output does not exist");
    // The same error comes again.
    assert_eq!(finished(&mut e), "an output does not exist");
    let (mut e, [_, b], ty) = entry();
    e.output("y", b);
    assert_eq!(finished(&mut e), "");
    // Types can still be read; nothing can be added.
    assert_eq!((e.ty(a), e.ty(b)), (ty, ty));
    assert!(e.emit(Op::EXP, &[a], &[]).is_empty());
    assert_eq!(message(&mut e), "the graph is finished; another one takes another builder");
}

#[test]
fn a_list_of_no_numbers_is_a_list() {
    let (mut e, [a, _], _) = entry();
    let flip = e.emit(Op::FLIP, &[a], &[Attr::Ints(&[])]).at(0);
    assert_eq!(e.def(flip).unwrap().attrs.words, [0]);
}
