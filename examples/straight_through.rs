//! A straight-through estimator: weights are rounded in the forward pass, and the gradient passes through the rounding
//! as if it were not there. So weights that are whole numbers are learnt by gradient descent.
//!
//! Run it with `cargo run --release --example straight_through`; it prints `weights [2.0, -1.0, 3.0], loss 0.0000`.

use arenagrad::prelude::*;

/// x rounded to the nearest integer; its derivative is taken to be 1.
pub fn round_through<'g>(g: &'g Builder, x: Var<'g>) -> Var<'g> {
    g.custom_fn("round_through", &[x], |x| vec![x[0].round()]).vjp(|_, _, _, ct| vec![Some(ct[0])]).call()[0]
}

/// The rounded weights and the loss after training, with or without the rule.
pub fn learn(through: bool) -> Result<(Vec<f32>, f32)> {
    let g = Builder::new("whole");
    let (x, y) = (g.input("x", [32, 3], DType::F32), g.input("y", [32, 1], DType::F32));
    let w = g.param("w", [3, 1], DType::F32, Init::Zeros);
    let whole = if through { round_through(&g, w) } else { w.round() };
    let loss = x.matmul(whole).mse(y).named("loss");
    let graph = g.finish([loss, whole.named("whole")])?;
    let mut p = Session::new().compile(&train(&graph, "loss", optim::Sgd::new(0.1))?)?;
    p.init(0)?;
    let xs: Vec<f32> = (0..96).map(|i| ((i * 37 + 11) % 50) as f32 / 25.0 - 1.0).collect();
    let ys: Vec<f32> = xs.chunks(3).map(|x| 2.0 * x[0] - x[1] + 3.0 * x[2]).collect();
    p.values_mut::<f32>("x")?.copy_from_slice(&xs);
    p.values_mut::<f32>("y")?.copy_from_slice(&ys);
    for _ in 0..300 {
        p.step()?;
    }
    Ok((p.values::<f32>("whole")?.to_vec(), p.values::<f32>("loss")?[0]))
}

#[allow(dead_code)] // Tests use this file as a module.
fn main() -> Result<()> {
    // Without the rule the weights get no gradient, which is an error.
    if let Err(e) = learn(false) {
        println!("plain rounding: {e}");
    }
    let (weights, loss) = learn(true)?;
    println!("weights {weights:?}, loss {loss:.4}");
    Ok(())
}
