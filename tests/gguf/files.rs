//! GGUF files: what is written is read, by this library and by the format's own; loading by name.

use super::{blocks_of, noise, path};
use arenagrad::graph::quant::BlockType;
use arenagrad::graph::{Builder, DType, Init};
use arenagrad::session::{Program, Session};
use arenagrad::train::gguf::{Gguf, GgufEntry, Meta, MetaArray, TensorType, encode_file, save};
use arenagrad::train::{Load, Unmatched};

const F32: TensorType = TensorType::Plain(DType::F32);

#[test]
fn a_file_of_the_formats_library_is_read() {
    let file = Gguf::open("tests/torch/package.gguf").unwrap();
    let meta = |key: &str| file.meta(key).unwrap_or_else(|| panic!("{key}")).clone();
    assert_eq!(file.version(), 3);
    assert_eq!(meta("general.architecture"), Meta::String("toy".into()));
    let known = [
        ("test.u8", Meta::U8(200)),
        ("test.i8", Meta::I8(-3)),
        ("test.u16", Meta::U16(60000)),
        ("test.i16", Meta::I16(-300)),
        ("test.i32", Meta::I32(-70000)),
        ("test.f32", Meta::F32(0.5)),
        ("test.bool", Meta::Bool(true)),
        ("test.u64", Meta::U64(1 << 40)),
        ("test.i64", Meta::I64(-(1 << 40))),
        ("test.f64", Meta::F64(0.1)),
        ("test.texts", Meta::Array(MetaArray::String(vec!["a".into(), String::new(), "ü".into()]))),
        ("test.numbers", Meta::Array(MetaArray::I32(vec![1, 2, 3]))),
        ("test.text", Meta::String("two words".into())),
    ];
    known.into_iter().for_each(|(key, value)| assert_eq!(meta(key), value, "{key}"));
    let listed: Vec<_> = file.tensors().iter().map(|t| (t.name.as_str(), t.kind, t.dims.clone())).collect();
    let plain = TensorType::Plain;
    assert_eq!(
        listed,
        [
            ("plain", F32, vec![3, 4]),
            ("half", plain(DType::F16), vec![3, 4]),
            ("whole", plain(DType::I32), vec![5]),
            ("q8", TensorType::Blocks(BlockType::Q8_0), vec![2, 64]),
            ("q4", TensorType::Blocks(BlockType::Q4K), vec![2, 512]),
        ]
    );
    let bytes = |name: &str| file.bytes(file.find(name).unwrap()).unwrap();
    let x: Vec<f32> = bytes("plain").as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    assert_eq!(x, (0..12).map(|i| i as f32).collect::<Vec<_>>());
    assert_eq!(bytes("q4"), blocks_of("Q4_K", 144, 4, &[1, 3]));
    assert!(file.find("none").is_none());
}

#[test]
fn what_is_written_is_read() {
    let metadata: Vec<(String, Meta)> = vec![
        ("general.alignment".into(), Meta::U32(64)),
        ("a".into(), Meta::Array(MetaArray::Bool(vec![true, false]))),
        ("b".into(), Meta::Array(MetaArray::F64(Vec::new()))),
        ("c".into(), Meta::String("ü".into())),
    ];
    let q = blocks_of("Q6_K", 210, 3, &[209]);
    let x: Vec<u8> = noise(5, 1).iter().flat_map(|x| x.to_le_bytes()).collect();
    let kind = TensorType::Blocks(BlockType::Q6K);
    let entries = [
        GgufEntry::new("x", F32, &[5], &x),
        GgufEntry::new("q", kind, &[1, 3, 256], &q),
        GgufEntry::new("none", F32, &[0, 7], &[]),
        GgufEntry::new("one", F32, &[], &x[..4]),
        GgufEntry::new("four", F32, &[1, 5, 1, 1], &x),
    ];
    let file = path("written.gguf");
    save(&file, &metadata, &entries).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), encode_file(&metadata, &entries).unwrap());
    let opened = Gguf::open(&file).unwrap();
    assert_eq!(opened.metadata(), metadata);
    for (t, e) in opened.tensors().iter().zip(&entries) {
        assert_eq!((t.name.as_str(), t.kind, &t.dims[..]), (e.name, e.kind, e.dims));
        assert_eq!(opened.bytes(t).unwrap(), e.bytes);
    }
    let mut part = [0; 4];
    opened.read(&opened.tensors()[1], 208, &mut part).unwrap();
    assert_eq!(part, q[208..212]);
    assert!(opened.read(&opened.tensors()[1], 628, &mut part).is_err());
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_file_has_these_bytes() {
    let entries = [
        GgufEntry::new("x", F32, &[1], &[1, 2, 3, 4]),
        GgufEntry::new("y", F32, &[2, 1], &[5, 6, 7, 8, 9, 10, 11, 12]),
    ];
    let (word, long) = (u32::to_le_bytes, u64::to_le_bytes);
    let head = [&b"GGUF"[..], &word(3), &long(2), &long(1), &long(1), b"k", &word(0), &[7]].concat();
    let x = [&long(1)[..], b"x", &word(1), &long(1), &word(0), &long(0)].concat();
    // Axes are stored from the last to the first.
    let y = [&long(1)[..], b"y", &word(2), &long(1), &long(2), &word(0), &long(32)].concat();
    assert_eq!(head.len() + x.len() + y.len(), 112);
    let data = [&[0u8; 16][..], &[1, 2, 3, 4], &[0; 28], &[5, 6, 7, 8, 9, 10, 11, 12], &[0; 24]].concat();
    assert_eq!(encode_file(&[("k".into(), Meta::U8(7))], &entries).unwrap(), [head, x, y, data].concat());
}

#[test]
fn metadata_is_asked_for_as_a_number_or_a_text() {
    for (meta, number) in [
        (Meta::U8(200), Some(200)),
        (Meta::U16(60_000), Some(60_000)),
        (Meta::U32(4_000_000_000), Some(4_000_000_000)),
        (Meta::U64(u64::MAX), Some(u64::MAX)),
        (Meta::I8(100), Some(100)),
        (Meta::I16(300), Some(300)),
        (Meta::I32(70_000), Some(70_000)),
        (Meta::I64(1 << 40), Some(1 << 40)),
        (Meta::I8(-1), None),
        (Meta::I64(-1), None),
        (Meta::F32(1.0), None),
        (Meta::Bool(true), None),
        (Meta::String("7".into()), None),
    ] {
        assert_eq!(meta.as_u64(), number, "{meta:?}");
        assert_eq!(meta.as_str(), (meta == Meta::String("7".into())).then_some("7"), "{meta:?}");
    }
}

#[test]
fn what_no_file_can_hold_is_refused() {
    let x = [0; 32];
    let one = |kind, dims, bytes| encode_file(&[], &[GgufEntry::new("x", kind, dims, bytes)]).unwrap_err().message;
    assert!(one(F32, &[9], &x).contains("F32[9] has 36 bytes; 32 are given"));
    assert!(one(F32, &[1, 1, 1, 1, 8], &x).contains("5 axes; at most 4"));
    assert!(one(TensorType::Plain(DType::Bool), &[32], &x).contains("no type for"));
    assert!(one(TensorType::Blocks(BlockType::Q8_0), &[2, 16], &x).contains("no whole Q8_0 blocks"));
    let entry = GgufEntry::new("x", F32, &[8], &x);
    assert!(encode_file(&[], &[entry, entry]).unwrap_err().message.contains("\"x\" occurs twice"));
    let key = |value| ("general.alignment".to_string(), value);
    assert!(
        encode_file(&[key(Meta::U32(0))], &[]).unwrap_err().message.contains("must be a u32, a power of two, from 1")
    );
    assert!(encode_file(&[key(Meta::U32(1)), key(Meta::U32(1))], &[]).unwrap_err().message.contains("occurs twice"));
}

#[test]
fn leaves_are_loaded_by_name() {
    let q = blocks_of("Q8_0", 34, 4, &[1]);
    let half: Vec<u8> = [0.5f32, -2.0].iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect();
    let entries = [
        GgufEntry::new("m.w", TensorType::Blocks(BlockType::Q8_0), &[2, 64], &q),
        GgufEntry::new("m.b", TensorType::Plain(DType::F16), &[2], &half),
        GgufEntry::new("other", F32, &[0], &[]),
    ];
    let file = path("named.gguf");
    save(&file, &[], &entries).unwrap();
    let opened = Gguf::open(&file).unwrap();
    let g = Builder::new("named");
    let (w, b) = (g.input("w", [q.len()], DType::U8), g.param("b", [2], DType::F32, Init::Ones));
    let kept = g.state("s", [1], DType::F32, Init::Ones);
    let y = g.input("x", [64], DType::F32).gguf_matmul(w, BlockType::Q8_0, 2) + b + kept;
    let mut p = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    p.init(1).unwrap();
    let rename = |name: &str| name.strip_prefix("m.").map(String::from);
    let how = Load::default().cast(true).rename(&rename);
    let report = p.load_gguf(&opened, how).unwrap();
    assert_eq!(
        (report.loaded, report.cast, report.kept),
        (vec!["w".into(), "b".into()], vec!["b".into()], vec!["s".into()])
    );
    assert_eq!((p.values::<u8>("w").unwrap(), p.values::<f32>("b").unwrap()), (&q[..], &[0.5, -2.0][..]));
    // What does not fit is refused and changes nothing.
    let loose = Load::default().missing(Unmatched::Allow).unexpected(Unmatched::Allow);
    let before: Vec<Vec<u8>> = p.persistent().map(|(_, bytes)| bytes.to_vec()).collect();
    for (how, want) in [
        (Load::default(), "no tensors for b, and no leaves for the tensors"),
        (Load::default().rename(&rename), "`cast` would convert it"),
        (Load::default().rename(&|_| Some("w".into())), "are both for \"w\""),
        (loose.rename(&|n| (n == "m.w").then(|| "x".into())).cast(true), "not f32[64]"),
        (loose.rename(&|n| (n == "m.b").then(|| "w".into())).cast(true), "not u8[136]"),
    ] {
        let e = p.load_gguf(&opened, how).unwrap_err();
        assert!(e.message.contains(want) && e.message.contains("named.gguf"), "{e}");
    }
    assert_eq!(p.persistent().map(|(_, bytes)| bytes.to_vec()).collect::<Vec<_>>(), before);
    // A file that is cut after it was opened.
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(200).unwrap();
    let e = p.load_gguf(&opened, Load::default().cast(true).rename(&rename)).unwrap_err();
    assert!(e.message.contains("stopped half-way") && e.message.contains("shorter"), "{e}");
    assert!(p.step().is_err());
    std::fs::remove_file(&file).unwrap();
}

/// More elements than are read at once.
#[test]
fn large_tensors_are_loaded_to_their_last_element() {
    let x = noise((1 << 14) * 2 + 5, 3);
    let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let dims = [x.len()];
    let entries = ["same", "wide"].map(|name| GgufEntry::new(name, F32, &dims, &bytes));
    let file = path("large.gguf");
    save(&file, &[], &entries).unwrap();
    let g = Builder::new("large");
    let (same, wide) = (g.param("same", dims, DType::F32, Init::Ones), g.param("wide", dims, DType::F64, Init::Ones));
    let graph = g.finish([same.sum(..).named("a"), wide.sum(..).named("b")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    let _all = p.load_gguf(&Gguf::open(&file).unwrap(), Load::default().cast(true)).unwrap();
    assert!(p.values::<f32>("same").unwrap() == x);
    assert!(p.values::<f64>("wide").unwrap().iter().zip(&x).all(|(a, b)| *a == f64::from(*b)));
    std::fs::remove_file(&file).unwrap();
}

/// A program that reads `w`, `u8[1152]`, as Q4_K of 8 rows: directly, as the constant of a loop, or in two halves.
fn reader(how: &str) -> Program {
    let g = Builder::new("reader");
    let (w, x) = (g.input("w", [1152], DType::U8), g.input("x", [3, 256], DType::F32));
    let y = match how {
        "loop" => {
            let start = g.full(0.0, [8], DType::F32);
            let (sum, _) = g.scan(&[start], &[x], |c, x| (vec![c[0] + x[0].gguf_matmul(w, BlockType::Q4K, 8)], vec![]));
            sum[0]
        }
        "halves" => x.gguf_matmul(w.narrow(0, 0, 576), BlockType::Q4K, 4),
        _ => x.gguf_matmul(w.reshape([2, 576]).reshape([1152]), BlockType::Q4K, 8),
    };
    Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap()
}

/// Q4_0, IQ4_NL and Q4_K have as many bytes, and so has the transpose.
#[test]
fn blocks_of_another_type_or_shape_are_refused_though_their_bytes_fit() {
    let bytes = blocks_of("Q4_K", 144, 8, &[1, 3]);
    for (kind, dims, fits) in [
        (BlockType::Q4K, [8, 256], [true; 3]),
        (BlockType::Q4_0, [8, 256], [false; 3]),
        (BlockType::Q4K, [4, 512], [false, false, true]),
    ] {
        let file = path("kinds.gguf");
        save(&file, &[], &[GgufEntry::new("w", TensorType::Blocks(kind), &dims, &bytes)]).unwrap();
        let opened = Gguf::open(&file).unwrap();
        for (how, fits) in ["plain", "loop", "halves"].into_iter().zip(fits) {
            let mut p = reader(how);
            let done = p.load_gguf(&opened, Load::default());
            assert_eq!(done.is_ok(), fits, "{} {dims:?} {how}", kind.name());
            let Err(e) = done else { continue };
            let reads = if how == "halves" { "reads \"w\" as Q4_K" } else { "reads \"w\" as Q4_K[8, 256]" };
            let is = format!("\"w\" is {}{dims:?} in the file", kind.name());
            assert!(e.message.contains(reads) && e.message.contains(&is), "{e}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn tensors_of_another_file_are_refused() {
    let files = ["one.gguf", "two.gguf"].map(|name| {
        let file = path(name);
        let first = GgufEntry::new("a", F32, &[1], &[0; 4]);
        save(&file, &[], &[first, GgufEntry::new(&name[..3], F32, &[1], &[0; 4])]).unwrap();
        let opened = Gguf::open(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        opened
    });
    let e = files[0].bytes(&files[1].tensors()[1]).unwrap_err().to_string();
    assert!(e.contains("\"two\" is one of another file") && e.contains("one.gguf"), "{e}");
    assert!(files[0].bytes(&files[0].tensors()[1]).is_ok());
}
