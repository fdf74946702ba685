//! Update rules against numbers worked out by hand: single elements, ends of ranges, states, and what is refused.

use arenagrad::error::Result;
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::optim::{self, Group, LossScale, MuonScale, Optimiser, Rule, train};
use arenagrad::session::{Elem, Program, Session};
use arenagrad::tools::ir::text::{PrintOptions, print_with};

/// One param `p` of `dims`, whose gradient is the input `g`.
fn one(dims: &[usize], dtype: DType) -> GraphBuf {
    let g = Builder::new("one");
    let p = g.param("p", dims, dtype, Init::Zeros);
    g.finish([(p * g.input("g", dims, dtype)).sum(..).named("loss")]).unwrap()
}

fn program(dtype: DType, elements: usize, opt: impl Into<Optimiser>) -> Program {
    let mut p = Session::new().compile(&train(&one(&[elements], dtype), "loss", opt).unwrap()).unwrap();
    p.init(0).unwrap();
    p
}

/// What `opt` makes of a param that starts at `start`, after each step with one of `grads`.
fn path<T: Elem>(dtype: DType, opt: impl Into<Optimiser>, start: &[T], grads: &[&[T]]) -> Vec<Vec<T>> {
    let mut p = program(dtype, start.len(), opt);
    p.values_mut::<T>("p").unwrap().copy_from_slice(start);
    let step = |g: &&[T]| {
        p.values_mut::<T>("g").unwrap().copy_from_slice(g);
        p.step().unwrap();
        p.values::<T>("p").unwrap().to_vec()
    };
    grads.iter().map(step).collect()
}

fn wide(opt: impl Into<Optimiser>, start: &[f64], grads: &[&[f64]]) -> Vec<Vec<f64>> {
    path::<f64>(DType::F64, opt, start, grads)
}

fn single(opt: impl Into<Optimiser>, start: &[f32], grads: &[&[f32]]) -> Vec<Vec<f32>> {
    path::<f32>(DType::F32, opt, start, grads)
}

fn near(got: &[f64], want: &[f64]) {
    assert!(
        got.len() == want.len() && got.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-9),
        "{got:?}, not {want:?}"
    );
}

#[test]
fn lamb_scales_an_update_by_the_norm_of_the_param() {
    let lamb = || optim::Lamb::new(0.1).weight_decay(0.0);
    // In the first step each element of the update is 1. The param's norm is 0.5, that of the update √2.
    let by = 0.1 * 0.5 / 2f64.sqrt();
    near(&wide(lamb().eps(0.0), &[0.3, 0.4], &[&[1.0, 2.0]])[0], &[0.3 - by, 0.4 - by]);
    // A param of zeros has no norm to scale by.
    near(&wide(lamb().eps(0.0), &[0.0, 0.0], &[&[1.0, 2.0]])[0], &[-0.1, -0.1]);
    // Elements of the update are 1e-31 / ε = 1e-25: its squares underflow in f32, and do not in f64.
    assert_eq!(single(lamb().eps(1e-6), &[3.0, 4.0], &[&[1e-31; 2]])[0], [3.0, 4.0]);
    let by = 0.1 * 5.0 / 2f64.sqrt();
    near(&wide(lamb().eps(1e-6), &[3.0, 4.0], &[&[1e-31; 2]])[0], &[3.0 - by, 4.0 - by]);
}

#[test]
fn adafactor_of_one_element_steps_by_a_share_of_the_param() {
    let adafactor = |lr: f64| optim::Adafactor::new(lr);
    // The update is 1, and the rate is min(lr, 1/√t) times the param, or times 1e-3 if that is more.
    near(&wide(adafactor(0.1), &[2.0], &[&[1.0]])[0], &[1.8]);
    let steps = wide(adafactor(10.0), &[2.0], &[&[1.0], &[1.0]]);
    near(&steps.concat(), &[0.0, -1e-3 / 2f64.sqrt()]);
    // A gradient of 1e-8 is below the spacing of f32 at 1, which is 2⁻²³: the update is 1e-8 · 2²³.
    near(&wide(adafactor(0.1), &[2.0], &[&[1e-8]])[0], &[1.8]);
    let x = f64::from(single(adafactor(0.1), &[2.0], &[&[1e-8]])[0][0]);
    assert!((x - (2.0 - 0.2 * 0.083_886_08)).abs() < 1e-6, "{x}");
}

#[test]
fn radam_adapts_late_if_its_second_average_is_short() {
    // ρ goes from 1 to 2/0.31 − 1 = 5.45, and exceeds 5 in step 11.
    let (lr, b1, b2, eps): (f64, f64, f64, f64) = (0.05, 0.9, 0.69, 1e-8);
    let most = 2.0 / (1.0 - b2) - 1.0;
    let (mut p, mut m, mut v, mut first) = (1.0f64, 0.0f64, 0.0f64, None);
    let grads: Vec<f64> = (1..=16).map(|t| 1.0 - 0.1 * f64::from(t)).collect();
    let mut want = Vec::new();
    for (t, g) in (1..).zip(&grads) {
        m = b1 * m + (1.0 - b1) * g;
        v = b2 * v + (1.0 - b2) * g * g;
        let (c1, c2) = (1.0 - f64::powi(b1, t), 1.0 - f64::powi(b2, t));
        let rho = most - 2.0 * f64::from(t) * f64::powi(b2, t) / c2;
        let mut size = lr * m / c1;
        if rho > 5.0 {
            first = first.or(Some(t));
            size *= c2.sqrt() / (v.sqrt() + eps);
            size *= ((rho - 4.0) * (rho - 2.0) * most / ((most - 4.0) * (most - 2.0) * rho)).sqrt();
        }
        p -= size;
        want.push(p);
    }
    assert_eq!(first, Some(11));
    let given: Vec<[f64; 1]> = grads.iter().map(|&g| [g]).collect();
    let given: Vec<&[f64]> = given.iter().map(|g| &g[..]).collect();
    near(&wide(optim::RAdam::new(lr).betas((b1, b2)).eps(eps), &[1.0], &given).concat(), &want);
}

/// A moving average of gradients is computed from the nearer of its ends, so that neither end loses digits.
#[test]
fn averages_are_computed_from_the_nearer_end() {
    let average = |beta1: f64, before: f32, g: f32| {
        let mut p = program(DType::F32, 1, optim::Adamax::new(0.1).betas((beta1, 0.9)));
        p.values_mut::<f32>("opt.exp_avg.p").unwrap()[0] = before;
        p.values_mut::<f32>("g").unwrap()[0] = g;
        p.step().unwrap();
        p.values::<f32>("opt.exp_avg.p").unwrap()[0]
    };
    let (large, tiny) = (2f32.powi(26), 2f64.powi(-24));
    // The old value is 1, and the gradient adds 2²⁶ · 2⁻²⁴; numbers near 2²⁶ are 4 apart.
    assert_eq!(average(1.0 - tiny, 1.0, large), 5.0);
    assert_eq!(average(0.0, large, 1.0), 1.0);
    // In the middle it is computed from the gradient: 2²⁶ + 8 − (2²⁵ + 4), where from 3 it would be 2²⁵ + 8.
    assert_eq!(average(0.5, 3.0, large + 8.0), 2f32.powi(25) + 4.0);
}

#[test]
fn averages_below_the_smallest_normal_number_of_their_type_are_zero() {
    // The average is the gradient itself.
    let lion = || optim::Lion::new(0.1).betas((0.9, 0.0));
    let mut p = program(DType::F64, 4, lion());
    p.values_mut::<f64>("g").unwrap().copy_from_slice(&[1e-40, -1e-310, 2.3e-308, f64::NAN]);
    p.step().unwrap();
    let m = p.values::<f64>("opt.exp_avg.p").unwrap();
    assert!(m[..3] == [1e-40, 0.0, 2.3e-308] && m[3].is_nan(), "{m:?}");
    let mut p = program(DType::F32, 2, lion());
    p.values_mut::<f32>("g").unwrap().copy_from_slice(&[1e-40, -2e-38]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("opt.exp_avg.p").unwrap(), [0.0, -2e-38]);
}

#[test]
fn an_infinite_param_without_decay_leaves_its_states_alone() {
    let mut p = program(DType::F64, 1, optim::Adagrad::new(0.1));
    p.values_mut::<f64>("p").unwrap()[0] = f64::INFINITY;
    p.values_mut::<f64>("g").unwrap()[0] = 3.0;
    p.step().unwrap();
    assert_eq!((p.values::<f64>("p").unwrap()[0], p.values::<f64>("opt.sum.p").unwrap()[0]), (f64::INFINITY, 9.0));
}

/// The states of a step with `opt`, without `opt.` and `.p`, in the order of the alphabet.
fn states(opt: impl Into<Optimiser>) -> String {
    let step = train(&one(&[2, 2], DType::F32), "loss", opt).unwrap();
    let own = step.view().leaves().filter_map(|l| l.name.strip_prefix("opt.").map(|n| n.trim_end_matches(".p")));
    let mut own: Vec<&str> = own.collect();
    own.sort_unstable();
    own.join(" ")
}

#[test]
fn a_rule_keeps_the_states_that_it_reads() {
    let sgd = || optim::Sgd::new(0.1);
    assert_eq!([states(sgd()), states(sgd().momentum(0.9))], ["", "momentum_buffer step"]);
    assert_eq!(states(sgd().ema(0.9)), "step");
    for with_moments in [states(optim::Adam::new(0.1)), states(optim::RAdam::new(0.1)), states(optim::Lamb::new(0.1))] {
        assert_eq!(with_moments, "exp_avg exp_avg_sq step");
    }
    assert_eq!(states(optim::AdamW::new(0.1).amsgrad(true)), "exp_avg exp_avg_sq max_exp_avg_sq step");
    assert_eq!(states(optim::Adamax::new(0.1)), "exp_avg exp_inf step");
    let rmsprop = || optim::RmsProp::new(0.1);
    assert_eq!([states(rmsprop()), states(rmsprop().centered(true))], ["square_avg", "grad_avg square_avg"]);
    assert_eq!(states(rmsprop().momentum(0.9)), "momentum_buffer square_avg");
    let adagrad = || optim::Adagrad::new(0.1);
    assert_eq!([states(adagrad()), states(adagrad().lr_decay(0.1))], ["sum", "step sum"]);
    assert_eq!(states(adagrad().initial_accumulator_value(0.1)), "step sum");
    assert_eq!(states(optim::Adadelta::new(0.1)), "acc_delta square_avg");
    assert_eq!(states(optim::NAdam::new(0.1)), "exp_avg exp_avg_sq mu_product step");
    assert_eq!([states(optim::Lion::new(0.1)), states(optim::Muon::new(0.1))], ["exp_avg", "momentum_buffer"]);
    assert_eq!(states(optim::Adafactor::new(0.1)), "col_var row_var step");
    let lbfgs = "h_diag history_head old_dirs old_stps prev_flat_grad prev_step ro step";
    assert_eq!(states(optim::Lbfgs::new(0.1)), lbfgs);
}

/// The operands of an update are p, g, states and numbers.
#[test]
fn an_update_reads_the_numbers_that_it_needs() {
    let betas = (0.8, 0.9);
    let adam = |decoupled| match decoupled {
        true => optim::AdamW::new(0.1).betas(betas).weight_decay(0.1).amsgrad(true).rule(),
        false => optim::Adam::new(0.1).betas(betas).weight_decay(0.1).amsgrad(true).rule(),
    };
    let radam =
        |decoupled| optim::RAdam::new(0.1).betas(betas).weight_decay(0.1).decoupled_weight_decay(decoupled).rule();
    let adagrad = |start| {
        optim::Adagrad::new(0.1).lr_decay(0.1).initial_accumulator_value(start).eps(1e-8).weight_decay(0.1).rule()
    };
    let rules = [
        (adam(false), 5 + 2),
        (adam(true), 5 + 3),
        (radam(false), 4 + 5),
        (radam(true), 4 + 6),
        (Rule::NADAM, 4 + 3),
        (Rule::NADAMW, 4 + 4),
        (adagrad(0.0), 3 + 1),
        (adagrad(0.1), 3 + 2),
        (Rule::ADADELTA, 4 + 1),
    ];
    for (rule, want) in rules {
        let text = train(&one(&[3], DType::F32), "loss", Optimiser::new(rule, 0.1)).unwrap().to_string();
        let operands = text.split_once("= map ").unwrap().1.split_once(" body=").unwrap().0;
        assert_eq!(operands.split(", ").count(), want, "{rule:?}: {operands}");
    }
}

#[test]
fn equal_schedules_of_nadam_share_a_state() {
    let g = Builder::new("four");
    let p = ["a", "b", "c", "d"].map(|name| g.param(name, [2], DType::F32, Init::Ones));
    let graph = g.finish([(p[0] * p[1] * p[2] * p[3]).sum(..).named("loss")]).unwrap();
    let other = Group::default().rule(optim::NAdam::new(0.1).momentum_decay(0.1).rule());
    let decayed = Group::default().weight_decay(0.1);
    let opt = optim::NAdam::new(0.1).group("b", other).group("c", decayed).group("d", other.lr_scale(2.0));
    let step = train(&graph, "loss", opt).unwrap();
    let products: Vec<&str> = step.view().leaves().map(|l| l.name).filter(|n| n.contains("mu_product")).collect();
    assert_eq!(products, ["opt.mu_product", "opt.mu_product.2"]);
}

/// A param that is trained from a later step on has the updates that it would have alone, and so has its neighbour.
#[test]
fn groups_count_their_own_steps() {
    let of = |names: &[&str], opt: Optimiser| {
        let g = Builder::new("some");
        let losses = names.iter().map(|n| g.param(n, [2, 3], DType::F64, Init::Ones).square().sum(..));
        let graph = g.finish([losses.reduce(|a, b| a + b).unwrap().named("loss")]).unwrap();
        let mut p = Session::new().compile(&train(&graph, "loss", opt).unwrap()).unwrap();
        p.init(0).unwrap();
        p
    };
    let steps = |p: &mut Program, n: usize| (0..n).for_each(|_| p.step().unwrap());
    let rules: [Optimiser; 10] = [
        optim::Adam::new(0.1).into(),
        optim::AdamW::new(0.1).amsgrad(true).ema(0.9).into(),
        optim::Adamax::new(0.1).into(),
        optim::RAdam::new(0.1).into(),
        optim::NAdam::new(0.1).into(),
        optim::Lamb::new(0.1).into(),
        optim::Adafactor::new(0.1).into(),
        optim::Sgd::new(0.1).momentum(0.9).dampening(0.5).into(),
        optim::Adagrad::new(0.1).lr_decay(0.1).into(),
        optim::RmsProp::new(0.1).into(),
    ];
    for opt in rules {
        let mut a = of(&["a"], opt.clone());
        let mut both = of(&["a", "b"], opt.clone().group("b", Group::default().count(7)));
        steps(&mut a, 3);
        for (of, bytes) in a.persistent() {
            both.persistent_mut(&of.name).unwrap().1.copy_from_slice(bytes);
        }
        let mut b = of(&["b"], opt.clone());
        for n in 1..4 {
            [&mut a, &mut b, &mut both].into_iter().for_each(|p| steps(p, 1));
            for (name, alone) in [("a", &a), ("b", &b)] {
                assert_eq!(both.values::<f64>(name).unwrap(), alone.values::<f64>(name).unwrap(), "{opt:?}, step {n}");
            }
        }
        let counts = |p: &Program| ["opt.step", "opt.step.7"].map(|n| p.values::<i64>(n).ok().map(|t| t[0]));
        assert_eq!(counts(&both), if opt.rule().name() == "rmsprop" { [None; 2] } else { [Some(6), Some(3)] });
    }
}

/// A step with two params.
fn two(a: DType, b: DType, opt: impl Into<Optimiser>) -> Program {
    let g = Builder::new("two");
    let [p, q] = [("a", a), ("b", b)].map(|(name, dtype)| g.param(name, [2], dtype, Init::Ones));
    let graph = g.finish([(p.square().sum(..).cast(DType::F64) + q.square().sum(..).cast(DType::F64)).named("loss")]);
    let mut p = Session::new().compile(&train(&graph.unwrap(), "loss", opt).unwrap()).unwrap();
    p.init(0).unwrap();
    p
}

#[test]
fn the_rate_has_the_type_of_the_first_param() {
    let sgd = || optim::Sgd::new(0.25);
    assert_eq!(two(DType::F32, DType::F64, sgd()).values::<f32>("lr").unwrap(), [0.25]);
    assert_eq!(two(DType::F64, DType::F32, sgd()).values::<f64>("lr").unwrap(), [0.25]);
    // The one vector of L-BFGS has the type of its params, or f64 if they have two.
    let vector = |a, b| two(a, b, optim::Lbfgs::new(0.1)).values::<f64>("opt.prev_step").is_ok();
    let (single, double) = (DType::F32, DType::F64);
    assert_eq!([vector(single, double), vector(double, single), vector(single, single)], [true, true, false]);
}

fn refused(result: Result<()>, text: &str) {
    let e = result.unwrap_err().to_string();
    assert!(e.contains(text), "{e}");
}

#[test]
fn numbers_at_the_ends_of_ranges_are_taken_and_those_beyond_refused() {
    let sgd = || optim::Sgd::new(0.1);
    for lr in [-0.1, f64::NAN, f64::INFINITY] {
        refused(optim::Sgd::new(lr).validate(), &format!("lr is {lr}; it must be finite and not negative"));
    }
    assert!(optim::Sgd::new(0.0).validate().is_ok() && sgd().ema(0.0).validate().is_ok());
    refused(sgd().ema(-0.1).validate(), "ema is -0.1; it is a decay, in [0, 1)");
    assert!(sgd().accumulate(1 << 20).validate().is_ok());
    refused(sgd().accumulate((1 << 20) + 1).validate(), "accumulate is 1048577; it goes to 1048576");
    let nesterov = "nesterov needs a momentum and no dampening";
    refused(sgd().nesterov(true).validate(), nesterov);
    refused(sgd().momentum(0.9).dampening(0.1).nesterov(true).validate(), nesterov);
    assert!(sgd().momentum(0.9).nesterov(true).validate().is_ok() && sgd().dampening(-0.5).validate().is_ok());
    let muon = |rounds| optim::Muon::new(0.1).ns_steps(rounds).validate();
    assert!(muon(99).is_ok());
    refused(muon(100), "muon: ns_steps is 100; it goes to 99");
    let lbfgs = |rows| optim::Lbfgs::new(0.1).history_size(rows).validate();
    assert!(lbfgs(1).is_ok() && lbfgs(10_000).is_ok());
    refused(lbfgs(10_001), "lbfgs: history_size is 10001; it goes from 1 to 10000");
    let adafactor = || optim::Adafactor::new(0.1);
    assert!(adafactor().beta2_decay(0.0).d(1.0).eps((Some(0.0), 0.0)).validate().is_ok());
    refused(adafactor().d(0.9).validate(), "adafactor: d is 0.9; it must be finite and not below 1");
    refused(adafactor().beta2_decay(0.1).validate(), "beta2_decay is 0.1; it must be finite and not above 0");
    refused(adafactor().eps((Some(-1.0), 0.0)).validate(), "adafactor: eps1 is -1; it must be finite and not negative");
    // A row whose gradients are all 0 would be NaN.
    refused(optim::SparseAdam::new(0.1).eps(0.0).validate(), "sparseadam: eps is 0; it must be finite and above 0");
    let bad = Group::default().rule(optim::Lion::new(0.1).betas((1.5, 0.9)).rule());
    refused(sgd().group("p*", bad).validate(), "group \"p*\"");
    let fast = Group::default().lr_scale(f64::INFINITY);
    refused(sgd().group("p*", fast).validate(), "lr_scale is inf; it must be finite and not negative");
}

#[test]
fn muon_scales_the_rate_by_the_sides_of_the_matrix() {
    let factors = |scale: MuonScale| [(8, 2), (2, 8), (4, 25), (25, 4)].map(|(a, b)| scale.factor(a, b));
    assert_eq!(factors(MuonScale::Original), [2.0, 1.0, 1.0, 2.5]);
    assert_eq!(factors(MuonScale::SpectralUnclamped), [2.0, 0.5, 0.4, 2.5]);
    let want = [0.2 * 8f64.sqrt(), 0.2 * 8f64.sqrt(), 1.0, 1.0];
    assert_eq!(factors(MuonScale::MatchRmsAdamw), want);
    // The products of the iteration are square in the shorter side.
    for dims in [[3, 7], [7, 3]] {
        let text = train(&one(&dims, DType::F32), "loss", optim::Muon::new(0.1)).unwrap().to_string();
        assert!(text.contains("f32[3,3]") && !text.contains("f32[7,7]"), "{text}");
    }
}

/// The norm of gradients of one type is summed in that type, and a sum of sizes takes no powers.
#[test]
fn a_norm_costs_no_more_than_it_needs() {
    let text = |p: f64| {
        let opt = optim::Sgd::new(0.1).clip_norm(1.0).norm_type(p);
        train(&one(&[7], DType::F32), "loss", opt).unwrap().to_string()
    };
    for p in [1.0, 3.0, f64::INFINITY] {
        assert!(!text(p).contains("f64[7]"), "{}", text(p));
    }
    assert_eq!([1.0, 3.0, f64::INFINITY].map(|p| text(p).matches("= pow ").count()), [0, 2, 0]);
}

#[test]
fn updates_stand_in_the_line_of_train_and_projections_in_their_own() {
    let g = Builder::new("lines");
    let [a, b] = ["a", "b"].map(|name| g.param(name, [2], DType::F32, Init::Ones));
    let graph = g.finish([(a * b * g.input("x", [2], DType::F32)).sum(..).named("loss")]).unwrap();
    for k in [1, 2] {
        let opt = optim::AdamW::new(0.1).accumulate(k);
        let opt = if k == 1 { opt.loss_scale(LossScale::dynamic()) } else { opt };
        let own = line!() + 1;
        let opt = opt.project("a", |a| a.clamp(-1.0, 1.0));
        let line = line!() + 1;
        let step = train(&graph, "loss", opt).unwrap();
        let places = print_with(step.view(), PrintOptions { locations: true, file: None });
        assert!(places.contains(&format!("loc(\"{}\":{own})", file!())), "{places}");
        let plan = Session::new().plan(&step).unwrap();
        let origin = |name: &str| plan.buffers.iter().find(|b| b.name == name).unwrap().origin();
        let here = Some(format!("{}:{line}", file!()));
        for name in ["opt.step", "opt.exp_avg.a", "opt.exp_avg.b"] {
            assert_eq!(origin(name), here, "{name}");
        }
        assert!(k != 1 || origin("opt.loss_scale") == here, "{:?}", origin("opt.loss_scale"));
    }
}

#[test]
fn projections_are_equal_if_one_is_a_clone_of_the_other() {
    let boxed = || optim::Sgd::new(0.1).project("w", |w| w.clamp(-1.0, 1.0));
    let (one, other) = (boxed(), boxed());
    assert!(one == one.clone() && one != other);
    let mut elsewhere = one.clone();
    elsewhere.projections[0].pattern = "v".into();
    assert!(one != elsewhere);
}
