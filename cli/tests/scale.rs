//! `scale`: the figures of a step on several ranks, against sums by hand, and bad input.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, fails, good};
use serde_json::Value;

/// A step that updates `w`, of 1000 numbers, and `b`, of one; `frozen` and the state `m` are no gradients.
const STEP: &str = "\
graph @step {
  %x = input : f32[batch,1000]
  %w = param init=uniform scale=0.5 frozen=false : f32[1000,1]
  %b = param init=uniform scale=0.5 frozen=false : f32[1,1]
  %frozen = param init=uniform scale=0.5 frozen=true : f32[1000,1]
  %m = state init=zeros scale=1 : f32[1000,1]
  %0 = matmul %x, %w ta=false tb=false : f32[batch,1]
  %1 = reduce_sum %0 axes=[0,1] keep=false : f32[]
  %2 = add %w, %frozen : f32[1000,1]
  %3 = add %m, %2 : f32[1000,1]
  %4 = add %b, %b : f32[1,1]
  update %w <- %2
  update %b <- %4
  update %m <- %3
  return loss=%1
}
";

/// A message takes a millisecond, and another for each 1000 bytes; a copy takes a microsecond a byte.
const NETWORK: &str = "\
name = \"line\"
source = \"made up\"
copied_bytes_per_second = 1e6
message = [
    { bytes = 0, seconds = 1e-3 },
    { bytes = 1000, seconds = 2e-3 },
]
";

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&good(&[args, &["--json"]].concat())).unwrap()
}

fn near(x: &Value, want: f64) {
    let x = x.as_f64().unwrap();
    assert!((x - want).abs() <= 1e-9 * want.abs().max(1e-3), "{x}, not {want}");
}

#[test]
fn a_row_is_the_sum_of_its_parts() {
    let s = Scratch::new();
    let (g, n) = (s.file("step.ir", STEP), s.file("line.toml", NETWORK));
    let base = ["scale", &g, "--size", "batch=8", "--network", &n, "--step-ms", "50"];
    let t = json(&[&base[..], &["--ranks", "1,2,3"]].concat());
    assert_eq!(
        (t["params"].as_u64(), t["gradient_bytes"].as_u64(), t["buckets"].as_u64()),
        (Some(1001), Some(4096), Some(1))
    );
    let rows = t["networks"][0]["rows"].as_array().unwrap();
    near(&rows[0]["step_ms"], 50.0);
    near(&rows[0]["efficiency"], 1.0);
    // Gradients are in whole lines of 64 bytes: 1024 numbers. Two ranks: one round of 512 for each collective of the
    // bucket, and two of 512 bytes for the reports.
    near(&rows[1]["latency_ms"], 4.0);
    near(&rows[1]["transfer_ms"], 2.0 * 2.048 + 2.0 * 0.512);
    near(&rows[1]["copies_ms"], 2.0 * 4.096);
    near(&rows[1]["step_ms"], 50.0 + 4.0 + 5.12 + 8.192);
    near(&rows[1]["efficiency"], 50.0 / 67.312);
    // Three ranks: two rounds each, of 342 numbers.
    near(&rows[2]["latency_ms"], 8.0);
    near(&rows[2]["transfer_ms"], 4.0 * 1.368 + 4.0 * 0.512);
    // One bucket has nothing to pass beside.
    near(&rows[1]["exposed_ms"], 9.12 + 8.192);
    assert_eq!(t["overlaps"], false);
}

#[test]
fn buckets_pass_beside_the_gradients_behind_them() {
    let s = Scratch::new();
    let n = s.file("line.toml", NETWORK);
    let base = ["scale", "w3", "--network", &n, "--ranks", "2", "--step-ms", "1e6"];
    let row = |more: &[&str]| {
        let t = json(&[&base[..], more].concat());
        let row = &t["networks"][0]["rows"][0];
        let of = |key: &str| row[key].as_f64().unwrap();
        (t["overlaps"].as_bool().unwrap(), of("exposed_ms") - of("copies_ms"), of("latency_ms") + of("transfer_ms"))
    };
    let (beside, exposed, messages) = row(&[]);
    let (behind, all, same) = row(&["--no-overlap"]);
    assert!(beside && !behind && messages == same);
    assert!((all - messages).abs() < 1e-6 * all);
    // The gradient of the first layer, a sixth of all, is there last; a step of a thousand seconds hides the others.
    assert!((0.16..0.18).contains(&(exposed / messages)), "{exposed} of {messages}");
}

#[test]
fn the_batch_is_whole_on_each_rank_or_divided() {
    let s = Scratch::new();
    let (g, n) = (s.file("step.ir", STEP), s.file("line.toml", NETWORK));
    let base = ["scale", &g, "--size", "batch=4096", "--network", &n, "--step-ms", "1000"];
    let compute = |more: &[&str]| -> Vec<(u64, f64)> {
        let t = json(&[&base[..], more].concat());
        let rows = t["networks"][0]["rows"].as_array().unwrap();
        rows.iter().map(|r| (r["ranks"].as_u64().unwrap(), r["compute_ms"].as_f64().unwrap())).collect()
    };
    assert_eq!(compute(&["--ranks", "2..5"]), [(2, 1000.0), (4, 1000.0), (5, 1000.0)]);
    // 5 ranks have no equal shares. A share of a fourth has less work than one of a half.
    let rows = compute(&["--ranks", "2..5", "--divide", "batch"]);
    assert_eq!(rows.iter().map(|r| r.0).collect::<Vec<_>>(), [2, 4]);
    assert!(rows[0].1 < 900.0 && rows[1].1 < rows[0].1 && rows[1].1 > 200.0, "{rows:?}");
    let of = |more: &[&str], parts: &[&str]| fails(2, &[&base[..], more].concat(), parts);
    of(&["--ranks", "2,5", "--divide", "batch"], &["5 ranks have no equal shares of batch=4096"]);
    of(&["--ranks", "3..7", "--divide", "batch"], &["[3, 6, 7]", "batch=4096"]);
    of(&["--divide", "rows"], &["--divide rows", "--size rows=256"]);
}

#[test]
fn networks_are_compared_in_a_table_and_a_chart() {
    let s = Scratch::new();
    let (g, slow) = (s.file("step.ir", STEP), s.file("line.toml", NETWORK));
    let quick = s.file(
        "quick.toml",
        "name = \"a < b\"\nsource = \"made up\"\ncopied_bytes_per_second = 1e10\nmessage = [\n    \
                { bytes = 0, seconds = 1e-6 },\n    { bytes = 1000000, seconds = 1e-4 },\n]\n",
    );
    let chart = s.path("chart.svg");
    let args = [
        "scale",
        &g,
        "--size",
        "batch=8",
        "--step-ms",
        "200",
        "--network",
        &slow,
        "--network",
        &quick,
        "--svg",
        &chart,
    ];
    let text = good(&args);
    assert!(text.contains("\nline (made up)\n") && text.contains("\na < b (made up)\n"), "{text}");
    assert!(text.contains("efficiency falls below 0.9 at 3 ranks, most of all by transfer"), "{text}");
    assert!(text.contains("efficiency stays at 0.9 or above"), "{text}");
    let svg = std::fs::read_to_string(&chart).unwrap();
    assert_eq!(svg.matches("<polyline").count(), 2);
    assert!(svg.contains("a &lt; b, 1000 ranks") && !svg.contains("NaN") && svg.ends_with("</svg>\n"));
    // A workload needs no file.
    assert!(good(&["scale", "w2", "--network", &slow, "--ranks", "2"]).starts_with("w2: 1,282 params"));
}

#[test]
fn bad_input_is_named() {
    let s = Scratch::new();
    let (g, n) = (s.file("step.ir", STEP), s.file("line.toml", NETWORK));
    let of = |more: &[&str], parts: &[&str]| {
        fails(2, &[&["scale", &g, "--size", "batch=8", "--network", &n], more].concat(), parts);
    };
    of(&["--ranks", "0"], &["\"0\" is no number of ranks", "1 to 65536"]);
    of(&["--ranks", "9..2"], &["ends with 2, before 9"]);
    of(&["--step-ms", "0"], &["--step-ms is 0"]);
    of(&["--svg", "/no/such/folder/x.svg"], &["/no/such/folder"]);
    fails(2, &["scale", &g, "--network", &n], &["step.ir:2", "batch is not a size"]);
    fails(2, &["scale", &g, "--size", "batch=8"], &["--network"]);
    fails(2, &["scale", "w99", "--network", &n], &["no workload is called \"w99\"", "a file is not called so either"]);
    fails(2, &["scale", "w2", "--size", "batch=8", "--network", &n], &["w2 is a workload"]);
    fails(2, &["scale", &g, "--size", "batch=8", "--network", &s.path("none.toml")], &["none.toml"]);
    let bad = s.file("bad.toml", NETWORK.replace("1000, seconds = 2e-3", "1000, seconds = 0"));
    fails(2, &["scale", &g, "--size", "batch=8", "--network", &bad], &["bad.toml:6: message[1].seconds is 0"]);
    let still = s.file("still.ir", STEP.lines().filter(|l| !l.contains("update")).collect::<Vec<_>>().join("\n"));
    fails(2, &["scale", &still, "--size", "batch=8", "--network", &n], &["still.ir", "no param is updated"]);
}
