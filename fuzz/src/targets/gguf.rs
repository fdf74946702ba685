//! Any file opened as GGUF. If it opens, its tensors lie in the file, and a file written from them is read as equal. A
//! load that fails changes nothing.

use super::{READERS, Target};
use crate::files::file_path;
use arenagrad::graph::quant::BlockType;
use arenagrad::graph::{Builder, DType, Init};
use arenagrad::session::{Program, Session};
use arenagrad::train::gguf::{Gguf, GgufEntry, GgufTensor, Meta, MetaArray, TensorType, encode_file};
use arenagrad::train::{Load, Unmatched};

pub const TARGET: Target = Target {
    name: "gguf",
    about: "any file opened as GGUF is refused, or written again with equal parts; a load that fails changes nothing",
    run,
    seeds,
    words: &[],
    max_len: 2048,
    memory: super::MemoryLimit { base: 4 << 20, each: READERS.each },
};

/// Runs the target. The bits of the first byte choose how the file is loaded.
pub fn run(data: &[u8]) {
    let (how, file) = data.split_first().map_or((0, data), |(n, file)| (*n, file));
    let path = file_path("file.gguf");
    let write = |bytes: &[u8]| std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    write(file);
    match Gguf::open(&path) {
        Err(e) => assert!(e.message.contains("file.gguf") && !e.message.contains('\n'), "{e}"),
        Ok(opened) => {
            load(&opened, how);
            let known = |t: &&GgufTensor| t.kind.bytes_of(&t.dims).is_some();
            let (tensors, unknown): (Vec<_>, Vec<_>) = opened.tensors().iter().partition(known);
            assert!(unknown.iter().all(|t| opened.bytes(t).is_err()), "bytes of a type that is not known");
            let parts: Vec<Vec<u8>> =
                tensors.iter().map(|t| opened.bytes(t).unwrap_or_else(|e| panic!("{e}"))).collect();
            write(&written(&opened, &tensors, &parts));
            let again = Gguf::open(&path).unwrap_or_else(|e| panic!("{e}"));
            // NaN is not equal to itself, so metadata is compared as text.
            assert_eq!(format!("{:?}", again.metadata()), format!("{:?}", opened.metadata()));
            assert_eq!(again.tensors().len(), parts.len());
            for ((a, b), part) in again.tensors().iter().zip(&tensors).zip(&parts) {
                assert_eq!((&a.name, a.kind, &a.dims), (&b.name, b.kind, &b.dims));
                assert!(again.bytes(a).is_ok_and(|bytes| bytes == *part), "{:?}", a.name);
            }
        }
    }
    let _ = std::fs::remove_file(&path);
}

/// The file written again.
fn written(file: &Gguf, tensors: &[&GgufTensor], parts: &[Vec<u8>]) -> Vec<u8> {
    let all = tensors.iter().zip(parts);
    let entries: Vec<GgufEntry<'_>> = all.map(|(t, bytes)| GgufEntry::new(&t.name, t.kind, &t.dims, bytes)).collect();
    encode_file(file.metadata(), &entries).unwrap_or_else(|e| panic!("{e}"))
}

/// Loads into a program that has some of the names.
fn load(file: &Gguf, how: u8) {
    let g = Builder::new("loads");
    let w = g.param("w", [2, 3], DType::F32, Init::Ones);
    let q = g.frozen_param("q", [18], DType::U8, Init::Zeros);
    let y = g.full(1.0, [2, 32], DType::F32).gguf_matmul(q, BlockType::Q4_0, 1).sum(..) + w.sum(..);
    let graph = g.finish([y.named("y")]).unwrap_or_else(|e| panic!("{e}"));
    let mut p =
        Session::new().compile(&graph).and_then(|mut p| p.init(1).map(|()| p)).unwrap_or_else(|e| panic!("{e}"));
    let kept = |p: &Program| p.persistent().map(|(_, bytes)| bytes.to_vec()).collect::<Vec<_>>();
    let before = kept(&p);
    let unmatched = if how & 1 == 1 { Unmatched::Refuse } else { Unmatched::Allow };
    let (missing, unexpected, reshape) = (unmatched, unmatched, how & 1 == 0);
    if let Err(e) =
        p.load_gguf(file, Load::default().missing(missing).unexpected(unexpected).reshape(reshape).cast(how & 2 == 2))
    {
        assert!(kept(&p) == before && !e.message.is_empty(), "{e}");
    }
    p.step().unwrap_or_else(|e| panic!("{e}"));
}

fn seeds() -> Vec<Vec<u8>> {
    let plain = TensorType::Plain(DType::F32);
    let metadata: Vec<(String, Meta)> = vec![
        ("general.alignment".into(), Meta::U32(8)),
        ("t".into(), Meta::String("ab".into())),
        ("b".into(), Meta::Bool(true)),
        ("f".into(), Meta::F64(0.5)),
        ("n".into(), Meta::Array(MetaArray::I16(vec![1, -2]))),
        ("s".into(), Meta::Array(MetaArray::String(vec!["x".into(), String::new()]))),
        (
            "x".into(),
            Meta::Array(MetaArray::Array(vec![MetaArray::Bytes(vec![b"\xff".to_vec()]), MetaArray::U8(vec![])])),
        ),
    ];
    let entries = [
        GgufEntry::new("w", plain, &[2, 3], &[7; 24]),
        GgufEntry::new("q", TensorType::Blocks(BlockType::Q4_0), &[1, 32], &[3; 18]),
        GgufEntry::new("o", TensorType::Other(16), &[256], &[3; 66]),
    ];
    let files =
        [(&metadata[..], &entries[..]), (&metadata[..0], &entries[..1]), (&metadata[..2], &entries[1..2]), (&[], &[])];
    let sound = files.iter().filter_map(|(m, t)| encode_file(m, t).ok());
    sound.flat_map(|file| [0u8, 1, 2, 3].map(|how| [&[how], &file[..]].concat())).collect()
}
