//! One net at many sizes: buckets of lengths, and a short last batch in each bucket.
//!
//! A sequence of pairs has the label mean(x₀·x₁). Sequences are 4, 8 or 16 pairs long; a batch holds sequences of one
//! length, at most 16 of them. The graph is described once, for sizes `batch` and `len`; each pair of sizes is planned
//! when it first occurs, and params and Adam's moments live once. Run it with `cargo run --release --example sizes`.

use arenagrad::prelude::*;
use arenagrad::session::SizedProgram;

/// Examples of one length.
struct Bucket {
    len: usize,
    examples: usize,
}

const BUCKETS: [Bucket; 3] =
    [Bucket { len: 4, examples: 45 }, Bucket { len: 8, examples: 35 }, Bucket { len: 16, examples: 20 }];

/// Most examples of a batch.
const BATCH: usize = 16;

fn net() -> SizedProgram {
    Session::new().compile_sized("mean_product", |g| {
        let (batch, len) = (g.symbol("batch"), g.symbol("len"));
        let x = g.input("x", [batch, len, 2], DType::F32);
        let y = g.input("y", [batch, 1], DType::F32);
        let h = nn::linear(g, "fc1", x, 32).tanh().mean([1]);
        let loss = nn::linear(g, "fc2", h, 1).mse(y).named("loss");
        train(&g.finish([loss])?, "loss", optim::Adam::new(2e-2))
    })
}

/// Number `i` of all examples, in [-1, 1).
fn number(example: usize, i: usize) -> f32 {
    ((example * 7919 + i * 104_729 + example * i * 31) % 1009) as f32 / 504.5 - 1.0
}

/// Trains for some epochs. Returns the mean loss of each, and how many plans were made.
pub fn learn(epochs: usize) -> Result<(Vec<f32>, u64)> {
    let mut net = net();
    net.at(&[("batch", BATCH), ("len", BUCKETS[0].len)])?.init(0)?;
    let mut means = Vec::new();
    for _ in 0..epochs {
        let (mut sum, mut count) = (0.0, 0);
        for bucket in &BUCKETS {
            for first in (0..bucket.examples).step_by(BATCH) {
                let batch = BATCH.min(bucket.examples - first);
                let p = net.at(&[("batch", batch), ("len", bucket.len)])?;
                let each = 2 * bucket.len;
                let x = p.values_mut::<f32>("x")?;
                x.iter_mut().enumerate().for_each(|(i, v)| *v = number(first + i / each, i % each));
                let labels: Vec<f32> = x
                    .chunks(each)
                    .map(|x| x.chunks(2).map(|pair| pair[0] * pair[1]).sum::<f32>() / bucket.len as f32)
                    .collect();
                p.values_mut::<f32>("y")?.copy_from_slice(&labels);
                p.step()?;
                sum += p.values::<f32>("loss")?[0] * batch as f32;
                count += batch;
            }
        }
        means.push(sum / count as f32);
    }
    Ok((means, net.plans_made()))
}

#[allow(dead_code, reason = "a test includes this file")]
fn main() -> Result<()> {
    let (means, plans) = learn(200)?;
    for (i, loss) in means.iter().enumerate().filter(|(i, _)| i % 40 == 39) {
        println!("epoch {}: loss {loss:.5}", i + 1);
    }
    println!("{plans} plans");
    Ok(())
}
