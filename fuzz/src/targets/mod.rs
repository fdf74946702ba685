//! The table of targets. A new target is a file here and a row below.

mod adapters;
mod agp;
mod budgets;
mod builder;
mod checkpoint;
mod config;
mod csv;
mod derive;
mod gemm;
mod gguf;
mod graphs;
mod idx;
mod kernels;
mod npy;
mod onnx;
mod passes;
mod pipeline;
mod plan;
mod pt;
mod session;
mod shards;
mod text;
mod threads;
mod weights;

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name on the command line, and that of its file.
    pub name: &'static str,
    /// What it checks, in one line.
    pub about: &'static str,
    /// Runs it on an input. Panics on a finding.
    pub run: fn(&[u8]),
    /// Inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The dictionary of a text; empty for bytes.
    pub words: &'static [&'static str],
    /// The most bytes of an input.
    pub max_len: usize,
    /// The most memory that an input may take.
    pub memory: MemoryLimit,
}

/// The most bytes in use while an input runs.
#[derive(Clone, Copy)]
pub struct MemoryLimit {
    /// For any input.
    pub base: usize,
    /// For each byte of the input.
    pub each: usize,
}

impl MemoryLimit {
    /// For an input of `len` bytes.
    pub fn limit(self, len: usize) -> usize {
        self.base + self.each * len
    }
}

/// What a graph, its plans and its programs may take.
const GRAPHS: MemoryLimit = MemoryLimit { base: 256 << 20, each: 0 };
/// What a reader may take: 512 times its file, and a mebibyte.
const READERS: MemoryLimit = MemoryLimit { base: 1 << 20, each: 512 };

/// All targets.
pub const TARGETS: &[Target] = &[
    text::TARGET,
    graphs::TARGET,
    builder::TARGET,
    pipeline::TARGET,
    passes::ALONE,
    passes::ORDERS,
    derive::TARGET,
    kernels::TARGET,
    gemm::TARGET,
    plan::TARGET,
    budgets::TARGET,
    threads::TARGET,
    session::TARGET,
    checkpoint::TARGET,
    weights::TARGET,
    adapters::TARGET,
    shards::TARGET,
    pt::TARGET,
    agp::TARGET,
    gguf::TARGET,
    onnx::TARGET,
    npy::TARGET,
    idx::TARGET,
    csv::TARGET,
    config::TARGET,
];

/// Scripts of random bytes, for targets whose input is a list of decisions.
fn scripts() -> Vec<Vec<u8>> {
    let mut rng = arenagrad::tools::arena::rng::SplitMix64(7);
    let lens = [0, 8, 16, 24, 32, 48, 64, 64, 96, 96, 128, 128, 192, 192, 256, 256, 384, 384];
    lens.iter().map(|&n| (0..n).map(|_| rng.bits() as u8).collect()).collect()
}

/// The texts under `tests/filetests` and the errors that they expect, as inputs.
fn file_tests() -> Vec<Vec<u8>> {
    fn walk(dir: &std::path::Path, into: &mut Vec<Vec<u8>>) {
        let mut paths: Vec<_> =
            std::fs::read_dir(dir).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            match path.is_dir() {
                true => walk(&path, into),
                false => into.extend(std::fs::read(path)),
            }
        }
    }
    let mut all = Vec::new();
    walk(&crate::files::package_dir().join("../tests/filetests"), &mut all);
    all
}

/// Runs the target called `name`, for other harnesses. Panics on a finding, and if there is no such target.
pub fn run_named(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("there is no target {name:?}"));
    (target.run)(data);
}
