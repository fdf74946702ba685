//! Acting and learning with one set of params: a policy acts on one observation at a time, and learns from batches.
//!
//! A signal shows two numbers, and the right action is 1 where their product is positive, else 0. The reward is 1 or 0.
//! The policy learns by REINFORCE (Williams 1992): `loss = −mean(advantage · log p(action))`. Both methods of the
//! program read the same params, in place. Run it with `cargo run --release --example act_and_learn`.

use arenagrad::prelude::*;
use arenagrad::session::Method;

/// Steps between two updates.
const ROUND: usize = 64;

/// Log-probabilities of the two actions, `[rows, 2]`.
fn policy(g: &Builder, rows: usize) -> Var<'_> {
    let x = g.input("signal", [rows, 2], DType::F32);
    let h = nn::linear(g, "fc1", x, 32).tanh();
    nn::linear(g, "fc2", h, 2).log_softmax(1)
}

/// The program of this example.
pub fn program() -> Result<Program> {
    let g = Builder::new("act");
    let act = g.finish([policy(&g, 1).exp().named("p")])?;

    let g = Builder::new("learn");
    // For each step, the advantage in the column of the action that was taken, and 0 in the other.
    let advantage = g.input("advantage", [ROUND, 2], DType::F32);
    let loss = (policy(&g, ROUND) * advantage).sum(..) * (-1.0 / ROUND as f64);
    let learn = train(&g.finish([loss.named("loss")])?, "loss", optim::Adam::new(1e-2))?;

    Session::new().compile_all(&[("learn", &learn), ("act", &act)])
}

/// Numbers in [0, 1): a multiplicative congruential generator (Lehmer).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0 * 48_271 % 2_147_483_647;
        self.0 as f32 / 2_147_483_647.0
    }
}

/// What acting reads and writes: found once by name, then used for each act.
struct Actor {
    method: Method,
    signal: Handle<f32>,
    chances: Handle<f32>,
}

impl Actor {
    fn find(p: &Program) -> Result<Actor> {
        let method = p.method("act")?;
        Ok(Actor { method, signal: p.input_of(method, "signal")?, chances: p.output_of(method, "p")? })
    }

    /// Acts once.
    fn act(&self, p: &mut Program, random: &mut Random) -> Result<Move> {
        let signal = [random.next() * 2.0 - 1.0, random.next() * 2.0 - 1.0];
        p[self.signal].copy_from_slice(&signal);
        p.run(self.method)?;
        let action = usize::from(random.next() < p[self.chances][1]);
        let right = usize::from(signal[0] * signal[1] > 0.0);
        Ok(Move { signal, action, reward: if action == right { 1.0 } else { 0.0 } })
    }
}

/// One act and what came of it.
#[derive(Clone, Copy, Default)]
struct Move {
    signal: [f32; 2],
    action: usize,
    reward: f32,
}

/// Plays and learns for some rounds. Returns the mean reward of each.
pub fn play(rounds: usize) -> Result<Vec<f32>> {
    let mut p = program()?;
    p.init(0)?;
    let (actor, mut random) = (Actor::find(&p)?, Random(1));
    let (signals, advantages) = (p.input::<f32>("signal")?, p.input::<f32>("advantage")?);
    let (mut moves, mut means) = ([Move::default(); ROUND], Vec::new());
    for _ in 0..rounds {
        for m in &mut moves {
            *m = actor.act(&mut p, &mut random)?;
        }
        let mean = moves.iter().map(|m| m.reward).sum::<f32>() / ROUND as f32;
        p[advantages].fill(0.0);
        for (k, m) in moves.iter().enumerate() {
            p[signals][2 * k..2 * k + 2].copy_from_slice(&m.signal);
            p[advantages][2 * k + m.action] = m.reward - mean;
        }
        p.step()?; // the first method, `learn`; the next act sees its params
        means.push(mean);
    }
    Ok(means)
}

#[allow(dead_code, reason = "a test includes this file")]
fn main() -> Result<()> {
    for (i, round) in play(400)?.chunks(50).enumerate() {
        let mean = round.iter().sum::<f32>() / round.len() as f32;
        println!("rounds {:3} to {:3}: mean reward {mean:.3}", 50 * i + 1, 50 * i + round.len());
    }
    Ok(())
}
