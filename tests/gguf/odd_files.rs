//! GGUF files with parts that cannot be used, which do not keep the others from being read.

use super::path;
use arenagrad::graph::quant::BlockType;
use arenagrad::graph::{Builder, DType, Init};
use arenagrad::session::Session;
use arenagrad::train::Load;
use arenagrad::train::gguf::{Gguf, GgufEntry, Meta, MetaArray, TensorType, encode_file};

const F32: TensorType = TensorType::Plain(DType::F32);

/// Opens the bytes as a file.
fn open(name: &str, bytes: &[u8]) -> arenagrad::Result<Gguf> {
    let file = path(name);
    std::fs::write(&file, bytes).unwrap();
    let opened = Gguf::open(&file);
    std::fs::remove_file(&file).unwrap();
    opened
}

/// `gguf_types.txt` is what the package knows: name, number, elements and bytes of a block. Of Q8_1, which files do not
/// hold, the package has the size of an older layout.
#[test]
fn all_types_of_the_formats_library_have_names_and_sizes() {
    let known = std::fs::read_to_string("tests/torch/gguf_types.txt").unwrap();
    for line in known.lines() {
        let [name, id, elements, bytes] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let kind = TensorType::from_id(id.parse().unwrap());
        assert_eq!((&kind.name()[..], kind.id()), (name, Some(id.parse().unwrap())));
        let bytes = if name == "Q8_1" { 36 } else { bytes.parse().unwrap() };
        assert_eq!(kind.bytes_of(&[3, elements.parse().unwrap()]), Some(3 * bytes), "{name}");
    }
    assert!(known.lines().count() >= 32);
    let unknown = TensorType::from_id(99);
    assert_eq!((&unknown.name()[..], unknown.bytes_of(&[256])), ("type 99", None));
    // Types that ggml has dropped.
    assert_eq!(
        [4, 5, 31, 38].map(|id| TensorType::from_id(id).bytes_of(&[32])),
        [Some(20), Some(24), Some(18), Some(18)]
    );
}

/// A file of `a`, 66 bytes of IQ2_XXS, and `b`, two floats.
fn two() -> Vec<u8> {
    let a = GgufEntry::new("a", TensorType::Other(16), &[1, 256], &[5; 66]);
    let b = GgufEntry::new("b", F32, &[2], &[0; 8]);
    encode_file(&[], &[a, b]).unwrap()
}

#[test]
fn a_tensor_of_a_type_without_a_reader_is_refused_where_it_is_used() {
    let mut file = two();
    let at = file.windows(12).position(|w| w == [16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    for (id, name, bytes) in [(16u32, "IQ2_XXS", 66), (99, "type 99", 96)] {
        file[at..at + 4].copy_from_slice(&id.to_le_bytes());
        let opened = open("odd", &file).unwrap();
        let a = opened.find("a").unwrap();
        assert_eq!(
            (a.kind, &a.kind.name()[..], a.bytes, &a.dims[..]),
            (TensorType::Other(id), name, bytes, &[1, 256][..])
        );
        // Bytes of known size are bytes.
        match opened.bytes(a) {
            Ok(read) => assert!(id == 16 && read == [5; 66]),
            Err(e) => assert!(id == 99 && e.message.contains("tensor \"a\" is of type 99, which is not known"), "{e}"),
        }
        let g = Builder::new("odd");
        let (a, b) = (g.param("a", [1, 256], DType::F32, Init::Ones), g.param("b", [2], DType::F32, Init::Ones));
        let mut p = Session::new().compile(&g.finish([a.sum(..).named("y"), b.sum(..).named("z")]).unwrap()).unwrap();
        p.init(1).unwrap();
        let e = p.load_gguf(&opened, Load::default().cast(true)).unwrap_err();
        let text = format!("\"a\" is {name}[1, 256] in the file, not f32[1,256]; this type cannot be read here");
        assert!(e.message.contains(&text), "{e}");
        assert_eq!(p.values::<f32>("b").unwrap(), [1.0; 2]);
        let g = Builder::new("rest");
        let b = g.param("b", [2], DType::F32, Init::Ones);
        let mut p = Session::new().compile(&g.finish([b.sum(..).named("z")]).unwrap()).unwrap();
        let known = |name: &str| (name == "b").then(|| name.to_string());
        let report = p.load_gguf(&opened, Load::default().rename(&known)).unwrap();
        assert_eq!(report.loaded, ["b"]);
        assert_eq!(p.values::<f32>("b").unwrap(), [0.0; 2]);
    }
    let unknown = GgufEntry::new("a", TensorType::Other(99), &[1], &[5]);
    assert!(encode_file(&[], &[unknown]).unwrap_err().message.contains("type 99 is not known"));
}

#[test]
fn texts_that_are_not_utf8_and_arrays_of_arrays_are_read() {
    let metadata: Vec<(String, Meta)> = vec![
        ("text".into(), Meta::Bytes(b"a\xff".to_vec())),
        ("texts".into(), Meta::Array(MetaArray::Bytes(vec![b"good".to_vec(), b"\xfe".to_vec()]))),
        (
            "nested".into(),
            Meta::Array(MetaArray::Array(vec![
                MetaArray::U8(vec![1, 2]),
                MetaArray::Array(vec![MetaArray::String(vec!["x".into()]), MetaArray::Bool(vec![])]),
            ])),
        ),
        ("last".into(), Meta::U8(7)),
    ];
    let opened = open("texts", &encode_file(&metadata, &[]).unwrap()).unwrap();
    assert_eq!(opened.metadata(), metadata);
    let shown: Vec<String> = opened.metadata().iter().map(|m| m.1.to_string()).collect();
    assert_eq!(shown, ["a\\xff", "[good, \\xfe]", "[[1, 2], [[x], []]]", "7"]);
    assert_eq!(opened.meta("text").unwrap().as_str(), None);
    // Keys and names have escapes.
    let entry = GgufEntry::new("name", TensorType::Blocks(BlockType::Q8_0), &[32], &[0; 34]);
    let mut file = encode_file(&[("keys".into(), Meta::U8(7))], &[entry]).unwrap();
    for word in [b"keys", b"name"] {
        let at = file.windows(4).position(|w| w == word).unwrap();
        file[at + 1] = 0xff;
    }
    let opened = open("names", &file).unwrap();
    assert_eq!((&opened.metadata()[0].0[..], &opened.tensors()[0].name[..]), ("k\\xffys", "n\\xffme"));
}

/// Each level takes stack.
#[test]
fn arrays_may_not_stand_in_each_other_without_end() {
    let of = |depth: usize| {
        let deep = (1..depth).fold(MetaArray::U8(vec![1]), |inner, _| MetaArray::Array(vec![inner]));
        open("deep", &encode_file(&[("deep".into(), Meta::Array(deep))], &[]).unwrap()).map(|_| ())
    };
    of(9).unwrap();
    assert!(of(10).unwrap_err().message.contains("arrays in arrays, more than 8 deep"));
}

#[test]
fn an_alignment_is_a_power_of_two() {
    for (alignment, good) in
        [(1u32, true), (2, true), (64, true), (1 << 20, true), (0, false), (12, false), (1 << 21, false)]
    {
        let with = |x: u32| ("general.alignment".to_string(), Meta::U32(x));
        assert_eq!(encode_file(&[with(alignment)], &[]).is_ok(), good, "{alignment}");
        let mut file = encode_file(&[with(32)], &[]).unwrap();
        let at = file.windows(4).position(|w| w == [32, 0, 0, 0]).unwrap();
        file[at..at + 4].copy_from_slice(&alignment.to_le_bytes());
        file.resize(file.len().max(64), 0);
        match open("aligned", &file) {
            Ok(_) => assert!(good, "{alignment}"),
            Err(e) => assert!(!good && e.message.contains("a power of two, from 1"), "{e}"),
        }
    }
}
