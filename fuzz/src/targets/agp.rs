//! Any bytes, opened as an exported program, as they are or with checksums that fit. If they open, the program runs,
//! and what it exports opens again.

use super::Target;
use arenagrad::graph::{Builder, DType, GraphBuf};
use arenagrad::nn;
use arenagrad::optim::{self, train};
use arenagrad::session::{Program, Session};
use arenagrad::tools::testing::seal_exported;

pub const TARGET: Target = Target {
    name: "agp",
    about: "any exported program opens and runs, or gives an error; what it exports opens again",
    run,
    seeds,
    words: &[],
    max_len: 16 << 10,
    memory: super::GRAPHS,
};

/// Largest arena, and most operations, of a program that is run.
const MOST_BYTES: usize = 16 << 20;
const MOST_FLOPS: u64 = 10_000_000;

/// Runs the target. The lowest bit of the first byte says whether the file gets checksums that fit.
pub fn run(data: &[u8]) {
    let (how, file) = data.split_first().map_or((0, data), |(n, rest)| (*n, rest));
    let mut file = file.to_vec();
    if how & 1 == 1 {
        seal_exported(&mut file);
    }
    let Ok(mut p) = Program::open_bytes(&file) else { return };
    let again = p.export_bytes().unwrap_or_else(|e| panic!("an opened program is not exported: {e}"));
    drop(Program::open_bytes(&again).unwrap_or_else(|e| panic!("what it exports does not open: {e}")));
    let names: Vec<String> = p.bindings().iter().map(|b| b.name.clone()).collect();
    for name in &names {
        // Outputs cannot be written, and other methods have inputs of their own.
        let _ = p.mark_written(name);
    }
    for name in p.methods().map(str::to_string).collect::<Vec<_>>() {
        let m = p.method(&name).unwrap_or_else(|e| panic!("{e}"));
        let plan = p.plan_of(m).unwrap_or_else(|e| panic!("{e}"));
        if plan.arena_bytes <= MOST_BYTES && plan.flops <= MOST_FLOPS {
            let _ = p.run(m);
        }
    }
}

fn learner() -> GraphBuf {
    let g = Builder::new("learner");
    let h = nn::linear(&g, "fc", g.input("x", [2, 3], DType::F32), 4).tanh().dropout(0.5);
    let loss = h.mse(g.input("y", [2, 4], DType::F32)).named("loss");
    g.finish([loss]).and_then(|g| train(&g, "loss", optim::Adam::new(0.1))).unwrap_or_else(|e| panic!("{e}"))
}

fn actor() -> GraphBuf {
    let g = Builder::new("actor");
    let h = nn::linear(&g, "fc", g.input("x", [1, 3], DType::F32), 4).tanh();
    g.finish([h.named("h")]).unwrap_or_else(|e| panic!("{e}"))
}

fn looped() -> GraphBuf {
    let g = Builder::new("looped");
    let x = g.input("x", [3, 1, 2], DType::F32);
    let zeros = || g.constant(&[0.0f32; 2], [1, 2]);
    let y = nn::lstm(&g, "rnn", x, zeros(), zeros()).0.sum(..);
    g.finish([y.named("y")]).unwrap_or_else(|e| panic!("{e}"))
}

fn seeds() -> Vec<Vec<u8>> {
    let (learn, act, scan) = (learner(), actor(), looped());
    let one = Session::new();
    let two = Session::new().threads(2).share(true);
    let programs = [
        one.compile(&learn),
        two.compile(&learn),
        one.compile(&act),
        two.compile(&scan),
        one.compile_all(&[("learn", &learn), ("act", &act)]),
    ];
    let file = |p: arenagrad::Result<Program>| {
        let bytes = p.and_then(|mut p| p.init(1).and_then(|()| p.export_bytes()));
        [&[1], &bytes.unwrap_or_else(|e| panic!("{e}"))[..]].concat()
    };
    programs.into_iter().map(file).collect()
}
