//! Runs models with given operands and compares their results: `node_tests DIR`. Each folder of `DIR` is a test, with
//! `model.onnx`, `input_0.pb` … and `output_0.pb` …, as `onnx/tools/node_tests.py` writes them. One line of the output
//! is one test: its name, `pass`, `refused` or `wrong`, and why.
//!
//! With `--train`, results may differ by 1e-5 of the largest one, and each model is trained for a step.

use arenagrad::graph::DType;
use arenagrad::optim::{Sgd, train};
use arenagrad::session::{Program, Role, Session};
use arenagrad_onnx::proto::{ModelProto, TensorProto};
use arenagrad_onnx::{Error, Import, Options, Tensor, read};
use prost::Message;
use std::path::{Path, PathBuf};

/// Absolute tolerance of the tests of the `onnx` package.
const ABSOLUTE: f64 = 1e-7;

/// Their relative tolerance, by dtype.
fn relative(dtype: DType) -> f64 {
    if dtype == DType::BF16 { 2f64.powi(-6) } else { 1e-3 }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).ok_or("usage: node_tests DIR [--train]")?;
    let trained = std::env::args().any(|a| a == "--train");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    folders.retain(|f| f.join("model.onnx").is_file());
    folders.sort();
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let verdict = match run(&folder, trained) {
            Ok(()) => "pass\t".to_string(),
            Err(Verdict::Refused(op, why)) => format!("refused\t{op}\t{why}"),
            Err(Verdict::Wrong(why)) => format!("wrong\t\t{why}"),
        };
        println!("{name}\t{}", verdict.replace('\n', " "));
    }
    Ok(())
}

/// Why a test did not pass.
enum Verdict {
    /// The op with its opset, and why it is refused.
    Refused(String, String),
    Wrong(String),
}

fn wrong<E: std::fmt::Display>(e: E) -> Verdict {
    Verdict::Wrong(e.to_string())
}

fn run(folder: &Path, trained: bool) -> Result<(), Verdict> {
    let bytes = std::fs::read(folder.join("model.onnx")).map_err(wrong)?;
    let model = ModelProto::decode(&bytes[..]).map_err(wrong)?;
    let graph = model.graph.as_ref().ok_or(Verdict::Wrong("there is no graph".into()))?;
    let stored: Vec<&str> = graph.initializer.iter().map(TensorProto::name).collect();
    let names = graph.input.iter().map(|i| i.name()).filter(|n| !stored.contains(n));
    let mut given = Vec::new();
    for (i, name) in names.enumerate() {
        if let Some(t) = tensor(folder, &format!("input_{i}.pb"))? {
            given.push((name.to_string(), t));
        }
    }
    let (import, values) = import(&bytes, &given)?;
    let mut program = Session::new().threads(1).compile(&import.graph).map_err(wrong)?;
    program.init(0).map_err(wrong)?;
    import.load(&mut program).map_err(wrong)?;
    for (name, t) in given.iter().filter(|(name, _)| !values.contains(name)) {
        program.write_bytes(name, &t.bytes).map_err(wrong)?;
    }
    program.step().map_err(wrong)?;
    // A graph that draws random numbers keeps a key.
    let drawn = program.bindings().iter().any(|b| b.role == Role::State);
    for (i, out) in graph.output.iter().enumerate() {
        if let Some(want) = tensor(folder, &format!("output_{i}.pb"))? {
            compare(&program, out.name(), &want, drawn, trained)?;
        }
    }
    match trained {
        true => train_a_step(&import, &given, graph.output.first().map_or("", |o| o.name())),
        false => Ok(()),
    }
}

/// Takes a step of SGD down the mean squared distance of an output from 1: params change, and all numbers are finite.
fn train_a_step(import: &Import, given: &[(String, Tensor)], output: &str) -> Result<(), Verdict> {
    let loss = import.graph.extend(|_, value| vec![(value(output) - 1.0).square().mean(..).named("mean square")]);
    let step = train(&loss.map_err(wrong)?, "mean square", Sgd::new(1e-3)).map_err(wrong)?;
    let mut p = Session::new().threads(1).compile(&step).map_err(wrong)?;
    p.init(0).map_err(wrong)?;
    import.load(&mut p).map_err(wrong)?;
    for (name, t) in given {
        p.write_bytes(name, &t.bytes).map_err(wrong)?;
    }
    let mut losses = Vec::new();
    for _ in 0..2 {
        p.step().map_err(wrong)?;
        losses.push(p.values::<f32>("mean square").map_err(wrong)?[0]);
    }
    match losses[..] {
        [before, after] if after.is_finite() && after < before => Ok(()),
        _ => Err(Verdict::Wrong(format!("losses of two steps are {losses:?}"))),
    }
}

/// The model, with the values of those inputs that shapes depend on.
fn import(bytes: &[u8], given: &[(String, Tensor)]) -> Result<(Import, Vec<String>), Verdict> {
    let sizes = given
        .iter()
        .flat_map(|(name, t)| t.dims.iter().enumerate().map(move |(axis, &n)| (format!("{name}.{axis}"), n)));
    let mut options = Options { sizes: sizes.collect(), ..Options::default() };
    loop {
        match read(bytes, &options) {
            Ok(import) => return Ok((import, options.values.into_iter().map(|(name, _)| name).collect())),
            Err(Error::Values { inputs, .. }) => {
                let more: Vec<_> = given.iter().filter(|(name, _)| inputs.contains(name)).cloned().collect();
                if more.is_empty() {
                    return Err(Verdict::Wrong(format!("values of {inputs:?} are asked for, and not given")));
                }
                options.values.extend(more);
            }
            Err(Error::Unsupported { op, opset, why, .. }) => {
                return Err(Verdict::Refused(format!("{op} {opset}"), why));
            }
            Err(e) => return Err(wrong(e)),
        }
    }
}

/// The tensor in a file; none if there is no such file, or if it holds elements of a type that the library has not.
fn tensor(folder: &Path, file: &str) -> Result<Option<Tensor>, Verdict> {
    let Ok(bytes) = std::fs::read(folder.join(file)) else { return Ok(None) };
    let proto = TensorProto::decode(&bytes[..]).map_err(wrong)?;
    Ok(Tensor::from_proto(&proto, None).ok())
}

fn compare(program: &Program, name: &str, want: &Tensor, drawn: bool, trained: bool) -> Result<(), Verdict> {
    let found = program.bindings().iter().find(|b| b.name == name && b.role == Role::Output);
    let b = found.ok_or_else(|| Verdict::Wrong(format!("there is no output {name:?}")))?;
    if b.dtype != want.dtype || b.dims[..] != want.dims[..] {
        let (is, dims) = (want.dtype.name(), &want.dims);
        return Err(Verdict::Wrong(format!("output {name:?} is {}{}; {is}{dims:?} is wanted", b.dtype, b.dims)));
    }
    let got = Tensor::new(b.dtype, b.dims.to_vec(), program.bytes_of(b).to_vec()).map_err(wrong)?;
    if drawn || got.bytes == want.bytes {
        return Ok(());
    }
    let dtype = b.dtype;
    let (Some(got), Some(want)) = (got.floats(), want.floats()) else {
        return Err(Verdict::Wrong(format!("output {name:?} differs")));
    };
    let largest = want.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let (relative, absolute) = if trained { (0.0, 1e-5 * largest) } else { (relative(dtype), ABSOLUTE) };
    let near =
        |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= absolute + relative * b.abs();
    match got.iter().zip(&want).position(|pair| !near(pair)) {
        None => Ok(()),
        Some(i) => Err(Verdict::Wrong(format!("output {name:?}: element {i} is {}; {} is wanted", got[i], want[i]))),
    }
}
