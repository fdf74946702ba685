//! Any calls of the builder, wrong ones included: no panic, and the first error is kept with its location. A graph that
//! finishes without an error is sound; if it is small, it compiles and runs.

mod calls;
mod layers;
mod pointwise;
mod shapes;
mod windows;

use super::{GRAPHS, Target, scripts};
use crate::engine::{assert_same, outcome};
use crate::script::Script;
use arenagrad::error::{Kind, Location};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Var, grad};
use arenagrad::optim::{self, Optimiser, train};
use arenagrad::session::Session;
use arenagrad::tools::fuzz::check_any_graph;
use calls::Calls;

pub const TARGET: Target = Target {
    name: "builder",
    about: "any calls of builder and layers: no panic, the first error is kept with its line, sound graphs run",
    run,
    seeds: scripts,
    words: &[],
    max_len: 256,
    memory: GRAPHS,
};

/// The most calls of one input.
const CALLS: usize = 24;
/// The most bytes of all values of a graph that is run, and the most of its nodes.
const SMALL: (usize, usize) = (1 << 18, 300);

/// Runs the target.
pub fn run(data: &[u8]) {
    let (g, other) = (Builder::new("built"), Builder::new("other"));
    let mut c = Calls::new(&g, &other, Script::new(data));
    let tables = [pointwise::CALLS, shapes::CALLS, windows::CALLS, layers::CALLS, calls::CALLS];
    let mut first = None;
    for _ in 0..CALLS {
        if c.script.is_over() {
            break;
        }
        let table = c.script.pick(&tables);
        let call = c.script.pick(table);
        call(&mut c);
        let error = g.error();
        assert!(first.is_none() || error == first, "the first error is kept: {first:?}, then {error:?}");
        first = error;
    }
    let outputs: Vec<Var<'_>> = (0..=c.script.below(3)).map(|_| c.var()).collect();
    let mut script = c.script;
    let built = g.finish(outputs);
    match (built, first) {
        (Ok(graph), None) => check_built(&graph, &mut script),
        (Ok(_), Some(e)) => panic!("an error is lost: {e:?}"),
        (Err(e), first) => {
            assert!(first.is_none_or(|first| first == e), "finish gives another error: {e:?}");
            let here = |file: &str| file.contains("targets/builder");
            assert!(matches!(&e.location, Location::Source(file, 1..) if here(file)), "no line of the caller: {e:?}");
            assert!(e.message.len() > 4 && e.message.len() < 1 << 16, "{e:?}");
        }
    }
}

/// What holds of a graph that was built without an error.
fn check_built(graph: &GraphBuf, script: &mut Script<'_>) {
    check_any_graph(graph);
    let v = graph.view();
    let values = (0..v.values() as u32).map(arenagrad::tools::arena::Value);
    let bytes = values.map(|x| v.bytes(x)).fold(0usize, usize::saturating_add);
    if bytes > SMALL.0 || v.nodes() > SMALL.1 {
        return;
    }
    let plain = outcome(graph, &Session::new().optimise(false), 3, 1);
    let poisoned = outcome(graph, &Session::new().optimise(false).poison(true), 3, 1);
    assert_same("poisoned", &plain, &poisoned, graph);
    drop(outcome(graph, &Session::new(), 3, 1));
    let scalar = v.outputs().iter().zip(v.output_names).find(|(o, _)| v.dims(**o).is_empty());
    let Some((_, &name)) = scalar else { return };
    let name = v.str(name).to_string();
    let (derived, steps) = match script.flag() {
        true => (grad(graph, &name, &GradOptions::default()), 1),
        false => (train(graph, &name, optimiser(script)), 2),
    };
    match derived {
        Ok(g) => drop(outcome(&g, &Session::new(), 4, steps)),
        Err(e) => assert!(!matches!(e.kind, Kind::Verify | Kind::Plan) && e.message.len() > 4, "{e:?}\n{graph:?}"),
    }
}

/// An optimiser, some of whose numbers may be out of range.
fn optimiser(script: &mut Script<'_>) -> Optimiser {
    let numbers = [0.0, 0.1, 0.9, 0.999, 1.0, 1e-8, -1.0, 2.0, f64::NAN, f64::INFINITY];
    let mut x = || if script.byte() < 32 { script.pick(&numbers) } else { script.pick(&numbers[1..3]) };
    let (a, b, c) = (x(), x(), x());
    let rule: Optimiser = match script.below(16) {
        0 => optim::Sgd::new(a).momentum(b).nesterov(script.flag()).into(),
        1 => optim::Adam::new(a).eps(b).into(),
        2 => optim::AdamW::new(a).weight_decay(b).into(),
        3 => optim::Adamax::new(a).into(),
        4 => optim::RAdam::new(a).into(),
        5 => optim::RmsProp::new(a).into(),
        6 => optim::Adagrad::new(a).into(),
        7 => optim::Adadelta::new(a).into(),
        8 => optim::NAdam::new(a).into(),
        9 => optim::NAdamW::new(a).into(),
        10 => optim::Lion::new(a).into(),
        11 => optim::Lamb::new(a).into(),
        12 => optim::Adafactor::new(a).into(),
        13 => optim::Muon::new(a).into(),
        14 => optim::SparseAdam::new(a).eps(b).into(),
        _ => optim::Lbfgs::new(a).into(),
    };
    match script.below(8) {
        0 => rule.clip_norm(b),
        1 => rule.clip_value(b),
        2 => rule.ema(b),
        3 => rule.freeze(script.pick(&["*", "fc*", "nothing", ""])),
        4 => rule.grad_norm(true).norm_type(c),
        5 => rule.decay_from_rank(script.below(4) as usize).clip_each(true),
        6 => rule.accumulate(script.below(4) as usize),
        _ => rule,
    }
}

/// An element type.
fn dtype(script: &mut Script<'_>) -> DType {
    use DType::*;
    match script.below(4) {
        0 => script.pick(&[F64, I32, Bool, I64, U32, U8, F16, BF16, I8, I16, U16, U64, C64, C128, F32]),
        1 => I32,
        _ => F32,
    }
}
