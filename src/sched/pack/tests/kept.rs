//! Packings stay as they are: `tests/filetests/packings.txt` has heights, nodes of the search, and digests of offsets.
//! After an intended change, `BLESS=1` writes the file again. Its figures tell whether packings are higher, or took
//! more nodes.

use super::{full, proven, random};
use crate::arena::rng::SplitMix64;
use crate::conform::bless;
use crate::sched::pack::anneal::anneal;
use crate::sched::pack::problem::Problem;
use crate::sched::pack::skyline;
use crate::sched::pack::{Buffers, Options, greedy, instances};
use std::fmt::Write;
use std::path::Path;

/// Packings that take many searches, later ranks or annealing, or that none of them lowers.
const FULL: [(usize, u64, u64, u64); 10] = [
    (8, 5, 9, 58),
    (14, 6, 9, 31),
    (14, 6, 9, 7),
    (18, 8, 9, 26),
    (18, 8, 9, 48),
    (24, 10, 20, 6),
    (24, 10, 20, 9),
    (24, 10, 20, 29),
    (24, 10, 20, 31),
    (24, 10, 20, 59),
];

/// Full rectangles whose first skyline is too high, and the buffers that annealing may place: (pieces, width, height,
/// seed, effort).
const ANNEALED: [(usize, u64, u64, u64, u64); 6] = [
    (40, 20, 400, 3, 10_000),
    (60, 20, 500, 3, 15_000),
    (60, 20, 900, 10, 7860),
    (60, 30, 2000, 3, 15_000),
    (50, 20, 4100, 2, 6550),
    (50, 20, 4100, 8, 6550),
];

/// FNV-1a.
fn digest(at: &[u64]) -> u64 {
    at.iter().fold(0xCBF2_9CE4_8422_2325, |h, x| (h ^ x).wrapping_mul(0x100_0000_01B3))
}

/// The packing of `v` with few nodes, with more, and under capacities around what is reached.
fn page(name: &str, v: &Buffers, out: &mut String) {
    let mut line = |what: &str, options: &Options| {
        let p = proven(v, options);
        let (height, at) = (p.height, digest(&p.at));
        writeln!(out, "{name}, {what}: {height} of {}, {} nodes, solved {}, {at:016x}", p.bound, p.nodes, p.solved)
            .unwrap();
        p
    };
    line("no search", &Options { nodes: 0, capacity: None });
    line("200 nodes", &Options { nodes: 200, capacity: None });
    let p = line("5000 nodes", &Options { nodes: 5000, capacity: None });
    line("below", &Options { nodes: 2000, capacity: Some(p.bound.saturating_sub(1)) });
    line("between", &Options { nodes: 2000, capacity: Some(p.bound.midpoint(p.height)) });
}

#[test]
fn packings_are_those_of_the_file() {
    let mut found = String::new();
    for (n, seeds) in [(12, 4), (40, 4), (90, 2), (160, 1)] {
        for seed in 0..seeds {
            page(&format!("perfect {n} {seed}"), &instances::perfect_instance(n, 1 << 12, 1 << 16, seed), &mut found);
        }
    }
    for seed in 0..12 {
        let v = random(&mut SplitMix64(seed), 10 + 4 * seed as usize, 8 + seed, 40);
        page(&format!("drawn {seed}"), &v, &mut found);
    }
    for (n, moments, most, seed) in FULL {
        page(&format!("full {n} {seed}"), &full(n, moments, most, seed), &mut found);
    }
    for (n, width, height, seed, effort) in ANNEALED {
        let p = Problem::new(&instances::perfect_instance(n, width, height, seed)).unwrap();
        let by_start: Vec<u32> = (0..p.id.len() as u32).collect();
        let first = skyline::run_pass(&p, p.parts[0], &by_start);
        let best = anneal(&p, p.parts[0], &first.at, first.height, p.max_live(), effort).unwrap();
        let (from, to, at) = (first.height, best.height, digest(&best.at));
        writeln!(found, "annealed {height} {seed}: {from} to {to}, {at:016x}").unwrap();
    }
    for (n, seed) in [(60, 1), (150, 2)] {
        page(&format!("power law {n}"), &instances::power_law_instance(n, seed), &mut found);
        page(&format!("training {n}"), &instances::training_instance(n, seed), &mut found);
        page(&format!("unrolled {n}"), &instances::unrolled_instance(n), &mut found);
        let v = instances::power_law_instance(n, seed + 10);
        for (name, packer) in [
            ("first fit", greedy::first_fit as fn(&Buffers) -> greedy::Placed),
            ("best fit", greedy::best_fit),
            ("best fit by life", greedy::best_fit_by_life),
        ] {
            let (at, height) = packer(&v);
            writeln!(found, "power law {n}, {name}: {height}, {:016x}", digest(&at)).unwrap();
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests/packings.txt");
    if bless(&path, &found).unwrap() {
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap();
    let known: Vec<&str> = expected.lines().collect();
    let differs: Vec<&str> = found.lines().filter(|line| !known.contains(line)).collect();
    assert!(
        differs.is_empty() && found.lines().count() == known.len(),
        "other packings (BLESS=1 writes them):\n{}",
        differs.join("\n")
    );
}
