//! Loads of GGUF files: which tensors and leaves fit, and what is said of those that do not.

use super::{noise, path};
use arenagrad::graph::quant::BlockType;
use arenagrad::graph::{Builder, DType, Init};
use arenagrad::session::{Program, Session};
use arenagrad::train::gguf::{Gguf, GgufEntry, TensorType, encode, save};
use arenagrad::train::{Load, LoadReport, Unmatched};

const F32: TensorType = TensorType::Plain(DType::F32);

/// A program of params: name, type, shape. All elements are 0.
fn program(params: &[(&str, DType, &[usize])]) -> Program {
    let g = Builder::new("leaves");
    for (name, dtype, dims) in params {
        g.frozen_param(name, dims, *dtype, Init::Zeros);
    }
    let mut p = Session::new().compile(&g.finish([]).unwrap()).unwrap();
    p.init(0).unwrap();
    p
}

/// An open file of these tensors.
fn opened(name: &str, entries: &[GgufEntry<'_>]) -> Gguf {
    let file = path(name);
    save(&file, &[], entries).unwrap();
    let opened = Gguf::open(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    opened
}

/// A file of numbers of these names: 1, 2, 3 and so on.
fn numbers(file: &str, names: &[&str]) -> Gguf {
    let bytes: Vec<[u8; 4]> = (0..names.len()).map(|i| (1.0 + i as f32).to_le_bytes()).collect();
    let one = |(name, bytes)| GgufEntry::new(name, F32, &[1], bytes);
    let pairs = names.iter().copied().zip(bytes.iter().map(|b| &b[..]));
    opened(file, &pairs.map(one).collect::<Vec<_>>())
}

const ONE: &[usize] = &[1];

/// Names of one side alone are allowed.
fn loose() -> Load<'static> {
    Load::default().missing(Unmatched::Allow).unexpected(Unmatched::Allow)
}

#[test]
fn what_is_left_out_or_unknown_or_missing_ends_no_load() {
    let mut p = program(&[("a", DType::F32, ONE), ("b", DType::F32, ONE), ("c", DType::F32, ONE)]);
    let rename = |name: &str| (name != "0").then(|| name.to_string());
    let how = loose().rename(&rename);
    let report = p.load_gguf(&numbers("gaps.gguf", &["0", "1", "b", "c"]), how).unwrap();
    let names = |list: &[&str]| list.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let mut want = LoadReport::default();
    (want.loaded, want.missing, want.unexpected) = (names(&["b", "c"]), names(&["a"]), names(&["1"]));
    assert_eq!(report, want);
    assert_eq!(["a", "b", "c"].map(|name| p.values::<f32>(name).unwrap()[0]), [0.0, 3.0, 4.0]);
}

#[test]
fn a_strict_load_names_all_that_is_missing_or_unknown() {
    let mut p = program(&[("a", DType::F32, ONE), ("b", DType::F32, ONE)]);
    let mut load = |names: &[&str]| {
        let file = numbers("strict.gguf", names);
        p.load_gguf(&file, Load::default()).map(|r| r.loaded.len()).map_err(|e| e.message)
    };
    for (names, why) in [
        (&["a"][..], "no tensors for b"),
        (&["a", "b", "x", "y"], "no leaves for the tensors x, y"),
        (&["a", "x"], "no tensors for b, and no leaves for the tensors x"),
    ] {
        assert_eq!(load(names), Err(format!("{}: there are {why}", path("strict.gguf").display())));
    }
    assert_eq!(load(&["a", "b"]), Ok(2));
}

#[test]
fn axes_of_length_1_may_differ_if_that_is_asked_for() {
    let bytes: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let entry = GgufEntry::new("w", F32, &[2, 1, 3], &bytes);
    let file = opened("shapes.gguf", &[entry]);
    let load = |dims: &[usize], reshape: bool| -> Result<(Vec<String>, Vec<f32>), String> {
        let mut p = program(&[("w", DType::F32, dims)]);
        let report = p.load_gguf(&file, Load::default().reshape(reshape)).map_err(|e| e.message)?;
        Ok((report.reshaped, p.values::<f32>("w").unwrap().to_vec()))
    };
    let all = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    assert_eq!(load(&[2, 1, 3], false), Ok((vec![], all.clone())));
    assert_eq!(load(&[2, 3], true), Ok((vec!["w".to_string()], all)));
    let is = format!("{}: \"w\" is F32[2, 1, 3] in the file", path("shapes.gguf").display());
    let why = "`reshape` would allow it";
    assert_eq!(load(&[2, 3], false), Err(format!("{is}, not f32[2,3]; {why}")));
    assert_eq!(load(&[3, 2], true), Err(format!("{is}, not f32[3,2]")));
}

#[test]
fn floats_alone_are_converted() {
    let (ints, floats) = ([7i32, -1], [0.5f32, -2.0]);
    let blocks = encode(BlockType::Q8_0, &noise(32, 1)).unwrap();
    let entries = [
        GgufEntry::new("i", TensorType::Plain(DType::I32), &[2], bytemuck::cast_slice(&ints)),
        GgufEntry::new("f", F32, &[2], bytemuck::cast_slice(&floats)),
        GgufEntry::new("q", TensorType::Blocks(BlockType::Q8_0), &[1, 32], &blocks),
    ];
    let file = opened("types.gguf", &entries);
    let load = |name: &str, dtype: DType, dims: &[usize], cast: bool| -> Result<Vec<u8>, String> {
        let mut p = program(&[(name, dtype, dims)]);
        let only = |of: &str| (of == name).then(|| of.to_string());
        let _one = p.load_gguf(&file, Load::default().cast(cast).rename(&only)).map_err(|e| e.message)?;
        Ok(p.persistent().next().unwrap().1.to_vec())
    };
    assert_eq!(load("i", DType::I32, &[2], false), Ok(bytemuck::cast_slice::<i32, u8>(&ints).to_vec()));
    assert_eq!(load("f", DType::F64, &[2], true), Ok(bytemuck::cast_slice::<f64, u8>(&[0.5, -2.0]).to_vec()));
    assert_eq!(load("q", DType::U8, &[34], false), Ok(blocks.clone()));
    for (name, dtype, dims, why) in [
        ("i", DType::F32, &[2][..], "\"i\" is I32[2] in the file, not f32[2]"),
        ("f", DType::I32, &[2], "\"f\" is F32[2] in the file, not i32[2]"),
        ("q", DType::I32, &[1, 32], "\"q\" is Q8_0[1, 32] in the file, not i32[1,32]"),
        ("q", DType::U8, &[33], "\"q\" is Q8_0[1, 32] in the file, not u8[33]; its blocks are u8[34]"),
    ] {
        assert_eq!(load(name, dtype, dims, true), Err(format!("{}: {why}", path("types.gguf").display())));
    }
}

/// The first method moves the bytes, the second decodes them as `rows` rows.
#[test]
fn blocks_of_a_param_are_what_any_method_reads() {
    let t = BlockType::Q8_0;
    let graph = |rows: Option<usize>| {
        let g = Builder::new("method");
        let w = g.frozen_param("w", [4 * 34], DType::U8, Init::Zeros);
        let y = rows.map_or_else(|| w.reshape([4, 34]), |rows| w.gguf_dequant(t, [rows, 128 / rows]));
        g.finish([y.named("y")]).unwrap()
    };
    let blocks = encode(t, &noise(128, 1)).unwrap();
    let file = opened("methods.gguf", &[GgufEntry::new("w", TensorType::Blocks(t), &[4, 32], &blocks)]);
    let load = |rows: usize| {
        let (a, b) = (graph(None), graph(Some(rows)));
        let mut p = Session::new().compile_all(&[("move", &a), ("decode", &b)]).unwrap();
        p.load_gguf(&file, Load::default()).map(|report| report.loaded).map_err(|e| e.message)
    };
    assert_eq!(load(4), Ok(vec!["w".to_string()]));
    let e = load(2).unwrap_err();
    assert!(
        e.ends_with("\"w\" is Q8_0[4, 32] in the file, not u8[136]; the program reads \"w\" as Q8_0[2, 64]"),
        "{e}"
    );
}
