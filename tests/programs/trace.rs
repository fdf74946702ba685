//! Recorded steps: they give the bits of others, and tell what each thread did.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::session::{Program, Session, Trace, WAIT};

const LENGTH: u64 = 4;

/// A step with products, a loop that threads share, one that they do not, and updates.
fn graph() -> GraphBuf {
    let g = Builder::new("g");
    let x = g.input("x", [64, 256], DType::F32);
    let w = g.param("w", [256, 128], DType::F32, Init::Normal(0.1));
    let h = x.matmul(w).tanh();
    let s = g.state("s", [128], DType::F32, Init::Zeros);
    g.update(s, s * 0.9 + h.sum([0]));
    g.update(w, w - x.transpose(&[1, 0]).matmul(h) * 1e-3);
    g.output("loss", (h * h).mean(..));
    let square = g.param("square", [128, 128], DType::F32, Init::Normal(0.05));
    let (last, rows) = g.scan(&[h], &[g.full(0.5, [LENGTH as usize, 64, 128], DType::F32)], |h, x| {
        let h = (h[0].matmul(square) + x[0]).tanh();
        (vec![h], vec![h.sum([1])])
    });
    g.output("last", last[0]);
    g.output("rows", rows[0]);
    let (small, _) = g
        .scan(&[s], &[g.full(0.1, [LENGTH as usize, 128], DType::F32)], |h, x| (vec![(h[0] + x[0]).sigmoid()], vec![]));
    g.output("small", small[0]);
    g.finish([]).unwrap()
}

fn program(threads: usize, traced: bool) -> Program {
    let session = Session::new().threads(threads);
    let mut p = if traced { session.compile_traced(&graph()) } else { session.compile(&graph()) }.unwrap();
    p.init(3).unwrap();
    p.values_mut::<f32>("x").unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * 0.37).sin());
    p
}

fn all_bytes(p: &Program) -> Vec<Vec<u8>> {
    p.bindings().iter().map(|b| p.bytes_of(b).to_vec()).collect()
}

#[test]
fn a_recorded_step_gives_the_bits_of_another() {
    for threads in [1, 2, 3] {
        let (mut a, mut b) = (program(threads, false), program(threads, true));
        for _ in 0..3 {
            a.step().unwrap();
            b.step_traced().unwrap();
            assert_eq!(all_bytes(&a), all_bytes(&b));
        }
        b.step().unwrap();
        a.step().unwrap();
        assert_eq!(all_bytes(&a), all_bytes(&b));
    }
}

/// How often each thread ran each instruction.
fn counts(t: &Trace) -> Vec<Vec<u64>> {
    let of = |thread: &Vec<_>| {
        let mut n = vec![0; t.calls.len()];
        thread.iter().for_each(|e: &arenagrad::session::Event| {
            if e.instr != WAIT {
                n[e.instr as usize] += 1;
            }
        });
        n
    };
    t.threads.iter().map(of).collect()
}

#[test]
fn each_instruction_is_recorded_as_often_as_it_runs() {
    for threads in [1, 2] {
        let mut p = program(threads, true);
        let first = p.step_traced().unwrap();
        let t = p.step_traced().unwrap();
        assert_eq!((t.threads.len(), t.dropped, p.threads()), (threads, 0, threads));
        let counts = counts(&t);
        let graph = p.plan().instructions;
        assert!(t.calls.len() > graph, "loops have instructions");
        let mut loops = 0;
        for (i, call) in t.calls.iter().enumerate() {
            let most = counts.iter().map(|c| c[i]).max().unwrap();
            // A loop is what its instructions are; what it copies before it starts is an instruction like others.
            let is_loop = call.op == "scan" && most == 0;
            loops += usize::from(is_loop);
            let want = if is_loop { 0 } else { [LENGTH, 1][usize::from(i < graph)] };
            assert_eq!(most, want, "{call:?}");
            assert!(counts.iter().all(|c| c[i] == 0 || c[i] == want));
        }
        assert_eq!(loops, 2);
        // Threads do the same in each step, and meet as often.
        let shape =
            |t: &Trace| -> Vec<Vec<u32>> { t.threads.iter().map(|e| e.iter().map(|e| e.instr).collect()).collect() };
        assert_eq!(shape(&first), shape(&t));
        let waits: Vec<_> = t.threads.iter().map(|e| e.iter().filter(|e| e.instr == WAIT).count()).collect();
        assert!(waits.iter().all(|&w| w == waits[0]) && (waits[0] > 0) == (threads > 1), "{waits:?}");
    }
}

#[test]
fn events_follow_one_another_within_the_step() {
    let t = program(2, true).step_traced().unwrap();
    for thread in &t.threads {
        assert!(thread.windows(2).all(|e| e[0].to <= e[1].from));
        assert!(thread.iter().all(|e| e.from <= e.to && e.to <= t.nanos));
    }
}

#[test]
fn calls_say_what_they_are() {
    let t = program(1, true).step_traced().unwrap();
    let product = t.calls.iter().find(|c| c.op.starts_with("matmul") && c.types.contains("[64,256]")).unwrap();
    assert_eq!((product.flops, product.units > 0), (2 * 64 * 256 * 128, true));
    assert_eq!(product.bytes, 4 * (64 * 256 + 256 * 128 + 64 * 128));
    assert!(product.types.ends_with("-> f32[64,128]"), "{product:?}");
    assert!(t.calls.iter().any(|c| c.name == "w"), "the update is named by its leaf: {:?}", t.calls);
}

#[test]
fn the_instructions_of_a_loop_that_is_all_are_told() {
    let g = Builder::new("g");
    let x = g.input("x", [LENGTH as usize, 4], DType::F32);
    let (_, y) = g.scan(&[], &[x], |_, x| (vec![], vec![x[0].sin()]));
    g.output("y", y[0]);
    let mut p = Session::new().optimise(false).compile_traced(&g.finish([]).unwrap()).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(0.5);
    let t = p.step_traced().unwrap();
    assert!(t.calls.len() > p.plan().instructions && counts(&t)[0].contains(&LENGTH), "{:?}", t.calls);
}

/// Two states change places, so at least one of them is copied in the end.
#[test]
fn copies_of_next_values_are_updates_without_a_name() {
    let g = Builder::new("g");
    let (a, b) = (g.state("a", [4], DType::F32, Init::Zeros), g.state("b", [4], DType::F32, Init::Ones));
    g.update(a, b);
    g.update(b, a);
    let mut p = Session::new().compile_traced(&g.finish([]).unwrap()).unwrap();
    p.init(0).unwrap();
    let t = p.step_traced().unwrap();
    assert_eq!((p.values::<f32>("a").unwrap(), p.values::<f32>("b").unwrap()), (&[1.0; 4][..], &[0.0; 4][..]));
    let copies: Vec<_> = t.calls.iter().filter(|c| c.op == "update").collect();
    assert!(!copies.is_empty() && copies.iter().all(|c| c.name.is_empty() && c.bytes == 32), "{:?}", t.calls);
}

#[test]
fn only_programs_that_were_asked_can_be_recorded() {
    let e = program(1, false).step_traced().unwrap_err();
    assert!(e.to_string().contains("compile_traced"), "{e}");
}

#[test]
fn a_step_that_stops_is_told_and_the_next_one_is_recorded() {
    let g = Builder::new("g");
    let (table, at) = (g.input("table", [8, 4], DType::F32), g.input("at", [3], DType::I32));
    g.output("y", table.gather(at, 0));
    let g = g.finish([]).unwrap();
    let mut p = Session::new().compile_traced(&g).unwrap();
    p.values_mut::<f32>("table").unwrap().fill(1.0);
    p.values_mut::<i32>("at").unwrap().copy_from_slice(&[1, 9, 2]);
    assert!(p.step_traced().unwrap_err().to_string().contains("element 1"));
    p.values_mut::<i32>("at").unwrap()[1] = 7;
    assert_eq!(p.step_traced().unwrap().threads[0].len(), p.plan().instructions);
}
