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
    cycle(25.0, 1e4).validate().unwrap();
    for x in [0.0, -25.0, f64::INFINITY, f64::NAN] {
        for (name, schedule) in [("div_factor", cycle(x, 1e4)), ("final_div_factor", cycle(25.0, x))] {
            let e = schedule.validate().unwrap_err().message;
            assert_eq!(e, format!("schedule: {name} is {x}; it must be finite and above 0"));
        }
    }
}
