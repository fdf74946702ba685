//! Rotary embeddings against numbers worked out apart, in every layout, through attention, and what does not fit.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{PLAIN, Tensor, TensorDraws, conform_distance, run};
use arenagrad::graph::jvp;
use arenagrad::graph::{AxialRope2d, Builder, DType, Layout, Pairing, Rope, Var};
use arenagrad::tools::ir::opdef::Domain;

const F64: DType = DType::F64;

fn halves() -> Rope {
    Rope::default().layout(Layout::Bsd).heads(1)
}

fn neighbours() -> Rope {
    halves().pairing(Pairing::Neighbours)
}

fn tensor(dims: &[usize], data: Vec<f64>) -> Tensor {
    Tensor { dtype: F64, dims: dims.to_vec(), data }
}

/// One sequence of one position, head width 6, of which 4 turn, by 0.3 and 0.7.
fn golden(opt: Rope) -> Vec<f64> {
    let g = Builder::new("rope");
    let x = g.input("x", [1, 1, 6], F64);
    let [cos, sin] = [f64::cos, f64::sin].map(|f| g.constant_f64(&[f(0.3), f(0.7)], [1, 2]));
    let f = g.finish([x.rope(cos, sin, opt)]).unwrap();
    run(&f, &[tensor(&[1, 1, 6], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])], PLAIN).remove(0).data
}

#[test]
fn both_pairings_give_the_golden_values() {
    let of_halves = [0.0687759, -1.0471864, 3.1615297, 4.3478041, 5.0, 6.0];
    let of_neighbours = [0.3642961, 2.2061932, -0.2823442, 4.9920218, 5.0, 6.0];
    for (opt, want) in [(halves(), of_halves), (neighbours(), of_neighbours)] {
        let got = golden(opt);
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 6e-8), "{got:?}");
    }
}

/// Layouts, tables of each sequence, and the tables of the builder: one definition.
#[test]
fn layouts_and_tables_agree() {
    let [b, s, h, w, n] = [2, 7, 3, 10, 8];
    let x = TensorDraws(3).tensor(F64, &[b, s, h, w], Domain::Real);
    for opt in [halves(), neighbours()] {
        let g = Builder::new("rope");
        let x0 = g.input("x", [b, s, h, w], F64);
        let [cos, sin] = g.rope_tables(s, n, 10000.0, F64);
        let of = |layout, heads| opt.layout(layout).heads(heads);
        let packed = x0.reshape([b, s, h * w]).rope(cos, sin, of(Layout::Bsd, h)).reshape([b, s, h, w]);
        let apart = x0.rope(cos, sin, of(Layout::Bshd, 0));
        let first = x0.transpose(&[0, 2, 1, 3]).rope(cos, sin, of(Layout::Bhsd, 0)).transpose(&[0, 2, 1, 3]);
        // Rows of the tables by position: 0, 1, 2 … here, and turned round in the second sequence.
        let order: Vec<u8> = (0..s as i32).chain((0..s as i32).rev()).flat_map(i32::to_le_bytes).collect();
        let order = g.constant_bytes(&order, [b, s], DType::I32);
        let own = x0.rope(cos.gather(order, 0), sin.gather(order, 0), of(Layout::Bshd, h));
        let back = apart.rope(cos, sin, of(Layout::Bshd, 0).inverse(true));
        let f = g.finish([packed, apart, first, own, back]).unwrap();
        let y = run(&f, std::slice::from_ref(&x), PLAIN);
        let mut want = x.data.clone();
        let mut turned = x.data.clone();
        for (r, i) in (0..b * s * h).flat_map(|r| (0..n / 2).map(move |i| (r, i))) {
            let p = r / h % s;
            let (u, v) = if opt == halves() { (i, i + n / 2) } else { (2 * i, 2 * i + 1) };
            let (u, v) = (r * w + u, r * w + v);
            let place = if r / (s * h) == 1 { s - 1 - p } else { p };
            for (to, p) in [(&mut want, p), (&mut turned, place)] {
                let t = p as f64 / 10000f64.powf(2.0 * i as f64 / n as f64);
                to[u] = x.data[u] * t.cos() - x.data[v] * t.sin();
                to[v] = x.data[v] * t.cos() + x.data[u] * t.sin();
            }
        }
        for y in &y[..3] {
            assert!(conform_distance(&y.data, &want) < 1e-14);
        }
        assert!(conform_distance(&y[3].data, &turned) < 1e-14);
        assert!(conform_distance(&y[4].data, &x.data) < 1e-14);
    }
}

/// SAM 2's form: complex numbers of neighbours, times e^(i·angle) with the column's angles before the row's.
#[test]
fn axial_embedding_is_its_formula() {
    let axial = AxialRope2d::new(3, 2, 8).heads(2).theta(100.0).repeat_factor(2);
    let dims = [2, 12, 16];
    let g = Builder::new("axial");
    let y = axial.apply(g.input("x", dims, F64));
    let f = g.finish([y]).unwrap();
    let x = TensorDraws(5).tensor(F64, &dims, Domain::Real);
    let got = run(&f, std::slice::from_ref(&x), PLAIN).remove(0).data;
    for (k, pair) in x.data.chunks(2).enumerate() {
        let (t, j) = (k / 8 % 12 % 6, k % 4);
        let place = if j < 2 { t % 3 } else { t / 3 } as f64;
        let angle = place * 100f64.powf(-((4 * (j % 2)) as f64) / 8.0);
        let (c, s) = (angle.cos(), angle.sin());
        let want = [pair[0] * c - pair[1] * s, pair[0] * s + pair[1] * c];
        assert!(conform_distance(&got[2 * k..2 * k + 2], &want) < 1e-14, "pair {k}");
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let error = |f: for<'g> fn(&'g Builder) -> Var<'g>| {
        let g = Builder::new("bad");
        f(&g);
        g.finish([]).unwrap_err().to_string()
    };
    fn on<'g>(g: &'g Builder, x: &[usize], cos: &[usize], sin: &[usize], opt: Rope) -> Var<'g> {
        g.input("x", x, F64).rope(g.input("c", cos, F64), g.input("s", sin, F64), opt)
    }
    fn large() -> AxialRope2d {
        AxialRope2d::new(usize::MAX, 2, 8).theta(100.0)
    }
    for (e, parts) in [
        (
            error(|g| on(g, &[1, 5, 6], &[5, 4], &[5, 4], halves())),
            ["rope", "rotary width", "is 8; the head width of x is 6"],
        ),
        (error(|g| on(g, &[1, 5, 6], &[4, 2], &[4, 2], halves())), ["rope", "cos has rows for 4", "x has 5"]),
        (
            error(|g| on(g, &[3, 5, 6], &[2, 5, 2], &[2, 5, 2], halves())),
            ["rope", "cos has shape [2,5,2]", "batch of 3"],
        ),
        (error(|g| on(g, &[1, 5, 6], &[5, 2], &[5, 1], halves())), ["rope", "cos has shape [5,2]", "sin [5,1]"]),
        (error(|g| on(g, &[1, 5, 6], &[5], &[5], halves())), ["rope", "cos has shape [5]", "is needed"]),
        (error(|g| on(g, &[1, 5, 7], &[5, 1], &[5, 1], halves().heads(2))), ["rope", "2 heads", "x, 7"]),
        (error(|g| on(g, &[5, 6], &[5, 1], &[5, 1], halves().heads(2))), ["rope", "x has shape [5,6]", "rank 3"]),
        (error(|g| g.rope_tables(4, 5, 10000.0, F64)[0]), ["rope_tables", "n = 5", "pairs"]),
        (error(|g| g.rope_tables(4, 6, 0.0, F64)[0]), ["rope_tables", "base is 0", "positive"]),
        (error(|g| g.rope_tables(usize::MAX, 6, 10.0, F64)[0]), ["rope_tables", "18446744073709551615", "allowed"]),
        (error(|g| g.rope_tables(4, 6, f64::INFINITY, F64)[0]), ["rope_tables", "base is inf", "positive"]),
        (error(|g| g.rope_tables((1 << 28) + 1, 0, 10.0, F64)[0]), ["tables of 268435457 × 0", "268435456", "allowed"]),
        (error(|g| g.rope_tables(4, 6, 10.0, DType::I32)[0]), ["rope_tables", "i32", "f64 is needed"]),
        (error(|g| large().apply(g.input("x", [1, 6, 8], F64))), ["axial_rope2d", "18446744073709551615", "too many"]),
        (
            error(|g| AxialRope2d::new(usize::MAX, 2, 6).apply(g.input("x", [1, 6, 6], F64))),
            ["axial_rope2d", "head_dim is 6", "multiple of 4"],
        ),
        (error(|g| large().apply(g.input("x", [1, 6, 9], F64))), ["axial_rope2d", "[1,6,9]", "1 heads of 8"]),
    ] {
        assert!(parts.iter().all(|p| e.contains(p)) && e.contains("tests/ops/rope.rs"), "{e}");
    }
}

/// Each table has a tangent of its own: that of the cosines scales both of a pair, that of the sines crosses them.
#[test]
fn one_table_alone_has_a_tangent() {
    let g = Builder::new("rope");
    let (x, c, s) = (g.input("x", [1, 1, 4], F64), g.input("c", [1, 2], F64), g.input("s", [1, 2], F64));
    let f = g.finish([x.rope(c, s, halves()).named("y")]).unwrap();
    let inputs = [
        tensor(&[1, 1, 4], vec![1.0, 2.0, 3.0, 4.0]),
        tensor(&[1, 2], vec![0.25, 0.75]),
        tensor(&[1, 2], vec![-0.5, 0.125]),
        tensor(&[1, 2], vec![0.5, -2.0]),
    ];
    for (name, want) in [("c", [0.5, -4.0, 1.5, -8.0]), ("s", [-1.5, 8.0, 0.5, -4.0])] {
        let forward = jvp(&f, &["y"], &[name]).unwrap();
        let at = forward.view().output_names.iter().position(|&n| forward.view().str(n) == "tangent.y").unwrap();
        assert_eq!(run(&forward, &inputs, PLAIN)[at].data, want, "{name}");
    }
}

/// Without a number of heads, rows of `bsd` are one head.
#[test]
fn rows_without_heads_are_one_head() {
    let g = Builder::new("one");
    let x = g.input("x", [2, 3, 4], F64);
    // A base of ½ is as good as any: the second pair turns by √2 a step.
    let [cos, sin] = g.rope_tables(3, 4, 0.5, F64);
    let none = halves().heads(0);
    let f = g.finish([x.rope(cos, sin, none), x.rope(cos, sin, halves()), cos]).unwrap();
    let y = run(&f, &[TensorDraws(2).tensor(F64, &[2, 3, 4], Domain::Real)], PLAIN);
    assert_eq!(y[0].data, y[1].data);
    let want: Vec<f64> = [0.0, 1.0, 2.0].iter().flat_map(|p| [f64::cos(*p), (p * 2f64.sqrt()).cos()]).collect();
    assert!(conform_distance(&y[2].data, &want) < 1e-14, "{:?}", y[2].data);
}
