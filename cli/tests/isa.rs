//! Training gives the same bits on every instruction set that `ARENAGRAD_ISA` can ask for.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, program};

/// A small network with attention, norms, dropout and AdamW: products of many shapes.
const TEXT: &str = "task = \"chargpt\"\ndata = \"text.txt\"\nsteps = 4\nbatch = 4\n[gpt]\nlayers = 2\nheads = 2\nwidth = 32\n\
                    context = 16\nbias = true\ndropout = 0.1\n";

/// The weights, and the losses of the steps, after training with `isa`; `None` if this CPU lacks that.
fn trained(s: &Scratch, isa: &str, args: &[&str]) -> Option<(Vec<u8>, Vec<f64>)> {
    let out = s.path(&format!("{isa}-{}", args.len()));
    let all = [&["train"], args, &["--quiet", "--threads", "2", "--out", &out]].concat();
    let done = program(&all).env("ARENAGRAD_ISA", isa).output().unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    if done.status.code() == Some(2) && errors.contains("this CPU lacks it") {
        return None;
    }
    assert!(done.status.success(), "{isa}: {errors}");
    let metrics = std::fs::read_to_string(format!("{out}/metrics.jsonl")).unwrap();
    let lines = metrics.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
    let losses = lines.filter_map(|l| l["train/loss"].as_f64()).collect();
    Some((std::fs::read(format!("{out}/weights.safetensors")).unwrap(), losses))
}

#[test]
fn the_instruction_set_changes_no_bit_of_a_trained_network() {
    let s = Scratch::new();
    s.file("text.txt", "abc def ghi\n".repeat(80));
    let text = s.file("run.toml", TEXT);
    for args in [&["digits", "--steps", "3"][..], &[&text]] {
        let (weights, losses) = trained(&s, "portable", args).unwrap();
        assert!(losses.len() >= 3 && losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
        let others: Vec<_> = ["neon", "avx2", "avx512"].into_iter().filter_map(|isa| trained(&s, isa, args)).collect();
        // No CPU has all instruction sets. A CPU that runs the tests has at least one.
        assert!((1..3).contains(&others.len()) || !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")));
        for other in others {
            assert_eq!(other.1, losses, "{args:?}");
            assert!(other.0 == weights, "{args:?}: other weights");
        }
    }
}

#[test]
fn an_instruction_set_that_cannot_be_had_is_refused() {
    let lacking = if cfg!(target_arch = "x86_64") { "neon" } else { "avx512" };
    for (isa, why) in [("sse9", "it may be portable, neon, avx2, avx512"), (lacking, "this CPU lacks it; its best is")]
    {
        let s = Scratch::new();
        let args = ["train", "digits", "--steps", "1", "--out", &s.path("o")];
        let out = program(&args).env("ARENAGRAD_ISA", isa).output().unwrap();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), errors.lines().count()), (Some(2), 1), "{errors}");
        assert!(errors.contains(&format!("ARENAGRAD_ISA asks for {isa:?}: {why}")), "{errors}");
    }
}

/// A plan is made for an instruction set, so it asks for one as well.
#[test]
fn a_plan_needs_an_instruction_set_that_can_be_had() {
    let s = Scratch::new();
    let graph = s.file("g.ir", "graph @g {\n  %x = input : f32[4]\n  %y = exp %x : f32[4]\n  return y=%y\n}\n");
    let planned = |isa: &str| program(&["plan", &graph]).env("ARENAGRAD_ISA", isa).output().unwrap();
    assert!(planned("portable").status.success());
    let out = planned("sse9");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && out.stdout.is_empty(), "{errors}");
    assert!(errors.contains("ARENAGRAD_ISA asks for \"sse9\": it may be portable, neon, avx2, avx512"), "{errors}");
}
