//! The memory map that the README shows: `docs/memory-map.svg`, which `BLESS=1` writes.

use crate::common::models;
use arenagrad::optim::{self, train};
use arenagrad::session::Session;
use arenagrad::tools::kernels::simd::isa;
use arenagrad::tools::testing::bless;
use std::path::Path;

/// A training step of a small convnet. The last line names the instruction set that the map was drawn for: workspaces
/// of kernels depend on it. On another one only the params are compared, which are the same everywhere.
#[test]
fn the_readme_shows_the_plan_of_a_convnet() {
    let step = train(&models::convnet(32), "loss", optim::Sgd::new(0.1)).unwrap();
    let plan = Session::new().threads(1).plan(&step).unwrap();
    let tail = format!("\n<!-- {} -->\n", isa().name());
    let found = format!("{}{tail}", plan.svg());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/memory-map.svg");
    if bless(&path, &found).unwrap() {
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap();
    let same = if written.ends_with(&tail) {
        written == found
    } else {
        let of_params = |svg: &str| svg.lines().filter(|line| line.contains("(param)")).count();
        written.starts_with("<svg") && of_params(&written) == of_params(&found)
    };
    assert!(same, "docs/memory-map.svg is out of date: BLESS=1 cargo test --test programs memory_map");
}
