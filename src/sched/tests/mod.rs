//! Tests of whole schedules: programs against plain evaluation, and wrong plans against the checker.

mod beside;
pub mod bomb;
mod bugs;
pub mod code;
mod groups;
pub mod hand;
mod lend;
mod loop_promises;
mod loops;
mod lowered_loops;
mod lowering;
pub mod ops;
mod orders;
mod promises;
mod random;
mod team;
#[cfg(loom)]
pub mod team_model;
mod wrong;
mod wrong_tapes;

use super::arithmetic::Arithmetic;
use super::faults::FaultCommits;
use super::{checker, exec, plan_with_red_zones, schedule, share};
use crate::nodes::{Builder, DType, Init};
use crate::session::Session;
use ops::{ADD, EXPAND, FRESH, PICK, REVERSE, SCALE, SUM, TAIL, TWICE, TWO, one};

const F32: DType = DType::F32;

#[test]
fn a_program_computes_its_graph() {
    let g = Builder::new("p");
    let x = g.input("x", [10], F32);
    let w = g.param("w", [10], F32, Init::Ones);
    let c = g.constant(&[1.0; 10], [10]);
    let y = one(&g, &ADD, &[one(&g, &SCALE, &[one(&g, &ADD, &[x, w])]), c]);
    let two = ops::node(&g, &TWO, &[y]);
    let r = one(&g, &REVERSE, &[two[0]]);
    g.update(w, one(&g, &ADD, &[w, two[1]]));
    g.output("mean", one(&g, &SUM, &[r]));
    g.output("tail", one(&g, &TAIL, &[r]));
    let graph = g.finish([]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(1).unwrap();
    let slot = p.input::<f32>("x").unwrap();
    let data: Vec<f32> = (0..10).map(|i| i as f32).collect();
    p.write(slot, &data).unwrap();
    p.step().unwrap();
    // y = (x + 1) / 2 + 1
    let y: Vec<f32> = data.iter().map(|x| (x + 1.0) * 0.5 + 1.0).collect();
    let r: Vec<f32> = y.chunks(4).flat_map(|c| c.iter().rev().map(|y| y + 1.0)).collect();
    assert_eq!(p.values::<f32>("tail").unwrap(), &r[5..]);
    assert_eq!(p.values::<f32>("w").unwrap(), y.iter().map(|y| 1.0 + 0.25 * y).collect::<Vec<_>>());
    assert_eq!(p.get(slot).unwrap(), data, "inputs stay what the caller wrote");
    let mean = r.chunks(4).map(|c| c.iter().sum::<f32>()).sum::<f32>() / 3.0;
    assert_eq!(p.values::<f32>("mean").unwrap(), [mean]);
}

#[test]
fn errors_name_what_is_wrong() {
    let g = Builder::new("p");
    let x = g.input("x", [4], F32);
    g.output("y", one(&g, &SCALE, &[x]));
    let graph = g.finish([]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    assert_eq!(
        p.input::<f32>("z").unwrap_err().to_string(),
        r#"there is no input "z"; the program has input "x", output "y"; did you mean x?"#
    );
    assert_eq!(p.input::<i32>("x").unwrap_err().to_string(), r#"input "x" is f32[4]; it is asked for as i32"#);
    let x = p.input("x").unwrap();
    assert_eq!(p.write(x, &[0f32; 3]).unwrap_err().to_string(), r#"input "x" is f32[4]; 3 elements are written"#);
    let y = p.output::<f32>("y").unwrap();
    assert!(p.get_mut(y).is_err());
    let mut other = Session::new().compile(&graph).unwrap();
    assert!(other.write(x, &[0f32; 4]).is_err());
}

#[test]
fn ops_without_kernels_are_named() {
    let g = Builder::new("p");
    let x = g.input("x", [4], F32);
    g.output("y", one(&g, &EXPAND, &[x]));
    let e = schedule(g.finish([]).unwrap().view(), 1).err().unwrap().to_string();
    assert!(e.starts_with("t_expand: the op has no kernel") && e.contains(file!()), "{e}");
}

#[test]
fn a_fault_stops_the_step() {
    let g = Builder::new("p");
    let x = g.input("x", [8], F32);
    let at = g.input("at", [8], DType::I32);
    let w = g.state("w", [8], F32, Init::Zeros);
    let y = one(&g, &PICK, &[x, at]);
    g.update(w, one(&g, &ADD, &[w, y]));
    let graph = g.finish([]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    p.values_mut::<i32>("at").unwrap()[5] = 8;
    let e = p.step().unwrap_err();
    assert!(e.to_string().starts_with("t_pick: element 5 of the index operand is out of range, at"), "{e}");
    assert_eq!(p.values::<f32>("w").unwrap(), [0.0; 8]);
    p.values_mut::<i32>("at").unwrap()[5] = 7;
    p.step().unwrap();
    assert_eq!(p.values::<f32>("w").unwrap(), [1.0; 8]);
}

/// A later instruction that checks the same indices may still stop the step if the first one is in a branch, which may
/// not run. A loop runs, so behind it the indices are known to be good.
#[test]
fn what_a_branch_checks_is_unknown_behind_it() {
    let stops = |branch: bool| {
        let g = Builder::new("p");
        let (x, at) = (g.input("x", [8], F32), g.input("at", [8], DType::I32));
        let first = match branch {
            true => g.cond(g.input("on", [], DType::Bool), || vec![one(&g, &PICK, &[x, at])], || vec![x])[0],
            false => g.scan(&[x], &[x.reshape([1, 8])], |c, _| (vec![one(&g, &PICK, &[c[0], at])], vec![])).0[0],
        };
        g.output("first", first);
        g.output("last", one(&g, &PICK, &[first, at]));
        let s = schedule(g.finish([]).unwrap().view(), 1).unwrap();
        let stops = FaultCommits::new(&s.plan).stops;
        stops.iter().filter(|&&stops| stops).count()
    };
    assert_eq!((stops(true), stops(false)), (2, 1));
}

/// An update writes its leaf, also where a leaf without elements lies at the same place.
#[test]
fn a_leaf_without_elements_hides_no_other() {
    let g = Builder::new("p");
    // Params come first in the arena.
    let w = g.state("w", [16], F32, Init::Ones);
    let _none = g.param("none", [0], F32, Init::Ones);
    g.update(w, one(&g, &SCALE, &[w]));
    let s = schedule(g.finish([]).unwrap().view(), 1).unwrap();
    assert!(s.plan.offset.iter().all(|&at| at == 0), "{:?}", s.plan.offset);
    assert_eq!(FaultCommits::new(&s.plan).writes, [true]);
}

#[test]
fn states_swap_and_shift() {
    let g = Builder::new("p");
    let (a, b) = (g.state("a", [4], F32, Init::Zeros), g.state("b", [4], F32, Init::Zeros));
    let (s1, s2) = (g.state("s1", [4], F32, Init::Zeros), g.state("s2", [4], F32, Init::Zeros));
    let x = g.input("x", [4], F32);
    g.update(a, b);
    g.update(b, a);
    g.update(s1, one(&g, &FRESH, &[x]));
    g.update(s2, s1);
    g.output("old", s1);
    let graph = g.finish([]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.values_mut::<f32>("a").unwrap().fill(1.0);
    p.values_mut::<f32>("b").unwrap().fill(2.0);
    for step in 0..4 {
        p.values_mut::<f32>("x").unwrap().fill(2.0 * step as f32);
        p.step().unwrap();
        let (a, b) = if step % 2 == 0 { (2.0, 1.0) } else { (1.0, 2.0) };
        assert_eq!((p.values::<f32>("a").unwrap()[0], p.values::<f32>("b").unwrap()[3]), (a, b));
        let before = (step as f32 - 1.0).max(0.0);
        assert_eq!(p.values::<f32>("s1").unwrap(), [step as f32; 4]);
        assert_eq!(p.values::<f32>("s2").unwrap(), [before; 4]);
        assert_eq!(p.values::<f32>("old").unwrap(), [before; 4]);
    }
}

#[test]
fn the_report_names_every_buffer() {
    let g = Builder::new("p");
    let x = g.input("x", [100], F32);
    let w = g.param("w", [100], F32, Init::Ones);
    let y = one(&g, &TWICE, &[x, w]).named("y");
    g.update(w, one(&g, &ADD, &[w, y]));
    let graph = g.finish([one(&g, &SUM, &[y]).named("loss")]).unwrap();
    let p = Session::new().compile(&graph).unwrap();
    let plan = p.plan();
    let names: Vec<_> = plan.buffers.iter().map(|b| b.name.as_str()).collect();
    assert!(["x", "w", "y", "loss", SUM.name].iter().all(|n| names.contains(n)), "{names:?}");
    assert_eq!(plan.arena_bytes, plan.lower_bound_bytes);
    let w = plan.buffers.iter().position(|b| b.name == "w").unwrap();
    let next = plan.buffers.iter().find(|b| b.root as usize == w && b.name != "w").unwrap();
    assert_eq!(next.offset, plan.buffers[w].offset, "the next value is made in the leaf's bytes");
}

/// The plan under test says that a buffer ends earlier than the kernel writes, or that it ends where it does.
#[test]
fn writes_behind_a_buffer_are_found() {
    let g = Builder::new("p");
    let x = g.input("x", [20], F32);
    let y = one(&g, &TWICE, &[x, x]).named("y");
    let graph = g.finish([one(&g, &SUM, &[y]).named("loss")]).unwrap();
    let run = |shrink: usize| {
        let mut s = plan_with_red_zones(graph.view(), 1, Arithmetic::DEFAULT).unwrap();
        let tapes = share::share_tapes(&s.plan);
        let made = s.plan.code.writes_of(0)[0].buf as usize;
        let mut shorter = (*s.plan).clone();
        shorter.code.bytes[made] -= shrink;
        let exec = exec::Exec::new(&s.plan, tapes).unwrap();
        s.plan = checker::Checked::unproven(shorter);
        let mut arena = crate::arena::tensor::TensorArena::new(s.plan.bytes).unwrap();
        exec.with_red_zones(&s.plan).step_poisoned(&mut arena, &exec::ThreadState::default())
    };
    assert!(run(0).is_ok());
    let stop = run(4).unwrap_err();
    assert_eq!((stop.instr, stop.bad), (0, None));
}
