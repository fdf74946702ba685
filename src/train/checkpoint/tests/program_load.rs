//! Loads of programs that have nothing but params and states.

use super::*;
use crate::nodes::{Builder, Init};
use crate::session::Session;

/// A program of these params and states of one `f32` each, all zero.
fn program(params: &[&str], states: &[&str]) -> Program {
    let g = Builder::new("leaves");
    for name in params {
        g.param(name, [1], DType::F32, Init::Zeros);
    }
    for name in states {
        let state = g.state(name, [1], DType::F32, Init::Zeros);
        g.output(&format!("twice.{name}"), state * 2.0);
    }
    let mut p = Session::new().compile(&g.finish([]).unwrap()).unwrap();
    p.init(0).unwrap();
    p
}

/// Writes tensors of these names: the numbers 1, 2, 3 and so on.
fn write(path: &Path, names: &[&str]) {
    let one = |(i, name): (usize, &&str)| Tensor::new(name, DType::F32, &[1], &[1.0 + i as f32]).unwrap();
    let tensors: Vec<Tensor> = names.iter().enumerate().map(one).collect();
    save(path, &tensors.iter().map(Tensor::entry).collect::<Vec<_>>()).unwrap();
}

#[test]
fn what_is_left_out_or_unknown_or_missing_ends_no_load() {
    let dir = scratch("gaps");
    let path = dir.join("w");
    write(&path, &["0", "1", "b", "c"]);
    let mut p = program(&["a", "b"], &["c"]);
    let rename = |name: &str| (name != "0").then(|| name.to_string());
    let how =
        Load { missing: Unmatched::Allow, unexpected: Unmatched::Allow, rename: Some(&rename), ..Load::default() };
    let report = p.load_weights(&Weights::open(&path).unwrap(), how).unwrap();
    let names = |list: &[&str]| list.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let want = LoadReport {
        loaded: names(&["b", "c"]),
        missing: names(&["a"]),
        unexpected: names(&["1"]),
        ..LoadReport::default()
    };
    assert_eq!(report, want);
    assert_eq!(["a", "b", "c"].map(|name| p.values::<f32>(name).unwrap()[0]), [0.0, 3.0, 4.0]);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_whole_load_wants_the_tensors_of_the_program_and_no_others() {
    let dir = scratch("whole");
    let path = dir.join("w");
    let mut p = program(&["v", "w"], &["s", "t"]);
    let mut refused = |names: &[&str], why: &str| {
        write(&path, names);
        assert_eq!(p.load(&path).unwrap_err().to_string(), format!("{}: {why}", path.display()));
    };
    refused(&["v", "w"], "there is no tensor for state \"s\"");
    refused(&["v", "w", "s", "t", "extra"], "there are no params or states for the tensors extra");
    refused(&["w", "s", "t"], "there are no tensors for v");
    refused(&["s", "t", "x"], "there are no tensors for v, w, and no params or states for the tensors x");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A tensor that is missing has no file: the file of the first tensor is named.
#[test]
fn a_load_from_shards_names_the_first_tensors_file() {
    let dir = scratch("first");
    write(&dir.join("one"), &["b"]);
    write(&dir.join("two"), &["a"]);
    let path = dir.join("w.index.json");
    std::fs::write(&path, r#"{"weight_map":{"b":"one","a":"two"}}"#).unwrap();
    let e = program(&["a", "b", "c"], &[]).load(&path).unwrap_err().to_string();
    assert_eq!(e, format!("{}: there are no tensors for c", dir.join("two").display()));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_param_may_have_the_name_of_a_tensor_of_the_trainers() {
    let dir = scratch("names");
    let path = dir.join("w");
    let mut p = program(&["train.rate", "w"], &[]);
    write(&path, &["train.rate", "w", "train.cursor"]);
    p.load(&path).unwrap();
    assert_eq!(["train.rate", "w"].map(|name| p.values::<f32>(name).unwrap()[0]), [1.0, 2.0]);
    std::fs::remove_dir_all(&dir).unwrap();
}
