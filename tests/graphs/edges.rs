//! Wrong and unusual uses of the builder: each is an error with its op and the user's line, or does what it says.
//! Nothing here may panic, and nothing may pass in silence.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{PLAIN, Tensor, run};
use arenagrad::error::{Error, Kind, Location};
use arenagrad::graph::window::{PadMode, Pool2d};
use arenagrad::graph::{
    Attention, Builder, CrossEntropy, DType, Graph, Init, Layout, Loop, Reduction, Rope, Scatter, Var,
};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn;
use arenagrad::op::Op;
use arenagrad::optim::{self, LR, train};
use arenagrad::session::Session;
use arenagrad::tools::arena::{Node, Value};
use arenagrad::tools::ir::opdef::{Batch, Deriv, OpDef};
use arenagrad::tools::ir::text;
use arenagrad::tools::ops::layout::attrs::ToShapeAttrs;
use arenagrad::tools::passes::pipeline;

const F32: DType = DType::F32;
const I32: DType = DType::I32;

/// The error of a graph that `f` writes; `f` may return values or not.
fn refused(f: impl FnOnce(&Builder)) -> Error {
    let g = Builder::new("wrong");
    f(&g);
    g.error().expect("an error")
}

fn is_here(e: &Error) {
    assert!(matches!(&e.location, Location::Source(file, line) if file == file!() && *line > 0), "{e}");
}

/// What `f` makes of the integers −1, 0, 1.
fn of_integers(f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> Vec<f64> {
    let g = Builder::new("integers");
    let y = f(g.input("i", [3], I32));
    let x = Tensor { dtype: I32, dims: vec![3], data: vec![-1.0, 0.0, 1.0] };
    run(&g.finish([y]).unwrap(), &[x], PLAIN).pop().unwrap().data
}

// Values of another builder.

#[test]
fn a_value_of_another_builder_is_an_error_of_every_op() {
    type Use = for<'g> fn(&'g Builder, Var<'g>, Var<'g>);
    let uses: &[(&str, Use)] = &[
        ("add", |_, a, b| _ = a + b),
        ("less", |_, a, b| _ = a.less(b)),
        ("shapes that do not broadcast", |_, a, b| _ = a * b.reshape([2, 1]).broadcast([2, 7])),
        ("select", |_, a, b| _ = a.greater(0.0).select(a, b)),
        ("a condition", |_, a, b| _ = a.select(b, b)),
        ("matmul", |_, a, b| _ = a.matmul(b.t())),
        ("concat", |_, a, b| _ = a.concat(&[b], 0)),
        ("gather", |_, a, b| _ = a.gather(b.cast(I32), 0)),
        ("gather_nd", |_, a, b| _ = a.gather_nd(b.cast(I32))),
        ("scatter", |_, a, b| _ = a.scatter(b.cast(I32), a, 0, Scatter::Add)),
        ("cross_entropy", |_, a, b| _ = a.cross_entropy(b.cast(I32).amax(1))),
        ("cross_entropy after an error there", |_, a, b| _ = a.cross_entropy(b.reshape([7]))),
        ("nll_loss after an error there", |_, a, b| _ = nn::nll_loss(a, b.reshape([7]), Reduction::Sum)),
        ("attention after an error there", |_, a, b| _ = a.attention(b.reshape([7]), a, Attention::default())),
        ("layer_norm", |_, a, b| _ = a.layer_norm(b.amax(0), b.amax(0), 1e-5)),
        ("emit", |g, _, b| _ = g.emit(Op::EXP, &[b], &[])),
        ("emit1", |g, _, b| _ = g.emit1(Op::EXP, &[b], &[])),
        ("emit of many", |g, a, b| _ = g.emit1(Op::CONCAT, &[a, a, a, a, b], &[])),
        ("custom", |g, _, b| _ = g.custom(&TWICE, &[b], &[])),
        ("region", |g, a, b| _ = g.region("r", &[a.ty()], |_| vec![b])),
        ("call", |g, a, b| _ = g.call(g.region("r", &[a.ty()], |x| x.to_vec()), &[b])),
        ("call of its region", |g, a, b| _ = g.call(b.builder().region("r", &[b.ty()], |x| x.to_vec()), &[a])),
        ("carry", |g, a, b| _ = g.scan(&[b], &[a], |h, _| (h.to_vec(), vec![]))),
        ("stack", |g, a, b| _ = g.scan(&[a], &[b], |h, _| (h.to_vec(), vec![]))),
        ("capture", |g, a, b| _ = g.scan(&[a.amax(0)], &[a], |h, x| (vec![h[0] + x[0] * b.amax(0)], vec![]))),
        ("yield", |g, a, b| _ = g.scan(&[a.amax(0)], &[a], |h, _| (h.to_vec(), vec![b]))),
        ("leaf of an update", |g, a, b| g.update(b.builder().state("s", [2, 3], F32, Init::Zeros), a)),
        ("update", |g, _, b| g.update(g.state("s", [2, 3], F32, Init::Zeros), b)),
        ("output", |g, _, b| g.output("y", b)),
        ("finish", |g, _, b| _ = g.finish([b])),
        ("named", |g, _, b| _ = g.finish([b.named("y")])),
        ("convolution", |g, _, b| _ = nn::conv1d(g, "c", b.reshape([1, 2, 3]), 2, 1, nn::Conv1d::default())),
        ("padded attention", |g, a, b| {
            let (x, keys) = (a.reshape([1, 2, 3]), Some(b.reshape([1, 6]).greater(0.0)));
            _ = nn::multi_head_attention(g, "m", [x; 3], nn::MultiHead::new(1).padding(keys));
        }),
    ];
    for (what, f) in uses {
        let (g, other) = (Builder::new("g"), Builder::new("other"));
        let (a, b) = (g.input("x", [2, 3], F32), other.input("x", [2, 3], F32));
        f(&g, a, b);
        let e = g.error().unwrap_or_else(|| panic!("{what} is taken"));
        assert!(e.kind == Kind::Verify && e.message.contains("another builder"), "{what}: {e}");
        is_here(&e);
        assert_eq!(g.finish([a]).unwrap_err(), e, "{what}");
    }
}

#[test]
fn keys_of_another_builder_are_no_queries() {
    // Both builders number their values alike: the number alone does not tell whose a value is.
    let (g, other) = (Builder::new("g"), Builder::new("other"));
    let (q, k) = (g.input("x", [1, 2, 4], F32), other.input("x", [1, 2, 4], F32));
    let y = nn::multi_head_attention(&g, "m", [q, k, k], nn::MultiHead::new(2));
    assert!(g.finish([y]).unwrap_err().message.contains("another builder"));
}

#[test]
fn ids_that_a_graph_does_not_have_are_errors() {
    let other = Builder::new("other");
    let shape = (0..9).filter_map(|i| other.shape(&[i, 2])).last().unwrap();
    let e = refused(|g| {
        let x = g.input("x", [2, 3], F32);
        g.emit1(Op::RESHAPE, &[x], &ToShapeAttrs { shape }.list());
    });
    assert!(e.message.starts_with("reshape(f32[2,3]): shape"), "{e}");
    let e = refused(|g| _ = g.var(Value(7)).exp());
    assert!(e.message.contains("no value of this region"), "{e}");
}

// Names.

#[test]
fn every_name_of_a_value_is_an_output() {
    let g = Builder::new("names");
    let (x, w) = (g.input("x", [2], F32), g.param("w", [2], F32, Init::Ones));
    let y = (x * w).named("y");
    let outputs = [
        ("x", x),
        ("input", x.named("input")),
        ("param", w.named("param")),
        ("y", y),
        ("second", y.named("second")),
        ("equal", (x * w).named("equal")),
        ("dropped", nn::dropout(y, 0.0).named("dropped")),
        ("cast", y.cast(F32).named("cast")),
        ("last", y.named("first").named("last")),
        ("out9", x * w),
    ];
    let graph = g.finish(outputs.map(|o| o.1)).unwrap();
    let names = |v: Graph<'_>| -> Vec<String> { v.output_names.iter().map(|&s| v.str(s).to_string()).collect() };
    let want = outputs.map(|o| o.0.to_string());
    assert_eq!(names(graph.view()), want);
    let parsed = text::parse(&text::print(graph.view())).unwrap();
    assert_eq!(parsed, graph);
    let passed = pipeline::run_whole_pipeline(&parsed).unwrap();
    assert_eq!(names(passed.view()), want);

    let mut p = Session::new().compile(&parsed).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[3.0, 5.0]);
    p.step().unwrap();
    for name in want.iter() {
        let wants: &[f32] = if name == "param" { &[1.0, 1.0] } else { &[3.0, 5.0] };
        assert_eq!(&p[p.output::<f32>(name).unwrap()], wants, "{name}");
    }
}

#[test]
fn a_loss_that_equals_a_metric_keeps_its_name() {
    for accumulate in [1, 2] {
        let g = Builder::new("metric");
        let x = g.input("x", [4, 2], F32);
        let y = g.input("y", [4, 1], F32);
        let out = nn::linear(&g, "fc", x, 1);
        let metric = out.mse(y).named("metric");
        let loss = out.mse(y).named("loss");
        let graph = g.finish([metric, loss]).unwrap();
        for name in ["loss", "metric"] {
            let opt = optim::AdamW::new(1e-2).accumulate(accumulate);
            let step = train(&graph, name, &opt).unwrap();
            let mut p = Session::new().compile(&step).unwrap();
            p.init(1).unwrap();
            p.values_mut::<f32>(LR).unwrap().fill(1e-2);
            p.values_mut::<f32>("x").unwrap().fill(0.5);
            p.values_mut::<f32>("y").unwrap().fill(2.0);
            p.step().unwrap();
            let (a, b) = (p.values::<f32>("loss").unwrap(), p.values::<f32>("metric").unwrap());
            assert!(a[0] > 0.0 && a[0] == b[0], "{a:?} {b:?}");
        }
    }
}

#[test]
fn two_values_of_one_name_are_an_error_and_a_value_twice_is_not() {
    let g = Builder::new("names");
    let x = g.input("x", [2], F32);
    let e = g.finish([x.exp().named("y"), x.sin().named("y")]).unwrap_err();
    assert!(e.kind == Kind::Name && e.message.contains("two outputs are called \"y\""), "{e}");
    let g = Builder::new("twice");
    let y = g.input("x", [2], F32).exp().named("y");
    let graph = g.finish([y, nn::dropout(y, 0.0)]).unwrap();
    assert!(text::print(graph.view()).ends_with("return y=%y, out1=%y\n}\n"), "{graph:?}");
}

#[test]
fn a_value_that_is_called_like_the_random_key_is_not_taken_for_it() {
    let g = Builder::new("key");
    let x = g.input("x", [8], F32);
    let y = x.relu().named("rng").dropout(0.5);
    let graph = g.finish([y.named("y")]).unwrap();
    assert!(graph.view().find_leaf("rng").is_some(), "{graph:?}");
}

// After the end.

#[test]
fn a_finished_builder_refuses_everything_and_still_tells_types() {
    type Use = for<'g> fn(&'g Builder, Var<'g>);
    let uses: &[(&str, Use)] = &[
        ("exp", |_, x| _ = x.exp()),
        ("add", |_, x| _ = x + x),
        ("scalar", |_, x| _ = x + 1.0),
        ("embedding", |_, x| _ = x.embedding(x.cast(I32), Some(0))),
        ("top_k", |_, x| _ = x.top_k(2, 0)),
        ("cross_entropy", |_, x| _ = x.cross_entropy(x.cast(I32))),
        ("input", |g, _| _ = g.input("z", [2], F32)),
        ("an input again", |g, _| _ = g.input("x", [2], F32)),
        ("dropout", |_, x| _ = x.dropout(0.5)),
        ("full", |g, _| _ = g.full(1.0, [2], F32)),
        ("state", |g, x| g.update(g.state("s", [2, 3], F32, Init::Zeros), x)),
        ("update", |g, x| g.update(x, x)),
        ("output", |g, x| g.output("again", x)),
        ("region", |g, x| _ = g.call(g.region("r", &[x.ty()], |a| vec![a[0].exp()]), &[x])[0]),
        ("scan", |g, x| _ = g.scan(&[x], &[x], |h, x| (vec![h[0] + x[0]], vec![h[0]])).1[0]),
        ("gru", |g, x| _ = nn::gru(g, "gru", x, x)),
        ("custom", |g, x| _ = g.custom(&TWICE, &[x], &[])[0]),
        ("an index without an error", |g, x| _ = g.emit(Op::EXP, &[x], &[])[3]),
    ];
    for (what, f) in uses {
        let g = Builder::new("done");
        let x = g.input("x", [2, 3], F32);
        let graph = g.finish([x.exp()]).unwrap();
        assert_eq!((x.dims()[..].to_vec(), x.dtype(), g.error()), (vec![2, 3], F32, None));
        f(&g, x);
        let e = g.error().unwrap_or_else(|| panic!("{what} is taken"));
        assert!(e.message.contains("the graph is finished"), "{what}: {e}");
        is_here(&e);
        assert_eq!(g.finish([x]).unwrap_err(), e, "{what}");
        assert_eq!(graph.view().nodes(), 2);
    }
}

#[test]
fn a_builder_is_finished_once() {
    let g = Builder::new("done");
    let x = g.input("x", [2, 3], F32);
    assert!(g.finish([x]).is_ok());
    let e = g.finish([]).unwrap_err();
    assert!(e.message.contains("the graph is finished"), "{e}");
    is_here(&e);
    let e = g.finish([x]).unwrap_err();
    assert!(e.message.contains("the graph is finished"), "{e}");

    let g = Builder::new("failed");
    let x = g.input("x", [2, 3], F32);
    let first = g.finish([x.matmul(x)]).unwrap_err();
    assert_eq!(g.finish([x]).unwrap_err(), first);
    assert!(!x.matmul(x).exp().is_some());
    assert_eq!(g.finish([]).unwrap_err(), first);
}

// Numbers beside integers.

#[test]
fn a_number_that_is_no_integer_beside_integers_is_an_error() {
    type Use = for<'g> fn(Var<'g>) -> Var<'g>;
    let uses: &[(&str, Use)] = &[
        ("add(", |i| i + 0.5),
        ("sub(", |i| 0.5 - i),
        ("mul(", |i| i * 1.5),
        ("div(", |i| i / 0.5),
        ("lt(", |i| i.less(0.5)),
        ("le(", |i| i.less_equal(-0.5)),
        ("gt(", |i| i.greater(f64::NAN)),
        ("ge(", |i| i.greater_equal(f64::INFINITY)),
        ("eq(", |i| i.equal(0.5)),
        ("ne(", |i| i.not_equal(1e12)),
        ("max(", |i| i.maximum(0.5)),
        ("min(", |i| i.minimum(-1e10)),
        ("add(", |i| i + 1e12),
        ("add(u32", |i| i.cast(DType::U32) + -1.0),
        ("mul(u8", |i| i.cast(DType::U8) * 256.0),
        ("add(i8", |i| i.cast(DType::I8) + 128.0),
        ("add(i64", |i| i.cast(DType::I64) + 9.3e18),
        ("eq(bool", |i| i.greater(0.0).equal(0.5)),
        ("full(", |i| i.full_like(0.5)),
        ("full(", |i| i.builder().full(-1.0, [2], DType::U8)),
        ("full(", |i| i.builder().full(2.0, [2], DType::Bool)),
        ("pad(", |i| i.pad(&[1], &[1], 0.5)),
        ("clamp(", |i| i.clamp(-0.5, 0.5)),
        ("clamp(", |i| i.clamp(0.0, 1e12)),
        ("clamp(", |i| i.clamp(f64::INFINITY, f64::INFINITY)),
        ("full(", |i| i.histogram(4, -0.5, 0.5)),
    ];
    for (what, f) in uses {
        let e = refused(|g| _ = f(g.input("i", [3], I32)));
        assert!(e.message.starts_with(what) && e.message.contains("is no element of"), "{what}: {e}");
        let casts = e.message.contains("cast the tensor first: .cast(DType::");
        assert!(casts || what.starts_with("full("), "{what}: {e}");
        is_here(&e);
    }
    let e = refused(|g| _ = g.input("i", [3], I32) + 1e12).message;
    assert!(e.ends_with(".cast(DType::I64)"), "{e}");
    let e = text::parse("graph @g {\n  %i = full value=0.5 : i32[3]\n  return y=%i\n}\n").unwrap_err();
    assert!(e.message.contains("0.5 is no element of i32") && e.location == Location::Text(2, 3), "{e}");
}

#[test]
fn whole_numbers_beside_integers_are_taken() {
    assert_eq!(of_integers(|i| i + 2.0), [1.0, 2.0, 3.0]);
    assert_eq!(of_integers(|i| (3.0 - i) * -2.0), [-8.0, -6.0, -4.0]);
    assert_eq!(of_integers(|i| i.cast(F32).less(0.5).cast(I32)), [1.0, 1.0, 0.0]);
    assert_eq!(of_integers(|i| i.maximum(0.0)), [0.0, 0.0, 1.0]);
    assert_eq!(of_integers(|i| i.clamp(0.0, f64::INFINITY)), [0.0, 0.0, 1.0]);
    assert_eq!(of_integers(|i| i.clamp(f64::NEG_INFINITY, -0.0)), [-1.0, 0.0, 0.0]);
    for k in [i64::MAX, 3, i64::MIN] {
        let all = of_integers(|i| (i.reshape([3, 1]).broadcast([3, 3]) + 2.0).tril(k).reshape([9]));
        assert_eq!(all.iter().sum::<f64>(), if k > 0 { 18.0 } else { 0.0 });
    }
}

// Results after an error.

const TWICE: OpDef = OpDef::new("twice", "x and x, of rank 3")
    .infer(|cx| {
        cx.rank(0, "x", 3)?;
        cx.same_as(0)?;
        cx.same_as(0)
    })
    .deriv(Deriv::Zero)
    .batch(Batch::Members)
    .decompose(|s| vec![s.args[0]; 2])
    .cost(|_| 0)
    .cases(&[]);

#[test]
fn results_can_be_indexed_after_an_error() {
    type Use = for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>;
    let uses: &[(&str, Use)] = &[
        ("twice(f32[2,3])", |g, x| g.custom(&TWICE, &[x], &[])[1]),
        ("batch_norm(f32[2,3]", |_, x| x.batch_norm(x, x, 1e-5)[2]),
        ("call(f32[2,3])", |g, x| g.call(g.region("r", &[x.amax(0).ty()], |a| a.to_vec()), &[x])[0]),
        ("max_pool2d", |g, x| g.emit(Op::MAX_POOL2D, &[x], &[])[1]),
        ("result 2", |g, x| g.emit(Op::EXP, &[x], &[])[2]),
        ("result 1 is asked for, and the node has 1", |g, x| g.emit(Op::EXP, &[x], &[])[1]),
        ("scan: the number", |g, x| g.scan(&[x], &[], |h, _| (h.to_vec(), vec![h[0]])).1[0]),
        ("scan(", |g, x| {
            let how = Loop::default().length(2);
            g.scan_with(how, &[x], &[x.sum(..)], |h, _| (h.to_vec(), vec![h[0]])).1[0]
        }),
        ("scan: 2 carries", |g, x| g.scan(&[x, x], &[x], |h, _| (vec![h[0]], vec![])).0[1]),
        ("add: shapes", |g, x| {
            let how = Loop::default().length(2);
            g.scan_with(how, &[x], &[], |h, _| (vec![h[0] + x.reshape([3, 2])], vec![h[0]])).1[0]
        }),
        ("sgd_momentum", |_, x| x.sgd_momentum_step(x, x, x, x, Default::default())[1]),
        ("adam", |_, x| x.adam_step(x, [x, x], x, x, Default::default())[2]),
        ("attention", |_, x| x.attention_with_lse(x, x, Attention::default())[1]),
        ("pad", |_, x| x.pad_with(&[9, 0], &[0, 0], PadMode::Reflect)),
        ("unbroadcast", |_, x| x.unbroadcast(&[4, 2, 3])),
        ("unbroadcast", |_, x| x.unbroadcast(&[3, 2])),
    ];
    for (what, f) in uses {
        let g = Builder::new("wrong");
        let y = f(&g, g.input("x", [2, 3], F32)).exp();
        assert!(!y.is_some(), "{what}");
        let e = g.finish([y]).unwrap_err();
        assert!(e.message.starts_with(what), "{what}: {e}");
        is_here(&e);
    }
}

#[test]
fn recurrent_layers_refuse_what_they_cannot_take() {
    type Layer = for<'g> fn(&'g Builder, Var<'g>, Var<'g>) -> Vec<Var<'g>>;
    let layers: [Layer; 3] = [
        |g, x, h| <[_; 2]>::from(nn::rnn(g, "n", x, h)).to_vec(),
        |g, x, h| <[_; 2]>::from(nn::gru(g, "n", x, h)).to_vec(),
        |g, x, h| <[_; 3]>::from(nn::lstm(g, "n", x, h, h)).to_vec(),
    ];
    for layer in layers {
        for dims in [&[4, 3][..], &[], &[2, 4, 3, 1]] {
            let g = Builder::new("wrong");
            let (x, h) = (g.input("x", dims, F32), g.input("h", [4, 5], F32));
            assert!(layer(&g, x, h).iter().all(|y| !y.is_some()));
            let e = g.finish([]).unwrap_err();
            assert!(e.message.contains("[steps, batch, inputs]"), "{e}");
            is_here(&e);
        }
        let g = Builder::new("upstream");
        let x = g.input("x", [2, 4, 3], F32);
        let h = g.input("h", [4, 5], F32);
        assert!(layer(&g, x.matmul(h), h).iter().all(|y| !y.is_some()));
        assert!(g.error().unwrap().message.starts_with("matmul("));
        assert!(layer(&g, x, h.reshape([7])).iter().all(|y| !y.is_some()));
    }
}

// Losses.

#[test]
fn cross_entropy_is_a_mean_and_a_loss_that_is_none_names_its_line() {
    let g = Builder::new("loss");
    let (x, y) = (g.param("x", [2, 2], F32, Init::Zeros), g.input("y", [2], I32));
    let (mean, rows) = (x.cross_entropy(y), x.cross_entropy_with(y, CrossEntropy::per_row()));
    assert_eq!((mean.rank(), &rows.dims()[..]), (0, &[2][..]));
    let graph = g.finish([mean.named("mean"), rows.named("rows"), (y * 2.0).sum(..).named("count")]).unwrap();
    let zeros = Tensor { dtype: F32, dims: vec![2, 2], data: vec![0.0; 4] };
    let outs = run(&graph, &[zeros, Tensor { dtype: I32, dims: vec![2], data: vec![1.0, -100.0] }], PLAIN);
    let ln2 = f64::from(2f32.ln());
    assert_eq!((outs[0].data[0], &outs[1].data[..]), (ln2, &[ln2, 0.0][..]), "an ignored label does not count");

    let line = line!() - 8;
    let v = graph.view();
    for (name, op, ty) in [("rows", "softmax_cross_entropy", "f32[2]"), ("count", "reduce_sum", "i32[]")] {
        for e in [
            grad(v, name, &GradOptions::default()).unwrap_err(),
            train(v, name, optim::AdamW::new(1e-2)).unwrap_err(),
            train(v, name, optim::AdamW::new(1e-2).accumulate(2)).unwrap_err(),
        ] {
            let want = format!("the loss \"{name}\", made by {op}, is {ty}, not a scalar");
            assert!(e.message.starts_with(&want), "{e}");
            let at = if name == "rows" { line } else { line + 2 };
            assert_eq!(e.location, Location::Source(file!().into(), at), "{e}");
        }
    }
}

// Places.

#[test]
fn all_nodes_come_from_the_users_lines() {
    let g = Builder::new("places");
    let x = g.input("x", [2, 4, 8], F32);
    let h = nn::transformer_block(&g, "block", x, nn::TransformerBlock::new(2, 16));
    let h = nn::multi_head_attention(&g, "heads", [h, x, x], nn::MultiHead::new(2));
    let h = nn::lora_linear(&g, "lora", h, 8, nn::Lora::new(2, 1.0).dropout(0.5));
    let (h, last) = nn::gru(&g, "gru", h, g.full(0.0, [4, 8], F32));
    let gpt =
        nn::Gpt::default().vocabulary(5).context(4).layers(1).heads(2).width(8).bias(true).dropout(0.1).gelu_tanh(true);
    let logits = nn::gpt(&g, g.input("t", [2, 4], I32), F32, gpt);
    let image = nn::batch_norm(&g, "bn", x.reshape([2, 4, 2, 4]), nn::BatchNorm::default());
    let image = nn::avg_pool2d(
        nn::conv2d(&g, "conv", image, 3, [1, 1], nn::Conv2d::default()),
        Pool2d::new([2, 2]).divisor_override(3),
    );
    let [cos, sin] = g.rope_tables(4, 2, 1e4, F32);
    let turned = logits.narrow(-1, 0, 4).rope(cos, sin, Rope::default().layout(Layout::Bsd).heads(2));
    let graph = g.finish([
        nn::cosine_similarity(h, x, -1, 1e-8),
        last.tril(0),
        last.sort(0, true).0,
        last.histogram(3, -1.0, 1.0),
        turned,
        image,
        logits.cross_entropy(g.input("y", [2, 4], I32)),
    ]);
    let graph = graph.unwrap();
    let v = graph.view();
    for n in (0..v.nodes()).map(|n| Node(n as u32)) {
        let location = v.location(n);
        assert!(
            matches!(&location, Location::Source(file, _) if file == file!()),
            "{} at {location:?}",
            v.def_of(n).name
        );
    }
}

// Shapes.

#[test]
fn a_dimension_that_cannot_be_computed_is_an_error() {
    const REST: usize = usize::MAX;
    let reshape = |from: &[usize], to: &[usize]| {
        let g = Builder::new("reshape");
        let y = g.input("x", from, F32).reshape(to);
        if y.is_some() { Ok(y.dims().to_vec()) } else { Err(g.error().unwrap()) }
    };
    assert_eq!(reshape(&[2, 6], &[REST, 4]).unwrap(), [3, 4]);
    assert_eq!(reshape(&[0, 3], &[REST, 3]).unwrap(), [0, 3]);
    for (from, to, why) in [
        (&[0, 3][..], &[REST, 0][..], "reshape(%0: f32[0,3]) to [-1, 0]: beside a dimension of 0"),
        (&[2, 3], &[0, REST], "to [0, -1]: beside a dimension of 0"),
        (&[2, 3], &[REST, 4], "to [-1, 4]: no dimension makes 6 elements"),
        (&[2, 3], &[REST, REST], "only one dimension can be computed"),
        (&[2, 3], &[REST, 1 << 40, 1 << 40], "no dimension makes 6 elements"),
    ] {
        let e = reshape(from, to).unwrap_err();
        assert!(e.message.contains(why), "{e}");
        is_here(&e);
    }
}
