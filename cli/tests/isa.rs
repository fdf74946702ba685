//! Training gives the same bits on every instruction set that `ARENAGRAD_ISA` can ask for.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, program};

/// A small network with attention, norms, dropout and AdamW: products of many shapes.
const TEXT: &str = "task = \"chargpt\"\ndata = \"text.txt\"\nsteps = 4\nbatch = 4\n[gpt]\nlayers = 2\nheads = 2\nwidth = 32\n\
                    context = 16\nbias = true\ndropout = 0.1\n";

/// The weights and the metrics without the times of steps, after training with `isa`.
fn trained(s: &Scratch, isa: &str, args: &[&str]) -> (Vec<u8>, Vec<f64>) {
    let out = s.path(&format!("{isa}-{}", args.len()));
    let all = [&["train"], args, &["--quiet", "--threads", "2", "--out", &out]].concat();
    let done = program(&all).env("ARENAGRAD_ISA", isa).output().unwrap();
    assert!(done.status.success(), "{isa}: {}", String::from_utf8_lossy(&done.stderr));
    let metrics = std::fs::read_to_string(format!("{out}/metrics.jsonl")).unwrap();
    let lines = metrics.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
    let losses = lines.filter_map(|l| l["train/loss"].as_f64()).collect();
    (std::fs::read(format!("{out}/weights.safetensors")).unwrap(), losses)
}

#[test]
fn the_instruction_set_changes_no_bit_of_a_trained_network() {
    let s = Scratch::new();
    s.file("text.txt", "abc def ghi\n".repeat(80));
    let text = s.file("run.toml", TEXT);
    for args in [&["digits", "--steps", "3"][..], &[&text]] {
        let portable = trained(&s, "portable", args);
        assert!(portable.1.len() >= 3 && portable.1.iter().all(|loss| loss.is_finite()), "{:?}", portable.1);
        // A set that this CPU lacks falls back to the best one that it has: then two runs say the same.
        for isa in ["avx2", "avx512", "neon"] {
            let other = trained(&s, isa, args);
            assert_eq!(other.1, portable.1, "{args:?}: losses by {isa}");
            assert!(other.0 == portable.0, "{args:?}: weights by {isa}");
        }
    }
}
