//! Schedules against torch and against their formulas.

use super::*;

fn near(schedule: Schedule, want: &[(u64, f64)]) {
    schedule.validate().unwrap();
    for &(t, lr) in want {
        let got = schedule.lr(t);
        assert!((got - lr).abs() <= 1e-12 * lr.abs().max(1e-9), "{schedule:?} at {t}: {got}, not {lr}");
    }
}

// The values below were printed by the schedulers of torch 2.

#[test]
fn one_cycle_is_torchs() {
    let want = [
        (0, 0.0003999999999999993),
        (1, 0.00042813780565907275),
        (10, 0.002951639484641007),
        (28, 0.009971862194340927),
        (29, 0.01),
        (30, 0.009994965352845242),
        (31, 0.009979871550490316),
        (50, 0.00793893450575732),
        (98, 5.07464715475788e-06),
        (99, 4e-08),
    ];
    near(Schedule::one_cycle(0.01, 100), &want);
}

#[test]
fn one_cycle_with_odd_lengths_is_torchs() {
    let want = [
        (0, 0.01999999999999999),
        (3, 0.0726126488298302),
        (8, 0.19959247303157762),
        (9, 0.1996401091053984),
        (20, 0.12390203328317419),
        (36, 0.0002),
    ];
    near(
        Schedule::OneCycle { max_lr: 0.2, total: 37, pct_start: 0.25, div_factor: 10.0, final_div_factor: 100.0 },
        &want,
    );
}

#[test]
fn warm_up_and_cosine_are_torchs() {
    let want = [
        (0, 0.010000000000000002),
        (1, 0.019000000000000003),
        (5, 0.055000000000000014),
        (9, 0.09100000000000004),
        (10, 0.1),
        (11, 0.09990232305719944),
        (30, 0.06579634122155989),
        (59, 0.0010976769428005578),
    ];
    near(Schedule::Cosine { lr: 0.1, warmup: 10, start_factor: 0.1, total: 60, min_lr: 0.001 }, &want);
}

#[test]
fn step_is_torchs() {
    let want = [(0, 0.1), (6, 0.1), (7, 0.03), (13, 0.03), (14, 0.009), (29, 0.0008099999999999998)];
    near(Schedule::Step { lr: 0.1, step_size: 7, gamma: 0.3 }, &want);
}

#[test]
fn constant_factor_is_torchs() {
    let want = [(0, 0.19999999999999998), (4, 0.19999999999999998), (5, 0.6), (8, 0.6)];
    near(Schedule::constant_factor(0.6), &want);
    near(Schedule::ConstantFactor { lr: 0.6, factor: 0.5, total_iters: 0 }, &[(0, 0.6)]);
    let e = Schedule::ConstantFactor { lr: 0.6, factor: 1.5, total_iters: 2 }.validate().unwrap_err().message;
    assert_eq!(e, "schedule: factor is 1.5; it must lie in [0, 1]");
}

#[test]
fn constant_and_step_follow_their_formulas() {
    near(Schedule::Constant { lr: 0.5 }, &[(0, 0.5), (u64::MAX, 0.5)]);
    near(Schedule::Step { lr: 1.0, step_size: 10, gamma: 0.5 }, &[(0, 1.0), (9, 1.0), (10, 0.5), (39, 0.125)]);
}

#[test]
fn ends_hold_beyond_the_total() {
    near(Schedule::cosine(1.0, 0, 10), &[(0, 1.0), (5, 0.5), (10, 0.0), (1000, 0.0)]);
    let s = Schedule::one_cycle(1.0, 10);
    assert_eq!(s.lr(9), s.lr(10_000));
    assert!((s.lr(9) - 1.0 / 25.0 / 1e4).abs() < 1e-15);
}

#[test]
fn a_cycle_of_one_step_and_one_that_only_falls_are_finite() {
    for total in 1..6 {
        for pct_start in [0.0, 0.3, 1.0] {
            let s = Schedule::OneCycle { max_lr: 1.0, total, pct_start, div_factor: 25.0, final_div_factor: 1e4 };
            assert!((0..8).all(|t| s.lr(t).is_finite() && s.lr(t) >= 0.0), "{s:?}");
        }
    }
}

#[test]
fn nonsense_is_refused() {
    let bad = [
        Schedule::Constant { lr: f64::NAN },
        Schedule::Constant { lr: -1.0 },
        Schedule::Step { lr: 1.0, step_size: 0, gamma: 0.1 },
        Schedule::one_cycle(f64::INFINITY, 10),
        Schedule::one_cycle(1.0, 0),
        Schedule::Cosine { lr: 1.0, warmup: 0, start_factor: 2.0, total: 1, min_lr: 0.0 },
    ];
    for s in bad {
        assert!(s.validate().is_err(), "{s:?}");
    }
}

#[test]
fn a_rate_is_divided_by_finite_numbers_above_0() {
    let cycle = |div_factor, final_div_factor| Schedule::OneCycle {
        max_lr: 1.0,
        total: 10,
        pct_start: 0.3,
        div_factor,
        final_div_factor,
    };
    [(25.0, 1e4), (0.5, 1.0)].iter().for_each(|&(d, f)| cycle(d, f).validate().unwrap());
    for x in [0.0, -25.0, f64::INFINITY, f64::NAN] {
        for (name, schedule) in [("div_factor", cycle(x, 1e4)), ("final_div_factor", cycle(25.0, x))] {
            let e = schedule.validate().unwrap_err().message;
            assert_eq!(e, format!("schedule: {name} is {x}; it must be finite and above 0"));
        }
    }
}

#[test]
fn restarts_begin_again_and_take_longer() {
    let s = |t_0, t_mult| Schedule::CosineRestarts { lr: 1.0, t_0, t_mult, min_lr: 0.0 };
    // 3, 6 and 12 steps.
    near(s(3, 2), &[(0, 1.0), (1, 0.75), (2, 0.25), (3, 1.0), (4, 0.5 + 0.75f64.sqrt() / 2.0), (6, 0.5), (9, 1.0)]);
    near(s(3, 2), &[(15, 0.5), (21, 1.0)]);
    near(s(4, 1), &[(2, 0.5), (4, 1.0), (8, 1.0), (4_000_002, 0.5)]);
    near(s(1, 1), &[(0, 1.0), (1, 1.0), (2, 1.0)]);
    near(Schedule::CosineRestarts { lr: 1.0, t_0: 3, t_mult: 1, min_lr: 0.2 }, &[(0, 1.0), (1, 0.8), (2, 0.4)]);
    assert!(s(1, 2).lr(u64::MAX).is_finite());
}

#[test]
fn lines_powers_and_roots_follow_their_formulas() {
    let line = |total_iters| Schedule::Linear { lr: 2.0, start_factor: 0.5, end_factor: 0.25, total_iters };
    near(line(4), &[(0, 1.0), (2, 0.75), (4, 0.5), (9, 0.5)]);
    near(line(1), &[(0, 1.0), (1, 0.5), (2, 0.5)]);
    near(Schedule::Polynomial { lr: 2.0, total_iters: 4, power: 2.0 }, &[(0, 2.0), (1, 1.125), (3, 0.125), (4, 0.0)]);
    // From step `total_iters` on the rate is 0 for each power.
    near(Schedule::Polynomial { lr: 2.0, total_iters: 4, power: 0.0 }, &[(0, 2.0), (3, 2.0), (4, 0.0), (5, 0.0)]);
    let root = |warmup, timescale| Schedule::InverseSqrt { lr: 1.0, warmup, start_factor: 0.5, timescale };
    near(root(4, 12), &[(0, 0.5), (2, 0.75), (4, 1.0), (16, 0.5f64.sqrt()), (40, 0.5)]);
    near(root(0, 1), &[(0, 1.0), (3, 0.5)]);
    near(
        Schedule::MultiStep { lr: 1.0, milestones: vec![2, 5, 5], gamma: 0.5 },
        &[(1, 1.0), (2, 0.5), (4, 0.5), (5, 0.125)],
    );
    near(Schedule::Step { lr: 1.0, step_size: 1, gamma: 0.5 }, &[(0, 1.0), (3, 0.125)]);
    // The rate rises for one step: 0.25 to 1, and falls for three.
    let cycle = Schedule::OneCycle { max_lr: 1.0, total: 5, pct_start: 0.4, div_factor: 4.0, final_div_factor: 2.0 };
    near(cycle, &[(0, 0.25), (1, 1.0), (2, 0.78125), (3, 0.34375), (4, 0.125), (5, 0.125)]);
}

#[test]
fn schedules_follow_one_another_or_multiply() {
    let (one, quarter) = (Schedule::Constant { lr: 1.0 }, Schedule::Constant { lr: 0.25 });
    let line = Schedule::Linear { lr: 1.0, start_factor: 0.5, end_factor: 1.0, total_iters: 2 };
    let step = Schedule::Step { lr: 2.0, step_size: 2, gamma: 0.5 };
    near(Schedule::Chained(vec![quarter.clone(), step]), &[(0, 0.5), (1, 0.5), (2, 0.25), (4, 0.125)]);
    let s = Schedule::Sequential { schedules: vec![one.clone(), line, quarter], milestones: vec![3, 5] };
    near(s, &[(0, 1.0), (2, 1.0), (3, 0.5), (4, 0.75), (5, 0.25), (9, 0.25)]);
    // Behind the last schedule there is no rate.
    let s = Schedule::Sequential { schedules: vec![one], milestones: vec![2] };
    assert_eq!([1, 2, 3].map(|t| s.lr(t)), [1.0, 0.0, 0.0]);
}

#[test]
fn short_forms_have_torchs_defaults() {
    let third = 1.0 / 3.0;
    let cosine = Schedule::Cosine { lr: 2.0, warmup: 3, start_factor: third, total: 9, min_lr: 0.0 };
    assert_eq!(Schedule::cosine(2.0, 3, 9), cosine);
    let restarts = Schedule::CosineRestarts { lr: 2.0, t_0: 3, t_mult: 1, min_lr: 0.0 };
    assert_eq!(Schedule::cosine_restarts(2.0, 3), restarts);
    assert_eq!(
        Schedule::multi_step(2.0, [3u64, 4]),
        Schedule::MultiStep { lr: 2.0, milestones: vec![3, 4], gamma: 0.1 }
    );
    let linear = Schedule::Linear { lr: 2.0, start_factor: third, end_factor: 1.0, total_iters: 3 };
    assert_eq!(Schedule::linear(2.0, 3), linear);
    assert_eq!(Schedule::polynomial(2.0, 3), Schedule::Polynomial { lr: 2.0, total_iters: 3, power: 1.0 });
    let root = |warmup, timescale| Schedule::InverseSqrt { lr: 2.0, warmup, start_factor: third, timescale };
    assert_eq!([0, 1, 5].map(|warmup| Schedule::inverse_sqrt(2.0, warmup)), [root(0, 10_000), root(1, 1), root(5, 5)]);
}

/// Why a schedule is refused; none if it is not.
fn refusal(schedule: &Schedule) -> Option<String> {
    let why = schedule.validate().err()?;
    assert_eq!(why.kind, crate::error::Kind::Data);
    Some(why.message)
}

#[test]
fn each_number_has_its_range() {
    let (sizes, fractions) = ("it must be finite and not negative", "it must lie in [0, 1]");
    let constant = |lr| Schedule::Constant { lr };
    assert_eq!([0.0, 0.5].map(|lr| refusal(&constant(lr))), [None, None]);
    for lr in [-1.0, f64::INFINITY, f64::NAN] {
        assert_eq!(refusal(&constant(lr)), Some(format!("schedule: lr is {lr}; {sizes}")));
    }
    let line = |start_factor, end_factor| Schedule::Linear { lr: 1.0, start_factor, end_factor, total_iters: 1 };
    assert_eq!([line(0.0, 1.0), line(1.0, 0.0)].map(|s| refusal(&s)), [None, None]);
    for x in [-0.1, 1.1, f64::NAN] {
        assert_eq!(refusal(&line(x, 0.5)), Some(format!("schedule: start_factor is {x}; {fractions}")));
        assert_eq!(refusal(&line(0.5, x)), Some(format!("schedule: end_factor is {x}; {fractions}")));
    }
    let step = |step_size, gamma| Schedule::Step { lr: 1.0, step_size, gamma };
    assert_eq!(refusal(&step(1, 0.0)), None);
    assert_eq!(refusal(&step(0, 0.5)).as_deref(), Some("schedule: step_size is 0; it must be 1 or more"));
    let why = Some("schedule: total is 10; it must be above warmup, which is 10");
    assert_eq!(refusal(&Schedule::cosine(1.0, 10, 10)).as_deref(), why);
    assert_eq!(refusal(&Schedule::cosine(1.0, 9, 10)), None);
    assert_eq!(refusal(&step(1, -0.5)), Some(format!("schedule: gamma is -0.5; {sizes}")));
    let refused = [
        Schedule::MultiStep { lr: 1.0, milestones: vec![], gamma: -1.0 },
        Schedule::Linear { lr: 1.0, start_factor: 0.5, end_factor: 0.5, total_iters: 0 },
        Schedule::Polynomial { lr: 1.0, total_iters: 0, power: 1.0 },
        Schedule::Polynomial { lr: 1.0, total_iters: 1, power: -1.0 },
        Schedule::InverseSqrt { lr: 1.0, warmup: 0, start_factor: 2.0, timescale: 1 },
        Schedule::InverseSqrt { lr: 1.0, warmup: 0, start_factor: 1.0, timescale: 0 },
        Schedule::Cosine { lr: 1.0, warmup: 0, start_factor: 1.0, total: 1, min_lr: -1.0 },
        Schedule::CosineRestarts { lr: 1.0, t_0: 0, t_mult: 1, min_lr: 0.0 },
        Schedule::CosineRestarts { lr: 1.0, t_0: 1, t_mult: 0, min_lr: 0.0 },
        Schedule::CosineRestarts { lr: 1.0, t_0: 1, t_mult: 1, min_lr: -1.0 },
    ];
    let named = refused.map(|s| refusal(&s).unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_string());
    let wanted = [
        "gamma",
        "total_iters",
        "total_iters",
        "power",
        "start_factor",
        "timescale",
        "min_lr",
        "t_0",
        "t_mult",
        "min_lr",
    ];
    assert_eq!(named, wanted);
}

#[test]
fn milestones_rise_and_stand_between_schedules() {
    let one = Schedule::Constant { lr: 1.0 };
    let multi = |milestones: &[u64]| refusal(&Schedule::multi_step(1.0, milestones));
    assert_eq!([multi(&[0, 0, 5]), multi(&[])], [None, None]);
    assert_eq!(multi(&[5, 2]).as_deref(), Some("schedule: milestones are [5, 2]; they must be in order"));
    let sequential = |n, milestones: &[u64]| {
        refusal(&Schedule::Sequential { schedules: vec![one.clone(); n], milestones: milestones.to_vec() })
    };
    assert_eq!([sequential(1, &[]), sequential(2, &[1]), sequential(3, &[1, 2])], [None, None, None]);
    let counts =
        |s: usize, need: usize, m: usize| Some(format!("schedule: {s} schedules need {need} milestones, not {m}"));
    assert_eq!(sequential(2, &[]), counts(2, 1, 0));
    assert_eq!(sequential(2, &[1, 2]), counts(2, 1, 2));
    assert_eq!(sequential(0, &[1]), counts(0, 0, 1));
    for bad in [[3, 3], [3, 2], [0, 2]] {
        let why = format!("schedule: milestones are {bad:?}; they must rise from 1 or more");
        assert_eq!(sequential(3, &bad), Some(why));
    }
    assert_eq!(refusal(&Schedule::Chained(vec![])).as_deref(), Some("schedule: it has no schedules"));
    let part = refusal(&Schedule::Chained(vec![one.clone(), Schedule::Constant { lr: -1.0 }]));
    assert_eq!(part.as_deref(), Some("part 1: schedule: lr is -1; it must be finite and not negative"));
    let nested = |n: usize| (0..n).fold(one.clone(), |s, _| Schedule::Chained(vec![s]));
    assert_eq!(refusal(&nested(8)), None);
    let deep = "part 0: ".repeat(9) + "schedule: schedules in schedules go 8 levels deep";
    assert_eq!(refusal(&nested(9)), Some(deep));
}
