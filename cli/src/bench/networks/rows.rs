//! Networks on rows: of numbers, of columns of tables, of points in space and time.

use super::{class_loss, value_loss};
use arenagrad::error::Result;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Var};
use arenagrad::nn;
use std::f64::consts::PI;

/// Rows of the tables of `w11`.
pub const CARDINALITIES: [usize; 12] = [8, 12, 24, 31, 52, 100, 200, 365, 1000, 2000, 5000, 10_000];
/// Widths of these tables.
const WIDTHS: [usize; 12] = [4, 6, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32];
/// Tables of `w15`, and rows of each.
pub const TABLES: usize = 26;
pub const TABLE_ROWS: usize = 10_000;

/// Linear layers of these widths on input `x`, with `act` between them.
fn mlp<'g>(g: &'g Builder, batch: usize, widths: &[usize], act: fn(Var<'g>) -> Var<'g>) -> Var<'g> {
    let mut h = g.input("x", [batch, widths[0]], DType::F32);
    for (i, &width) in widths.iter().enumerate().skip(1) {
        h = nn::linear(g, &format!("fc{i}"), h, width);
        if i + 1 < widths.len() {
            h = act(h);
        }
    }
    h
}

/// The loss of an MLP of classes with ReLU.
pub fn classes<'g>(g: &'g Builder, batch: usize, widths: &[usize]) -> Var<'g> {
    class_loss(g, mlp(g, batch, widths, Var::relu))
}

/// The loss of an MLP of numbers.
pub fn values<'g>(g: &'g Builder, batch: usize, widths: &[usize], act: fn(Var<'g>) -> Var<'g>) -> Var<'g> {
    value_loss(g, mlp(g, batch, widths, act))
}

/// The rows of `count` tables that the columns of input `cat` name.
fn table_rows<'g>(g: &'g Builder, batch: usize, count: usize, size: impl Fn(usize) -> [usize; 2]) -> Vec<Var<'g>> {
    let cat = g.input("cat", [batch, count], DType::I32);
    let rows = |i: usize| {
        let [rows, width] = size(i);
        nn::embedding(g, &format!("emb.{i}"), cat.narrow(1, i, 1).squeeze([1]), rows, width, DType::F32)
    };
    (0..count).map(rows).collect()
}

/// Ten numbers and twelve columns of categories, with batch norm and dropout.
pub fn tabular(g: &Builder) -> Var<'_> {
    let x = g.input("x", [1024, 10], DType::F32);
    let norm = |name: &str, x| nn::batch_norm(g, name, x, nn::BatchNorm::default());
    let mut parts = table_rows(g, 1024, 12, |i| [CARDINALITIES[i], WIDTHS[i]]);
    parts.push(norm("bn0", x));
    let h = parts[0].concat(&parts[1..], 1);
    let h = nn::dropout(norm("bn1", nn::linear(g, "fc1", h, 256).relu()), 0.1);
    let h = nn::dropout(norm("bn2", nn::linear(g, "fc2", h, 128).relu()), 0.1);
    nn::linear(g, "fc3", h, 1).bce_with_logits(g.input("y", [1024, 1], DType::F32))
}

/// DLRM: products of all pairs of 26 rows of tables and of a vector of numbers.
pub fn dlrm(g: &Builder) -> Var<'_> {
    let x = g.input("x", [256, 13], DType::F32);
    let d = nn::linear(g, "b1", x, 512).relu();
    let d = nn::linear(g, "b3", nn::linear(g, "b2", d, 256).relu(), 16).relu();
    let rows = table_rows(g, 256, TABLES, |_| [TABLE_ROWS, 16]);
    let v = d.stack(&rows, 1);
    let vectors = TABLES + 1;
    let pairs = (1..vectors).flat_map(|i| (0..i).map(move |j| (i * vectors + j) as i32));
    let pairs: Vec<u8> = pairs.flat_map(i32::to_le_bytes).collect();
    let pairs = g.constant_bytes(&pairs, [vectors * TABLES / 2], DType::I32);
    let z = v.matmul_t(v, false, true).reshape([256, vectors * vectors]).gather(pairs, 1);
    let h = nn::linear(g, "t1", d.concat(&[z], 1), 512).relu();
    nn::linear(g, "t3", nn::linear(g, "t2", h, 256).relu(), 1).bce_with_logits(g.input("y", [256, 1], DType::F32))
}

/// The mean square of what Burgers' equation leaves of a network of x and t, in f64. The network is 0 at the borders
/// and −sin(πx) at the start by its form.
pub fn burgers(name: &str) -> Result<GraphBuf> {
    let g = Builder::new(name);
    let [x, t] = ["x", "t"].map(|name| g.input(name, [2048, 1], DType::F64));
    let mut h = x.concat(&[t], 1);
    for layer in ["fc1", "fc2", "fc3"] {
        h = nn::linear(&g, layer, h, 64).tanh();
    }
    let u = t * (1.0 - x * x) * nn::linear(&g, "fc4", h, 1) - (x * PI).sin();
    let graph = g.finish([u.named("u"), u.sum(..).named("sum")])?;
    let graph = graph.grad("sum", &GradOptions::wrt(&["x", "t"]))?.rename("grad.x", "slope")?;
    let graph = graph.extend(|_, value| vec![value("slope").sum(..).named("slopes")])?;
    let graph = graph.grad("slopes", &GradOptions::wrt(&["x"]))?;
    graph.extend(|_, value| {
        let [u, ux, ut, uxx] = ["u", "slope", "grad.t", "grad.x"].map(value);
        vec![(ut + u * ux - uxx * (0.01 / PI)).square().mean(..).named("loss")]
    })
}
