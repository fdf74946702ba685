//! Instructions that are not divided, and run beside one another.

use crate::nodes::{Builder, DType, GraphBuf, Init, Var};
use crate::sched::modelled_time::modelled_step;
use crate::sched::races::race_free;
use crate::sched::schedule;
use crate::sched::share::{share_tapes, share_tapes_above};
use crate::sched::tape::{Entry, Tapes};
use crate::sched::tests::ops::{ADD, SCALE, one};

/// Rows of eight tables side by side.
fn tables() -> GraphBuf {
    let g = Builder::new("tables");
    let rows = g.input("rows", [256], DType::I32);
    let read = |k: usize| g.param(&format!("t{k}"), [1000, 16], DType::F32, Init::Ones).gather(rows, 0);
    let all: Vec<Var<'_>> = (0..8).map(read).collect();
    g.finish([all[0].concat(&all[1..], 1).named("all")]).unwrap()
}

fn instructions(tapes: &Tapes, t: usize) -> Vec<u32> {
    tapes.thread(t).iter().filter(|e| !e.barrier).map(|e| e.instr).collect()
}

#[test]
fn tables_are_read_by_all_threads() {
    let graph = tables();
    for threads in 2..5 {
        let plan = schedule(graph.view(), threads).unwrap().plan;
        let tapes = share_tapes(&plan);
        race_free(&plan, &tapes).unwrap();
        assert_eq!(tapes.threads(), threads);
        let reads = |t: usize| instructions(&tapes, t).into_iter().filter(|&i| i < 8).count();
        let each: Vec<usize> = (0..threads).map(reads).collect();
        assert!(each.iter().all(|n| [8 / threads, 8usize.div_ceil(threads)].contains(n)), "{each:?}");
        assert!(!tapes.thread(1).iter().any(|e| e.barrier && e.instr < 8));
        let one = share_tapes_above(&plan, u64::MAX);
        assert!(modelled_step(&plan, &tapes) < modelled_step(&plan, &one));
    }
}

/// What needs another's result follows on its thread; what needs the results of two waits for both.
#[test]
fn chains_stay_on_one_thread() {
    let g = Builder::new("chains");
    // Outputs keep their bytes; those of other results would be used again, by which one chain waits for the other.
    let chain = |name: &str| {
        let first = one(&g, &SCALE, &[g.input(name, [4], DType::F32)]);
        let second = one(&g, &SCALE, &[first]);
        let third = one(&g, &SCALE, &[second]);
        [first, second, third].iter().enumerate().for_each(|(k, v)| g.output(&format!("{name}{k}"), *v));
        third
    };
    let (x, y) = (chain("x"), chain("y"));
    let (sum, divided) = (one(&g, &ADD, &[x, y]), one(&g, &SCALE, &[g.input("z", [64], DType::F32)]));
    let graph = g.finish([sum.named("sum"), divided.named("divided")]).unwrap();
    let plan = schedule(graph.view(), 2).unwrap().plan;
    let tapes = share_tapes_above(&plan, 0);
    race_free(&plan, &tapes).unwrap();
    let alone = |t: usize| {
        let own = instructions(&tapes, t).into_iter();
        own.filter(|i| !instructions(&tapes, 1 - t).contains(i)).collect::<Vec<u32>>()
    };
    let (first, second) = (alone(0), alone(1));
    assert_eq!((first.len() + second.len(), first.len().min(second.len())), (7, 3), "{first:?} {second:?}");
    let last = *first.iter().chain(&second).max().unwrap();
    let barriers: Vec<u32> = tapes.thread(0).iter().filter(|e| e.barrier).map(|e| e.instr).collect();
    assert_eq!(barriers, [last]);

    // On the other thread, an instruction of a chain would not wait for the one before.
    let swap = |i: u32| {
        if i == first[1] {
            second[1]
        } else if i == second[1] {
            first[1]
        } else {
            i
        }
    };
    let (at, entries, inner) = tapes.columns();
    let mut wrong: Vec<Entry> = entries.iter().map(|e| Entry { instr: swap(e.instr), ..*e }).collect();
    let (of_first, of_second) = wrong.split_at_mut(at[1] as usize);
    [of_first, of_second].into_iter().for_each(|of| of.sort_by_key(|e| e.instr));
    let told = race_free(&plan, &Tapes::from_columns(at.to_vec(), wrong, inner.to_vec()).unwrap()).unwrap_err();
    assert!(told.contains("without a barrier between"), "{told}");
}
