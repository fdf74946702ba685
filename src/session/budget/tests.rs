//! Sizes of choices by hand, and the budgets of small nets.

use super::*;
use crate::nn;
use crate::nodes::{Builder, DType};
use crate::optim::{self, train};
use crate::session::compile;
use crate::session::tests::sums;

/// A size of `one` bytes on one thread, and of `many` on several.
fn size_of([one, many]: [usize; 2]) -> impl Fn(&CompiledGraph) -> Result<usize> {
    move |r: &CompiledGraph| Ok(if r.tapes.threads() == 1 { one } else { many })
}

/// What is seen of choices of these sizes on one thread and on several, one after another.
fn seen(session: Session, choices: &[[usize; 2]]) -> Vec<(usize, usize, Option<usize>)> {
    let session = session.share(true);
    let ready = compile::graph(sums().view(), &session.choices).unwrap();
    let mut sizes = BudgetSizes::new(&session.choices);
    let see = |&choice: &[usize; 2]| {
        let at = sizes.see(&ready, &size_of(choice)).unwrap();
        (at.decides, at.bytes, at.meets)
    };
    choices.iter().map(see).collect()
}

#[test]
fn in_half_precision_the_size_on_one_thread_decides_and_that_on_all_must_fit() {
    let choices = [[100, 130], [90, 120], [95, 96], [70, 72], [70, 70], [60, 50]];
    for threads in [2, 3] {
        assert_eq!(
            seen(Session::new().keep(Keep::Bf16).threads(threads), &choices),
            [
                (100, 130, Some(130)),
                (90, 120, None),
                (95, 96, None),
                (70, 72, Some(72)),
                (70, 70, None),
                (60, 50, Some(60))
            ]
        );
        let all = [130, 120, 96, 72, 70, 50].map(|bytes| (bytes, bytes, Some(bytes)));
        assert_eq!(seen(Session::new().threads(threads), &choices), all);
    }
    let one = seen(Session::new().keep(Keep::Bf16), &choices);
    let meets = [Some(100), Some(90), None, Some(70), None, Some(60)];
    assert_eq!(one, std::array::from_fn::<_, 6, _>(|i| (choices[i][0], choices[i][0], meets[i])));
}

#[test]
fn a_budget_that_only_one_thread_meets_is_refused_with_one_that_would_do() {
    let graph = sums();
    let session = Session::new().keep(Keep::Bf16).threads(3).share(true);
    let fit = |bytes: usize| compile_within(graph.view(), &session.choices, bytes, &size_of([100, 130]));
    assert!(matches!(fit(130), Ok(Fit::Fits(_))));
    assert!(matches!(fit(99), Ok(Fit::Needs(130))));
    for bytes in [100, 129] {
        let e = fit(bytes).err().unwrap().message;
        assert!(e.contains("on one thread, but not the scratch of 3") && e.contains("130 bytes would do"), "{e}");
    }
    let failing = |_: &CompiledGraph| -> Result<usize> { Err(Error::new(Kind::Memory, "no size")) };
    let e = compile_within(graph.view(), &session.choices, 1000, &failing).err().unwrap();
    assert_eq!((e.kind, e.message.as_str()), (Kind::Memory, "no size"));
}

#[test]
fn each_budget_of_a_net_is_met_by_what_it_says() {
    let g = Builder::new("net");
    let h = nn::linear(&g, "fc1", g.input("x", [256, 8], DType::F32), 64).gelu();
    let h = nn::linear(&g, "fc2", h, 64).gelu();
    let loss = nn::linear(&g, "fc3", h, 1).mean(..).named("loss");
    let step = train(&g.finish([loss]).unwrap(), "loss", optim::Sgd::new(0.1)).unwrap();
    let all = Session::new().budgets(&step).unwrap();
    assert!(all.len() > 1 && all.windows(2).all(|w| w[1].arena_bytes < w[0].arena_bytes), "{all:?}");
    let nodes: Vec<usize> = all.iter().map(|b| b.recomputed.nodes).collect();
    assert!(nodes[0] == 0 && nodes[1..].iter().all(|&n| n > 0), "{all:?}");
    for b in &all {
        let plan = Session::new().memory_budget(b.arena_bytes).plan(&step).unwrap();
        assert_eq!((plan.arena_bytes, &plan.recomputed), (b.arena_bytes, &b.recomputed));
    }
    let least = all[all.len() - 1].arena_bytes;
    let e = Session::new().memory_budget(least - 1).plan(&step).unwrap_err();
    assert_eq!(e, too_small_error(least - 1, least));
}

#[test]
fn a_plan_within_a_budget_tells_what_it_keeps_in_half_precision() {
    let g = Builder::new("net");
    let mut h = g.input("x", [256, 64], DType::F32);
    for i in 0..8 {
        h = nn::linear(&g, &format!("fc{i}"), h, 64).tanh();
    }
    let step = train(&g.finish([h.mean(..).named("loss")]).unwrap(), "loss", optim::Sgd::new(0.1)).unwrap();
    let kept = Session::new().keep(Keep::Bf16).memory_budget(usize::MAX).plan(&step).unwrap().kept;
    assert!(kept.keep == Keep::Bf16 && kept.values > 0, "{kept:?}");
}
