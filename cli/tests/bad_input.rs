//! Bad input of every kind: exit code 2, and one line that says what and where.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, fails, idx, images, labels};

const GRAPH: &str = "graph @g {\n  %x = input : f32[2,3]\n  %y = tanh %x : f32[2,3]\n  return y=%y\n}\n";

#[test]
fn missing_files_are_named() {
    let s = Scratch::new();
    let gone = s.path("gone.ir");
    for command in ["print", "plan", "opt", "grad", "jvp", "vjp", "hvp", "jacobian", "nth", "check"] {
        fails(2, &[command, &gone], &["gone.ir", "No such file"]);
    }
    fails(2, &["vmap", &gone, "--members", "2", "--leaf", "x"], &["gone.ir", "No such file"]);
    fails(2, &["run", &gone, "--out", &s.path("o")], &["gone.ir"]);
    fails(2, &["train", &s.path("gone.toml")], &["gone.toml"]);
    fails(2, &["train", "digits", "--data", &s.path("gone")], &["gone", "train-images"]);
    fails(2, &["train", "digits", "--out", &s.path("o"), "--resume", &s.path("gone")], &["gone"]);
    fails(2, &["bench", "--data", &s.path("gone")], &["w1.safetensors"]);
    fails(2, &["train", "cifar"], &["cifar"]);
}

#[test]
fn texts_are_refused_with_file_line_and_column() {
    let s = Scratch::new();
    let bad = s.file("bad.ir", GRAPH.replace("tanh", "tahn"));
    for command in ["print", "plan", "opt", "grad", "jvp", "vjp", "hvp", "jacobian", "nth", "check"] {
        fails(2, &[command, &bad], &["bad.ir:3:", "tahn"]);
    }
    let shape = s.file("shape.ir", GRAPH.replace("%y = tanh %x : f32[2,3]", "%y = tanh %x : f32[3,2]"));
    fails(2, &["print", &shape], &["shape.ir:3:"]);
    let bytes = s.file("bytes.ir", b"graph \xff");
    fails(2, &["print", &bytes], &["bytes.ir", "UTF-8 at byte 6"]);
    fails(2, &["print", &s.file("empty.ir", "")], &["empty.ir"]);
    fails(2, &["print", &s.file("short.ir", &GRAPH[..30])], &["short.ir:"]);
}

#[test]
fn arguments_are_refused_by_name() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH);
    fails(2, &["opt", &g, "--passes", "simplify,magic"], &["magic", "simplify"]);
    fails(2, &["grad", &g, "--wrt", "x"], &["scalar", "f32[2,3]"]);
    let sum = s.file("sum.ir", GRAPH.replace("return y=%y", "%z = reduce_sum %y axes=[0,1] keep=false\n  return z=%z"));
    fails(2, &["grad", &sum, "--wrt", "w"], &["no leaf or value is called \"w\"", "x"]);
    fails(2, &["grad", &g, "--wrt", "x", "--output", "loss"], &["no output is called \"loss\"", "y"]);
    fails(2, &["bench", "--workloads", "w9"], &["w9", "w1"]);
    fails(2, &["bench", "--seconds", "-1"], &["--seconds is -1; it goes from 0"]);
    fails(2, &["train", "digits", "--lr", "-1"], &["--lr is -1; it goes from 0"]);
    fails(2, &["train", "digits", "--steps", "-5"], &["invalid value '-5' for '--steps <N>'"]);
    fails(2, &["plan", &g, "--max-memory", "-5"], &["invalid value '-5' for '--max-memory <SIZE>'"]);
    fails(2, &["check", &g, "--tolerance", "nan"], &["tolerance"]);
    let far = "graph @g {\n  %i = iota axis=0 : i32[3]\n  %x = input : f32[2]\n  %y = gather %x, %i axis=0 : f32[3]\n  \
               return y=%y\n}\n";
    fails(2, &["check", &s.file("far.ir", far)], &["far.ir:4:3: ", "gather"]);
    fails(2, &["train", "digits", "--lr", "nan"], &["lr"]);
    fails(2, &["train", "digits", "--steps", "0"], &["steps is 0"]);
    fails(2, &["train", "digits", "--threads", "0"], &["threads is 0"]);
    for command in [&["train", "digits"][..], &["bench"]] {
        let with = |more: &[&str], want: &[&str]| fails(2, &[command, more].concat(), want);
        with(&["--threads", "1", "--pin", "8192"], &["no thread can be put on core 8192"]);
        with(&["--threads", "1", "--pin", "0,0"], &["core 0 is given twice"]);
        with(&["--threads", "2", "--pin", "0"], &["threads is 2, and there are fewer cores: [0]"]);
        with(&["--pin", "x"], &["--pin", "'x'"]);
        with(&["--spin", "-1"], &["--spin", "a number of seconds, 0 or more"]);
        with(&["--spin", "2ms"], &["--spin", "a number of seconds, or inf"]);
    }
    assert_eq!(common::run(&["train"]).status.code(), Some(2));
    assert_eq!(common::run(&["dance"]).status.code(), Some(2));
    assert_eq!(common::run(&["--help"]).status.code(), Some(0));
    assert_eq!(common::run(&["--version"]).status.code(), Some(0));
}

#[test]
fn configurations_are_refused_with_their_line() {
    let s = Scratch::new();
    let c = |text: &str| s.file("run.toml", text);
    fails(2, &["train", &c("steps = 3\nstepz = 4\n")], &["run.toml:2:1", "stepz"]);
    fails(2, &["train", &c("[optimiser]\nkind = \"adagrab\"\n")], &["run.toml:2:8", "adagrab"]);
    fails(2, &["train", &c("steps = 3 4\n")], &["run.toml:1:"]);
    fails(2, &["train", &c("batch = 5000\n"), "--out", &s.path("o")], &["5000", "1438"]);
    fails(2, &["train", &c("[model]\ndropout = 1.5\n")], &["run.toml", "dropout is 1.5"]);
    for (text, parts) in [
        ("max_memory = -1", ["1:14", "a size of -1 bytes is negative"]),
        ("max_memory = \"many\"", ["1:14", "\"many\" is no size; one is like \"64MiB\""]),
        ("max_memory = true", ["true", "a number of bytes, or a size like \"64MiB\""]),
        ("steps = -1", ["`-1`", "expected a whole number from 0"]),
        ("batch = 1.5", ["`1.5`", "expected a whole number from 0"]),
        ("steps = 99999999999999999999", ["`99999999999999999999`,", "a whole number from 0"]),
        ("model = 3", ["`3`", "expected the table"]),
        ("out = 3", ["`3`", "a path in quotes"]),
        ("[model]\nchannels = 3", ["2:12", "expected a list"]),
        ("[optimiser]\nlr = \"x\"", ["\"x\"", "expected a number"]),
        ("[optimiser]\nbetas = [1]", ["2:9", "a list of 2 numbers"]),
        ("[optimiser]\nkind = 3", ["2:8", "a name in quotes"]),
    ] {
        fails(2, &["train", &c(text)], &parts);
    }
}

#[test]
fn idx_files_are_refused_with_their_byte() {
    let s = Scratch::new();
    let dir = idx(&s, "data", 8);
    let out = s.path("o");
    let train = |parts: &[&str]| fails(2, &["train", "digits", "--data", &dir, "--steps", "1", "--out", &out], parts);
    let name = "data/train-images-idx3-ubyte";
    let whole = images(8);
    s.file(name, &whole[..whole.len() - 1]);
    train(&["train-images-idx3-ubyte", "byte 519", "truncated"]);
    s.file(name, &whole[..10]);
    train(&["byte 10", "ends inside the sizes"]);
    s.file(name, b"PK\x03\x04 a zip file");
    train(&["byte 0", "magic"]);
    let mut huge = whole.clone();
    huge[4..16].fill(0xff);
    s.file(name, &huge);
    train(&["truncated", "4294967295"]);
    let mut float = vec![0, 0, 0x0d, 3];
    [8u32, 9, 7].iter().for_each(|d| float.extend(d.to_be_bytes()));
    float.extend((0..8 * 63).flat_map(|i| (if i == 5 { f32::NAN } else { 0.5 }).to_be_bytes()));
    s.file(name, &float);
    train(&["byte 36", "NaN"]);
    s.file(name, [0x1f, 0x8b, 8, 0, 1, 2, 3]);
    train(&["train-images-idx3-ubyte"]);
    s.file(name, &whole);
    s.file("data/train-labels-idx1-ubyte", labels(7));
    train(&["8 images", "7 labels"]);
    let mut class = labels(8);
    class[10] = 255;
    s.file("data/train-labels-idx1-ubyte", class);
    train(&["byte 10", "label 255"]);
    class = vec![0, 0, 0x0d, 1];
    class.extend(8u32.to_be_bytes());
    class.extend([0; 32]);
    s.file("data/train-labels-idx1-ubyte", class);
    train(&["byte 2", "labels must be bytes (element type 08)"]);
    s.file("data/train-labels-idx1-ubyte", [0, 0, 0x0c, 1, 0, 0, 0, 0]);
    train(&["byte 0", "[00, 00, 08, 01] is expected"]);
}

#[test]
fn idx_folders_are_refused_as_a_whole() {
    let s = Scratch::new();
    let dir = idx(&s, "data", 8);
    let out = s.path("o");
    let train = |parts: &[&str]| fails(2, &["train", "digits", "--data", &dir, "--steps", "1", "--out", &out], parts);
    let mut wide = images(4);
    (wide[11], wide[15]) = (7, 9);
    s.file("data/t10k-images-idx3-ubyte", wide);
    train(&["training images are 9x7, test images 7x9"]);
    s.file("data/t10k-images-idx3-ubyte", images(0));
    s.file("data/t10k-labels-idx1-ubyte", labels(0));
    train(&["the training set, the test set or an image is empty"]);
    // A packed file tells its length only at its end.
    std::fs::remove_file(s.path("data/t10k-images-idx3-ubyte")).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gz, &[&[0, 0, 8, 3][..], &[0, 1, 0, 0].repeat(3)].concat()).unwrap();
    let packed = gz.finish().unwrap();
    s.file("data/t10k-images-idx3-ubyte.gz", &packed);
    train(&["t10k-images-idx3-ubyte.gz", "byte 4", "more than 4294967296 bytes of elements"]);
    s.file("data/t10k-images-idx3-ubyte.gz", &packed[..packed.len() - 9]);
    train(&["t10k-images-idx3-ubyte.gz"]);
}

#[test]
fn npy_files_are_refused_by_what_is_wrong() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH);
    let out = s.path("out");
    let npy = |descr: &str, shape: &str, bytes: usize| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}\n");
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.resize(file.len() + bytes, 0);
        format!("x={}", s.file("x.npy", file))
    };
    let run = |x: &str, parts: &[&str]| fails(2, &["run", &g, "--in", x, "--out", &out], parts);
    run(&npy("<f4", "(3, 2)", 24), &["x.npy", "[3, 2]", "[2, 3]"]);
    run(&npy("<f8", "(2, 3)", 48), &["x.npy"]);
    run(&npy("<i4", "(2, 3)", 24), &["x.npy", "i32", "f32"]);
    run(&npy("<f4", "(2, 3)", 20), &["x.npy", "20 bytes"]);
    run(&npy("|O", "(2, 3)", 24), &["x.npy", "not supported"]);
    run(&format!("x={}", s.file("y.npy", "hello")), &["y.npy", "byte 0", "magic"]);
    run("x", &["NAME=FILE"]);
    run(&npy("<f4", "(2, 3)", 24).replace("x=", "z="), &["z", "x"]);
    fails(2, &["run", &g, "--out", &out], &["no value for x"]);
    assert!(!std::path::Path::new(&out).exists(), "nothing is written");
}

#[test]
fn checkpoints_are_refused_by_what_is_wrong() {
    let s = Scratch::new();
    let out = s.path("o");
    common::good(&["train", "digits", "--steps", "2", "--out", &out, "--quiet", "--threads", "1"]);
    let file = format!("{out}/checkpoint.safetensors");
    let whole = std::fs::read(&file).unwrap();
    let resume = |more: &[&str], parts: &[&str]| {
        fails(2, &[&["train", "digits", "--resume", &out, "--threads", "1"], more].concat(), parts)
    };
    resume(&["--seed", "7"], &["checkpoint.safetensors", "seed 0", "this run has 7"]);
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    resume(&[], &["checkpoint.safetensors"]);
    std::fs::write(&file, b"{}").unwrap();
    resume(&[], &["checkpoint.safetensors"]);
    let weights = format!("{out}/weights.safetensors");
    std::fs::copy(&weights, &file).unwrap();
    resume(&[], &["train.cursor"]);
}
