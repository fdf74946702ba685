//! What a checkpoint holds beside the program's params and states, and its limits.

use super::*;
use crate::nodes::Init;
use crate::train::RateInput;
use crate::train::checkpoint::HEADER_LIMIT;
use std::sync::{Arc, Mutex};

/// The loss Σ w·x, with w = (1, 1) at first: a step subtracts the rate times x. A state keeps a number.
pub fn line() -> Program {
    let g = Builder::new("line");
    let w = g.param("w", [2], DType::F32, Init::Ones);
    let mark = g.state("mark", [1], DType::I64, Init::Zeros);
    g.output("seen", mark.cast(DType::F32));
    let loss = (g.input("x", [2], DType::F32) * w).sum(..).named("loss");
    let graph = train(&g.finish([loss]).unwrap(), "loss", optim::Sgd::new(1.0)).unwrap();
    Session::new().compile_traced(&graph).unwrap()
}

/// Writes x = (1, 2).
pub fn fill(p: &mut Program, _: &[u32]) -> Result<()> {
    p.values_mut::<f32>("x")?.copy_from_slice(&[1.0, 2.0]);
    Ok(())
}

fn streaming(rate: impl Into<Rate>) -> Trainer {
    Trainer::streaming(line(), "loss", rate, 5).unwrap()
}

/// The trainer's own tensors in the file: name, type and shape, bits of the numbers.
fn own(path: &Path) -> Vec<(String, String, Vec<u64>)> {
    let file = Loaded::open(path).unwrap();
    let own = file.entries().filter(|e| e.name.starts_with("train."));
    own.map(|e| (e.name.to_string(), format!("{}{:?}", e.dtype, e.dims), bytemuck::pod_collect_to_vec(e.bytes)))
        .collect()
}

#[test]
fn a_checkpoint_holds_counters_and_what_else_the_run_depends_on() {
    let path = file("own");
    let held = |t: &Trainer, want: &[(&str, &str, &[u64])]| {
        t.save(&path).unwrap();
        let want: Vec<_> = want.iter().map(|w| (w.0.to_string(), w.1.to_string(), w.2.to_vec())).collect();
        assert_eq!(own(&path), want);
    };
    let mut t = trainer(8, 3);
    run(&mut t, 5);
    let last = [Schedule::one_cycle(1e-2, 40).lr(4).to_bits()];
    let examples = ("train.examples", "i64[1]", &[11][..]);
    held(&t, &[("train.cursor", "i64[6]", &[1, 5, 2, 4, 3, 4]), examples, ("train.last_rate", "f64[1]", &last)]);
    let quarter = ("train.last_rate", "f64[1]", &[0.25f64.to_bits()][..]);
    let short = Batches::new(11, BATCH, 3).unwrap().partial(Partial::Short);
    let mut t = Trainer::new(program(8), "loss", QUARTER, short, 3).unwrap();
    run(&mut t, 2);
    let cursor = ("train.cursor", "i64[6]", &[1, 2, 0, 8, 3, 4][..]);
    held(&t, &[cursor, examples, quarter, ("train.partial", "i64[1]", &[2])]);
    let mut t = streaming(QUARTER);
    t.step(&mut fill).unwrap();
    held(&t, &[("train.cursor", "i64[6]", &[1, 1, 0, 1, 5, 0]), quarter, ("train.stream", "i64[1]", &[1])]);
    let mut t = streaming(Rate::of_metrics(|_: &RateInput| 0.25));
    t.step(&mut fill).unwrap();
    t.report(-0.5);
    let (cursor, stream) = ([1, 1, 0, 1, 5, 0], [1]);
    let rate = [3.0f64, -0.5].map(f64::to_bits);
    let all: [(&str, &str, &[u64]); 4] = [
        ("train.cursor", "i64[6]", &cursor),
        quarter,
        ("train.rate", "f64[2]", &rate),
        ("train.stream", "i64[1]", &stream),
    ];
    held(&t, &all);
    let mut t = streaming(crate::train::ReduceLrOnPlateau { patience: 1, cooldown: 4, factor: 0.5, ..plateau() });
    t.step(&mut fill).unwrap();
    [0.75, 2.0, 2.0, 2.0].into_iter().for_each(|metric| t.report(metric));
    // The second of the bad reports lowers the rate; one report of the cooldown follows.
    let rate = [3.0f64, 2.0, 0.125, 0.75, 0.0, 3.0].map(f64::to_bits);
    held(&t, &[all[0], quarter, ("train.rate", "f64[6]", &rate), all[3]]);
    std::fs::remove_file(path).unwrap();
}

fn plateau() -> crate::train::ReduceLrOnPlateau {
    crate::train::ReduceLrOnPlateau::new(0.25)
}

#[test]
fn a_rate_sees_the_last_loss_and_the_last_metric() {
    let path = file("seen");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let new = || {
        let seen = seen.clone();
        streaming(Rate::of_metrics(move |m: &RateInput| {
            seen.lock().unwrap().push((m.step, m.epoch, m.loss.to_string(), m.metric.to_string()));
            0.25
        }))
    };
    let mut t = new();
    t.step(&mut fill).unwrap();
    t.report(0.125);
    (0..2).for_each(|_| assert!(t.step(&mut fill).is_ok()));
    t.save(&path).unwrap();
    let mut second = new();
    second.restore(&path).unwrap();
    second.step(&mut fill).unwrap();
    let want = [(0, "NaN", "NaN"), (1, "3", "0.125"), (2, "1.75", "0.125"), (3, "0.5", "0.125")];
    let want = want.map(|(step, loss, metric)| (step, 0, loss.to_string(), metric.to_string()));
    assert_eq!(*seen.lock().unwrap(), want);
    assert_eq!(second.program().values::<f32>("w").unwrap(), [0.0, -1.0]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_step_may_have_a_rate_of_0() {
    let mut t = streaming(|_: u64| 0.0);
    let p = t.step(&mut fill).unwrap();
    assert_eq!((p.lr, t.program().values::<f32>("w").unwrap()), (0.0, &[1.0, 1.0][..]));
}

/// Only the optimiser's count of steps is bounded.
#[test]
fn other_tensors_of_eight_bytes_may_hold_anything() {
    let path = file("eight");
    let mut t = streaming(QUARTER);
    t.program_mut().values_mut::<i64>("mark").unwrap()[0] = -1;
    t.step(&mut fill).unwrap();
    t.save(&path).unwrap();
    let mut second = streaming(QUARTER);
    assert_eq!(second.restore(&path).unwrap(), Digest::Fits);
    let held = |t: &Trainer| -> Vec<Vec<u8>> { t.program().persistent().map(|(_, bytes)| bytes.to_vec()).collect() };
    assert_eq!((held(&second), second.program().values::<i64>("mark").unwrap()), (held(&t), &[-1][..]));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_file_that_is_longer_than_any_checkpoint_is_not_read() {
    let path = file("long");
    let mut t = streaming(QUARTER);
    let data: u64 = t.program().persistent().map(|(_, bytes)| bytes.len() as u64).sum();
    // Params and states, 100 MB of header, 65536 kept numbers.
    let most = data + 100_000_000 + 524_288;
    assert_eq!(most, data + HEADER_LIMIT + 8 * KEPT_LIMIT as u64);
    std::fs::File::create(&path).unwrap().set_len(most + 1).unwrap();
    let e = t.restore(&path).unwrap_err().to_string();
    assert_eq!(e, format!("{}: {} bytes, where at most {most} are expected", path.display(), most + 1));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn kept_numbers_of_another_type_or_rank_are_refused() {
    let path = file("kept");
    let mut t = streaming(QUARTER);
    t.kept("best", &[7.0]).unwrap();
    for (dtype, dims) in [(DType::I64, &[1][..]), (DType::F64, &[1, 1]), (DType::F64, &[]), (DType::F64, &[1])] {
        t.save(&path).unwrap();
        let file = Loaded::open(&path).unwrap();
        let new = |e: Entry<'_>| e.name == "train.kept.best";
        let all: Vec<Entry<'_>> = file.entries().map(|e| if new(e) { Entry { dtype, dims, ..e } } else { e }).collect();
        checkpoint::save(&path, &all).unwrap();
        let mut second = streaming(QUARTER);
        let done = second.restore(&path).map_err(|e| e.to_string());
        if (dtype, dims) == (DType::F64, &[1][..]) {
            assert_eq!((done, second.kept("best", &[0.0]).unwrap()), (Ok(Digest::Fits), &mut [7.0][..]));
            continue;
        }
        let why = format!("\"train.kept.best\" is {dtype}{dims:?} in the file; kept numbers are f64[n]");
        assert_eq!(done.unwrap_err(), format!("{}: {why}", path.display()));
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn as_many_numbers_are_kept_as_the_limit_says() {
    let mut t = streaming(QUARTER);
    t.kept("two", &[0.0; 2]).unwrap();
    t.kept("rest", &vec![0.0; KEPT_LIMIT - 2]).unwrap();
    let e = t.kept("more", &[0.0]).unwrap_err().to_string();
    assert_eq!(e, "\"more\" keeps 1 numbers, 65536 are kept; at most 65536");
}

#[test]
fn a_step_is_recorded_if_that_was_asked() {
    let mut t = streaming(QUARTER);
    let mut recorded = |ask: bool| {
        if ask {
            t.trace_next();
        }
        t.step(&mut fill).unwrap();
        [t.take_trace().is_some(), t.take_trace().is_some()]
    };
    assert_eq!([false, true, false].map(&mut recorded), [[false, false], [true, false], [false, false]]);
}
