//! Lines of source: in plans of programs that were built in Rust, and in texts.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::error::{Error, Kind, Location};
use arenagrad::op::Op;
use arenagrad::prelude::*;
use arenagrad::tools::arena::Node;
use arenagrad::tools::ir::text::{PrintOptions, parse, print, print_with};

/// A small step of training, and the line of its activation.
fn step() -> (GraphBuf, u32) {
    let g = Builder::new("net");
    let x = g.input("x", [32, 8], DType::F32);
    let w = g.param("w", [8, 16], DType::F32, Init::Normal(0.5));
    let line = line!() + 1;
    let h = x.matmul(w).sin();
    let loss = (h * h).sum(..).named("loss");
    let graph = g.finish([loss]).unwrap();
    (train(&graph, "loss", optim::AdamW::new(1e-2)).unwrap(), line)
}

#[test]
fn plans_of_programs_name_ops_and_lines() {
    let (graph, line) = step();
    let p = Session::new().compile(&graph).unwrap();
    let (short, long) = (format!("{}", p.plan()), format!("{:#}", p.plan()));
    let here = format!("{}:{line}", file!());
    for text in [&short, &long] {
        for part in ["arena", "max live", "peak", "largest buffers", "w (param), ", "loss"] {
            assert!(text.contains(part) || part == "loss", "{part}\n{text}");
        }
        assert!(text.contains(&here), "{here} is not in\n{text}");
    }
    // Every buffer has the line of this file that asked for it: those of the optimiser that of `train`.
    let buffers = &p.plan().buffers;
    assert!(buffers.iter().all(|b| b.origin().is_some_and(|o| o.starts_with(file!()))), "{long}");
    assert!(long.contains(&format!("opt.exp_avg.w (state), {}:{}", file!(), line + 3)), "{long}");
    let ops: Vec<&str> = buffers.iter().map(|b| b.op).collect();
    assert!(ops.contains(&"param") && ops.iter().all(|op| !op.is_empty()), "{ops:?}");
    assert_eq!(
        long.lines().filter(|l| l.contains("largest")).count(),
        short.lines().filter(|l| l.contains("largest")).count()
    );
    assert!(long.lines().count() >= short.lines().count());
}

#[test]
fn texts_carry_places() {
    let (graph, line) = step();
    let g = graph.view();
    let plain = print(g);
    assert!(!plain.contains("loc("));
    let options = PrintOptions { locations: true, file: None };
    let placed = print_with(g, options);
    assert!(placed.contains(&format!("loc(\"{}\":{line})", file!())), "{placed}");
    let again = parse(&placed).unwrap();
    assert_eq!(again.view(), g);
    assert_eq!(print_with(again.view(), options), placed);
    assert_eq!(print(again.view()), plain);
    let plans = [g, again.view()].map(|g| Session::new().plan(g).unwrap());
    let places = |i: usize| plans[i].buffers.iter().map(|b| (b.name.clone(), b.origin())).collect::<Vec<_>>();
    assert_eq!(places(0), places(1));
    assert!(places(0).iter().all(|p| p.1.is_some()), "{:?}", places(0));
}

#[test]
fn a_text_without_places_has_its_own_lines() {
    let text = "region @f(%a: f32[2]) {\n  %b = exp %a : f32[2]\n  yield %b\n}\ngraph @g {\n  %x = input : f32[2]\n  \
                %y = call %x body=@f : f32[2] loc(\"a b.rs\":7)\n  return y=%y\n}\n";
    let g = parse(text).unwrap();
    let options = PrintOptions { locations: true, file: Some("f.ir") };
    let placed = print_with(g.view(), options);
    for part in
        ["(%a: f32[2] loc(\"f.ir\":1))", "exp %a : f32[2] loc(\"f.ir\":2)", "body=@f : f32[2] loc(\"a b.rs\":7)"]
    {
        assert!(placed.contains(part), "{placed}");
    }
    assert_eq!(print_with(parse(&placed).unwrap().view(), PrintOptions { file: None, ..options }), placed);
    // A text that says nothing of a node says nothing of its place either, unless its file is known.
    let some = print_with(g.view(), PrintOptions { file: None, ..options });
    assert!(some.contains("a b.rs") && some.matches("loc(").count() == 1, "{some}");
}

/// Methods that check a number before they write nodes name the line of their caller.
#[test]
fn refused_numbers_have_the_callers_line() {
    let bad: [fn(Var<'_>) -> Var<'_>; 3] = [|x| x.celu(0.0), |x| x.softshrink(-1.0), |x| x.hardshrink(f64::NAN)];
    for call in bad {
        let g = Builder::new("bad");
        let y = call(g.input("x", [2, 3], DType::F32));
        let e = g.finish([y]).unwrap_err();
        assert!(matches!(&e.location, Location::Source(file, _) if file == file!()), "{e:?}");
    }
}

fn is_here(e: Option<Error>) -> bool {
    e.is_some_and(|e| matches!(e.location, Location::Source(file, line) if file == file!() && line > 0))
}

/// In a layer, the first operand of an op may be the other builder's, which knows nothing of the layer's caller.
#[test]
fn a_value_of_another_builder_in_a_layer_is_found_on_the_callers_line() {
    let (g, other) = (Builder::new("g"), Builder::new("other"));
    let (x, t) = (g.input("x", [2, 3], DType::F32), other.input("t", [2, 3], DType::F32));
    nn::poisson_nll_loss(x, t, nn::PoissonNll::default());
    assert!(is_here(other.error()));
    let other = Builder::new("other");
    nn::linear(&g, "fc", other.input("x", [2, 3], DType::F32), 4);
    assert!(is_here(other.error().or(g.error())));
}

/// A string of a text has at most 65,536 bytes.
#[test]
fn strings_have_a_limit() {
    let text = |n: usize| {
        let name = "a".repeat(n);
        format!("graph @g {{\n  %\"{name}\" = input : f32[2]\n  return y=%\"{name}\"\n}}\n")
    };
    parse(&text(1 << 16)).unwrap();
    let e = parse(&text((1 << 16) + 1)).unwrap_err();
    assert!(e.message.contains("this string is too long"), "{}", &e.message[..e.message.len().min(200)]);
}

/// Reductions, reads and writes of complex tensors are made of those of their parts.
#[test]
fn wrong_calls_on_complex_tensors_have_the_callers_line() {
    let errors = [
        {
            let g = Builder::new("sum");
            (g.finish([g.input("z", [2, 3], DType::C64).sum([1, -1]).named("y")]).err(), line!())
        },
        {
            let g = Builder::new("scatter_add");
            let [z, at] = [g.input("z", [2, 3], DType::C64), g.input("at", [5], DType::I32)];
            (g.finish([z.scatter_add(at, 0, 4).named("y")]).err(), line!())
        },
    ];
    for (error, line) in errors {
        let at = error.as_ref().map(|e: &Error| e.location.clone());
        assert_eq!(at, Some(Location::Source(file!().to_string(), line)), "{error:?}");
    }
}

fn twice(x: Var<'_>) -> Var<'_> {
    x + x
}

/// The call itself, and not what was built before it.
#[test]
fn each_wrong_call_is_found_on_its_own_line() {
    type Wrong = for<'g> fn(&'g Builder, Var<'g>, Var<'g>) -> u32;
    let calls: &[(&str, Wrong)] = &[
        ("a reason", |g, _, _| (g.fail(Kind::Data, "a reason"), line!()).1),
        ("2 operands", |g, x, _| (g.emit(Op::EXP, &[x, x], &[]), line!()).1),
        ("select: a value of another builder", |_, x, far| (x.select(x, far), line!()).1),
        ("symbol \"batch\" has no size", |g, _, _| (assert_eq!(g.symbol("batch"), 1), line!()).1),
        ("a value of another builder", |g, _, far| (g.output("y", far), line!()).1),
        ("only params and states", |g, x, _| (g.update(x, x), line!()).1),
        ("only params and states", |g, x, _| (g.update_with(x, twice), line!()).1),
        ("a value of another builder", |g, _, far| (g.updated(far), line!()).1),
        ("a value of another builder", |g, _, far| (g.finish([far]).is_err(), line!()).1),
        ("a value of another builder", |g, x, far| (g.region("r", &[x.ty()], |a| vec![twice(a[0]), far]), line!()).1),
    ];
    for (words, call) in calls {
        let (g, other) = (Builder::new("g"), Builder::new("other"));
        let (x, far) = (g.input("x", [2, 3], DType::F32), other.input("x", [2, 3], DType::F32));
        nn::linear(&g, "fc", x, 3);
        let line = call(&g, x, far);
        let e = g.error().unwrap();
        assert!(e.message.contains(words), "{e}");
        assert_eq!(e.location, Location::Source(file!().to_string(), line), "{e}");
    }
}

#[test]
fn the_arguments_of_a_region_stand_in_the_line_of_its_call() {
    let g = Builder::new("region");
    let x = g.input("x", [2], DType::F32);
    let (body, line) = (g.region("body", &[x.ty()], |a| vec![twice(a[0])]), line!());
    let graph = g.finish(g.call(body, &[x])).unwrap();
    assert_eq!(graph.view().location(Node(0)), Location::Source(file!().to_string(), line));
}
