//! Points, sums and differences of small programs.

use super::*;
use crate::nodes::Init;
use crate::session::Session;

const F64: DType = DType::F64;

fn compiled(graph: &GraphBuf) -> Program {
    let mut p = Session::new().compile(graph).unwrap();
    p.init(0).unwrap();
    p
}

#[test]
fn draws_are_a_function_of_seed_and_index() {
    assert_eq!([0, 1].map(|i| finite_difference_draw(1, i)), [0.1331231503445619, 0.49156351452540237]);
    assert_eq!([0, 1].map(|i| finite_difference_draw(3, i)), [-0.7730993158856908, 0.40058702718580486]);
}

/// The draws next to 0 and to both ends, of the seeds whose first words are those of these draws.
#[test]
fn draws_lie_between_both_ends_and_are_never_zero() {
    let seeds = [0x61c8_8646_80b5_83eb, 0x401a_54da_5ea0_0c6a, 0x2fed_f1ef_ce1d_5545, 0xf56e_309e_96a0_4737];
    let step = f64::EPSILON / 2.0;
    assert_eq!(seeds.map(|seed| finite_difference_draw(seed, 0)), [step - 1.0, -step, step, 1.0 - step]);
}

#[test]
fn the_sum_has_all_elements_of_all_float_outputs_with_their_weights() {
    let g = Builder::new("g");
    let (x, i, z) = (g.input("x", [2], F64), g.input("i", [2], DType::I32), g.input("z", [1], F64));
    let outputs = [x.named("a"), i.named("b"), (z * 2.0).named("check.sum")];
    let graph = g.finish(outputs).unwrap();
    let (sum, name) = sum_weighted_outputs(graph.view()).unwrap().unwrap();
    assert_ne!(name, "check.sum");
    let mut p = compiled(&sum);
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&[10.0, 100.0]);
    p.values_mut::<f64>("z").unwrap().copy_from_slice(&[1000.0]);
    p.values_mut::<i32>("i").unwrap().copy_from_slice(&[7, 9]);
    p.step().unwrap();
    // The weight of element e of output i is 1.5 and draw e of stream i + 1.
    let wanted = 10.0 * 1.633123150344562 + 100.0 * 1.9915635145254025 + 2000.0 * (1.5 - 0.7730993158856907);
    let got = p.values::<f64>(&name).unwrap()[0];
    assert!((got - wanted).abs() < 1e-9, "{got} {wanted}");
    assert_eq!(p.values::<f64>("check.sum").unwrap(), [2000.0]);
    let g = Builder::new("g");
    let graph = g.finish([g.input("i", [2], DType::I32).named("b")]).unwrap();
    assert!(sum_weighted_outputs(graph.view()).unwrap().is_none());
}

/// A graph with a leaf of each kind; the step changes the state.
fn leaves() -> GraphBuf {
    let g = Builder::new("g");
    let (x, i, on) = (g.input("x", [3], F64), g.input("i", [2], DType::I32), g.input("on", [4], DType::Bool));
    let (w, z) = (g.param("w", [3], F64, Init::Ones), g.param("z", [3], F64, Init::Zeros));
    let (s, n) = (g.state("s", [3], F64, Init::Zeros), g.state("n", [2], DType::I32, Init::Constant(7.0)));
    g.update(s, s + 1.0);
    g.finish([(x * w + z * s).named("y"), (i + n).named("k"), on.named("flags")]).unwrap()
}

fn numbers(p: &FinitePoint, name: &str) -> Vec<f64> {
    let (_, bytes) = p.leaves.iter().find(|l| l.0.name == name).unwrap();
    bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn bytes(p: &FinitePoint, name: &str) -> Vec<u8> {
    p.leaves.iter().find(|l| l.0.name == name).unwrap().1.clone()
}

#[test]
fn a_point_draws_what_has_no_start_value() {
    let graph = leaves();
    let p = compiled(&graph);
    let point = FinitePoint::new(&p, graph.view(), 0, false);
    let drawn = ["x", "z", "s"].map(|name| numbers(&point, name));
    for (k, draws) in drawn.iter().enumerate() {
        assert!(draws.iter().all(|x| x.abs() < 1.0 && *x != 0.0), "{draws:?}");
        assert!(draws[0] != draws[1] && drawn.iter().skip(k + 1).all(|other| other != draws));
    }
    assert_eq!(numbers(&point, "w"), [1.0; 3]);
    assert_eq!((bytes(&point, "i"), bytes(&point, "n")), (vec![0; 8], vec![7, 0, 0, 0, 7, 0, 0, 0]));
    assert_eq!(bytes(&point, "on"), [1, 0, 0, 1]);
    let changed: Vec<&str> = point.changed.iter().map(|&i| point.leaves[i].0.name.as_str()).collect();
    assert_eq!(changed, ["s"]);
    let floats: Vec<String> = point.floats().map(|(_, b)| b.name.clone()).collect();
    assert!(
        floats.len() == 4 && ["x", "w", "z", "s"].iter().all(|name| floats.iter().any(|f| f == name)),
        "{floats:?}"
    );
    // Positive points have no start values. They are the same draws, halved and raised.
    let positive = FinitePoint::new(&p, graph.view(), 0, true);
    assert!(numbers(&positive, "w").iter().all(|x| (0.1..=1.1).contains(x) && *x != 1.0));
    let raised: Vec<f64> = drawn[0].iter().map(|x| 0.6 + x / 2.0).collect();
    assert_eq!(numbers(&positive, "x"), raised);
    // A draw is a function of the seed, the leaf and the element; all bits of the seed count.
    assert_eq!(drawn[0], [0, 1, 2].map(|i| finite_difference_draw(1 << 32, i)));
    for seed in [1, 1 << 32] {
        let other = FinitePoint::new(&p, graph.view(), seed, false);
        assert!(["x", "z"].into_iter().zip(&drawn).all(|(name, draws)| numbers(&other, name) != *draws), "{seed}");
    }
}

#[test]
fn a_complex_leaf_has_two_draws_for_each_element() {
    let g = Builder::new("g");
    let (z, c) = (g.input("z", [2], DType::C128), g.param("c", [2], DType::C128, Init::Ones));
    let graph = g.finish([(z * c).named("y")]).unwrap();
    let point = FinitePoint::new(&compiled(&graph), graph.view(), 0, false);
    assert_eq!(numbers(&point, "z"), [0, 1, 2, 3].map(|i| finite_difference_draw(1 << 32, i)));
    assert_eq!(numbers(&point, "c"), [1.0, 0.0, 1.0, 0.0]);
}

#[test]
fn given_numbers_take_the_place_of_draws() {
    let graph = leaves();
    let p = compiled(&graph);
    let mut point = FinitePoint::new(&p, graph.view(), 0, false);
    point.set(&[("x", &[1.0, -2.0, 0.5]), ("i", &[3.0, -4.0]), ("on", &[0.0, 1.0, 1.0, 0.0])]).unwrap();
    assert_eq!(numbers(&point, "x"), [1.0, -2.0, 0.5]);
    assert_eq!(bytes(&point, "i"), [3, 0, 0, 0, 252, 255, 255, 255]);
    assert_eq!(bytes(&point, "on"), [0, 1, 1, 0]);
    let mut why = |name: &str, data: &[f64]| point.set(&[(name, data)]).unwrap_err().message;
    assert!(why("v", &[1.0]).starts_with("no leaf is called \"v\"; there are "));
    assert_eq!(why("x", &[1.0; 2]), "\"x\" is f64[3]; 2 elements are given");
    assert_eq!(why("on", &[2.0; 4]), "\"on\": 2 is no bool");
    assert_eq!(why("i", &[0.0, 2147483648.0]), "\"i\": 2147483648 is no i32");
    let fits = |dtype, x: f64| finite_difference_leaf_bytes(dtype, &[x]);
    assert_eq!((fits(DType::U8, 255.0), fits(DType::I8, -128.0)), (Ok(vec![255]), Ok(vec![128])));
    assert_eq!((fits(DType::U8, -1.0), fits(DType::U8, 0.5)), (Err("-1 is no u8".into()), Err("0.5 is no u8".into())));
    assert_eq!(fits(DType::C64, 0.5), Err("values of c64 cannot be given".into()));
}

/// Fourth-order differences have the derivative of a cubic, and leave the program as it was.
#[test]
fn differences_move_one_element_and_nothing_else() {
    let g = Builder::new("g");
    let (s, x) = (g.state("s", [2], F64, Init::Ones), g.input("x", [2], F64));
    g.update(s, s + 1.0);
    let y = (x * x * x * s).sum(..).named("y");
    let graph = g.finish([y]).unwrap();
    let mut p = compiled(&graph);
    let mut point = FinitePoint::new(&p, graph.view(), 0, false);
    point.set(&[("x", &[2.0, -3.0]), ("s", &[1.0, 2.0])]).unwrap();
    // 8 − 54, however often the state has changed.
    assert_eq!([0; 2].map(|_| point.eval(&mut p, "y").unwrap()), [-46.0; 2]);
    point.restore(&mut p).unwrap();
    let leaf = point.floats().find(|(_, b)| b.name == "x").unwrap().0;
    for (index, slope) in [(0, 12.0), (1, 54.0)] {
        let at = Element { leaf, index };
        // x moved by 1: 27 − 54, or 8 − 16.
        assert_eq!(point.moved(&mut p, "y", at, 1.0).unwrap(), [-27.0, -8.0][index]);
        for claim in [slope, slope + 1.0] {
            let d = point.derivative(&mut p, "y", at, claim).unwrap();
            assert!((d - slope).abs() < 1e-7 * slope, "{d} {slope}");
        }
        assert_eq!(numbers(&point, "x"), [2.0, -3.0]);
        assert_eq!((p.values::<f64>("x").unwrap(), p.values::<f64>("s").unwrap()), (&[2.0, -3.0][..], &[1.0, 2.0][..]));
    }
}

/// At a distance of 5e-5 from a kink, each width has another difference.
#[test]
fn of_the_widths_the_one_that_agrees_best_with_the_claim_counts() {
    let g = Builder::new("g");
    let graph = g.finish([g.input("x", [1], F64).abs().sum(..).named("y")]).unwrap();
    let mut p = compiled(&graph);
    let mut point = FinitePoint::new(&p, graph.view(), 0, false);
    point.set(&[("x", &[5e-5])]).unwrap();
    point.eval(&mut p, "y").unwrap();
    for (claim, wanted) in [(0.0, 0.7 / 12.0), (0.5, 7.0 / 12.0), (1.0, 1.0)] {
        let d = point.derivative(&mut p, "y", Element { leaf: 0, index: 0 }, claim).unwrap();
        assert!((d - wanted).abs() < 1e-9, "{claim}: {d}");
    }
}
