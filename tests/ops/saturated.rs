//! Softmaxes whose rows are saturated: one probability is 1 and all others are 0, so nothing that stands under the
//! exponential has a gradient. In f32, too, that is 0 and not what two orders of one sum differ by.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, run};
use arenagrad::graph::{Attention, Builder, DType, GraphBuf, Layout};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::tools::passes::ad::prepare;
use arenagrad::tools::passes::pipeline::run_whole_pipeline;

const F32: DType = DType::F32;

/// Attention of one head: sequences, queries, keys, width of q and k, of v.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    queries: usize,
    keys: usize,
    width: usize,
    value_width: usize,
    causal: bool,
}

impl Shape {
    /// The key whose probability is 1.
    fn hot(&self, query: usize) -> usize {
        let seen = if self.causal { query + 1 + self.keys - self.queries } else { self.keys };
        (query * 7 + 3) % seen
    }

    /// q, k, v, and the gradient of y.
    fn data(&self, draw: &mut TensorDraws) -> [Vec<f64>; 4] {
        let [q, k, v, dy] = [0; 4].map(|_| Vec::new());
        let mut all = [q, k, v, dy];
        for _ in 0..self.batch {
            let k: Vec<f64> =
                (0..self.keys * self.width).map(|_| if draw.bits() & 1 == 0 { 1.0 } else { -1.0 }).collect();
            for i in 0..self.queries {
                all[0].extend(k[self.hot(i) * self.width..][..self.width].iter().map(|x| 60.0 * x));
            }
            all[1].extend(k);
            let mut number = |_| f64::from(20.0 * (draw.unit() as f32 - 0.5));
            all[2].extend((0..self.keys * self.value_width).map(&mut number));
            all[3].extend((0..self.queries * self.value_width).map(&mut number));
        }
        all
    }
}

fn tensor(dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype: F32, dims: dims.to_vec(), data: data.to_vec() }
}

/// A graph with the gradients of Σ y·dy in q, k and v.
fn gradients(s: &Shape, dropout: f64) -> GraphBuf {
    let g = Builder::new("saturated");
    let input = |name: &str, n, w| g.input(name, [s.batch, 1, n, w], F32);
    let [q, k, v, dy] = [
        input("q", s.queries, s.width),
        input("k", s.keys, s.width),
        input("v", s.keys, s.value_width),
        input("dy", s.queries, s.value_width),
    ];
    let y = q.attention(k, v, Attention::default().causal(s.causal).dropout(dropout));
    let f = g.finish([(y * dy).sum(..).named("loss")]).unwrap();
    grad(&f, "loss", &GradOptions::wrt(&["q", "k", "v"])).unwrap()
}

fn zeros(what: &str, s: &Shape, t: &Tensor) {
    let most = t.data.iter().fold(0.0f64, |m, x| if x.abs() >= m { x.abs() } else { m.max(f64::from(x.is_nan())) });
    assert!(most == 0.0, "{what} of {s:?} is {most:e}");
}

#[test]
fn saturated_attention_has_no_gradient_in_q_and_k() {
    let shape = |batch, queries, keys, [width, value_width]: [usize; 2], causal| Shape {
        batch,
        queries,
        keys,
        width,
        value_width,
        causal,
    };
    let shapes = [
        shape(2, 5, 9, [64, 16], false),
        shape(1, 1, 1, [32, 32], false),
        shape(1, 3, 1, [8, 37], false),
        shape(2, 64, 64, [64, 64], true),
        shape(1, 70, 129, [64, 33], false),
        shape(1, 129, 129, [96, 100], true),
        shape(1, 300, 300, [96, 64], true),
        shape(1, 1, 140, [64, 64], false),
        shape(1, 40, 257, [128, 130], false),
    ];
    let mut draw = TensorDraws(19);
    for s in &shapes {
        let [q, k, v, dy] = s.data(&mut draw);
        let row = |n, w| [s.batch, 1, n, w];
        let inputs = [
            tensor(&row(s.queries, s.width), &q),
            tensor(&row(s.keys, s.width), &k),
            tensor(&row(s.keys, s.value_width), &v),
            tensor(&row(s.queries, s.value_width), &dy),
        ];
        let mut want = vec![0.0f64; s.batch * s.keys * s.value_width];
        for (r, dy) in dy.chunks(s.value_width).enumerate() {
            let (b, i) = (r / s.queries, r % s.queries);
            let to = &mut want[(b * s.keys + s.hot(i)) * s.value_width..][..s.value_width];
            to.iter_mut().zip(dy).for_each(|(to, x)| *to += x);
        }
        let back = gradients(s, 0.0);
        for how in [PLAIN, How { threads: 3, share: true, ..PLAIN }] {
            let outs = run(&back, &inputs, how);
            zeros("dq", s, &outs[1]);
            zeros("dk", s, &outs[2]);
            let d = crate::common::conform_distance(&outs[3].data, &want);
            // The scores of both ways round in orders of their own.
            assert!(d < 1e-3, "dv of {s:?} is {d:e} off");
        }
        // Kept ones are doubled, which is exact.
        let mut with_key = inputs.to_vec();
        let dropped = gradients(s, 0.5);
        let leaves = dropped.view().leaves().count();
        assert_eq!(leaves, 5, "the random key");
        with_key.push(Tensor { dtype: DType::U32, dims: vec![4], data: vec![3.0, 1.0, 4.0, 1.0] });
        let names: Vec<String> = dropped.view().leaves().map(|l| l.name.to_string()).collect();
        assert_eq!(names[4], arenagrad::tools::ops::random::var::RNG_STATE, "{names:?}");
        let outs = run(&dropped, &with_key, PLAIN);
        zeros("dq with dropout", s, &outs[1]);
        zeros("dk with dropout", s, &outs[2]);
    }
}

#[test]
fn saturated_packed_attention_has_no_gradient_in_q_and_k() {
    let s = Shape { batch: 2, queries: 150, keys: 150, width: 64, value_width: 64, causal: true };
    let (n, w) = (s.queries, s.width);
    let g = Builder::new("packed");
    let x = g.input("x", [s.batch, n, 3 * w], F32);
    let dy = g.input("dy", [s.batch, n, w], F32);
    let part = |i: usize| x.narrow(-1, i * w, w);
    let opt = Attention::default().layout(Layout::Bsd).heads(1).causal(true);
    let y = part(0).attention(part(1), part(2), opt);
    let f = g.finish([(y * dy).sum(..).named("loss")]).unwrap();
    let back = grad(&f, "loss", &GradOptions::wrt(&["x"])).unwrap();
    let fused = run_whole_pipeline(&back).unwrap();
    let ops: Vec<&str> = fused.view().op.iter().map(|op| fused.view().ops[op.0 as usize].name).collect();
    assert!(ops.contains(&"attention_packed_backward"), "{ops:?}");
    let [q, k, v, dy] = s.data(&mut TensorDraws(4));
    let rows = q.chunks(w).zip(k.chunks(w)).zip(v.chunks(w));
    let packed: Vec<f64> = rows.flat_map(|((q, k), v)| [q, k, v].concat()).collect();
    let inputs = [tensor(&[s.batch, n, 3 * w], &packed), tensor(&[s.batch, n, w], &dy)];
    let dx = run(&back, &inputs, PLAIN).remove(1);
    for row in dx.data.chunks(3 * w) {
        assert!(row[..2 * w].iter().all(|&x| x == 0.0), "{:?}", &row[..2 * w]);
    }
    assert!(dx.data.iter().any(|&x| x != 0.0));
}

/// The plain ops that attention stands for: their derivative sums probabilities times the gradients of probabilities.
#[test]
fn saturated_attention_in_plain_ops_has_no_gradient_in_q_and_k() {
    let s = Shape { batch: 2, queries: 40, keys: 40, width: 64, value_width: 33, causal: true };
    let g = Builder::new("plain");
    let input = |name: &str, w| g.input(name, [s.batch, 1, s.keys, w], F32);
    let [q, k, v, dy] = [input("q", 64), input("k", 64), input("v", 33), input("dy", 33)];
    let y = q.attention(k, v, Attention::default().causal(true));
    let f = g.finish([(y * dy).sum(..).named("loss")]).unwrap();
    let f = prepare::decompose_fully(f.view()).unwrap();
    let back = grad(&f, "loss", &GradOptions::wrt(&["q", "k", "v"])).unwrap();
    let data = s.data(&mut TensorDraws(6));
    let widths = [64, 64, 33, 33];
    let inputs: Vec<Tensor> = data.iter().zip(widths).map(|(x, w)| tensor(&[s.batch, 1, s.keys, w], x)).collect();
    let outs = run(&back, &inputs, How { optimise: false, ..PLAIN });
    zeros("dq", &s, &outs[1]);
    zeros("dk", &s, &outs[2]);
}

#[test]
fn saturated_rows_have_no_gradient_in_their_logits() {
    for classes in [2, 7, 33, 1000] {
        let g = Builder::new("rows");
        let x = g.input("x", [6, classes], F32);
        let (w, labels) = (g.input("w", [6, classes], F32), g.input("labels", [6], DType::I32));
        let soft = (x.softmax(1) * w).sum(..);
        let column = (x.transpose(&[1, 0]).softmax(0) * w.transpose(&[1, 0])).sum(..);
        let log = (x.log_softmax(1) * labels.one_hot(classes, F32)).sum(..);
        let f = g
            .finish([
                soft.named("soft"),
                column.named("column"),
                log.named("log"),
                x.cross_entropy(labels).sum(..).named("ce"),
                (x.cross_entropy(labels) * w.amax(1)).sum(..).named("weighted"),
            ])
            .unwrap();
        let mut draw = TensorDraws(classes as u64);
        let hot = |r: usize| (r * 5 + 1) % classes;
        let logit = |i: usize| if i % classes == hot(i / classes) { 300.0 } else { 3.0 * (i % 11) as f64 };
        let logits: Vec<f64> = (0..6 * classes).map(logit).collect();
        let weights: Vec<f64> = (0..6 * classes).map(|_| f64::from(9.0 * draw.unit() as f32)).collect();
        let inputs = [
            tensor(&[6, classes], &logits),
            tensor(&[6, classes], &weights),
            Tensor { dtype: DType::I32, dims: vec![6], data: (0..6).map(|r| hot(r) as f64).collect() },
        ];
        for loss in ["soft", "column", "log", "ce", "weighted"] {
            let back = grad(&f, loss, &GradOptions::wrt(&["x"])).unwrap();
            let i = back.view().output_names.iter().position(|&n| back.view().str(n) == "grad.x").unwrap();
            for how in [PLAIN, How { optimise: false, ..PLAIN }] {
                let dx = &run(&back, &inputs, how)[i];
                assert!(dx.data.iter().all(|&x| x == 0.0), "{loss}, {classes} classes: {:?}", dx.data);
            }
            let plain = prepare::decompose_fully(back.view()).unwrap();
            let dx = &run(&plain, &inputs, How { optimise: false, ..PLAIN })[i];
            assert!(dx.data.iter().all(|&x| x == 0.0), "{loss} in plain ops, {classes} classes: {:?}", dx.data);
        }
    }
}
