//! Programs and files: what is saved comes back, what does not fit is refused and changes nothing.

use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::nn;
use arenagrad::optim::{self, train};
use arenagrad::session::{Program, Session};
use arenagrad::train::checkpoint::{encode, save};
use arenagrad::train::data::Idx;
use arenagrad::train::{Batches, Digest, Entry, Load, LoadReport, Schedule, Tensor, Trainer, Unmatched, Weights};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// A folder of one test; removed at the end if the test passes.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("arenagrad-files-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }
}

fn step() -> GraphBuf {
    let g = Builder::new("net");
    let x = g.input("x", [8, 5], DType::F32);
    let flags = g.state("flags", [3], DType::Bool, Init::Zeros);
    g.output("seen", flags.cast(DType::F32));
    let y = nn::linear(&g, "fc", x, 3).dropout(0.1);
    let graph = g.finish([(y * y).mean(..).named("loss")]).unwrap();
    train(&graph, "loss", optim::AdamW::new(1e-2)).unwrap()
}

/// One linear layer, `fc`, of leaves of `dtype`.
fn linear(dtype: DType, inputs: usize, outputs: usize) -> Program {
    let g = Builder::new("linear");
    let y = nn::linear(&g, "fc", g.input("x", [4, inputs], dtype), outputs).named("y");
    let mut p = Session::new().compile(&g.finish([y]).unwrap()).unwrap();
    p.init(7).unwrap();
    p
}

/// Names of one side alone are allowed.
pub fn loose() -> Load<'static> {
    Load::default().missing(Unmatched::Allow).unexpected(Unmatched::Allow)
}

fn bytes(p: &Program) -> Vec<(String, Vec<u8>)> {
    p.persistent().map(|(b, bytes)| (b.name.clone(), bytes.to_vec())).collect()
}

pub fn message<T>(r: arenagrad::Result<T>) -> String {
    r.err().unwrap().to_string()
}

pub fn floats(name: &str, dims: &[usize], data: &[f32]) -> Tensor {
    Tensor::new(name, DType::F32, dims, data).unwrap()
}

pub fn write(path: &Path, tensors: &[Tensor]) {
    save(path, &tensors.iter().map(Tensor::entry).collect::<Vec<_>>()).unwrap();
}

/// Weights and bias of `fc`, as numbers that every float type holds.
fn small(inputs: usize, outputs: usize) -> (Vec<f32>, Vec<f32>) {
    let number = |i: usize| (i % 17) as f32 * 0.25 - 2.0;
    ((0..inputs * outputs).map(number).collect(), (0..outputs).map(|i| number(i + 5)).collect())
}

#[test]
fn what_is_saved_comes_back_to_the_bit() {
    let folder = Folder::new("back");
    let (mut a, mut b) = (Session::new().compile(&step()).unwrap(), Session::new().compile(&step()).unwrap());
    a.init(1).unwrap();
    b.init(2).unwrap();
    let run = |p: &mut Program| {
        p.values_mut::<f32>("x").unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = i as f32 * 0.1);
        p.step().unwrap();
    };
    run(&mut a);
    assert_ne!(bytes(&a), bytes(&b));
    a.save(folder.at("all")).unwrap();
    assert_eq!(b.load(folder.at("all")).unwrap(), Digest::Fits);
    assert_eq!(bytes(&a), bytes(&b));
    run(&mut a);
    run(&mut b);
    assert_eq!(bytes(&a), bytes(&b));
    // Weights alone are not all that a program keeps.
    a.save_weights(folder.at("weights")).unwrap();
    let e = message(b.load(folder.at("weights")));
    assert!(e.contains("weights") && e.contains("no tensor for state"), "{e}");
    // A trainer's checkpoint holds a cursor beside the program's own.
    let batches = Batches::new(8, 8, 1).unwrap();
    let t = Trainer::new(a, "loss", Schedule::Constant { lr: 0.1 }, batches, 1).unwrap();
    t.save(folder.at("checkpoint")).unwrap();
    b.load(folder.at("checkpoint")).unwrap();
    assert_eq!(bytes(t.program()), bytes(&b));
}

#[test]
fn damaged_files_are_refused_and_change_nothing() {
    let folder = Folder::new("damaged");
    let path = folder.at("all");
    let mut p = Session::new().compile(&step()).unwrap();
    p.init(1).unwrap();
    p.save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    p.init(2).unwrap();
    let before = bytes(&p);
    let mut refused = |file: &[u8], what: &str| {
        std::fs::write(&path, file).unwrap();
        let e = message(p.load(&path));
        assert!(e.contains(&path.display().to_string()), "{what}: {e}");
        assert_eq!(bytes(&p), before, "{what}");
    };
    for n in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
        refused(&whole[..n], &format!("{n} bytes"));
    }
    for k in (0..whole.len()).step_by(5) {
        let mut file = whole.clone();
        file[k] ^= 1 << (k % 8);
        refused(&file, &format!("bit of byte {k}"));
    }
    refused(&[&whole[..], &[0]].concat(), "one byte more");
    // A bool of 2, in a file without a digest.
    let header = r#"{"flags":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}"#;
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[1, 0, 2]].concat();
    std::fs::write(&path, &file).unwrap();
    let weights = Weights::open(&path).unwrap();
    let e = message(p.load_weights(&weights, loose()));
    assert!(e.contains("element 2 of \"flags\" is 2; a bool is 0 or 1") && e.contains("all"), "{e}");
    assert_eq!(bytes(&p), before);
    let e = message(p.load(folder.at("none")));
    assert!(e.contains("none"), "{e}");
}

/// More bools than are read at once.
#[test]
fn a_bool_of_2_is_found_wherever_it_is() {
    let (folder, n) = (Folder::new("bools"), 70_000);
    let path = folder.at("flags");
    let g = Builder::new("flags");
    let flags = g.state("flags", [n], DType::Bool, Init::Zeros);
    let graph = g.finish([flags.cast(DType::F32).sum(..).named("set")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    let header = format!(r#"{{"flags":{{"dtype":"BOOL","shape":[{n}],"data_offsets":[0,{n}]}}}}"#);
    let mut load = |at: usize, flag: u8| {
        let mut file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        let start = file.len();
        file.resize(start + n, 0);
        file[start + at] = flag;
        std::fs::write(&path, &file).unwrap();
        p.load(&path)
    };
    for at in [0, 65_535, 65_536, n - 1] {
        let e = message(load(at, 2));
        assert!(e.contains(&format!("element {at} of \"flags\" is 2; a bool is 0 or 1")), "{e}");
    }
    load(n - 1, 1).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f32>("set").unwrap(), [1.0]);
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_read_leaves_nothing_to_step_with() {
    let folder = Folder::new("cut");
    let (w, b) = small(6, 4);
    let path = folder.at("w");
    write(&path, &[floats("fc.weight", &[4, 6], &w), floats("fc.bias", &[4], &b)]);
    let file = Weights::open(&path).unwrap();
    let whole = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(whole - 4).unwrap();
    let mut p = linear(DType::F32, 6, 4);
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    let e = message(p.load_weights(&file, Load::default()));
    assert!(e.contains("stopped half-way") && e.contains("tensor \"fc.") && e.contains("shorter"), "{e}");
    assert!(message(p.step()).contains("neither initialised nor loaded"));
    p.init_rest(1).unwrap();
    p.step().unwrap();
}

#[test]
fn floats_are_converted_when_asked() {
    let folder = Folder::new("cast");
    let (w, b) = small(6, 4);
    let exact = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    let f16 = |x: &[f32]| x.iter().map(|&x| half::f16::from_f32(x)).collect::<Vec<_>>();
    let bf16 = |x: &[f32]| x.iter().map(|&x| half::bf16::from_f32(x)).collect::<Vec<_>>();
    let (ws, bs) = ([4, 6], [4]);
    let files = [
        (
            DType::F16,
            [Tensor::new("fc.weight", DType::F16, &ws, &f16(&w)), Tensor::new("fc.bias", DType::F16, &bs, &f16(&b))],
        ),
        (
            DType::BF16,
            [
                Tensor::new("fc.weight", DType::BF16, &ws, &bf16(&w)),
                Tensor::new("fc.bias", DType::BF16, &bs, &bf16(&b)),
            ],
        ),
        (DType::F32, [Tensor::new("fc.weight", DType::F32, &ws, &w), Tensor::new("fc.bias", DType::F32, &bs, &b)]),
        (
            DType::F64,
            [
                Tensor::new("fc.weight", DType::F64, &ws, &exact(&w)),
                Tensor::new("fc.bias", DType::F64, &bs, &exact(&b)),
            ],
        ),
    ];
    for (dtype, tensors) in files {
        let path = folder.at(&dtype.to_string());
        write(&path, &tensors.map(|t| t.unwrap()));
        let file = Weights::open(&path).unwrap();
        for leaf in [DType::F32, DType::F64] {
            let mut p = linear(leaf, 6, 4);
            if leaf != dtype {
                let e = message(p.load_weights(&file, Load::default()));
                assert!(e.contains("\"fc.") && e.contains(&format!("not {leaf}")), "{e}");
            }
            let report = p.load_weights(&file, Load::default().cast(true)).unwrap();
            assert_eq!(report.cast.len(), if leaf == dtype { 0 } else { 2 });
            match leaf {
                DType::F32 => assert_eq!(p.values::<f32>("fc.weight").unwrap(), w),
                _ => assert_eq!(p.values::<f64>("fc.weight").unwrap(), exact(&w)),
            }
        }
    }
    // More elements than one piece, and numbers that must be rounded.
    let x: Vec<f64> = (0..70_000).map(|i| f64::from(i).sqrt() / 3.0).collect();
    write(
        &folder.at("long"),
        &[
            Tensor::new("fc.weight", DType::F64, &[70, 1000], &x).unwrap(),
            Tensor::new("fc.bias", DType::F64, &[70], &x[..70]).unwrap(),
        ],
    );
    let mut p = linear(DType::F32, 1000, 70);
    let _all = p.load_weights(&Weights::open(folder.at("long")).unwrap(), Load::default().cast(true)).unwrap();
    assert!(p.values::<f32>("fc.weight").unwrap().iter().zip(&x).all(|(a, b)| *a == *b as f32));
    let ints = Tensor::new("fc.bias", DType::I32, &[70], &[1i32; 70]).unwrap();
    write(&folder.at("ints"), &[ints]);
    let how = loose().cast(true);
    let e = message(p.load_weights(&Weights::open(folder.at("ints")).unwrap(), how));
    assert!(e.contains("\"fc.bias\" is i32[70] in the file, not f32[70]"), "{e}");
}

#[test]
fn reports_name_what_did_not_fit() {
    let folder = Folder::new("report");
    let (w, b) = small(6, 4);
    let path = folder.at("w");
    write(&path, &[floats("fc.weight", &[4, 1, 6], &w), floats("fc.extra", &[4], &b)]);
    let file = Weights::open(&path).unwrap();
    let mut p = linear(DType::F32, 6, 4);
    let before = bytes(&p);
    assert!(message(p.load_weights(&file, Load::default())).contains("`reshape` would allow it"));
    assert_eq!(bytes(&p), before);
    let names = |list: &[&str]| list.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let mut want = LoadReport::default();
    (want.loaded, want.missing) = (names(&["fc.weight"]), names(&["fc.bias"]));
    (want.unexpected, want.reshaped) = (names(&["fc.extra"]), names(&["fc.weight"]));
    assert_eq!(p.load_weights(&file, loose().reshape(true)).unwrap(), want);
    assert_eq!(p.values::<f32>("fc.weight").unwrap(), w);
    assert_eq!(bytes(&p)[1], before[1]);
    // A transposed weight has the right number of elements; it is never loaded.
    write(&path, &[floats("fc.weight", &[6, 4], &w)]);
    let e = message(p.load_weights(&Weights::open(&path).unwrap(), loose()));
    assert!(e.contains("f32[6, 4] in the file, not f32[4,6]"), "{e}");
    write(&path, &[floats("fc.weight", &[4, 6], &w), floats("fc.b", &[4], &b)]);
    let e = message(p.load_weights(&Weights::open(&path).unwrap(), Load::default()));
    assert!(e.contains("fc.bias") && e.contains("fc.b") && e.contains(&path.display().to_string()), "{e}");
    let both = |_: &str| Some("fc.bias".to_string());
    let e = message(p.load_weights(&Weights::open(&path).unwrap(), loose().rename(&both)));
    assert!(e.contains("are both for \"fc.bias\""), "{e}");
}

#[test]
fn what_is_missing_and_what_is_unexpected_are_allowed_apart_and_a_load_matches_something() {
    let folder = Folder::new("unmatched");
    let open = |names: &[(&str, usize)]| {
        let tensors: Vec<Tensor> = names.iter().map(|&(name, n)| floats(name, &[n], &vec![0.5; n])).collect();
        write(&folder.at("w"), &tensors);
        Weights::open(folder.at("w")).unwrap()
    };
    let (short, long) = (open(&[("fc.bias", 4)]), open(&[("fc.bias", 4), ("extra", 1)]));
    let mut p = linear(DType::F32, 6, 4);
    let missing = Load::default().missing(Unmatched::Allow);
    let unexpected = Load::default().unexpected(Unmatched::Allow);
    assert_eq!(p.load_weights(&short, missing).unwrap().missing, ["fc.weight"]);
    assert!(message(p.load_weights(&short, unexpected)).ends_with("there are no tensors for fc.weight"));
    let e = message(p.load_weights(&long, missing));
    assert!(e.ends_with("there are no params or states for the tensors extra"), "{e}");
    assert_eq!(p.load_weights(&long, loose()).unwrap().unexpected, ["extra"]);
    // A prefix too much, and nothing fits.
    let before = bytes(&p);
    let e = message(p.load_weights(&open(&[("net.fc.bias", 4)]), loose()));
    assert!(e.ends_with("no name matches: the tensors are net.fc.bias; the program has fc.weight, fc.bias"), "{e}");
    let none = |_: &str| None;
    assert!(p.load_weights(&long, loose().rename(&none)).is_err());
    assert_eq!(bytes(&p), before);
}

#[test]
fn elements_of_a_tensor_are_read_by_its_name() {
    let folder = Folder::new("values");
    let flags = Tensor::new("flags", DType::Bool, &[2], &[1u8, 0]).unwrap();
    write(&folder.at("w"), &[floats("fc.bias", &[2], &[0.5, -1.0]), flags, floats("none", &[0, 3], &[])]);
    let w = Weights::open(folder.at("w")).unwrap();
    assert_eq!(w.values::<f32>("fc.bias").unwrap(), [0.5, -1.0]);
    assert_eq!(w.values::<u8>("flags").unwrap(), [1, 0]);
    assert_eq!(w.values::<f32>("none").unwrap(), [0f32; 0]);
    let e = message(w.values::<f32>("fc.bais"));
    assert!(e.ends_with("w: there is no tensor \"fc.bais\"; did you mean fc.bias?"), "{e}");
    let e = message(w.values::<f64>("fc.bias"));
    assert!(e.ends_with("w: \"fc.bias\" is f32[2], not f64"), "{e}");
}

#[test]
fn shards_are_read_and_bad_lists_are_refused() {
    let folder = Folder::new("shards");
    let (w, b) = small(6, 4);
    write(&folder.at("one.safetensors"), &[floats("fc.weight", &[4, 6], &w)]);
    write(&folder.at("two.safetensors"), &[floats("fc.bias", &[4], &b)]);
    let path = folder.at("model.safetensors.index.json");
    let list = |weight: &str, bias: &str| {
        let text = format!(r#"{{"metadata":{{}},"weight_map":{{"fc.weight":"{weight}","fc.bias":"{bias}"}}}}"#);
        std::fs::write(&path, text).unwrap();
        Weights::open(&path)
    };
    let mut p = linear(DType::F32, 6, 4);
    let _all = p.load_weights(&list("one.safetensors", "two.safetensors").unwrap(), Load::default()).unwrap();
    assert_eq!((p.values::<f32>("fc.weight").unwrap(), p.values::<f32>("fc.bias").unwrap()), (&w[..], &b[..]));

    let refused = |r: arenagrad::Result<Weights>, parts: &[&str]| {
        let e = message(r);
        assert!(parts.iter().all(|part| e.contains(part)) && e.contains("index.json"), "{parts:?}: {e}");
    };
    refused(list("one.safetensors", "three.safetensors"), &["three.safetensors"]);
    refused(list("one.safetensors", "one.safetensors"), &["does not hold", "fc.bias"]);
    let outside = format!("../{}/two.safetensors", folder.0.file_name().unwrap().to_string_lossy());
    for shard in [outside.as_str(), "/etc/passwd", "sub/two.safetensors", "..", ".", "", r"c:\\two", "a:b"] {
        refused(list("one.safetensors", shard), &["fc.bias", "no plain file name"]);
    }
    let twice = r#"{"weight_map":{"fc.bias":"two.safetensors","fc.\u0062ias":"one.safetensors"}}"#;
    std::fs::write(&path, twice).unwrap();
    refused(Weights::open(&path), &["\"weight_map\" lists \"fc.bias\" twice"]);
    std::fs::write(&path, r#"{"weight_map":{},"weight_map":{"fc.bias":"two.safetensors"}}"#).unwrap();
    refused(Weights::open(&path), &["the list of shards lists \"weight_map\" twice"]);
    let whole = std::fs::read(folder.at("two.safetensors")).unwrap();
    std::fs::write(folder.at("two.safetensors"), &whole[..whole.len() - 1]).unwrap();
    refused(list("one.safetensors", "two.safetensors"), &["two.safetensors", "bytes of tensors"]);
    for text in ["", "[]", "{}", r#"{"weight_map":1}"#, r#"{"weight_map":{"a":1}}"#] {
        std::fs::write(&path, text).unwrap();
        refused(Weights::open(&path), &[]);
    }
    std::fs::File::create(&path).unwrap().set_len((64 << 20) + 1).unwrap();
    refused(Weights::open(&path), &["a list of shards of more than 67108864 bytes"]);
    std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    refused(Weights::open(&path), &["expected value at line 1 column 1"]);
}

/// What a shard holds besides is listed, and does not stand for what the list says.
#[test]
fn unlisted_tensors_of_shards_are_listed_and_not_used() {
    let folder = Folder::new("unlisted");
    let (w, b) = small(6, 4);
    write(&folder.at("one"), &[floats("fc.weight", &[4, 6], &w), floats("fc.bias", &[4], &[9.0; 4])]);
    write(&folder.at("two"), &[floats("fc.bias", &[4], &b), floats("extra", &[1], &[1.0])]);
    let path = folder.at("w.index.json");
    std::fs::write(&path, r#"{"weight_map":{"fc.weight":"one","fc.bias":"two"}}"#).unwrap();
    let file = Weights::open(&path).unwrap();
    let unlisted: Vec<_> = file.unusable().iter().map(|t| (t.name.as_str(), t.kind.as_str(), t.why)).collect();
    let why = "the list of shards does not name it";
    assert_eq!(unlisted, [("extra", "f32", why), ("fc.bias", "f32", why)]);
    let mut p = linear(DType::F32, 6, 4);
    let known = |name: &str| (name != "extra").then(|| name.to_string());
    let _ = p.load_weights(&file, Load::default().rename(&known)).unwrap();
    assert_eq!((p.values::<f32>("fc.weight").unwrap(), p.values::<f32>("fc.bias").unwrap()), (&w[..], &b[..]));
    assert!(message(p.load_weights(&file, Load::default())).contains("no params or states for the tensors extra"));
    std::fs::write(&path, r#"{"weight_map":{"fc.weight":"one"}}"#).unwrap();
    let e = message(p.load_weights(&Weights::open(&path).unwrap(), Load::default()));
    assert!(e.contains("one: \"fc.bias\" is f32[4]: the list of shards does not name it"), "{e}");
}

/// A file of a tensor of 8-bit floats beside usual ones.
#[test]
fn a_tensor_of_an_unknown_type_is_refused_where_it_is_used() {
    let folder = Folder::new("odd");
    let path = folder.at("w");
    let header = r#"{"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"fc.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]},"fc.scale":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[8,11]}}"#;
    let data = [1.5f32, -2.0].map(f32::to_le_bytes).concat();
    std::fs::write(&path, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data, &[0; 3]].concat())
        .unwrap();
    let file = Weights::open(&path).unwrap();
    let mut p = linear(DType::F32, 1, 1);
    let before = bytes(&p);
    let known = |name: &str| (name != "fc.scale").then(|| name.to_string());
    let e = message(p.load_weights(&file, Load::default()));
    assert!(e.contains("no params or states for the tensors fc.scale"), "{e}");
    let as_weight = |name: &str| (name == "fc.scale").then(|| "fc.weight".to_string());
    let e = message(p.load_weights(&file, Load::default().rename(&as_weight)));
    assert!(e.contains("w: \"fc.scale\" is F8_E4M3[3]: there is no such type here"), "{e}");
    assert_eq!(bytes(&p), before);
    let _ = p.load_weights(&file, Load::default().rename(&known)).unwrap();
    assert_eq!((p.values::<f32>("fc.weight").unwrap(), p.values::<f32>("fc.bias").unwrap()), (&[-2.0][..], &[1.5][..]));
}

#[test]
fn tensors_that_own_their_bytes_are_checked() {
    assert!(message(Tensor::new("t", DType::F32, &[2, 2], &[1.0f32; 3])).contains("f32[2, 2]; it gets 3"));
    assert!(message(Tensor::new("t", DType::F64, &[1], &[1.0f32])).contains("of f32"));
    assert!(message(Tensor::new("t", DType::Bool, &[1], &[2u8])).contains("a bool is 0 or 1"));
    assert!(message(Tensor::new("t", DType::U8, &[usize::MAX, 2], &[2u8])).contains("it gets 1"));
    let t = Tensor::new("t", DType::I64, &[], &[7i64]).unwrap();
    assert_eq!(t.entry(), Entry::new("t", DType::I64, &[], &7i64.to_le_bytes()));
    assert!(encode(&[t.entry(), t.entry()]).is_err());
}

/// An input that gives a byte at a time, and is interrupted before each.
struct Stutters<'a>(&'a [u8], bool);

impl Read for Stutters<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.1 = !self.1;
        let n = into.len().min(1);
        if self.1 { Err(ErrorKind::Interrupted.into()) } else { self.0.read(&mut into[..n]) }
    }
}

#[test]
fn interrupted_reads_go_on() {
    let bytes = [0, 0, 12, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 1, 2];
    let array = Idx::new("stutters", Stutters(&bytes, false), None).unwrap().read_all().unwrap();
    assert_eq!(array.values::<i32>().unwrap(), [1, 258]);
}
