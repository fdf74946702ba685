//! Budgets end to end: bytes, bits and repeated operations of nets that are mostly activations.

use super::*;
use crate::arena::tensor::LINE;
use crate::nn;
use crate::nodes::{Builder, CrossEntropy, DType, Init, Loop};
use crate::optim::{self, train};
use crate::passes::pipeline;
use crate::session::Session;

/// A deep net with an input of its own size in every layer: the activations are most of the memory.
fn deep(layers: usize, mark: bool) -> GraphBuf {
    let g = Builder::new("deep");
    let (x, y) = (g.input("x", [64, 32], DType::F32), g.input("y", [64], DType::I32));
    let mut h = x;
    for i in 0..layers {
        let w = g.param(&format!("w{i}"), [32, 32], DType::F32, Init::Normal(0.05));
        let b = g.param(&format!("b{i}"), [32], DType::F32, Init::Zeros);
        h = (h.matmul(w) + b).gelu().dropout(0.1) + h;
        if mark && i % 4 == 3 {
            h = h.checkpoint();
        }
    }
    let f = g.finish([h.cross_entropy_with(y, CrossEntropy::per_row()).mean(..).named("loss")]).unwrap();
    train(&f, "loss", optim::Sgd::new(0.1)).unwrap()
}

fn steps(p: &mut crate::session::Program) -> Vec<f32> {
    p.init(3).unwrap();
    p.values_mut::<f32>("lr").unwrap()[0] = 0.01;
    let x = p.values_mut::<f32>("x").unwrap();
    x.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 37 % 101) as f32 - 50.0) / 40.0);
    p.values_mut::<i32>("y").unwrap().iter_mut().enumerate().for_each(|(i, y)| *y = (i % 32) as i32);
    (0..3)
        .flat_map(|_| {
            p.step().unwrap();
            [p.values::<f32>("loss").unwrap()[0], p.values::<f32>("w0").unwrap()[5]]
        })
        .collect()
}

#[test]
fn budgets_are_kept_and_change_no_bit() {
    for mark in [false, true] {
        let g = deep(16, mark);
        let mut free = Session::new().compile(&g).unwrap();
        let want = steps(&mut free);
        let full = free.plan().arena_bytes;
        let e = Session::new().memory_budget(0).compile(&g).err().unwrap().to_string();
        let least: usize = e.split("do is ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(5 * least < 3 * full, "{least} of {full} bytes: {e}");
        let list = Session::new().budgets(&g).unwrap();
        assert_eq!((list[0].arena_bytes, list.last().unwrap().arena_bytes), (full, least), "{list:?}");
        assert!(list.windows(2).all(|w| w[1].arena_bytes < w[0].arena_bytes), "{list:?}");
        let mut last = (0usize, u64::MAX);
        for k in 0..=8 {
            let budget = least + (full - least) * k / 8;
            let mut p = Session::new().memory_budget(budget).compile(&g).unwrap();
            let r = p.plan().clone();
            assert!(r.arena_bytes <= budget && r.arena_bytes >= last.0 && r.recomputed.flops <= last.1, "{budget}");
            last = (r.arena_bytes, r.recomputed.flops);
            assert_eq!(steps(&mut p), want, "{budget} bytes, {:?}", r.recomputed);
        }
        assert_eq!(last, (full, 0));
        assert!(want.iter().all(|x| x.is_finite()) && want[0] != want[2], "{want:?}");
        for short in [1, LINE] {
            let e = Session::new().memory_budget(least - short).compile(&g).err().unwrap().to_string();
            let told =
                format!("budget of {} bytes is too small; the smallest that would do is {least} ", least - short);
            assert!(e.contains(&told), "{e}");
        }
    }
}

/// A budget of exactly a size gives that size, and one that is short by a line or by a byte the next smaller one.
#[test]
fn budgets_are_kept_to_the_line() {
    let g = deep(8, false);
    let sizes: Vec<usize> = Session::new().budgets(&g).unwrap().iter().map(|b| b.arena_bytes).collect();
    assert!(sizes.len() > 3 && sizes.iter().all(|s| s % LINE == 0), "{sizes:?}");
    let made = |budget: usize| Session::new().memory_budget(budget).plan(&g).unwrap().arena_bytes;
    for (k, &size) in sizes.iter().enumerate() {
        assert_eq!([made(size), made(size + 1), made(size + LINE - 1)], [size; 3]);
        for short in [1, LINE] {
            let Some(&next) = sizes[k..].iter().find(|&&s| s <= size - short) else { continue };
            assert_eq!(made(size - short), next, "{short} bytes less than {size}");
        }
    }
}

#[test]
fn choices_run_what_they_do_not_keep_once_more() {
    let g = deep(8, false);
    let simple = pipeline::run_pipeline(&g, &pipeline::full_halves().0, true).unwrap().0;
    let f = remat_facts(simple.view());
    let list = list_choices(simple.view(), &f);
    assert!(list.len() > 4 && list[0].flops == 0 && list[0].nodes == 0);
    for c in &list {
        let again = apply_choice(simple.view(), &f, c).unwrap();
        crate::nodes::ir::verify::check(again.view(), crate::nodes::ir::verify::Stage::Core).unwrap();
        let barriers = again.view().op.iter().filter(|&&o| o == Op::OPTIMIZATION_BARRIER).count();
        assert_eq!(again.view().nodes(), simple.view().nodes() + c.nodes + barriers, "{}", c.name);
        let text = crate::nodes::ir::text::print(again.view());
        assert_eq!(
            crate::nodes::ir::text::print(crate::nodes::ir::text::parse(&text).unwrap().view()),
            text,
            "{}",
            c.name
        );
    }
}

/// A gated layer over `steps` steps, and a second one that runs the other way over its results.
fn recurrent(steps: usize, layers: usize) -> GraphBuf {
    let g = Builder::new("gru");
    let x = g.input("x", [steps, 4, 16], DType::F32);
    let mut y = x;
    for i in 0..layers {
        let (start, reverse) = (g.full(0.0, [4, 16], DType::F32), i % 2 == 1);
        let (_, ys) = g.scan_with(Loop { reverse, ..Loop::default() }, &[start], &[y], |h, x| {
            let both = |name: &str, h| {
                let name = format!("{i}.{name}");
                nn::linear(&g, &format!("{name}.x"), x[0], 16) + nn::linear(&g, &format!("{name}.h"), h, 16)
            };
            let (r, z) = (both("r", h[0]).sigmoid(), both("z", h[0]).sigmoid());
            let new = both("n", r * h[0]).tanh().dropout(0.1);
            let h = z * h[0] + (new - z * new);
            (vec![h], vec![h])
        });
        y = ys[0];
    }
    let f = g.finish([(y * y).mean(..).named("loss")]).unwrap();
    train(&f, "loss", optim::Sgd::new(0.1)).unwrap()
}

fn recurrent_steps(p: &mut crate::session::Program) -> Vec<f32> {
    p.init(3).unwrap();
    p.values_mut::<f32>("lr").unwrap()[0] = 0.1;
    let x = p.values_mut::<f32>("x").unwrap();
    x.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 37 % 101) as f32 - 50.0) / 40.0);
    (0..3)
        .flat_map(|_| {
            p.step().unwrap();
            [p.values::<f32>("loss").unwrap()[0], p.values::<f32>("0.n.h.weight").unwrap()[5]]
        })
        .collect()
}

/// A loop without carries: only its stacks are read.
fn row_by_row(steps: usize, reverse: bool) -> GraphBuf {
    let g = Builder::new("rows");
    let x = g.input("x", [steps, 4, 16], DType::F32);
    let w = g.param("0.n.h.weight", [16, 16], DType::F32, Init::Normal(0.3));
    let (_, ys) = g.scan_with(Loop { reverse, ..Loop::default() }, &[], &[x], |_, x| {
        let h = x[0].matmul(w).tanh().matmul(w).sigmoid();
        (vec![], vec![(h * x[0]).sin().sum(0)])
    });
    let f = g.finish([(ys[0] * ys[0]).mean(..).named("loss")]).unwrap();
    train(&f, "loss", optim::Sgd::new(0.1)).unwrap()
}

#[test]
fn loops_run_in_stretches_under_a_budget_and_change_no_bit() {
    let nets = [(256, 1), (250, 2), (7, 3)].map(|(steps, layers)| (steps, recurrent(steps, layers)));
    let loops = [(200, true), (203, false)].map(|(steps, reverse)| (steps, row_by_row(steps, reverse)));
    for (steps, g) in nets.into_iter().chain(loops) {
        let want = recurrent_steps(&mut Session::new().compile(&g).unwrap());
        let list = Session::new().budgets(&g).unwrap();
        assert!(list.len() > 3, "{list:?}");
        assert!(list.windows(2).all(|w| w[1].arena_bytes < w[0].arena_bytes), "{list:?}");
        let (all, least) = (list[0].arena_bytes, list[list.len() - 1].arena_bytes);
        assert!(list[list.len() - 1].recomputed.what.contains("loop"), "{list:?}");
        assert!(2 * least < all || steps < 10, "{list:?}");
        for budget in &list {
            let mut p = Session::new().memory_budget(budget.arena_bytes).compile(&g).unwrap();
            assert_eq!(p.plan().arena_bytes, budget.arena_bytes);
            assert_eq!(recurrent_steps(&mut p), want, "{budget:?}");
        }
        assert!(want.iter().all(|x| x.is_finite()) && want[0] != want[2], "{want:?}");
    }
}

#[test]
fn graphs_without_a_backward_half_have_no_choice_but_to_keep() {
    let g = Builder::new("f");
    let x = g.input("x", [16], DType::F32);
    let f = g.finish([x.exp().named("y")]).unwrap();
    let p = Session::new().memory_budget(1 << 20).compile(&f).unwrap();
    assert_eq!(p.plan().recomputed.flops, 0);
    assert!(Session::new().memory_budget(1).compile(&f).is_err());
    let empty = Builder::new("e");
    let e = empty.finish([]).unwrap();
    assert!(Session::new().memory_budget(0).compile(&e).is_ok());
}
