//! Trains 784-128-10 on synthetic stripes: `cargo run --release --example mlp`.

use arenagrad::prelude::*;

const BATCH: usize = 32;

/// Image `i`: stripes whose width is its class.
fn image(i: usize, pixels: &mut [f32]) -> i32 {
    let class = i % 10;
    let wave = |p: usize| ((p * (class + 1) + i) as f32 * 0.05).sin();
    pixels.iter_mut().enumerate().for_each(|(p, x)| *x = wave(p));
    class as i32
}

fn main() -> Result<()> {
    let g = Builder::new("mlp");
    let x = g.input("x", [BATCH, 784], DType::F32);
    let y = g.input("y", [BATCH], DType::I32);
    let h = nn::linear(&g, "fc1", x, 128).relu();
    let loss = nn::linear(&g, "fc2", h, 10).cross_entropy(y).mean(..).named("loss");
    let graph = g.finish([loss])?;

    let step = train(graph.view(), "loss", &Optimiser::adamw(1e-3))?;
    let mut p = Session::new().compile(&step)?;
    p.init(42)?;
    p.input_mut::<f32>("lr")?[0] = 1e-3;
    for i in 0..200 {
        for b in 0..BATCH {
            let class = image(i * BATCH + b, &mut p.input_mut::<f32>("x")?[b * 784..(b + 1) * 784]);
            p.input_mut::<i32>("y")?[b] = class;
        }
        p.step()?;
        if i % 20 == 0 {
            println!("step {i:3}  loss {:.4}", p.output::<f32>("loss")?[0]);
        }
    }
    let plan = p.plan();
    println!("arena {} bytes, lower bound {}", plan.arena_bytes, plan.lower_bound_bytes);
    Ok(())
}
