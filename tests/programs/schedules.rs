//! Learning-rate schedules against torch's schedulers: `tests/torch/schedules.py` printed what they make of 130 steps.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::train::Schedule;
use safetensors::SafeTensors;
use std::path::Path;

const LR: f64 = 0.07;

fn restarts(t_0: u64, t_mult: u64, min_lr: f64) -> Schedule {
    Schedule::CosineRestarts { lr: LR, t_0, t_mult, min_lr }
}

/// The schedules of the script, by its names.
fn variants() -> Vec<(&'static str, Schedule)> {
    let linear =
        |lr, start_factor, end_factor, total_iters| Schedule::Linear { lr, start_factor, end_factor, total_iters };
    let step = |lr, step_size, gamma| Schedule::Step { lr, step_size, gamma };
    let inverse = |warmup, start_factor, timescale| Schedule::InverseSqrt { lr: LR, warmup, start_factor, timescale };
    let cosine = Schedule::Cosine { lr: LR, warmup: 0, start_factor: 1.0, total: 118, min_lr: 0.002 };
    let halves = Schedule::MultiStep { lr: LR, milestones: vec![10, 50], gamma: 0.5 };
    let polynomial = |total_iters, power| Schedule::Polynomial { lr: LR, total_iters, power };
    vec![
        ("constant", Schedule::constant_factor(LR)),
        ("constant_long", Schedule::ConstantFactor { lr: LR, factor: 0.25, total_iters: 77 }),
        ("multi_step", Schedule::MultiStep { lr: LR, milestones: vec![3, 20, 20, 77], gamma: 0.3 }),
        ("multi_step_default", Schedule::multi_step(LR, [30, 80])),
        ("linear", Schedule::linear(LR, 40)),
        ("linear_down", linear(LR, 0.9, 0.05, 33)),
        ("polynomial", Schedule::polynomial(LR, 60)),
        ("polynomial_square", polynomial(101, 2.5)),
        ("restarts", Schedule::cosine_restarts(LR, 13)),
        ("restarts_twice", restarts(5, 2, 0.003)),
        ("restarts_thrice", restarts(1, 3, 0.0)),
        ("inverse_sqrt", Schedule::inverse_sqrt(LR, 16)),
        ("inverse_sqrt_scaled", inverse(10, 0.0, 50)),
        ("inverse_sqrt_cold", Schedule::inverse_sqrt(LR, 0)),
        ("chained", Schedule::Chained(vec![halves, linear(1.0, 0.2, 1.0, 20), step(1.0, 7, 0.9)])),
        (
            "sequential",
            Schedule::Sequential { schedules: vec![linear(LR, 0.1, 1.0, 12), cosine], milestones: vec![12] },
        ),
        (
            "sequential_three",
            Schedule::Sequential {
                schedules: vec![polynomial(20, 2.0), step(LR, 5, 0.7), restarts(9, 2, 0.001)],
                milestones: vec![15, 40],
            },
        ),
    ]
}

#[test]
fn rates_are_torchs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/schedules.safetensors");
    let bytes = std::fs::read(path).unwrap();
    let fixture = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(fixture.len(), variants().len());
    for (name, schedule) in variants() {
        schedule.validate().unwrap();
        let theirs = fixture.tensor(name).unwrap();
        let theirs: Vec<f64> = theirs.data().as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect();
        assert_eq!(theirs.len(), 130, "{name}");
        for (t, &want) in theirs.iter().enumerate() {
            let got = schedule.lr(t as u64);
            // torch multiplies the rate of one step to get the next, so its rounding errors add up.
            assert!((got - want).abs() <= 1e-12 * LR, "{name} at {t}: {got}, not {want}");
        }
    }
}

#[test]
fn rates_far_away_are_finite() {
    for (name, schedule) in variants() {
        for t in [1 << 20, 1 << 40, 1 << 53, u64::MAX] {
            let lr = schedule.lr(t);
            assert!(lr.is_finite() && lr >= 0.0, "{name} at {t}: {lr}");
        }
    }
    // Lengths that overflow 64 bits hold still.
    let huge = Schedule::CosineRestarts { lr: 1.0, t_0: 1 << 40, t_mult: u64::MAX, min_lr: 0.0 };
    assert!(huge.lr(u64::MAX).is_finite());
}

#[test]
fn bad_schedules_are_refused_by_name() {
    let says = |s: Schedule, text: &str| {
        let e = s.validate().unwrap_err().to_string();
        assert!(e.contains(text), "{e}");
    };
    let linear = |start_factor, end_factor| Schedule::Linear { lr: 1.0, start_factor, end_factor, total_iters: 5 };
    says(linear(1.5, 1.0), "start_factor is 1.5; it must lie in [0, 1]");
    says(linear(0.5, f64::NAN), "end_factor is NaN");
    says(Schedule::linear(1.0, 0), "total_iters is 0; it must be 1 or more");
    says(Schedule::linear(-1.0, 5), "lr is -1");
    says(Schedule::Polynomial { lr: 1.0, total_iters: 5, power: -1.0 }, "power is -1");
    says(Schedule::multi_step(1.0, [5, 3]), "milestones are [5, 3]; they must be in order");
    says(Schedule::MultiStep { lr: 1.0, milestones: vec![], gamma: -0.5 }, "gamma is -0.5");
    says(Schedule::InverseSqrt { lr: 1.0, warmup: 0, start_factor: 0.0, timescale: 0 }, "timescale is 0");
    says(restarts(0, 1, 0.0), "t_0 is 0");
    says(restarts(3, 0, 0.0), "t_mult is 0");
    says(restarts(3, 1, f64::INFINITY), "min_lr is inf");
    says(Schedule::Chained(vec![]), "no schedules");
    let two = || vec![Schedule::linear(1.0, 5), Schedule::cosine(1.0, 0, 9)];
    let sequential = |milestones: &[u64]| Schedule::Sequential { schedules: two(), milestones: milestones.to_vec() };
    says(sequential(&[]), "2 schedules need 1 milestones, not 0");
    says(sequential(&[0]), "they must rise from 1 or more");
    says(Schedule::Chained(vec![Schedule::linear(1.0, 5), restarts(0, 1, 0.0)]), "part 1: schedule: t_0 is 0");
    let deep = (0..20).fold(Schedule::linear(1.0, 5), |s, _| Schedule::Chained(vec![s]));
    says(deep, "levels deep");
    let three = Schedule::Sequential { schedules: [two(), two()].concat(), milestones: vec![4, 4, 9] };
    says(three, "milestones are [4, 4, 9]");
}
