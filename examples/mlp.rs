//! The library in one page: build a graph, make it a step program, run steps.
//!
//! Run it with `cargo run --release --example mlp`.

use arenagrad::prelude::*;

fn main() -> Result<()> {
    // y = x₀·x₁, learnt by a small network.
    let g = Builder::new("product");
    let x = g.input("x", [32, 2], DType::F32);
    let y = g.input("y", [32, 1], DType::F32);
    let h = nn::linear(&g, "fc1", x, 16).tanh();
    let loss = nn::linear(&g, "fc2", h, 1).mse(y).named("loss");
    let graph = g.finish([loss])?;

    let step = train(&graph, "loss", optim::AdamW::new(1e-2))?;
    let mut p = Session::new().threads(1).compile(&step)?;
    p.init(0)?;
    let (x, y, loss) = (p.input::<f32>("x")?, p.input::<f32>("y")?, p.output::<f32>("loss")?);
    for i in 0..2000 {
        let at = |k: usize| ((i * 37 + k * 11) % 100) as f32 / 50.0 - 1.0;
        p[x].iter_mut().enumerate().for_each(|(k, v)| *v = at(k));
        p[y].iter_mut().enumerate().for_each(|(k, v)| *v = at(2 * k) * at(2 * k + 1));
        p.step()?;
        if i % 400 == 399 {
            println!("step {}: loss {:.5}", i + 1, p[loss][0]);
        }
    }
    // The memory plan: each buffer with its op and the line of this file that asked for it.
    println!("{}", p.plan());
    Ok(())
}
