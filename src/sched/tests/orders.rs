//! Orders: every rule gives a legal order, the order that is kept is never worse than program order, and the
//! certificate is at most the peak of the best order.

use super::ops::{ADD, PICK, one};
use super::random::graph;
use crate::nodes::{Builder, DType, Init};
use crate::optim::{self, train};
use crate::sched::instructions::Instructions;
use crate::sched::lower::lower;
use crate::sched::order::bound::{BLOCK, order_bound};
use crate::sched::order::deps::Deps;
use crate::sched::order::list::order_by_rule;
use crate::sched::order::local::improve_by_moves;
use crate::sched::order::{CANDIDATES, best_order, score_order};

/// Calls `f` with every order of the groups that data and effects allow, until it says stop.
fn every_order(d: &Deps, left: &mut Vec<u32>, order: &mut Vec<u32>, f: &mut impl FnMut(&[u32]) -> bool) -> bool {
    let n = left.len();
    if order.len() == n {
        return f(order);
    }
    for g in 0..n {
        if left[g] != 0 {
            continue;
        }
        left[g] = u32::MAX;
        d.after.of(g).iter().for_each(|&s| left[s as usize] -= 1);
        order.push(g as u32);
        let more = every_order(d, left, order, f);
        order.pop();
        d.after.of(g).iter().for_each(|&s| left[s as usize] += 1);
        left[g] = 0;
        if !more {
            return false;
        }
    }
    true
}

fn open(d: &Deps, n: usize) -> Vec<u32> {
    (0..n).map(|g| d.before.of(g).len() as u32).collect()
}

fn legal(code: &Instructions, d: &Deps, order: &[u32]) -> bool {
    let mut at = vec![u32::MAX; code.groups()];
    order.iter().enumerate().for_each(|(i, &g)| at[g as usize] = i as u32);
    let edges = |g: usize| d.before.of(g).iter().all(|&p| at[p as usize] < at[g]);
    order.len() == code.groups() && at.iter().all(|&a| a != u32::MAX) && (0..code.groups()).all(edges)
}

#[test]
fn every_rule_makes_a_legal_order_and_the_best_is_kept() {
    let (mut won, mut worse) = ([0; CANDIDATES.len()], [0; CANDIDATES.len()]);
    let mut moved = 0;
    for seed in 0..300 {
        let buf = graph(seed, 4 + seed as usize % 60);
        let code = lower(buf.view(), 1).unwrap().code;
        let d = Deps::new(&code);
        let kept = best_order(&code).unwrap();
        let all: Vec<u64> = CANDIDATES
            .iter()
            .map(|&(name, rule)| {
                let order = order_by_rule(&code, &d, rule);
                assert!(legal(&code, &d, &order), "seed {seed}: {name}");
                score_order(&code, &order, name).unwrap().bound
            })
            .collect();
        let least = *all.iter().min().unwrap();
        let first = all.iter().position(|&b| b == least).unwrap();
        assert!(kept.bound <= least && kept.name == CANDIDATES[first].0, "seed {seed}: {} of {all:?}", kept.bound);
        moved += usize::from(kept.bound < least);
        assert!(kept.order_bound <= kept.bound, "seed {seed}");
        won[first] += 1;
        worse.iter_mut().zip(&all).for_each(|(w, &b)| *w += usize::from(b > all[0]));
    }
    assert!(won.iter().filter(|&&w| w > 0).count() >= 3, "{won:?}");
    assert!(moved > 0, "moving single groups helps somewhere");
    assert!(worse[1..].iter().all(|&w| w > 0), "each rule alone is worse than program order somewhere: {worse:?}");
}

/// The certificate against brute force, on graphs with views, temporaries, results in place, updates and copies.
#[test]
fn no_order_is_below_the_certificate() {
    let (mut tight, mut all) = (0, 0);
    for seed in 0..400 {
        let buf = graph(seed + 1000, 3 + seed as usize % 6);
        let code = lower(buf.view(), 1).unwrap().code;
        let d = Deps::new(&code);
        let mut least = u64::MAX;
        let mut tries = 0;
        every_order(&d, &mut open(&d, code.groups()), &mut Vec::new(), &mut |order| {
            least = least.min(score_order(&code, order, "any").unwrap().bound);
            tries += 1;
            tries < 3000
        });
        let far = vec![u64::MAX; code.groups()];
        let full = order_bound(&code, &d, &far).unwrap();
        assert!(full <= least, "seed {seed}: the certificate says {full}, an order needs {least}");
        let kept = best_order(&code).unwrap();
        assert_eq!(kept.order_bound, full, "seed {seed}: what is skipped could not raise the bound");
        tight += usize::from(full == least);
        all += 1;
    }
    assert!(tight * 10 > all * 7, "the certificate is met on {tight} of {all} graphs");
}

/// Moves keep data and effects in order, and what they win is real.
#[test]
fn moved_groups_make_legal_orders() {
    for seed in 0..200 {
        let buf = graph(seed + 5000, 10 + seed as usize % 50);
        let code = lower(buf.view(), 1).unwrap().code;
        let d = Deps::new(&code);
        for &(name, rule) in CANDIDATES {
            let order = order_by_rule(&code, &d, rule);
            let moved = improve_by_moves(&code, &d, &order, 0).unwrap();
            assert!(legal(&code, &d, &moved), "seed {seed}: {name}");
            let (before, after) =
                (score_order(&code, &order, name).unwrap(), score_order(&code, &moved, name).unwrap());
            assert!(after.bound <= before.bound, "seed {seed}: {name}");
            assert_eq!(improve_by_moves(&code, &d, &order, 0).unwrap(), moved, "the same again");
        }
    }
}

/// More groups than one block: the blocks together find the bound of the fullest group.
#[test]
fn the_certificate_of_a_long_program_is_that_of_its_fullest_group() {
    let g = Builder::new("chain");
    let x = g.input("x", [16], DType::F32);
    let mut kept = vec![x.exp()];
    for i in 0..2 * BLOCK {
        let last = kept[kept.len() - 1];
        kept.push((last * 0.5).sin());
        if i >= BLOCK {
            // From here on the way back: each step reads what its mirror image left.
            let mirror = kept[2 * BLOCK - i];
            let last = kept.len() - 1;
            kept[last] = kept[last] + mirror;
        }
    }
    g.output("y", kept[kept.len() - 1]);
    let buf = g.finish([]).unwrap();
    let code = lower(buf.view(), 1).unwrap().code;
    assert!(code.groups() > 3 * BLOCK);
    let o = best_order(&code).unwrap();
    // One line each: the values that wait for their mirror image, and what the step in the middle holds.
    assert!(o.order_bound as usize >= BLOCK && o.order_bound <= o.bound, "{} of {}", o.order_bound, o.bound);
    assert!(o.bound - o.order_bound <= 2, "{} of {}", o.order_bound, o.bound);
}

/// Clipping by the global norm needs all gradients before the first update: no order may update early, and the plan
/// is larger by the gradients that have to wait.
#[test]
fn global_norm_clipping_keeps_all_gradients() {
    let plan = |clip: bool| {
        let g = Builder::new("deep");
        let mut h = g.input("x", [2, 64], DType::F32);
        for i in 0..8 {
            h = h.matmul(g.param(&format!("w{i}"), [64, 64], DType::F32, Init::Normal(0.1))).relu();
        }
        g.output("loss", h.sum(..));
        let buf = g.finish([]).unwrap();
        let opt = optim::Sgd::new(0.1);
        let step = train(&buf, "loss", if clip { opt.clip_norm(1.0) } else { opt }).unwrap();
        let step = crate::passes::pipeline::run_whole_pipeline(&step).unwrap();
        let code = lower(step.view(), 1).unwrap().code;
        let o = best_order(&code).unwrap();
        let pinned: u64 =
            (0..o.live.len()).filter(|&b| o.code.kind[b].is_pinned()).map(|b| o.live.lines[b] as u64).sum();
        (o.bound - pinned, o.order_bound - pinned, o.name)
    };
    let gradient = 64 * 64 * 4 / 64;
    let (free, _, name) = plan(false);
    assert!(free < 3 * gradient, "{free} lines: {name} updates early");
    let (clipped, certified, _) = plan(true);
    assert!(certified >= 8 * gradient, "{certified} lines are certain: all eight gradients");
    // One more while its squares are summed.
    assert!(clipped >= certified && clipped < 10 * gradient, "{clipped} lines");
}

/// A look-up may stop the step, so an update that comes before it waits for it, by every rule.
#[test]
fn next_values_come_behind_what_may_stop_the_step() {
    let g = Builder::new("g");
    let (x, at) = (g.input("x", [64], DType::F32), g.input("at", [64], DType::I32));
    let w = g.param("w", [64], DType::F32, Init::Ones);
    g.update(w, one(&g, &ADD, &[w, x]));
    g.output("y", one(&g, &PICK, &[x, at]));
    let code = lower(g.finish([]).unwrap().view(), 1).unwrap().code;
    let d = Deps::new(&code);
    assert_eq!(d.writer[code.updates[0].from.buf as usize], 0, "the update is first");
    assert_eq!((d.stops.as_slice(), d.waits.as_slice()), (&[false, true][..], &[0][..]));
    for &(name, rule) in CANDIDATES {
        assert_eq!(order_by_rule(&code, &d, rule), [1, 0], "{name}");
    }
}
