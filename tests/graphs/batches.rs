//! Graphs for a batch, part by part: what members share, what is written out before, what members draw, and places.

use super::derivatives::{PLACES, lines};
use arenagrad::error::Location;
use arenagrad::graph::{Randomness, Vmap, one_by_one_ops};
use arenagrad::prelude::*;
use arenagrad::tools::ir::text::{parse, print};
use arenagrad::tools::passes::pipeline::run_pipeline;

const F64: DType = DType::F64;

/// A program of `g` after one step, for these numbers.
fn stepped(g: &GraphBuf, leaves: &[(&str, &[f64])]) -> Program {
    let mut p = Session::new().compile(g).unwrap();
    p.init(5).unwrap();
    leaves.iter().for_each(|(name, x)| p.values_mut::<f64>(name).unwrap().copy_from_slice(x));
    p.step().unwrap();
    p
}

/// The dimensions of the output called `name`.
fn dims(g: &GraphBuf, name: &str) -> Vec<usize> {
    g.view().dims(g.view().find_output(name).unwrap()).to_vec()
}

#[test]
fn what_members_share_of_a_loop_has_no_axis() {
    let g = Builder::new("loop");
    let (a, z, x) = (g.input("a", [], F64), g.input("z", [], F64), g.input("x", [3], F64));
    let (last, ys) = g.scan(&[a, z], &[x], |c, x| (vec![c[0] * x[0], c[1] + x[0]], vec![c[0] + x[0], x[0] * 2.0]));
    let names = [last[0].named("a_last"), last[1].named("z_last"), ys[0].named("as"), ys[1].named("xs")];
    let all = g.finish(names).unwrap().vmap(&Vmap::new(2).leaf("a", 0)).unwrap();
    assert_eq!(["a_last", "z_last", "as", "xs"].map(|n| dims(&all, n)), [vec![2], vec![], vec![2, 3], vec![3]]);
    let p = stepped(&all, &[("a", &[1.0, 10.0]), ("z", &[5.0]), ("x", &[2.0, 3.0, 4.0])]);
    assert_eq!(p.values::<f64>("a_last").unwrap(), [24.0, 240.0]);
    assert_eq!(p.values::<f64>("z_last").unwrap(), [14.0]);
    // The carry before each iteration, and the slice: 1 + 2, 2 + 3, 6 + 4.
    assert_eq!(p.values::<f64>("as").unwrap(), [3.0, 5.0, 10.0, 12.0, 23.0, 64.0]);
    assert_eq!(p.values::<f64>("xs").unwrap(), [4.0, 6.0, 8.0]);
    assert!(one_by_one_ops(&all).is_empty());
}

/// u is 2a or z, v is z; and the line of the choice.
fn choice() -> (GraphBuf, u32) {
    let g = Builder::new("choice");
    let (a, z, p) = (g.input("a", [], F64), g.input("z", [], F64), g.input("p", [], F64));
    let on = p.greater(0.0);
    let line = line!() + 1;
    let y = g.cond(on, || vec![a * 2.0, z], || vec![z, z]);
    (g.finish([y[0].named("u"), y[1].named("v")]).unwrap(), line)
}

#[test]
fn a_result_of_a_choice_has_the_axis_if_a_branch_gives_it_one() {
    let all = choice().0.vmap(&Vmap::new(2).leaf("a", 0)).unwrap();
    assert_eq!(["u", "v"].map(|n| dims(&all, n)), [vec![2], vec![]]);
    for (p, u) in [(1.0, [2.0, 20.0]), (-1.0, [5.0, 5.0])] {
        let p = stepped(&all, &[("a", &[1.0, 10.0]), ("z", &[5.0]), ("p", &[p])]);
        assert_eq!((p.values::<f64>("u").unwrap(), p.values::<f64>("v").unwrap()), (&u[..], &[5.0][..]));
    }
    assert!(one_by_one_ops(&all).is_empty());
}

#[test]
fn members_with_predicates_of_their_own_run_one_after_another() {
    let (graph, line) = choice();
    let all = graph.vmap(&Vmap::new(3).leaf("p", 0).leaf("a", 0)).unwrap();
    let ops = one_by_one_ops(&all);
    assert!(ops.len() == 1 && ops[0].op == "if", "{ops:?}");
    assert_eq!(ops[0].location, Location::Source(file!().to_string(), line));
    // The shared operand comes first.
    let text = print(all.view());
    let members = text.lines().find(|l| l.contains("body=@members")).unwrap();
    assert!(
        members.contains("= scan %z, ") && members.contains(" carries=0 consts=1 length=3 reverse=false"),
        "{text}"
    );
    let p = stepped(&all, &[("a", &[1.0, 10.0, 100.0]), ("z", &[5.0]), ("p", &[1.0, -1.0, 1.0])]);
    assert_eq!(p.values::<f64>("u").unwrap(), [2.0, 5.0, 200.0]);
    assert_eq!(p.values::<f64>("v").unwrap(), [5.0; 3]);
}

#[test]
fn start_values_are_repeated_along_the_last_axis_too() {
    let g = Builder::new("starts");
    let w = g.param("w", [2, 2], F64, g.start_values(&[1.0, 2.0, 3.0, 4.0]));
    let all = g.finish([(w + w).named("y")]).unwrap().vmap(&Vmap::new(2).leaf("w", -1)).unwrap();
    assert_eq!(dims(&all, "y"), [2, 2, 2]);
    assert_eq!(stepped(&all, &[]).values::<f64>("w").unwrap(), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]);
}

#[test]
fn too_large_a_value_names_its_op() {
    let g = Builder::new("large");
    let y = g.input("x", [], F64).broadcast([1 << 20]).sum(..);
    let graph = g.finish([y.named("y")]).unwrap();
    let e = graph.vmap(&Vmap::new(1 << 40).leaf("x", 0)).unwrap_err().message;
    assert!(e.starts_with("vmap of broadcast: ") && e.contains("does not fit in memory"), "{e}");
    let g = Builder::new("large");
    let y = g.vmap(&[g.input("x", [1 << 40], F64)], |x| vec![x[0].broadcast([1 << 20]).sum(..)]);
    let graph = g.finish([y[0].named("y")]).unwrap();
    let e = run_pipeline(&graph, &["vmap"], true).unwrap_err().message;
    assert!(e.contains("does not fit in memory"), "{e}");
}

// Random numbers.

/// A loop that draws, and a loop and a value of `z` that do not.
fn drawing() -> GraphBuf {
    let g = Builder::new("drawing");
    let (x, z) = (g.input("x", [4], F64), g.input("z", [4], F64));
    let how = || Loop::default().length(2);
    let zeros = g.full(0.0, [4], F64);
    let (drawn, _) = g.scan_with(how(), &[zeros], &[], |c, _| (vec![c[0] + g.uniform([4], F64)], vec![]));
    let (plain, _) = g.scan_with(how(), &[z], &[], |c, _| (vec![c[0] * 2.0], vec![]));
    g.finish([(drawn[0] + x).named("y"), plain[0].named("plain"), z.exp().named("e")]).unwrap()
}

#[test]
fn members_draw_in_loops_what_the_caller_says() {
    let one = drawing();
    let leaves = |x: &'static [f64]| [("x", x), ("z", &[0.0, 1.0, 2.0, 3.0][..])];
    let alone = stepped(&one, &leaves(&[0.0; 4])).values::<f64>("y").unwrap().to_vec();
    for randomness in [Randomness::Same, Randomness::Different] {
        let all = one.vmap(&Vmap::new(3).leaf("x", 0).randomness(randomness)).unwrap();
        assert_eq!(["y", "plain", "e"].map(|n| dims(&all, n)), [vec![3, 4], vec![4], vec![4]], "{randomness:?}");
        let p = stepped(&all, &leaves(&[0.0; 12]));
        assert_eq!(p.values::<f64>("plain").unwrap(), [0.0, 4.0, 8.0, 12.0]);
        let rows: Vec<&[f64]> = p.values::<f64>("y").unwrap().chunks(4).collect();
        match randomness {
            Randomness::Same => assert!(rows.iter().all(|row| *row == alone), "{rows:?}"),
            _ => assert!(rows[0] != rows[1] && rows[1] != rows[2] && rows[0] != rows[2], "{rows:?}"),
        }
    }
}

/// Members that draw numbers of their own run as one, so nothing may end them apart.
#[test]
fn members_that_draw_numbers_of_their_own_go_one_way() {
    let g = Builder::new("loop");
    let x = g.input("x", [], F64);
    let (y, _) = g.while_loop(&[g.full(0.0, [], F64)], 8, |c| c[0].less(x), |c| vec![c[0] + g.uniform([], F64) + 1.0]);
    let looped = g.finish([y[0].named("y")]).unwrap();
    let g = Builder::new("branch");
    let x = g.input("x", [], F64);
    let y = g.cond(x.greater(0.0), || vec![x], || vec![g.uniform([], F64)]);
    let chosen = g.finish([y[0].named("y")]).unwrap();
    for (graph, op, what) in [
        (looped, "scan", "the number of iterations differs between members, and the loop draws random numbers"),
        (chosen, "if", "the predicate differs between members, and a branch draws random numbers"),
    ] {
        let map = |randomness| graph.vmap(&Vmap::new(2).leaf("x", 0).randomness(randomness));
        let e = map(Randomness::Different).unwrap_err();
        assert!(e.message.contains(what) && e.to_string().contains("batches.rs:"), "{e}");
        let ops: Vec<&str> = one_by_one_ops(&map(Randomness::Same).unwrap()).iter().map(|one| one.op).collect();
        assert_eq!(ops, [op]);
    }
}

// What is written out before.

fn variances(g: &GraphBuf) -> usize {
    print(g.view()).matches("= var ").count()
}

/// A variance has no batch rule.
#[test]
fn ops_without_a_batch_rule_are_written_out_where_members_differ() {
    let g = Builder::new("variances");
    let (x, z) = (g.input("x", [4], F64), g.input("z", [4], F64));
    let (of_x, of_z) = (x.var(.., 0, false), z.var(.., 0, false));
    let graph = g.finish([of_x.named("x_var"), of_z.named("z_var")]).unwrap();
    // If members may draw numbers of their own, all random ops must show.
    for (randomness, left) in [(Randomness::Same, 1), (Randomness::Different, 0), (Randomness::Error, 0)] {
        let all = graph.vmap(&Vmap::new(2).leaf("x", 0).randomness(randomness)).unwrap();
        assert_eq!(variances(&all), left, "{randomness:?}");
        let p = stepped(&all, &[("x", &[0.0, 2.0, 0.0, 2.0, 0.0, 0.0, 4.0, 4.0]), ("z", &[0.0, 0.0, 6.0, 6.0])]);
        assert_eq!(p.values::<f64>("x_var").unwrap(), [1.0, 4.0]);
        assert_eq!(p.values::<f64>("z_var").unwrap(), [9.0]);
    }
    let g = Builder::new("loop");
    let how = Loop::default().length(2);
    let (y, _) = g.scan_with(how, &[g.input("x", [4], F64)], &[], |c, _| (vec![c[0] * c[0].var(.., 0, false)], vec![]));
    let graph = g.finish([y[0].named("y")]).unwrap();
    let all = graph.vmap(&Vmap::new(2).leaf("x", 0).randomness(Randomness::Same)).unwrap();
    assert_eq!(variances(&all), 0);
    // Times 1, and times 4 and then 64.
    let p = stepped(&all, &[("x", &[0.0, 2.0, 0.0, 2.0, 0.0, 0.0, 4.0, 4.0])]);
    assert_eq!(p.values::<f64>("y").unwrap(), [0.0, 2.0, 0.0, 2.0, 0.0, 0.0, 1024.0, 1024.0]);
}

#[test]
fn the_body_of_a_loop_at_once_is_written_out_and_no_other() {
    let vmapped = |g: &GraphBuf| run_pipeline(g, &["vmap"], true).unwrap().0;
    let g = Builder::new("one");
    let y = g.vmap(&[g.input("x", [2, 4], F64)], |x| vec![x[0].var(.., 0, false)]);
    let all = vmapped(&g.finish([y[0].named("y")]).unwrap());
    assert!(variances(&all) == 0 && all.view().regions() == 1, "{all}");
    let p = stepped(&all, &[("x", &[0.0, 2.0, 0.0, 2.0, 0.0, 0.0, 4.0, 4.0])]);
    assert_eq!(p.values::<f64>("y").unwrap(), [1.0, 4.0]);
    // A branch in the body, and a loop and an op beside it.
    let g = Builder::new("beside");
    let (x, z) = (g.input("x", [2, 4], F64), g.input("z", [4], F64));
    let on = z.sum(..).greater(0.0);
    let y = g.vmap(&[x], |x| {
        let k = g.cond(on, || vec![x[0] * x[0].var(.., 0, false)], || vec![x[0]]);
        vec![k[0] + x[0].var(.., 0, false)]
    });
    let how = Loop::default().length(2);
    let (plain, _) = g.scan_with(how, &[z], &[], |c, _| (vec![c[0] * c[0].var(.., 0, false)], vec![]));
    let outputs = [y[0].named("y"), plain[0].named("plain"), z.var(.., 0, false).named("var")];
    let all = vmapped(&g.finish(outputs).unwrap());
    // The regions of the branches and of the plain loop, and the entry.
    assert!(variances(&all) == 2 && all.view().regions() == 4, "{all}");
    assert!(!all.to_string().contains("at_once"), "{all}");
}

// Places.

#[test]
fn nodes_of_a_batch_have_the_places_of_their_ops() {
    let graph = parse(PLACES).unwrap();
    for (leaf, scans) in [("x", &[21][..]), ("q", &[21]), ("on", &[21, 22])] {
        let all = graph.vmap(&Vmap::new(3).leaf(leaf, 0)).unwrap();
        for (op, want) in [
            ("input", &[16, 17, 18, 19][..]),
            ("exp", &[2, 8]),
            ("sub", &[3]),
            ("sin", &[4, 9]),
            ("cos", &[20]),
            ("scan", scans),
            ("if", &[22]),
            ("reduce_sum", &[23]),
        ] {
            let want: Vec<Option<u32>> = want.iter().map(|&line| Some(line)).collect();
            assert_eq!(lines(&all, op), want, "{leaf}, {op}\n{all}");
        }
    }
}
