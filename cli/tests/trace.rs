//! Traces: files that Chrome and Perfetto read, and the figures beside them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, fails, good, summary};
use serde_json::Value;
use std::path::Path;

const GRAPH: &str = "\
graph @g {
  %x = input : f32[64,96]
  %i = input : i32[5]
  %w = param init=uniform scale=0.5 frozen=false : f32[48,96]
  %0 = matmul %x, %w ta=false tb=true : f32[64,48]
  %1 = softmax %0 axis=1 : f32[64,48]
  %2 = reduce_sum %1 axes=[0] keep=false : f32[48]
  %3 = gather %0, %i axis=0 : f32[5,48]
  return sum=%2, rows=%3
}
";

/// The events of each thread, by kind.
struct File {
    kernels: Vec<Vec<Value>>,
    waits: Vec<usize>,
    step_us: f64,
}

fn read(path: &str) -> File {
    let all: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let events = all["traceEvents"].as_array().unwrap();
    let threads = events.iter().filter(|e| e["name"] == "thread_name").count();
    let mut file = File {
        kernels: vec![Vec::new(); threads],
        waits: vec![0; threads],
        step_us: all["otherData"]["step_us"].as_f64().unwrap(),
    };
    let mut end = vec![0.0; threads];
    for e in events.iter().filter(|e| e["ph"] != "M") {
        assert_eq!((&e["ph"], &e["pid"]), (&Value::from("X"), &Value::from(1)));
        let t = e["tid"].as_u64().unwrap() as usize;
        let (from, long) = (e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap());
        // Times are nanoseconds as fractional microseconds: sums are exact to far less than a nanosecond.
        assert!(from >= end[t] - 1e-4 && long >= 0.0, "events of thread {t} overlap: {e}");
        end[t] = from + long;
        assert!(end[t] <= file.step_us + 1e-4);
        match e["cat"].as_str() {
            Some("wait") => file.waits[t] += 1,
            Some("kernel") => file.kernels[t].push(e.clone()),
            other => panic!("{other:?}"),
        }
    }
    file
}

/// The instructions in `thread`, each of which stands there once.
fn instructions(thread: &[Value]) -> Vec<u64> {
    let mut list: Vec<u64> = thread.iter().map(|e| e["args"]["instruction"].as_u64().unwrap()).collect();
    list.sort_unstable();
    let n = list.len();
    list.dedup();
    assert_eq!(list.len(), n, "an instruction runs twice");
    list
}

#[test]
fn a_graph_is_recorded_instruction_by_instruction() {
    let s = Scratch::new();
    let (g, out) = (s.file("g.ir", GRAPH), s.path("t.json"));
    let table = good(&["trace", &g, "--out", &out]);
    let f = read(&out);
    let plan: Value = serde_json::from_str(&good(&["plan", &g, "--json"])).unwrap();
    let n = plan["instructions"].as_u64().unwrap();
    assert_eq!((f.kernels.len(), f.waits[0]), (1, 0));
    assert_eq!(instructions(&f.kernels[0]), (0..n).collect::<Vec<_>>());
    for op in ["matmul", "softmax", "reduce_sum", "gather"] {
        let e = f.kernels[0].iter().find(|e| e["name"] == op).unwrap_or_else(|| panic!("no {op}"));
        assert!(e["args"]["shapes"].as_str().unwrap().contains("->"));
        assert!(e["args"]["place"].as_str().unwrap().contains("g.ir:"), "{e}");
        assert!(table.lines().any(|l| l.starts_with(op)), "{table}");
    }
    let product = f.kernels[0].iter().find(|e| e["name"] == "matmul").unwrap();
    assert_eq!(product["args"]["flops"], 2 * 64 * 48 * 96);
    assert_eq!(product["args"]["bytes"], 4 * (64 * 96 + 48 * 96 + 64 * 48));
}

#[test]
fn threads_have_rows_of_their_own() {
    let s = Scratch::new();
    let (one, two) = (s.path("1.json"), s.path("2.json"));
    good(&["trace", "w4", "--out", &one]);
    good(&["trace", "w4", "--out", &two, "--threads", "2"]);
    let (one, two) = (read(&one), read(&two));
    let mut all = instructions(&one.kernels[0]);
    let mut shared: Vec<u64> = two.kernels.iter().flat_map(|k| instructions(k)).collect();
    assert!(shared.len() > all.len(), "some instructions are shared");
    shared.sort_unstable();
    shared.dedup();
    all.dedup();
    assert_eq!(shared, all);
    assert!(two.waits[0] > 0 && two.waits[0] == two.waits[1], "{:?}", two.waits);
}

#[test]
fn bench_records_its_workload_and_reports_limits() {
    let s = Scratch::new();
    let out = s.path("t.json");
    let text = good(&["bench", "--workloads", "w2", "--seconds", "0", "--json", "--trace", &out]);
    let row: Value = serde_json::from_str(&text).unwrap();
    let positive = |key: &str| row[key].as_f64().filter(|x| *x > 0.0).unwrap_or_else(|| panic!("{key}: {row}"));
    for key in ["step_us_p999", "first_step_ms", "gflops", "peak_gflops", "stream_gbs", "roofline_share"] {
        positive(key);
    }
    // Products of batch 1: forward, backward by weights, and backward by inputs except in the first layer.
    assert!(positive("flops_per_step") >= (2 * (2 * (4 * 32 + 32 * 32 + 32 * 2)) + 2 * (32 * 32 + 32 * 2)) as f64);
    // Params are read and written.
    assert!(positive("moved_bytes") >= (2 * 4 * (4 * 32 + 32 + 32 * 32 + 32 + 32 * 2 + 2)) as f64);
    assert!(positive("step_us_p999") >= row["step_us_p99"].as_f64().unwrap());
    assert!(!read(&out).kernels[0].is_empty());
    let low = good(&["bench", "--workloads", "w2", "--seconds", "0"]);
    assert!(low.contains("of the roofline") && low.contains("p99.9"), "{low}");
}

#[test]
fn training_is_recorded_and_not_changed() {
    let s = Scratch::new();
    let (a, b, t) = (s.path("a"), s.path("b"), s.path("t.json"));
    good(&["train", "digits", "--steps", "3", "--threads", "2", "--out", &a]);
    good(&["train", "digits", "--steps", "3", "--threads", "2", "--out", &b, "--trace", &t]);
    let (a, b) = (summary(Path::new(&a)), summary(Path::new(&b)));
    assert_eq!(a["weights_sha256"], b["weights_sha256"]);
    assert_eq!(b["allocs_per_step"].as_f64(), Some(0.0));
    let f = read(&t);
    assert!(f.kernels[0].iter().any(|e| e["args"]["node"] == "conv1.weight"), "an update is named by its param");
}

#[test]
fn bad_arguments_are_refused() {
    let s = Scratch::new();
    let (g, out) = (s.file("g.ir", GRAPH), s.path("t.json"));
    fails(2, &["trace", "w9", "--out", &out], &["w9", "w1"]);
    fails(2, &["trace", &s.path("gone.ir"), "--out", &out], &["gone.ir", "No such file"]);
    fails(2, &["trace", &s.file("bad.ir", "graph"), "--out", &out], &["bad.ir"]);
    fails(2, &["trace", &g, "--out", &s.path("no/such/folder.json")], &["folder.json"]);
    fails(2, &["trace", &g, "--out", &out, "--data", &s.path("d")], &["--data", "workloads"]);
    fails(2, &["trace", "w1", "--out", &out, "--threads", "0"], &["threads is 0"]);
    fails(2, &["bench", "--seconds", "0", "--trace", &out], &["--trace", "2"]);
    fails(2, &["bench", "--threads", "0"], &["threads is 0"]);
    for command in [&["bench"][..], &["trace", "w1", "--out", &out]] {
        fails(2, &[command, &["--threads", "100000"]].concat(), &["threads is 100000", "1024"]);
    }
    assert!(!Path::new(&out).exists());
}
