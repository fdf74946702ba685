//! Hostile graphs.
//!
//! Invariant: what is made depends on nothing, so that a failure can be looked at again by its name.

use arenagrad::graph::{GraphBuf, Init};
use arenagrad::tools::ir::attrs::Attr;
use arenagrad::tools::ir::dtype::DType;
use arenagrad::tools::ir::emit::Emit;
use arenagrad::tools::ir::leaf::StateAttrs;
use arenagrad::tools::ir::opdef::{Case, Op};
use arenagrad::tools::ir::text::{parse_attrs, parse_types, print};
use arenagrad::tools::ops::table::OPS;
use arenagrad::tools::testing::add_case_region;
use std::fmt::Write;

/// A file: its name and its bytes.
pub type File = (String, Vec<u8>);

/// A graph that is in order: every mutant of texts starts here.
pub const SOUND: &str = "\
region @body(%c: f32[4], %x: f32[4]) {
  %y = add %c, %x : f32[4]
  yield %y
}
graph @g {
  %x = param init=normal scale=0.5 frozen=false : f32[3,4]
  %w = param init=uniform scale=0.5 frozen=false : f32[4]
  %s = state init=zeros scale=0.0 : f32[4]
  %0 = call %s, %w body=@body : f32[4]
  %1 = scan %0, %x body=@body carries=1 consts=0 length=3 reverse=false : f32[4]
  %2 = tanh %1 : f32[4] loc(\"net.rs\":12)
  %3 = reduce_sum %2 axes=[0] keep=false : f32[]
  update %s <- %2
  return loss=%3, \"a/b\"=%2
}
";

/// Numbers that stand for others in attributes and shapes: none that memory has room for and that takes long.
const NUMBERS: [&str; 5] = ["0", "-1", "70001", "5000000029", "9223372036854775807"];

/// `depth` regions that hold `lines`, where `@before` is the one before, and a graph that calls the last.
fn nested(depth: usize, lines: &str) -> String {
    let head = |k: usize| format!("region @r{k}(%x: f32[4], %y: f32[4]) {{\n");
    let mut text = head(0) + "  %out = mul %x, %y : f32[4]\n  yield %out\n}\n";
    for k in 1..=depth {
        let lines = lines.replace("@before", &format!("@r{}", k - 1));
        let _ = write!(text, "{}{lines}  yield %out\n}}\n", head(k));
    }
    let _ = write!(
        text,
        "graph @g {{\n  %x = param init=ones scale=0 frozen=false : f32[4]\n  %w = state init=ones scale=0 : f32[4]\n  \
         %a = call %x, %w body=@r{depth} : f32[4]\n  %l = reduce_sum %a axes=[0] keep=false : f32[]\n  return l=%l\n}}\n"
    );
    text
}

/// Graphs that nest, or that become far more than they are.
fn bombs() -> Vec<(String, String)> {
    let twice = "  %one = call %x, %y body=@before : f32[4]\n  %out = call %one, %y body=@before : f32[4]\n";
    let once = "  %one = call %x, %y body=@before : f32[4]\n  %out = sin %one : f32[4]\n";
    let scan = |length: &str| {
        format!("  %out = scan %x, %y body=@before carries=1 consts=1 length={length} reverse=false : f32[4]\n")
    };
    let pair = format!("{}  %two = call %out, %x body=@before : f32[4]\n", scan("2").replace("%out", "%one"));
    let pair = pair.replace("call %out", "call %one").replace("%two", "%out");
    let mut all = Vec::new();
    for depth in [1, 12, 21, 22, 40, 400] {
        all.push((format!("doubling-{depth}"), nested(depth, twice)));
    }
    for depth in [16, 17, 1000, 20_000] {
        all.push((format!("chain-{depth}"), nested(depth, once)));
    }
    for depth in [8, 64, 65, 5000] {
        all.push((format!("loops-{depth}"), nested(depth, &scan("1"))));
    }
    for length in ["0", "1000000", "9223372036854775807"] {
        all.push((format!("length-{length}"), nested(1, &scan(length))));
    }
    for depth in [6, 30, 100] {
        all.push((format!("loops-and-calls-{depth}"), nested(depth, &pair)));
    }
    all
}

/// Graphs of large tensors, and of much of everything.
fn large() -> Vec<(String, String)> {
    let graph = |lines: &str| format!("graph @g {{\n{lines}}}\n");
    let mut all = Vec::new();
    let shapes =
        ["1000000000000", "4294967296,1073741824", "0,9223372036854775807", "2147483647,2147483647", "3000000000"];
    for (i, dims) in shapes.into_iter().enumerate() {
        for (j, line) in [
            "%x = param init=normal scale=1 frozen=false : f32[DIMS]\n  %y = tanh %x : f32[DIMS]",
            "%y = full value=1.0 : f32[DIMS]",
            "%y = iota axis=0 : i64[DIMS]",
            "%x = input : u8[DIMS]\n  %y = cast %x to=f64 : f64[DIMS]",
            "%a = full value=1.0 : f32[DIMS]\n  %b = exp %a : f32[DIMS]\n  %c = sin %b : f32[DIMS]\n  %y = add %b, %c",
        ]
        .into_iter()
        .enumerate()
        {
            let lines = format!("  {}\n  return y=%y\n", line.replace("DIMS", dims));
            all.push((format!("dims-{i}-{j}"), graph(&lines)));
        }
    }
    let x = "  %x = param init=ones scale=0 frozen=false : f32[2]\n";
    let list = |n: usize, one: &dyn Fn(usize) -> String| (0..n).map(one).collect::<Vec<_>>();
    let many = list(50_000, &|_| "%x".into()).join(", ");
    all.push(("arguments".into(), graph(&format!("{x}  %y = concat {many} axis=0\n  return y=%y\n"))));
    let outputs = list(20_000, &|i| format!("o{i}=%x")).join(", ");
    all.push(("outputs".into(), graph(&format!("{x}  return {outputs}\n"))));
    let chain = list(20_000, &|i| format!("  %{} = sin %{}\n", i + 1, i)).concat();
    all.push(("long".into(), graph(&format!("  %0 = full value=1.0 : f32[2]\n{chain}  return y=%20000\n"))));
    let wide = list(20_000, &|i| format!("  %{} = full value={i}.5 : f32[2]\n", i)).concat();
    all.push(("wide".into(), graph(&format!("{wide}  return y=%7\n"))));
    let params = list(300, &|i| format!("  %p{i} = param init=ones scale=0 frozen=false : f32[2]\n")).concat();
    all.push(("params".into(), graph(&format!("{params}  return y=%p0\n"))));
    let name = "n".repeat(70_000);
    all.push(("long-name".into(), graph(&format!("  %{name} = input : f32[2]\n  return y=%{name}\n"))));
    all.push(("long-quoted".into(), graph(&format!("{x}  return \"{}\"=%x\n", "é".repeat(200)))));
    all
}

/// Texts that are no graphs.
fn broken() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> =
        (0..SOUND.len()).step_by(23).map(|at| (format!("cut-{at}"), SOUND.as_bytes()[..at].to_vec())).collect();
    for (i, (from, to)) in [
        ("%0 = call", "%x = call"),
        ("@body(%c", "@body(%x"),
        ("region @body", "region @other"),
        ("\"a/b\"", "loss"),
        ("%s <- %2", "%s <- %2\n  update %s <- %1"),
        ("%s <- %2", "%x <- %3"),
        ("carries=1", "carries=9223372036854775807"),
        ("loc(\"net.rs\":12)", "loc(\"net.rs\":99999999999999999999)"),
        ("loc(\"net.rs\":12)", "loc(\"\\u{+41}\":1)"),
        ("scale=0.5", "scale=nan"),
        ("scale=0.5", "scale=1e999"),
        ("body=@body", "body=@4294967295"),
        ("axes=[0]", "axes=[[[[[[[["),
        ("tanh", "conv2d"),
        ("yield %y", "yield"),
    ]
    .into_iter()
    .enumerate()
    {
        all.push((format!("changed-{i}"), SOUND.replacen(from, to, 1).into_bytes()));
    }
    all.push(("sound".into(), SOUND.into()));
    all.push(("bytes".into(), b"graph @g {\n  %x = input : f32[\xff\xfe]\n".to_vec()));
    all.push(("nul".into(), SOUND.replace(' ', "\0").into_bytes()));
    all.push(("brackets".into(), "(".repeat(1 << 20).into_bytes()));
    all.push(("lines".into(), "\n".repeat(1 << 20).into_bytes()));
    all.push(("quotes".into(), "\"".repeat(1 << 20).into_bytes()));
    all
}

/// All graphs but those of ops.
pub fn graphs() -> Vec<File> {
    let texts = bombs().into_iter().chain(large()).map(|(name, text)| (name, text.into_bytes()));
    texts.chain(broken()).map(|(name, bytes)| (format!("{name}.ir"), bytes)).collect()
}

/// A graph of one op on leaves that need no file.
fn one(op: Op, case: &Case) -> Option<GraphBuf> {
    let mut e = Emit::new("g");
    let tys = parse_types(case.args, DType::F32, &mut e).ok()?;
    add_case_region(&mut e, case, &tys);
    let mut args = Vec::new();
    for (i, ty) in tys.iter().enumerate() {
        let name = format!("x{i}");
        let init = if ty.dtype.is_differentiable() { Init::Normal(0.5) } else { Init::Zeros }.attrs(&[]);
        let (name_id, dtype, shape) = (e.strings.intern(&name), ty.dtype, ty.shape);
        let (kind, scale, start) = (init.kind, init.scale, init.start_attr());
        let attrs = StateAttrs { name: name_id, dtype, shape, init: kind, scale, averages: None, owner: None, start };
        args.push(e.leaf(Op::STATE, &name, &attrs.list()[1..]));
    }
    let attrs = parse_attrs(OPS[op.0 as usize].attrs, case.attrs, &mut e).ok()?;
    let borrowed: Vec<Attr<'_>> = attrs.iter().map(|a| a.as_attr()).collect();
    let outs = e.emit(op, &args, &borrowed);
    for (i, v) in outs.iter().enumerate() {
        e.output(&format!("y{i}"), v);
    }
    GraphBuf::make(|bump| e.finish(bump)).ok()
}

/// The places of whole numbers in `line`, outside of names and fractions.
fn numbers(line: &str) -> Vec<(usize, usize)> {
    let bytes = line.as_bytes();
    let part = |c: u8| c.is_ascii_alphanumeric() || b"%._-+\"@".contains(&c);
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = (at..bytes.len()).find(|&i| !part(bytes[i])).unwrap_or(bytes.len());
        if end > at && line[at..end].trim_start_matches('-').bytes().all(|c| c.is_ascii_digit()) {
            found.push((at, end));
        }
        at = end.max(at + 1);
    }
    found
}

/// For each op, its cases, each with one number after the other made absurd: those of attributes, of leaves' shapes.
pub fn ops() -> Vec<File> {
    let mut all = Vec::new();
    for (i, def) in OPS.iter().enumerate() {
        for (k, case) in def.cases.iter().enumerate() {
            let Some(g) = one(Op(i as u16), case) else { continue };
            let text = print(g.view());
            // Types after results are assertions, which would find every change: they go.
            let is_node = |l: &str| l.starts_with("  %") && !l.contains("= state") && !l.contains("dtype=");
            let bare =
                |l: &str| if is_node(l) { l.split(" : ").next().unwrap_or(l).to_string() } else { l.to_string() };
            let lines: Vec<String> = text.lines().map(bare).collect();
            all.push((format!("{}-{k}.ir", def.name), text.clone().into_bytes()));
            for (n, line) in lines.iter().enumerate().filter(|(_, l)| l.starts_with("  %")) {
                for (m, (from, to)) in numbers(line).into_iter().enumerate() {
                    for (o, number) in NUMBERS.into_iter().enumerate() {
                        let mut changed = lines.clone();
                        changed[n] = format!("{}{number}{}", &line[..from], &line[to..]);
                        let name = format!("{}-{k}-{n}-{m}-{o}.ir", def.name);
                        all.push((name, (changed.join("\n") + "\n").into_bytes()));
                    }
                }
            }
        }
    }
    all
}
