//! Convolutions by Winograd's minimal filtering: which ones, their error, and bits.

use super::common::zoo;
use arenagrad::graph::window::Conv2d;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, grad};
use arenagrad::nn;
use arenagrad::optim::{self, train};
use arenagrad::session::{Convolutions, Program, Role, Session};

/// Two convolutions that can be computed so, one of few channels and one with a stride, and the sum of squares of what
/// they make. The gradients are outputs.
fn network(dtype: DType) -> GraphBuf {
    let g = Builder::new("net");
    let x = g.input("x", [6, 3, 18, 15], dtype);
    let same = || Conv2d::default().pad([1; 4]);
    let h = nn::conv2d(&g, "first", x, 20, 3, same()).tanh();
    let h = nn::conv2d(&g, "wide", h, 70, 3, same()).relu();
    let h = nn::conv2d(&g, "back", h, 16, 3, Conv2d::default()).tanh();
    let h = nn::conv2d(&g, "stride", h, 18, 3, same().stride([2; 2]));
    let loss = (h * h).sum(..).named("loss");
    let graph = g.finish([loss]).unwrap();
    grad(&graph, "loss", &GradOptions::default()).unwrap()
}

fn winograd() -> Session {
    Session::new().convolutions(Convolutions::Winograd)
}

/// The same numbers, in the program's type, and one step.
fn stepped(mut p: Program) -> Program {
    let inner: Vec<_> = p.bindings().iter().filter(|b| b.role != Role::Output).cloned().collect();
    for (at, b) in inner.iter().enumerate() {
        let scale = if b.role == Role::Param { 0.1 } else { 1.0 };
        let number = |i: usize| (((i * 7919 + at * 104_729) % 10_007) as f32 / 5000.0 - 1.0) * scale;
        match b.dtype {
            DType::F64 => {
                let to = p.values_mut::<f64>(&b.name).unwrap();
                to.iter_mut().enumerate().for_each(|(i, x)| *x = f64::from(number(i)));
            }
            // Classes.
            DType::I32 => {
                p.values_mut::<i32>(&b.name).unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 10) as i32)
            }
            _ => p.values_mut::<f32>(&b.name).unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = number(i)),
        }
    }
    p.step().unwrap();
    p
}

/// The outputs, by name.
fn outputs(p: &Program) -> Vec<(String, Vec<f32>)> {
    let all = p.bindings().iter().filter(|b| b.role == Role::Output);
    all.map(|b| (b.name.clone(), p.values::<f32>(&b.name).unwrap().to_vec())).collect()
}

#[test]
fn its_error_is_that_of_single_precision() {
    let (single, double) = (network(DType::F32), network(DType::F64));
    let exact = stepped(Session::new().compile(&double).unwrap());
    let program = winograd().compile(&single).unwrap();
    // The two in the middle and their gradients.
    assert_eq!(program.plan().winograd, 6);
    let (direct, points) = (stepped(Session::new().compile(&single).unwrap()), stepped(program));
    assert_eq!(direct.plan().winograd, 0);
    for ((name, direct), (_, points)) in outputs(&direct).iter().zip(outputs(&points)) {
        let exact = exact.values::<f64>(name).unwrap();
        let size = exact.iter().map(|x| x * x).sum::<f64>().sqrt();
        let error = |of: &[f32]| of.iter().zip(exact).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum::<f64>().sqrt();
        let (direct, points) = (error(direct), error(&points));
        assert!(points <= 8.0 * direct.max(1e-7 * size), "{name}: {points:e} for {direct:e}, of {size:e}");
        assert!(points > 0.0 && points < 2e-6 * size, "{name}: {points:e} of {size:e}");
    }
}

#[test]
fn its_bits_do_not_depend_on_threads_or_on_the_file() {
    let graph = network(DType::F32);
    let first = stepped(winograd().compile(&graph).unwrap());
    for threads in [2, 3, 7] {
        let p = stepped(winograd().threads(threads).compile(&graph).unwrap());
        assert_eq!(outputs(&p), outputs(&first), "{threads} threads");
    }
    let opened = Program::open_bytes(&first.export_bytes().unwrap()).unwrap();
    assert_eq!(opened.plan().winograd, 6);
    assert_eq!(outputs(&stepped(opened)), outputs(&first));
}

/// What has no such convolution has the bits that it had.
#[test]
fn other_programs_keep_their_bits() {
    let step = train(&zoo::lenet(6), "loss", optim::Sgd::new(0.1)).unwrap();
    let (direct, points) =
        (stepped(Session::new().compile(&step).unwrap()), stepped(winograd().compile(&step).unwrap()));
    assert_eq!((points.plan().winograd, points.plan().arena_bytes), (0, direct.plan().arena_bytes));
    let bytes = |p: &Program| p.persistent().map(|(b, bytes)| (b.name.clone(), bytes.to_vec())).collect::<Vec<_>>();
    assert_eq!((outputs(&direct), bytes(&direct)), (outputs(&points), bytes(&points)));
}

#[test]
fn names_are_those_that_front_ends_take() {
    for (choice, name) in Convolutions::ALL {
        assert_eq!((Convolutions::named(name), choice.name()), (Some(*choice), *name));
    }
    assert_eq!(Convolutions::named("fast"), None);
}
