//! Batches of streams: when a source seeks, what a step does, which counters a run comes to.

use super::saved::{fill, line};
use super::*;
use crate::train::{StreamPosition, Supply, stream};
use std::cell::RefCell;
use std::rc::Rc;

/// A source that gives what it was told, or fails, and writes down its calls.
struct Told(Vec<Option<Supply>>, Vec<String>);

impl Source for Told {
    fn next(&mut self, program: &mut Program) -> Result<Supply> {
        self.1.push("next".to_string());
        fill(program, &[])?;
        self.0.remove(0).ok_or_else(|| Error::new(Kind::Io, "the disk is gone"))
    }

    fn seek(&mut self, to: StreamPosition) -> Result<()> {
        self.1.push(format!("seek {}.{}", to.epoch, to.batch));
        Ok(())
    }
}

const CONSTANT: Schedule = Schedule::Constant { lr: 0.25 };

#[test]
fn a_source_seeks_only_if_it_may_be_elsewhere() {
    let batch = Some(Supply::Batch(1));
    let (over, end) = (Some(Supply::EndOfEpoch), Some(Supply::End));
    let mut source = Told(vec![batch, batch, over, batch, None, batch, end, end, batch], Vec::new());
    let mut t = Trainer::streaming(line(), "loss", CONSTANT, 5).unwrap();
    let mut steps = |t: &mut Trainer| t.step_from(&mut source).map(|p| p.map(|p| (p.step, p.epoch, p.examples)));
    assert_eq!(steps(&mut t), Ok(Some((1, 0, 1))));
    assert_eq!(steps(&mut t), Ok(Some((2, 0, 1))));
    assert_eq!(steps(&mut t), Ok(Some((3, 1, 1))));
    assert_eq!(steps(&mut t).unwrap_err().to_string(), "batch 1 of epoch 1: the disk is gone");
    assert_eq!(steps(&mut t), Ok(Some((4, 1, 1))));
    assert_eq!([steps(&mut t), steps(&mut t)], [Ok(None), Ok(None)]);
    // The caller takes a batch that the source has not given.
    let p = t.step(&mut fill).unwrap();
    assert_eq!((p.step, p.epoch, p.examples, t.batches_taken()), (5, 1, 0, 5));
    assert_eq!(steps(&mut t), Ok(Some((6, 1, 1))));
    let calls = "next, next, next, next, next, seek 1.1, next, next, next, seek 1.3, next";
    assert_eq!(source.1.join(", "), calls);
}

/// Two epochs of three items. Each is closed before another opens, and no other is opened.
#[test]
fn a_stream_goes_where_it_is_told() {
    let (shared, opened) = (Rc::new(()), RefCell::new(Vec::new()));
    let open = |epoch: u64| {
        opened.borrow_mut().push((epoch, Rc::strong_count(&shared)));
        Ok((0..3).zip(std::iter::repeat(shared.clone())).map(move |(k, _)| Ok(10 * epoch as usize + k)))
    };
    let mut source = stream(2, open, |_: &mut Program, item: usize| Ok(item));
    let mut p = line();
    let mut after = |epoch, batch| {
        source.seek(StreamPosition { epoch, batch }).unwrap();
        source.next(&mut p).unwrap()
    };
    assert_eq!([after(0, 0), after(0, 0), after(1, 2), after(1, 0)], [0, 0, 12, 10].map(Supply::Batch));
    assert_eq!(after(1, 3), Supply::EndOfEpoch);
    assert_eq!([after(2, 0), after(2, 1), after(7, 4)], [Supply::End; 3]);
    assert_eq!(*opened.borrow(), [(0, 1), (0, 1), (1, 1), (1, 1), (1, 1)]);
}

/// A step of a source, and one of the caller's.
#[test]
fn the_rate_of_a_streamed_step_reaches_the_program() {
    let mut t = Trainer::streaming(line(), "loss", |step: u64| 0.5 / (1.0 + step as f64), 5).unwrap();
    let mut source = Told(vec![Some(Supply::Batch(1))], Vec::new());
    let p = t.step_from(&mut source).unwrap().unwrap();
    assert_eq!((p.loss, p.lr, t.program().values::<f32>("w").unwrap()), (3.0, 0.5, &[0.5, 0.0][..]));
    let p = t.step(&mut fill).unwrap();
    assert_eq!((p.loss, p.lr, t.program().values::<f32>("w").unwrap()), (0.5, 0.25, &[0.25, -0.5][..]));
}

#[test]
fn a_size_has_one_method() {
    let g = Builder::new("line");
    let loss = g.param("w", [2], DType::F32, crate::nodes::Init::Ones).sum(..).named("loss");
    let step = train(&g.finish([loss]).unwrap(), "loss", optim::Sgd::new(1.0)).unwrap();
    let p = Session::new().compile_all(&[("step", &step), ("one", &step)]).unwrap();
    let one = p.method("one").unwrap();
    let t = Trainer::streaming(p, "loss", CONSTANT, 5).unwrap().method_of(1, one).unwrap();
    let e = t.method_of(1, one).err().unwrap().to_string();
    assert_eq!(e, "there is a method for batches of 1 examples");
}

/// After five batches of the first epoch.
#[test]
fn counters_that_no_stream_comes_to_are_refused() {
    let path = file("counters");
    let new = || Trainer::streaming(program(8), "loss", CONSTANT, 3).unwrap();
    let restored = |name: &str, at: usize, x: i64| {
        edited_of(new(), &path, name, |numbers| numbers[at] = x);
        let mut t = new();
        let done = t.restore(&path).map_err(|e| e.to_string());
        (done, t.steps_done(), t.epoch(), t.batches_taken())
    };
    const STREAM: &str = "train.stream";
    assert_eq!(restored(CURSOR, 1, 5), (Ok(Digest::Fits), 5, 0, 5));
    assert_eq!(restored(CURSOR, 1, 4), (Ok(Digest::Fits), 4, 0, 5));
    assert_eq!(restored(CURSOR, 2, 1 << 53), (Ok(Digest::Fits), 5, 1 << 53, 5));
    assert_eq!(restored(STREAM, 0, 1 << 53), (Ok(Digest::Fits), 5, 0, 1 << 53));
    for (name, at, x, told) in [
        (CURSOR, 1, 6, "step 6 at epoch 0, position 5, before which are 5 batches"),
        (CURSOR, 2, (1 << 53) + 1, "step 5 at epoch 9007199254740993, position 5, before which are 5 batches"),
        (CURSOR, 2, -1, "step 5 at epoch 18446744073709551615, position 5, before which are 5 batches"),
        (CURSOR, 3, 6, "step 5 at epoch 0, position 6, before which are 5 batches"),
        (STREAM, 0, (1 << 53) + 1, "position 5, before which are 9007199254740993 batches"),
    ] {
        let (done, steps, epoch, taken) = restored(name, at, x);
        let e = done.unwrap_err();
        assert!(e.contains(told), "{e:?} should mention {told:?}");
        assert_eq!((steps, epoch, taken), (0, 0, 0));
    }
    std::fs::remove_file(path).unwrap();
}
