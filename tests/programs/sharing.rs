//! Programs that read the params of one: no copies, no torn params, and what is refused.

use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::nn;
use arenagrad::optim::{self, train};
use arenagrad::session::{Program, Session};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const F32: DType = DType::F32;

fn net(g: &Builder, rows: usize) -> GraphBuf {
    let h = nn::linear(g, "fc1", g.input("x", [rows, 6], F32), 300).tanh();
    g.finish([nn::linear(g, "fc2", h, 3).named("y")]).unwrap()
}

/// The bits of the output for inputs of `seed`.
fn act(p: &mut Program, seed: usize) -> Vec<u32> {
    let (x, y) = (p.input::<f32>("x").unwrap(), p.output::<f32>("y").unwrap());
    p[x].iter_mut().enumerate().for_each(|(i, x)| *x = ((seed * 31 + i * 17) % 100) as f32 / 50.0 - 1.0);
    p.step().unwrap();
    p[y].iter().map(|y| y.to_bits()).collect()
}

fn address(p: &Program) -> *const f32 {
    p.values::<f32>("fc1.weight").unwrap().as_ptr()
}

#[test]
fn many_threads_answer_from_one_set_of_params() {
    let graph = net(&Builder::new("net"), 2);
    let mut alone = Session::new().compile(&graph).unwrap();
    alone.init(1).unwrap();
    let bytes = alone.export_bytes().unwrap();
    let compiled = || {
        let mut p = Session::new().compile(&graph).unwrap();
        p.init(1).unwrap();
        p
    };
    for mut p in [compiled(), Program::open_bytes(&bytes).unwrap()] {
        let want: Vec<_> = (0..40).map(|i| act(&mut alone, i)).collect();
        let first = act(&mut p, 0);
        let mut actors: Vec<Program> = (0..4).map(|_| p.share().unwrap()).collect();
        assert!(actors.iter().all(|a| address(a) == address(&p)), "the params were copied");
        // Handles of one are handles of all; inputs are each program's own.
        let (x, y) = (p.input::<f32>("x").unwrap(), p.output::<f32>("y").unwrap());
        assert_eq!(p[y].iter().map(|y| y.to_bits()).collect::<Vec<_>>(), first);
        assert!(actors[0].step().unwrap_err().message.contains("input \"x\""));
        actors[0][x].fill(0.25);
        assert_ne!(actors[0][x], p[x]);
        std::thread::scope(|threads| {
            for actor in &mut actors {
                threads.spawn(|| {
                    let got: Vec<_> = (0..40).map(|i| act(actor, i)).collect();
                    assert!(got == want);
                });
            }
            let got: Vec<_> = (0..40).map(|i| act(&mut p, i)).collect();
            assert!(got == want);
        });
    }
}

#[test]
fn params_that_are_written_reach_others_when_they_are_published() {
    let mut p = Session::new().compile(&net(&Builder::new("net"), 1)).unwrap();
    assert!(p.publish().unwrap_err().message.starts_with("nothing is published"));
    let mut actor = p.share().unwrap();
    assert!(actor.step().unwrap_err().message.contains("never written"));
    actor.mark_written("x").unwrap();
    let told = actor.step().unwrap_err().message;
    assert!(told.contains("the program that shares its params fills and publishes them"), "{told}");
    let told = actor.export_bytes().unwrap_err().message;
    assert!(told.contains("reads the params of another"), "{told}");
    p.init(1).unwrap();
    p.publish().unwrap();
    let before = act(&mut actor, 3);
    assert_eq!(act(&mut p, 3), before);
    // Until then the other keeps what it reads.
    p.values_mut::<f32>("fc2.bias").unwrap().fill(7.0);
    assert_eq!(act(&mut actor, 3), before);
    assert_ne!(act(&mut p, 3), before);
    p.publish().unwrap();
    assert_eq!(act(&mut actor, 3), act(&mut p, 3));
    assert_eq!(address(&actor), address(&p));
}

/// A learner that adds 1 to each element of its params in each step, and an actor that gives their least and greatest.
fn counter() -> Program {
    let g = Builder::new("learn");
    let (w, v) = (g.param("w", [5000], F32, Init::Zeros), g.param("v", [3000], F32, Init::Zeros));
    let learn = train(&g.finish([(-(w.sum(..) + v.sum(..))).named("loss")]).unwrap(), "loss", optim::Sgd::new(1.0));
    let g = Builder::new("act");
    let (w, v) = (g.param("w", [5000], F32, Init::Zeros), g.param("v", [3000], F32, Init::Zeros));
    for (name, x) in [("w_least", w.amin(..)), ("w_most", w.amax(..)), ("v_least", v.amin(..)), ("v_most", v.amax(..))]
    {
        g.output(name, x * 1.0);
    }
    let mut p = Session::new().compile_all(&[("learn", &learn.unwrap()), ("act", &g.finish([]).unwrap())]).unwrap();
    p.init(0).unwrap();
    p
}

#[test]
fn no_one_sees_params_of_two_steps_at_once() {
    let mut learner = counter();
    let mut actors: Vec<Program> = (0..4).map(|_| learner.share().unwrap()).collect();
    assert!(
        actors.iter().all(|a| a.values::<f32>("w").unwrap().as_ptr() == actors[0].values::<f32>("w").unwrap().as_ptr())
    );
    // Steps are made until all actors have seen params change, however late the system lets them run.
    let (over, steps, watching) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        for actor in &mut actors {
            let (over, steps, watching) = (&over, &steps, &watching);
            threads.spawn(move || {
                let m = actor.method("act").unwrap();
                let outputs = ["w_least", "w_most", "v_least", "v_most"];
                let outputs = outputs.map(|name| actor.output_of::<f32>(m, name).unwrap());
                let (mut last, mut seen) = (0.0, false);
                while !over.load(Ordering::Acquire) {
                    actor.run(m).unwrap();
                    let all = outputs.map(|o| actor[o][0]);
                    assert!(all == [all[0]; 4] && all[0] >= last, "{all:?} after {last}");
                    if all[0] > last {
                        watching.fetch_add(usize::from(!seen), Ordering::Relaxed);
                        seen = true;
                    }
                    last = all[0];
                }
                // What was published last is what they end with.
                actor.run(m).unwrap();
                assert_eq!(outputs.map(|o| actor[o][0]), [steps.load(Ordering::Relaxed) as f32; 4]);
            });
        }
        while steps.fetch_add(1, Ordering::Relaxed) < 600 || watching.load(Ordering::Relaxed) < 4 {
            learner.step().unwrap();
            learner.publish().unwrap();
        }
        steps.fetch_sub(1, Ordering::Relaxed);
        over.store(true, Ordering::Release);
    });
    assert_eq!(learner.values::<f32>("w").unwrap()[0], steps.into_inner() as f32);
}

#[test]
fn what_cannot_be_shared_or_written_says_why() {
    let mut learner = counter();
    let mut actor = learner.share().unwrap();
    let of = |e: arenagrad::Error, part: &str| assert!(e.message.contains(part), "{e}");
    of(actor.step().unwrap_err(), "method \"learn\" trains params");
    of(actor.share().err().unwrap(), "share that one");
    of(actor.publish().unwrap_err(), "nothing is published");
    of(actor.init(0).unwrap_err(), "param \"w\" is shared");
    of(actor.values_mut::<f32>("w").unwrap_err(), "param \"w\" is shared");
    of(actor.write_bytes("v", &[0; 12_000]).unwrap_err(), "param \"v\" is shared");
    of(actor.export_bytes().unwrap_err(), "cannot be exported");
    let g = Builder::new("g");
    let loss = g.param("w", [3], F32, Init::Ones).square().sum(..).named("loss");
    let step = train(&g.finish([loss]).unwrap(), "loss", optim::Sgd::new(0.1)).unwrap();
    of(Session::new().compile(&step).unwrap().share().err().unwrap(), "Session::compile_all");
    let traced = Session::new().compile_traced(&net(&Builder::new("net"), 1)).unwrap();
    of({ traced }.share().err().unwrap(), "cannot be shared");
}

#[cfg(target_os = "linux")]
#[test]
fn memory_is_brought_in_and_locked() {
    let locked = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("VmLck:")).unwrap().to_string();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
    };
    for rows in [1, 700] {
        let mut p = Session::new().compile(&net(&Builder::new("net"), rows)).unwrap();
        p.init(1).unwrap();
        p.prefault();
        let (before, want) = (locked(), act(&mut p, 1));
        match p.lock_memory() {
            Ok(()) => assert!(locked() >= before + p.plan().arena_bytes / 1024),
            // A machine's limit may be lower than a program.
            Err(e) => assert!(e.message.contains("are not locked in memory"), "{e}"),
        }
        assert_eq!(act(&mut p, 1), want);
        let _actor = p.share().unwrap();
        assert!(p.lock_memory().unwrap_err().message.contains("before the first `share`"));
    }
}

/// Each has states of its own: a running count.
#[test]
fn states_are_each_programs_own() {
    let g = Builder::new("count");
    let (n, w) = (g.state("n", [1], F32, Init::Zeros), g.param("w", [1], F32, Init::Ones));
    g.update(n, n + w);
    let mut p = Session::new().compile(&g.finish([(n * 1.0).named("y")]).unwrap()).unwrap();
    p.init(0).unwrap();
    p.step().unwrap();
    let mut q = p.share().unwrap();
    (0..3).for_each(|_| q.step().unwrap());
    p.step().unwrap();
    let n = |p: &Program| p.values::<f32>("n").unwrap()[0];
    assert_eq!((n(&p), n(&q)), (2.0, 4.0));
    // The program that shares is exported with its states, which lie in another block than its params.
    let opened = Program::open_bytes(&p.export_bytes().unwrap()).unwrap();
    assert_eq!((n(&opened), opened.values::<f32>("w").unwrap()[0]), (2.0, 1.0));
}
