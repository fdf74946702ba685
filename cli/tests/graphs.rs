//! The commands on graphs.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use arenagrad::Precision;
use common::{Scratch, fails, good, run};

const GRAPH: &str = "\
graph @g {
  %x = input : f32[4,3]
  %w = param init=uniform scale=0.5 frozen=false : f32[2,3]
  %0 = matmul %x, %w ta=false tb=true : f32[4,2]
  %1 = tanh %0 : f32[4,2]
  %2 = reduce_sum %1 axes=[0,1] keep=false : f32[]
  return loss=%2, h=%1
}
";

#[test]
fn printing_is_a_fixed_point() {
    let s = Scratch::new();
    let once = good(&["print", &s.file("g.ir", GRAPH)]);
    assert_eq!(good(&["print", &s.file("again.ir", &once)]), once);
    assert!(once.contains("tanh"));
}

#[test]
fn passes_and_gradients_print_graphs() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH);
    let traced = run(&["grad", &g, "--wrt", "x,w", "--output", "loss", "--trace"]);
    let (grad, trace) = (String::from_utf8(traced.stdout).unwrap(), String::from_utf8(traced.stderr).unwrap());
    for step in ["vmap: ", "packs: ", "blocks: ", "decompose: ", "hoist: ", "keep_every: ", "residuals: ", "grad: "] {
        assert!(trace.contains(step), "{step}{trace}");
    }
    assert!(grad.contains("grad.x=") && grad.contains("grad.w="), "{grad}");
    let again = s.file("grad.ir", &grad);
    let opt = good(&["opt", &again, "--passes", "simplify,fold", "--trace"]);
    assert_eq!(good(&["print", &s.file("opt.ir", &opt)]), opt);
    good(&["opt", &again]);
    fails(2, &["grad", &g], &["2 outputs", "loss, h"]);
}

/// Warnings go to standard error with the file's line, and standard output has the graph alone. `run` and `plan` also
/// warn of what is no mistake while the graph may still be trained.
#[test]
fn mistakes_are_named_on_standard_error() {
    let s = Scratch::new();
    let twice = s.file(
        "twice.ir",
        GRAPH.replace("tanh %0", "softmax %0 axis=1").replace(
            "%2 = reduce_sum %1 axes=[0,1] keep=false : f32[]",
            "%3 = log_softmax %1 axis=1 : f32[4,2]\n  %2 = reduce_sum %3 axes=[0,1] keep=false : f32[]",
        ),
    );
    let warned = |args: &[&str]| {
        let out = run(args);
        assert!(out.status.success(), "{args:?}");
        let errors = String::from_utf8(out.stderr).unwrap();
        (String::from_utf8(out.stdout).unwrap(), errors.lines().map(str::to_string).collect::<Vec<_>>())
    };
    let (text, errors) = warned(&["print", &twice]);
    assert!(text.ends_with("}\n") && !text.contains("warning"), "{text}");
    let want =
        "arenagrad: warning: log_softmax: log_softmax has the softmax inside and takes logits; it gets the softmax";
    assert!(errors.len() == 1 && errors[0].starts_with(want) && errors[0].ends_with("twice.ir:6"), "{errors:?}");
    let drops = s.file(
        "drops.ir",
        "\
graph @drops {
  %k = input : u32[4]
  %w = param init=uniform scale=0.5 frozen=false : f32[2,3]
  %y = dropout %w, %k p=0.5 stream=0 : f32[2,3]
  %0 = reduce_sum %y axes=[0,1] keep=false : f32[]
  return loss=%0
}
",
    );
    assert_eq!(warned(&["print", &drops]).1, [""; 0]);
    let text = "dropout \"y\": values are dropped, but the graph trains nothing";
    assert!(warned(&["plan", &drops]).0.starts_with(&format!("warning        {text}")));
    let plan: serde_json::Value = serde_json::from_str(&warned(&["plan", &drops, "--json"]).0).unwrap();
    assert!(plan["warnings"][0].as_str().unwrap().starts_with(text), "{plan}");
}

const SCALAR: &str = "\
graph @s {
  %a = input : f64[]
  %0 = exp %a : f64[]
  %1 = mul %0, %0 : f64[]
  return f=%1
}
";

const CHOICE: &str = "\
region @up(%0: f32[3]) {
  %1 = exp %0 : f32[3]
  yield %1
}
region @down(%0: f32[3]) {
  %1 = neg %0 : f32[3]
  yield %1
}
graph @choice {
  %p = input : bool[]
  %x = input : f32[3]
  %y = if %p, %x then=@up otherwise=@down : f32[3]
  return y=%y
}
";

/// Where members choose branches of their own, the choice runs one member after another.
#[test]
fn the_report_of_a_batch_names_what_is_in_a_loop() {
    let s = Scratch::new();
    let g = s.file("choice.ir", CHOICE);
    let report = |leaf: &str| good(&["vmap", &g, "--members", "2", "--leaf", leaf, "--report"]);
    assert_eq!(report("x"), "0 ops run one member after another\n");
    assert_eq!(
        report("p,x"),
        "if                   12:3: one member after another\n1 op runs one member after another\n"
    );
}

#[test]
fn each_derivative_has_a_command() {
    let s = Scratch::new();
    let (g, scalar) = (s.file("g.ir", GRAPH), s.file("s.ir", SCALAR));
    let cases: [(&[&str], &[&str]); 10] = [
        (&["jvp", &g], &["%tangent.w = input : f32[2,3]", "tangent.loss=", "tangent.h="]),
        (&["jvp", &g, "--wrt", "x,w", "--output", "h"], &["%tangent.x = input", "tangent.h="]),
        (&["vjp", &g], &["%cotangent.loss = input", "%cotangent.h = input : f32[4,2]", "grad.w="]),
        (&["vjp", &g, "--output", "h", "--wrt", "%3,x"], &["grad.x=", "\"grad.%3\"="]),
        (&["hvp", &g, "--output", "loss"], &["grad.w=", "tangent.grad.w=", "tangent.loss="]),
        (&["jacobian", &g, "--output", "h"], &["jacobian.w=", "f32[4,2,2,3]"]),
        (&["vmap", &g, "--members", "5", "--leaf", "x"], &["%x = input : f32[5,", "f32[5]", "loss=", "h="]),
        (
            &["vmap", &g, "--members", "5", "--leaf", "x@-1,w", "--output", "h@1"],
            &["input : f32[4,3,5]", "f32[5,2,3]", "f32[4,5,2]"],
        ),
        (&["nth", &scalar, "--order", "3"], &["grad3.a="]),
        (&["nth", &scalar, "--directions"], &["%dir_0 = input", "%dir_1 = input", "tangent2.f="]),
    ];
    for (args, parts) in cases {
        let text = good(args);
        for part in parts {
            assert!(text.contains(part), "{args:?}: {part} is not in\n{text}");
        }
        // What is printed is a graph, which compiles.
        good(&["opt", &s.file("again.ir", &text)]);
    }
    assert!(good(&["grad", &g, "--output", "loss", "--wrt", "h,w"]).contains("grad.h="));
    assert!(good(&["opt", &g, "--passes", "prepare"]).contains("loss="));
}

#[test]
fn derivatives_that_do_not_exist_are_one_line() {
    let s = Scratch::new();
    let (g, scalar) = (s.file("g.ir", GRAPH), s.file("s.ir", SCALAR));
    fails(2, &["hvp", &g], &["g.ir", "2 outputs (loss, h)", "--output"]);
    fails(2, &["hvp", &g, "--output", "h"], &["g.ir:5", "not a scalar"]);
    fails(2, &["jvp", &g, "--wrt", "nix"], &["g.ir", "no leaf is called \"nix\""]);
    fails(2, &["vjp", &g, "--wrt", "%9"], &["g.ir", "no value is %9"]);
    fails(2, &["jacobian", &scalar, "--wrt", "b"], &["s.ir", "no leaf is called \"b\""]);
    fails(2, &["nth", &g, "--output", "loss"], &["g.ir:3", "needs a scalar"]);
    let vmap = |more: &[&str], want: &[&str]| fails(2, &[&["vmap", &g, "--members", "2"], more].concat(), want);
    vmap(&["--leaf", "nix"], &["g.ir", "no leaf is called \"nix\""]);
    vmap(&["--leaf", "x@7"], &["g.ir", "axis 7 of leaf \"x\""]);
    vmap(&["--leaf", "x@y"], &["\"y\" is no axis"]);
    vmap(&[], &["--leaf"]);
    vmap(&["--leaf", "x", "--report", "--locations"], &["--report"]);
    fails(2, &["vmap", &g, "--leaf", "x"], &["--members"]);
    fails(2, &["nth", &scalar, "--order", "9"], &["order is 9; it goes from 0 to 8"]);
    let two = SCALAR.replace("  %0", "  %b = input : f64[]\n  %0");
    fails(2, &["jacobian", &s.file("two.ir", two)], &["2 leaves (a, b)", "--wrt"]);
    let int = "graph @i {\n  %x = input : i32[4]\n  %y = add %x, %x : i32[4]\n  return y=%y\n}\n";
    fails(2, &["jvp", &s.file("i.ir", int), "--wrt", "x"], &["no output is a float"]);
}

const BLOCKS: &str = "\
graph @g {
  %x = input : f32[4,6]
  %w = param init=uniform scale=0.5 frozen=false : f32[6,6]
  %b = param init=zeros scale=0.0 frozen=false : f32[6]
  %s = param init=zeros scale=0.0 frozen=false : f32[1]
  %0 = linear %x, %w, %b act=gelu : f32[4,6]
  %1 = matmul %0, %w ta=false tb=false : f32[4,6]
  %2 = broadcast %s shape=[4,6] : f32[4,6]
  %3 = add %1, %2 : f32[4,6]
  %4 = matmul_bias_act %3, %w, %b ta=false tb=false act=tanh : f32[4,6]
  %5 = reduce_sum %4 axes=[0,1] keep=false : f32[]
  return loss=%5
}
";

#[test]
fn blocks_and_fused_ops_are_read_unfused_differentiated_and_reported() {
    let s = Scratch::new();
    let g = s.file("g.ir", BLOCKS);
    let plain = good(&["opt", &g, "--passes", "unfuse"]);
    assert!(!plain.contains("linear") && !plain.contains("matmul_bias_act") && plain.contains("gelu"), "{plain}");
    assert!(good(&["grad", &g]).contains("grad.w="));
    let report = good(&["opt", &s.file("plain.ir", &plain), "--report"]);
    for part in
        ["fired   matmul-bias", "fired   matmul-activation", "missed  matmul-bias", "shape [1]; a bias has shape [6]"]
    {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    let json: serde_json::Value = serde_json::from_str(&good(&["opt", &g, "--report", "--json"])).unwrap();
    let missed = json.as_array().unwrap().iter().find(|f| f["fired"] == false).unwrap();
    assert_eq!((&missed["rule"], &missed["place"]), (&"matmul-bias".into(), &"9:3".into()));
}

#[test]
fn plans_are_printed_and_drawn() {
    let s = Scratch::new();
    let svg = s.path("plan.svg");
    let text = good(&["plan", &s.file("g.ir", GRAPH), "--svg", &svg]);
    for part in ["arena", "max live", "any order", "fragmentation", "phases", "peak", "largest buffers", "g.ir:2"] {
        assert!(text.contains(part), "{text}");
    }
    let drawn = std::fs::read_to_string(svg).unwrap();
    assert!(
        drawn.starts_with("<svg")
            && drawn.contains("x (input), ")
            && drawn.contains("g.ir:2")
            && drawn.ends_with("</svg>")
    );
}

#[test]
fn plans_say_how_products_are_computed() {
    let s = Scratch::new();
    let file = step(&s);
    let products = |p: &str| -> serde_json::Value {
        serde_json::from_str(&good(&["plan", &file, "--json", "--precision", p])).unwrap()
    };
    let all = products("f32")["products"]["f32"].as_u64().unwrap();
    assert!(all > 0);
    assert_eq!(products("bf16")["products"], serde_json::json!({ "f32": 0, "bf16x3": 0, "bf16x2": 0, "bf16": all }));
    let text = good(&["plan", &file, "--precision", "bf16x3"]);
    // Without AMX, f32 is faster and at least as accurate.
    assert!(text.contains(&format!("{all} in {}", Precision::Bf16x3.here().name())), "{text}");
}

/// A step of the graph: its plan has a forward and a backward half.
fn step(s: &Scratch) -> String {
    let text = good(&["grad", &s.file("g.ir", GRAPH), "--output", "loss"]);
    s.file("step.ir", &text)
}

#[test]
fn plans_are_written_as_json_and_as_a_page() {
    let s = Scratch::new();
    let (file, page) = (step(&s), s.path("plan.html"));
    let plan: serde_json::Value = serde_json::from_str(&good(&["plan", &file, "--json", "--html", &page])).unwrap();
    let buffers = plan["buffers"].as_array().unwrap();
    let arena = plan["arena_bytes"].as_u64().unwrap();
    assert!(plan["max_live_bytes"].as_u64().unwrap() <= arena && plan["fragmentation"].as_f64().unwrap() >= 1.0);
    assert!(buffers.iter().all(|b| b["offset"].as_u64().unwrap() + b["size"].as_u64().unwrap() <= arena));
    assert!(
        buffers.iter().any(|b| b["name"] == "w"
            && b["kind"] == "param"
            && b["op"] == "param"
            && b["place"].as_str().unwrap().ends_with("step.ir:3")),
        "{plan}"
    );
    assert!(plan["phases_us"]["check"].as_f64().unwrap() > 0.0);
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains("Memory map") && !html.contains("<h2>Loss"));
}

#[test]
fn plans_keep_a_budget_or_say_what_would_do() {
    let s = Scratch::new();
    let file = step(&s);
    let free: serde_json::Value = serde_json::from_str(&good(&["plan", &file, "--json"])).unwrap();
    let enough = free["arena_bytes"].to_string();
    let text = good(&["plan", &file, "--max-memory", &enough]);
    assert!(text.contains("computed twice") && text.contains("+0.00 %"), "{text}");
    let list = good(&["plan", &file, "--budgets"]);
    assert!(list.contains(&enough) && list.contains("nothing"), "{list}");
    fails(2, &["plan", &file, "--max-memory", "0"], &["budget of 0 bytes", "smallest that would do"]);
}

/// y = f(x) with f = sin; `VJP` and `JVP` are the factors of the rules.
const RULED: &str = "\
region @f(%x: f32[4]) {
  %y = sin %x : f32[4]
  yield %y
}
region @f.vjp(%x: f32[4], %y: f32[4], %d: f32[4]) {
  %c = cos %x : f32[4]
  %p = mul %c, %d : f32[4]
  %k = full value=VJP : f32[4]
  %r = mul %p, %k : f32[4]
  yield %r
}
region @f.jvp(%x: f32[4], %y: f32[4], %d: f32[4]) {
  %c = cos %x : f32[4]
  %p = mul %c, %d : f32[4]
  %k = full value=JVP : f32[4]
  %r = mul %p, %k : f32[4]
  yield %r
}
graph @g {
  %x = input : f32[4]
  %w = input : f32[4]
  %y = custom_fn %x body=@f captures=0 vjp=@f.vjp jvp=@f.jvp : f32[4]
  %z = mul %w, %w : f32[4]
  return y=%y, z=%z
}
";

#[test]
fn checks_compare_the_rules_of_custom_functions() {
    let s = Scratch::new();
    let check = |vjp: &str, jvp: &str| {
        let text = RULED.replace("VJP", vjp).replace("JVP", jvp);
        good(&["check", &s.file(&format!("{vjp}{jvp}.ir"), &text)])
    };
    let right = check("1.0", "1.0");
    assert!(right.contains("rules of custom_fn \"f\": <Jv,w> = ") && !right.contains("warning"), "{right}");
    assert_eq!(right.matches(": ok").count(), 3, "{right}");
    let on_purpose = check("3.0", "3.0");
    assert!(on_purpose.contains("differs, as the rules of custom_fn \"f\" may"), "{on_purpose}");
    assert_eq!(on_purpose.matches(": ok").count(), 2, "{on_purpose}");
    assert!(check("1.0", "2.0").contains("warning: vjp and jvp disagree"));
}

#[test]
fn checks_agree_with_finite_differences() {
    let s = Scratch::new();
    let text = good(&["check", &s.file("g.ir", GRAPH)]);
    assert!(text.contains("plan proven") && text.contains("gradient of x") && text.contains("gradient of w"), "{text}");
    let int = "graph @i {\n  %x = input : i32[4]\n  %y = add %x, %x : i32[4]\n  return y=%y\n}\n";
    assert!(good(&["check", &s.file("i.ir", int)]).contains("gradients: none"));
}

/// The root in the branch that does not run is NaN. A loop that is not written out may have any length.
#[test]
fn checks_run_loops_and_branches_as_they_are() {
    let s = Scratch::new();
    let text = "\
region @root(%x: f32[4]) {
  %y = sqrt %x : f32[4]
  yield %y
}
region @square(%x: f32[4]) {
  %y = mul %x, %x : f32[4]
  yield %y
}
region @halved(%h: f32[4], %z: f32[4]) {
  %k = full value=0.5 : f32[4]
  %m = mul %h, %k : f32[4]
  %n = add %m, %z : f32[4]
  yield %n
}
graph @g {
  %x = input : f32[4]
  %a = abs %x : f32[4]
  %m = neg %a : f32[4]
  %k = full value=1.0 : f32[]
  %no = lt %k, %k : bool[]
  %z = if %no, %m then=@root otherwise=@square : f32[4]
  %y = scan %z, %z body=@halved carries=1 consts=1 length=100000 reverse=false : f32[4]
  return y=%y
}
";
    let told = good(&["check", &s.file("g.ir", text)]);
    assert!(told.contains("gradient of x: 4 of 4") && told.contains(": ok"), "{told}");
}

/// A `.npy` file of f32.
fn npy(dims: &[usize], data: &[f32]) -> Vec<u8> {
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    let dims: String = dims.iter().map(|d| format!("{d},")).collect();
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({dims}), }}\n");
    npy.extend((header.len() as u16).to_le_bytes());
    npy.extend(header.as_bytes());
    data.iter().for_each(|x| npy.extend(x.to_le_bytes()));
    npy
}

#[test]
fn graphs_are_evaluated_on_npy_files() {
    let s = Scratch::new();
    let text = "graph @g {\n  %x = input : f32[2]\n  %y = add %x, %x : f32[2]\n  return y=%y\n}\n";
    let x = format!("x={}", s.file("x.npy", npy(&[2], &[1.5, -2.0])));
    good(&["run", &s.file("g.ir", text), "--in", &x, "--out", &s.path("out")]);
    let y = std::fs::read(s.path("out/y.npy")).unwrap();
    assert_eq!(y[y.len() - 8..], [3.0f32, -4.0].map(f32::to_le_bytes).concat());
}

#[test]
fn benches_report_their_figures() {
    let text = good(&["bench", "--seconds", "0.05", "--json"]);
    let rows: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["allocs_per_step"].as_f64(), Some(0.0));
        assert_eq!(row["first_losses"].as_array().map(Vec::len), Some(5));
    }
}

const SIZED: &str = "\
graph @sized {
  %x = input : f32[batch,3]
  %w = param init=uniform scale=0.5 frozen=false : f32[2,3]
  %0 = matmul %x, %w ta=false tb=true : f32[batch,2]
  %1 = reshape %0 shape=[2*batch] : f32[2*batch]
  %2 = reduce_sum %1 axes=[0] keep=false : f32[]
  return loss=%2
}
";

#[test]
fn every_command_binds_symbols() {
    let s = Scratch::new();
    let g = s.file("g.ir", SIZED);
    for batch in [1, 7] {
        let size = format!("batch={batch}");
        let text = good(&["print", &g, "--size", &size]);
        assert!(text.contains(&format!("reshape %2 shape=[{}] : f32[{}]", 2 * batch, 2 * batch)), "{text}");
        for command in ["plan", "opt", "grad", "jvp", "vjp", "hvp", "jacobian", "check"] {
            good(&[command, &g, "--size", &size]);
        }
        let trace = s.path("trace.json");
        good(&["trace", &g, "--size", &size, "--out", &trace]);
        let data: Vec<f32> = (0..3 * batch).map(|i| i as f32).collect();
        let x = s.file("x.npy", npy(&[batch, 3], &data));
        let out = s.path("out");
        let said = good(&["run", &g, "--size", &size, "--in", &format!("x={x}"), "--out", &out]);
        assert!(said.starts_with("loss f32[]"), "{said}");
    }
    let nth = s.file(
        "nth.ir",
        "graph @n {\n  %x = input : f64[n]\n  %y = reduce_sum %x axes=[0] keep=false\n  return y=%y\n}\n",
    );
    good(&["nth", &nth, "--size", "n=2", "--directions"]);
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let s = Scratch::new();
    let g = s.file("g.ir", SIZED);
    for command in ["print", "plan", "opt", "grad", "jvp", "vjp", "hvp", "jacobian", "nth", "check"] {
        fails(2, &[command, &g], &["g.ir:2:20", "batch is not a size", "--size batch=N"]);
    }
    fails(2, &["print", &g, "--size", "bacth=3"], &["g.ir:2:20", "bound are bacth", "did you mean bacth?"]);
    fails(2, &["print", &g, "--size", "batch=3", "--size", "len=3"], &["g.ir", "\"len\"", "it has batch"]);
    fails(2, &["print", &g, "--size", "batch=3", "--size", "batch=4"], &["--size", "bound twice, to 3 and to 4"]);
    fails(2, &["print", &g, "--size", "batch=99999999999"], &["--size", "the largest size is 4294967295"]);
    for bad in ["batch", "batch=", "batch=-1", "batch=x", "=3", "batch=1.5"] {
        fails(2, &["print", &g, "--size", bad], &[bad, "is not SYMBOL=N"]);
    }
    fails(2, &["trace", "w1", "--size", "batch=3", "--out", &s.path("t.json")], &["--size is for graphs"]);
}

#[test]
fn acting_beside_learning_copies_nothing() {
    let row: serde_json::Value =
        serde_json::from_str(&good(&["bench", "--workloads", "act", "--seconds", "0", "--json"])).unwrap();
    let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
    assert!(number("acts") >= 20_000.0);
    assert_eq!((number("copied_bytes"), number("allocs_per_act")), (0.0, 0.0), "{row}");
    // 4·64 + 64, 64·64 + 64 and 64·2 + 2 numbers; a buffer may end in padding.
    assert!(number("param_bytes") >= 4.0 * 4610.0, "{row}");
    for who in ["alone", "shared"] {
        let [p50, p99, p999] = ["p50", "p99", "p999"].map(|q| number(&format!("{who}_us_{q}")));
        assert!(p50 <= p99 && p99 <= p999, "{who}: {p50} {p99} {p999}");
    }
    assert!((number("ratio_p50") - number("shared_us_p50") / number("alone_us_p50")).abs() < 1e-9);
    let text = good(&["bench", "--workloads", "act", "--seconds", "0"]);
    assert!(text.starts_with("act  threads 1") && text.contains("copied 0 of 1"), "{text}");
    fails(2, &["bench", "--workloads", "act", "--trace", "t.json"], &["--trace", "act"]);
    let no_data = ["--data d: the workload act reads no data"];
    fails(2, &["bench", "--workloads", "act", "--data", "d"], &no_data);
    fails(2, &["bench", "--workloads", "acts"], &["acts", "w1", "act (act of an MLP"]);
}
