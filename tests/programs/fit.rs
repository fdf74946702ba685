//! Loops of runs: what happens when, what ends them, and that a run that stops and resumes is the straight one.

use crate::trainer::{graph, persistent, scratch, write};
use arenagrad::error::{Error, Kind};
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::optim::{self, train};
use arenagrad::session::{Program, Session};
use arenagrad::train::{
    Batches, EarlyStopping, Ended, Event, Every, Fit, Fitted, Mode, NonFinite, Partial, Rate, ReduceLrOnPlateau,
    Schedule, Threshold, Trainer, stream,
};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;

const CONSTANT: Schedule = Schedule::Constant { lr: 1e-2 };

fn compile(graph: &GraphBuf) -> Program {
    Session::new().compile(graph).unwrap()
}

/// A plateau and shuffled batches of 4 out of 11 examples, the last batch filled up.
fn shuffled() -> Trainer {
    let plateau = ReduceLrOnPlateau::new(2e-2).patience(1).factor(0.5);
    let batches = Batches::new(11, 4, 7).unwrap().partial(Partial::Pad);
    Trainer::new(compile(&graph(4, true)), "loss", plateau, batches, 7).unwrap()
}

fn streamed() -> Trainer {
    let rate = Rate::of_metrics(|m| if m.metric > 0.4 { 2e-2 } else { 1e-2 });
    Trainer::streaming(compile(&graph(4, false)), "loss", rate, 5).unwrap()
}

fn source(epochs: u64) -> impl arenagrad::train::Source {
    let open = |e: u64| Ok((0u32..3).map(move |k| Ok([0, 1, 2, 3].map(|i| 50 * e as u32 + 4 * k + i))));
    stream(epochs, open, |p: &mut Program, which: [u32; 4]| write(p, &which).map(|_| 4))
}

/// The squared length of a weight: a metric that needs no data.
fn length(t: &mut Trainer) -> arenagrad::Result<f64> {
    Ok(t.program().values::<f32>("fc2.weight")?.iter().map(|&w| f64::from(w * w)).sum())
}

fn line(event: Event<'_>, t: &Trainer) -> String {
    match event {
        Event::Step(p) => {
            format!("step {} of epoch {}: {:x}, rate {:x}", p.step, p.epoch, p.loss.to_bits(), p.lr.to_bits())
        }
        Event::Epoch(epoch) => format!("epoch {epoch}"),
        Event::Evaluation(metric) => format!("metric {:x} after {}", metric.to_bits(), t.steps_done()),
        Event::Checkpoint(_) => "checkpoint".to_string(),
        other => panic!("{other:?}"),
    }
}

fn short(event: Event<'_>) -> String {
    match event {
        Event::Step(p) => format!("s{}", p.step),
        Event::Epoch(e) => format!("e{e}"),
        Event::Evaluation(_) => "m".to_string(),
        Event::Checkpoint(_) => "c".to_string(),
        other => panic!("{other:?}"),
    }
}

/// Runs until `stop` steps are done, and adds what happens to `log`; checkpoints at the end only count for a file.
fn part(t: &mut Trainer, path: &Path, stop: u64, log: &RefCell<Vec<String>>, feed_stream: bool) -> Fitted {
    let fit = Fit::new()
        .epochs(4)
        .evaluate(Every::Steps(2), length)
        .early_stopping(EarlyStopping::default().patience(20))
        .checkpoint(path, Every::Epochs(2))
        .callback(|event, t| {
            if !matches!(event, Event::Checkpoint(_)) {
                log.borrow_mut().push(line(event, t));
            }
            Ok(match event {
                Event::Step(p) if p.step == stop => ControlFlow::Break(format!("stop at {stop}")),
                _ => ControlFlow::Continue(()),
            })
        });
    match feed_stream {
        true => fit.run_from(t, &mut source(4)).unwrap(),
        false => fit.run(t, &mut write).unwrap(),
    }
}

/// Every piece of state at once: params, moments, random key, order or stream, plateau, early stopping.
#[test]
fn a_run_that_stops_and_resumes_anywhere_is_the_straight_one() {
    for (name, new, by_stream) in [
        ("fit-shuffled", &shuffled as &dyn Fn() -> Trainer, false),
        ("fit-stream", &streamed as &dyn Fn() -> Trainer, true),
    ] {
        let (path, other) = (scratch(name), scratch(&format!("{name}-straight")));
        let all = RefCell::new(Vec::new());
        let mut straight = new();
        let fitted = part(&mut straight, &other, u64::MAX, &all, by_stream);
        assert_eq!((fitted.ended, fitted.last.unwrap().step), (Ended::Epochs, 12));
        let all = all.into_inner();
        assert_eq!(all.len(), 12 + 4 + 6, "{all:?}");
        for stop in 1..12 {
            let log = RefCell::new(Vec::new());
            let first = part(&mut new(), &path, stop, &log, by_stream);
            assert_eq!(first.ended, Ended::Callback(format!("stop at {stop}")));
            let mut second = new();
            second.restore(&path).unwrap();
            assert_eq!(second.steps_done(), stop);
            part(&mut second, &path, u64::MAX, &log, by_stream);
            assert_eq!(log.into_inner(), all, "{name}: stopped after {stop}");
            assert_eq!(persistent(&second), persistent(&straight));
            assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&other).unwrap(), "{name}: {stop}");
        }
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(other).unwrap();
    }
}

#[test]
fn things_happen_in_order() {
    let path = scratch("order");
    let log = RefCell::new(Vec::new());
    let fitted = Fit::new()
        .steps(7)
        .evaluate(Every::Epochs(1), length)
        .checkpoint(&path, Every::Steps(3))
        .callback(|event, _| {
            log.borrow_mut().push(short(event));
            Ok(ControlFlow::Continue(()))
        })
        .run(&mut shuffled(), &mut write)
        .unwrap();
    assert_eq!(log.into_inner().join(" "), "s1 s2 s3 e0 m c s4 s5 s6 e1 m c s7 c");
    assert_eq!((fitted.ended, fitted.last.unwrap().step, fitted.metric.is_some()), (Ended::Steps, 7, true));
    // Nothing is left to do: nothing happens, and the file stays.
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut t = shuffled();
    t.restore(&path).unwrap();
    let fit = Fit::new().steps(7).checkpoint(&path, Every::Steps(1));
    let fit = fit.callback(|event, _| Err(Error::new(Kind::Data, short(event))));
    let fitted = fit.run(&mut t, &mut write).unwrap();
    assert_eq!((fitted.ended, fitted.last), (Ended::Steps, None));
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
    std::fs::remove_file(path).unwrap();
    let fitted = Fit::new().run_from(&mut streamed(), &mut source(2)).unwrap();
    assert_eq!((fitted.ended, fitted.last.unwrap().step), (Ended::Data, 6));
}

/// In events epochs count from 0.
#[test]
fn intervals_count_epochs_from_1() {
    for by_stream in [false, true] {
        let log = RefCell::new(Vec::new());
        let fit = Fit::new().epochs(4).evaluate(Every::Epochs(3), length).callback(|event, _| {
            log.borrow_mut().push(short(event));
            Ok(ControlFlow::Continue(()))
        });
        let fitted = match by_stream {
            true => fit.run_from(&mut streamed(), &mut source(4)),
            false => fit.run(&mut shuffled(), &mut write),
        };
        assert_eq!(fitted.unwrap().ended, Ended::Epochs);
        assert_eq!(log.into_inner().join(" "), "s1 s2 s3 e0 s4 s5 s6 e1 s7 s8 s9 e2 m s10 s11 s12 e3");
    }
}

#[test]
fn a_callback_may_end_the_run_at_each_event() {
    let path = scratch("break");
    for (last, steps) in [("s1", 1), ("s3", 3), ("e0", 3), ("m", 3), ("c", 3)] {
        let fit = Fit::new().steps(5).evaluate(Every::Epochs(1), length).checkpoint(&path, Every::Epochs(1));
        let fit = fit.callback(|event, _| match short(event) {
            event if event == last => Ok(ControlFlow::Break(event)),
            _ => Ok(ControlFlow::Continue(())),
        });
        let mut t = shuffled();
        let fitted = fit.run(&mut t, &mut write).unwrap();
        assert_eq!((fitted.ended, t.steps_done()), (Ended::Callback(last.to_string()), steps));
    }
    std::fs::remove_file(path).unwrap();
}

/// The plateau bears one metric that is no better than the first; the next halves the rate.
#[test]
fn an_evaluation_is_reported_to_the_rate() {
    let rates = RefCell::new(Vec::new());
    let fit = Fit::new().steps(4).evaluate(Every::Steps(1), |_| Ok(1.0)).callback(|event, _| {
        if let Event::Step(p) = event {
            rates.borrow_mut().push(p.lr);
        }
        Ok(ControlFlow::Continue(()))
    });
    fit.run(&mut shuffled(), &mut write).unwrap();
    assert_eq!(rates.into_inner(), [2e-2, 2e-2, 2e-2, 1e-2]);
}

#[test]
fn an_epoch_has_at_least_one_batch() {
    let run = |sizes: &'static [u32]| {
        let open = |epoch: u64| Ok((0..sizes[epoch as usize]).map(Ok));
        let fill = |p: &mut Program, k: u32| write(p, &[k, k + 1, k + 2, k + 3]).map(|_| 4);
        let mut t = streamed();
        let fitted = Fit::new().run_from(&mut t, &mut stream(sizes.len() as u64, open, fill));
        (fitted.map(|f| f.ended).map_err(|e| e.to_string()), t.steps_done(), t.epochs_done())
    };
    assert_eq!(run(&[1, 2, 1]), (Ok(Ended::Data), 4, 3));
    assert_eq!(run(&[1, 0, 1]), (Err("the source gives no batch in epoch 1".to_string()), 1, 1));
}

/// Trains on one method and evaluates on another of the same program, whose params it sees.
#[test]
fn methods_evaluate_what_trains() {
    let g = Builder::new("evaluate");
    let (x, y) = (g.input("x", [3, 3], DType::F32), g.input("y", [3, 1], DType::F32));
    let p = arenagrad::nn::linear(&g, "fc2", arenagrad::nn::linear(&g, "fc1", x, 5).tanh(), 1);
    let evaluate = g.finish([p.mse(y).named("loss")]).unwrap();
    let learn = graph(4, false);
    let p = Session::new().compile_all(&[("learn", &learn), ("evaluate", &evaluate)]).unwrap();
    let mut t = Trainer::new(p, "loss", CONSTANT, Batches::new(11, 4, 7).unwrap(), 7).unwrap();
    let metrics = RefCell::new(Vec::new());
    Fit::new()
        .steps(60)
        .evaluate(Every::Steps(20), |t| {
            let p = t.program_mut();
            let m = p.method("evaluate")?;
            write(p, &[0, 5, 9])?;
            p.run(m)?;
            Ok(f64::from(p[p.output_of::<f32>(m, "loss")?][0]))
        })
        .callback(|event, t| {
            if let Event::Evaluation(metric) = event {
                metrics.borrow_mut().push((t.steps_done(), metric));
            }
            Ok(ControlFlow::Continue(()))
        })
        .run(&mut t, &mut write)
        .unwrap();
    let metrics = metrics.into_inner();
    assert_eq!(metrics.iter().map(|m| m.0).collect::<Vec<_>>(), [20, 40, 60]);
    assert!(metrics[2].1 < metrics[0].1, "{metrics:?}");
}

#[test]
fn early_stopping_counts_and_stays_stopped() {
    let (path, best) = (scratch("early"), scratch("best"));
    let metrics = [5.0, 3.0, 4.0, 2.0, 2.0, f64::NAN, 2.5, 0.0];
    let stopping = EarlyStopping::default().patience(2);
    let run = |t: &mut Trainer| {
        Fit::new()
            .evaluate(Every::Steps(1), |t| Ok(metrics[t.steps_done() as usize - 1]))
            .early_stopping(stopping)
            .keep_best(&best)
            .checkpoint(&path, Every::Steps(1))
            .run(t, &mut write)
            .unwrap()
    };
    let mut t = shuffled();
    let fitted = run(&mut t);
    assert_eq!((fitted.ended, fitted.metric, t.steps_done()), (Ended::EarlyStopping, Some(2.5), 7));
    let found = stopping.best(&mut t).unwrap();
    assert_eq!((found.metric, found.step, found.since), (2.0, 4, 3));
    let mut resumed = shuffled();
    resumed.restore(&path).unwrap();
    assert_eq!((run(&mut resumed).ended, resumed.steps_done()), (Ended::EarlyStopping, 7));
    resumed.restore(&best).unwrap();
    assert_eq!(resumed.steps_done(), 4);
    // Large metrics may be the good ones.
    let most = EarlyStopping::default().mode(Mode::Max).patience(0).threshold(Threshold::Relative(0.5));
    let mut t = shuffled();
    let rising = [1.0, 1.6, 2.0];
    let fit = Fit::new().evaluate(Every::Steps(1), |t| Ok(rising[t.steps_done() as usize - 1])).early_stopping(most);
    assert_eq!((fit.run(&mut t, &mut write).unwrap().ended, t.steps_done()), (Ended::EarlyStopping, 3));
    // A constant metric below 0 gets no better.
    for mode in [Mode::Min, Mode::Max] {
        let none = EarlyStopping::default().mode(mode).patience(2).threshold(Threshold::Relative(1e-4));
        let mut t = shuffled();
        let fit = Fit::new().steps(9).evaluate(Every::Steps(1), |_| Ok(-1.0)).early_stopping(none);
        assert_eq!((fit.run(&mut t, &mut write).unwrap().ended, t.steps_done()), (Ended::EarlyStopping, 4));
    }
    [path, best].iter().for_each(|p| std::fs::remove_file(p).unwrap());
}

#[test]
fn nothing_is_the_best_before_a_metric_that_counts() {
    let stopping = EarlyStopping::default();
    assert_eq!(stopping, EarlyStopping::default().mode(Mode::Min).patience(10).threshold(Threshold::Absolute(0.0)));
    let mut t = shuffled();
    let best = |t: &mut Trainer| {
        let best = stopping.best(t).unwrap();
        (best.metric, best.step, best.since)
    };
    assert_eq!(best(&mut t), (f64::INFINITY, 0, 0));
    assert!(!stopping.count(&mut t, f64::NAN).unwrap());
    assert_eq!(best(&mut t), (f64::INFINITY, 0, 1));
}

#[test]
fn an_error_of_a_source_leaves_a_checkpoint_to_resume_from() {
    let path = scratch("source");
    let failing = |at: u32| {
        let open = move |_| {
            let item = move |k: u32| if k == at { Err(Error::new(Kind::Io, "a bad sector")) } else { Ok(k) };
            Ok((0u32..8).map(item))
        };
        stream(1, open, |p: &mut Program, k: u32| write(p, &[k, k + 1, k + 2, k + 3]).map(|_| 4))
    };
    let mut t = streamed();
    let fit = || Fit::new().checkpoint(&path, Every::Steps(100));
    let e = fit().run_from(&mut t, &mut failing(5)).unwrap_err();
    let shown = path.display();
    assert_eq!(e.to_string(), format!("batch 5 of epoch 0: a bad sector; {shown} holds the run before this step"));
    let mut resumed = streamed();
    resumed.restore(&path).unwrap();
    assert_eq!(resumed.steps_done(), 5);
    fit().run_from(&mut resumed, &mut failing(99)).unwrap();
    let mut straight = streamed();
    Fit::new().run_from(&mut straight, &mut failing(99)).unwrap();
    assert_eq!(persistent(&resumed), persistent(&straight));
    // A run that has done nothing yet replaces no file.
    std::fs::write(&path, "another run's").unwrap();
    let e = fit().run_from(&mut streamed(), &mut failing(0)).unwrap_err().to_string();
    assert_eq!(e, "batch 0 of epoch 0: a bad sector");
    assert_eq!(std::fs::read(&path).unwrap(), b"another run's");
    std::fs::remove_file(path).unwrap();
    // An error of an evaluation names its step.
    let broken = |_: &mut Trainer| Err(Error::new(Kind::Data, "no data"));
    let e = Fit::new().steps(3).evaluate(Every::Steps(2), broken).run(&mut shuffled(), &mut write).unwrap_err();
    assert_eq!(e.to_string(), "evaluation after step 2: no data");
}

/// `w` goes down by `0.1·x` a step, and the loss is `w·x`.
fn descending() -> Trainer {
    let g = Builder::new("line");
    let w = g.param("w", [1], DType::F32, Init::Ones);
    let loss = (g.input("x", [1], DType::F32) * w).sum(..);
    let step = train(&g.finish([loss.named("loss")]).unwrap(), "loss", optim::Sgd::new(0.1)).unwrap();
    Trainer::streaming(compile(&step), "loss", Schedule::Constant { lr: 0.1 }, 0).unwrap()
}

/// Steps on these values of `x`.
fn feed(fit: Fit<'_>, t: &mut Trainer, xs: &'static [f32]) -> arenagrad::Result<Fitted> {
    let open = |_| Ok(xs.iter().map(|&x| Ok(x)));
    let write = |p: &mut Program, x: f32| {
        p.values_mut::<f32>("x")?[0] = x;
        Ok(1)
    };
    fit.run_from(t, &mut stream(1, open, write))
}

#[test]
fn a_diverged_run_keeps_its_last_good_checkpoint() {
    let path = scratch("diverged");
    let fit = || Fit::new().checkpoint(&path, Every::Steps(2));
    let e = feed(fit(), &mut descending(), &[1.0, 1.0, 1.0, f32::NAN]).unwrap_err();
    assert_eq!(e.kind, Kind::Diverged);
    for part in ["the loss of step 4 is NaN", "find_nan", &format!("the last good checkpoint is {}", path.display())] {
        assert!(e.to_string().contains(part), "{e}");
    }
    let mut t = descending();
    t.restore(&path).unwrap();
    assert_eq!((t.steps_done(), t.program().values::<f32>("w").unwrap()), (2, &[1.0 - 0.1 - 0.1][..]));
    // Before the first checkpoint there is none to name.
    std::fs::remove_file(&path).unwrap();
    let runs: [&'static [f32]; 2] = [&[f32::NAN], &[1.0, f32::NAN]];
    for xs in runs {
        let e = feed(fit(), &mut descending(), xs).unwrap_err();
        assert_eq!(e.kind, Kind::Diverged);
        assert_eq!(e.to_string(), feed(Fit::new(), &mut descending(), xs).unwrap_err().to_string());
        assert!(!path.exists());
    }
    // A file of another run is not called good.
    descending().save(&path).unwrap();
    let e = feed(fit(), &mut descending(), &[f32::NAN]).unwrap_err().to_string();
    assert!(e.ends_with("is as it was before this run"), "{e}");
    std::fs::remove_file(&path).unwrap();
}

/// A division by zero that reads the new value of a state is found before the state changes.
#[test]
fn a_step_that_stops_changes_nothing_and_the_checkpoint_holds_the_run_before_it() {
    let g = Builder::new("half");
    let w = g.param("w", [1], DType::F32, Init::Ones);
    let s = g.state("s", [4], DType::F32, Init::Ones);
    let next = s * 2.0;
    g.update(s, next);
    let x = g.input("x", [1], DType::F32);
    let loss = (x * w).sum(..);
    let rest = next.cast(DType::I64).remainder(x.cast(DType::I64).broadcast([4]));
    let graph = g.finish([loss.named("loss"), rest.named("rest")]).unwrap();
    let step = train(&graph, "loss", optim::Sgd::new(0.1)).unwrap();
    let mut t = Trainer::streaming(compile(&step), "loss", Schedule::Constant { lr: 0.1 }, 0).unwrap();
    let path = scratch("half");
    let e = feed(Fit::new().checkpoint(&path, Every::Steps(2)), &mut t, &[1.0, 1.0, 1.0, 0.0]).unwrap_err();
    assert!(e.kind == Kind::Data && e.message.contains("element 0 of the divisor is 0"), "{e}");
    assert!(!e.message.contains("may be changed"), "{e}");
    assert!(e.message.contains(&format!("{} holds the run before this step", path.display())), "{e}");
    assert_eq!(t.program().values::<f32>("s").unwrap(), [8.0; 4]);
    t.restore(&path).unwrap();
    assert_eq!((t.steps_done(), t.program().values::<f32>("s").unwrap()), (3, &[8.0; 4][..]));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_param_that_is_not_finite_replaces_no_checkpoint() {
    let path = scratch("params");
    let spoil = |event: Event<'_>, t: &mut Trainer| {
        if let Event::Step(p) = event
            && p.step == 3
        {
            t.program_mut().values_mut::<f32>("w")?[0] = f32::NEG_INFINITY;
        }
        Ok(ControlFlow::Continue(()))
    };
    let fit = || Fit::new().callback(spoil).checkpoint(&path, Every::Steps(1));
    let e = feed(fit(), &mut descending(), &[1.0; 3]).unwrap_err();
    let shown = path.display();
    let want = format!("\"w\" is not finite after step 3, though the loss before was; the checkpoint {shown} is kept");
    assert!(e.kind == Kind::Diverged && e.to_string().starts_with(&want), "{e}");
    let mut t = descending();
    t.restore(&path).unwrap();
    assert_eq!(t.steps_done(), 2);
    // By choice a run goes on, and its checkpoints are what it has.
    let mut on = descending().on_non_finite(NonFinite::GoOn);
    assert_eq!(feed(fit(), &mut on, &[1.0; 3]).unwrap().ended, Ended::Data);
    t.restore(&path).unwrap();
    assert_eq!(t.program().values::<f32>("w").unwrap(), [f32::NEG_INFINITY]);
    std::fs::remove_file(&path).unwrap();
    // Before the first checkpoint there is none to name.
    let first = Fit::new().callback(spoil).checkpoint(&path, Every::Steps(3));
    let e = feed(first, &mut descending(), &[1.0; 3]).unwrap_err().to_string();
    assert!(e.contains("though the loss before was; Session::find_nan ("), "{e}");
    assert!(!path.exists());
}

#[test]
fn loops_without_sense_are_refused() {
    let refused = |fit: Fit<'_>, part: &str| {
        let mut t = shuffled();
        let e = fit.run(&mut t, &mut write).unwrap_err();
        assert!(e.kind == Kind::Data && e.to_string() == format!("fit: {part}"), "{e}");
        assert_eq!(t.steps_done(), 0);
    };
    let zero = "something happens every 0 steps or epochs; give at least 1";
    refused(Fit::new().steps(3).evaluate(Every::Steps(0), length), zero);
    refused(Fit::new().steps(3).checkpoint("never", Every::Epochs(0)), zero);
    refused(Fit::new().steps(3).early_stopping(EarlyStopping::default()), "early stopping needs an evaluation");
    let best = Fit::new().steps(3).evaluate(Every::Steps(1), length).keep_best("never");
    refused(best, "the best checkpoint is that of early stopping, which is not given");
    refused(Fit::new(), "nothing ends the run; give steps, epochs, early stopping or a callback");
    let bad = EarlyStopping::default().threshold(Threshold::Relative(f64::NAN));
    let fit = Fit::new().evaluate(Every::Steps(1), length).early_stopping(bad);
    let e = fit.run(&mut shuffled(), &mut write).unwrap_err().to_string();
    assert_eq!(e, "early stopping: threshold is NaN");
    let one_by_one = |fit: Fit<'_>| fit.run(&mut streamed(), &mut |_, _| Ok(())).unwrap_err().to_string();
    for fit in [Fit::new().epochs(3), Fit::new().steps(3).evaluate(Every::Epochs(1), length)] {
        assert_eq!(
            one_by_one(fit),
            "fit: batches that the caller writes one by one have no epochs; count steps, or give a source"
        );
    }
    let e = Fit::new().steps(1).run_from(&mut shuffled(), &mut source(1)).unwrap_err().to_string();
    assert!(e.contains("shuffled batches; call Trainer::step"), "{e}");
}

#[test]
fn one_of_two_intervals_may_be_wrong() {
    let both = |every| Fit::new().steps(3).evaluate(Every::Steps(1), length).checkpoint("never", every);
    let e = both(Every::Steps(0)).run(&mut shuffled(), &mut write).unwrap_err().to_string();
    assert_eq!(e, "fit: something happens every 0 steps or epochs; give at least 1");
    let e = both(Every::Epochs(1)).run(&mut streamed(), &mut |_, _| Ok(())).unwrap_err().to_string();
    assert!(e.starts_with("fit: batches that the caller writes one by one have no epochs"), "{e}");
}

#[test]
fn each_end_is_enough() {
    let ended = |fit: Fit<'_>| {
        let mut t = shuffled();
        let fitted = fit.run(&mut t, &mut write).unwrap();
        (fitted.ended, t.steps_done(), fitted.metric)
    };
    assert_eq!(ended(Fit::new().steps(2)), (Ended::Steps, 2, None));
    // Three batches are an epoch.
    assert_eq!(ended(Fit::new().epochs(1)), (Ended::Epochs, 3, None));
    let enough = Fit::new().callback(|_, _| Ok(ControlFlow::Break("enough".to_string())));
    assert_eq!(ended(enough), (Ended::Callback("enough".to_string()), 1, None));
    // The first metric is the best, and one worse is borne.
    let stopping = EarlyStopping::default().patience(1);
    let fit = Fit::new().evaluate(Every::Steps(2), |_| Ok(1.5)).early_stopping(stopping);
    assert_eq!(ended(fit), (Ended::EarlyStopping, 6, Some(1.5)));
    let mut t = streamed();
    let fitted = Fit::new().steps(2).run(&mut t, &mut |p, _| write(p, &[0, 1, 2, 3])).unwrap();
    assert_eq!((fitted.ended, t.steps_done()), (Ended::Steps, 2));
}
