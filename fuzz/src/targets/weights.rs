//! Any file opened as weights: reading tensor by tensor, reading the whole file, and loading into a program give the
//! same bytes.

use super::checkpoint::{WORDS, seeds};
use super::{READERS, Target};
use crate::files::file_path;
use arenagrad::graph::{Builder, DType, Init};
use arenagrad::session::Session;
use arenagrad::train::checkpoint::digest;
use arenagrad::train::{Load, Loaded, Unmatched, Weights};

pub const TARGET: Target = Target {
    name: "weights",
    about: "any file opened as weights gives what the whole file gives; a load that fails changes nothing",
    run,
    seeds,
    words: WORDS,
    max_len: 2048,
    memory: super::MemoryLimit { base: 4 << 20, each: READERS.each },
};

/// Runs the target. The bits of the first byte choose whether the bytes get a digest, and how they are loaded.
pub fn run(data: &[u8]) {
    let (how, mut file) = data.split_first().map_or((0, Vec::new()), |(n, file)| (*n, file.to_vec()));
    if how & 1 == 1 && digest::seal(&mut file).is_err() {
        return;
    }
    let path = file_path("weights.safetensors");
    std::fs::write(&path, &file).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (opened, whole) = (Weights::open(&path), Loaded::parse(file));
    if let (Ok(opened), Ok(whole)) = (&opened, &whole) {
        assert_eq!(opened.tensors().len(), whole.entries().len());
        for t in opened.tensors() {
            let want = whole.find(&t.name).unwrap_or_else(|| panic!("{:?} is missing", t.name));
            let mut bytes = vec![0; want.bytes.len()];
            assert!(opened.read(t, 0, &mut bytes).is_ok() && bytes == want.bytes, "{:?}", t.name);
        }
    }
    // Elements are looked at when they are read, so a bool of 2 is found only in the whole file.
    assert!(whole.is_err() || opened.is_ok(), "{:?}", opened.err());
    if let Ok(opened) = &opened {
        load(opened, how);
    }
    let _ = std::fs::remove_file(&path);
}

/// Loads into a program that has some of the names.
pub fn load(file: &Weights, how: u8) {
    let g = Builder::new("loads");
    let w = g.param("w", [2, 3], DType::F32, Init::Ones);
    let bias = g.param("fc.bias", [2], DType::F32, Init::Zeros);
    let flag = g.state("s", [], DType::Bool, Init::Zeros);
    g.output("flag", flag);
    let graph = g.finish([(w.sum(1) + bias).named("y")]).unwrap_or_else(|e| panic!("{e}"));
    let mut p =
        Session::new().compile(&graph).and_then(|mut p| p.init(1).map(|()| p)).unwrap_or_else(|e| panic!("{e}"));
    let kept = |p: &arenagrad::session::Program| p.persistent().map(|(_, bytes)| bytes.to_vec()).collect::<Vec<_>>();
    let before = kept(&p);
    let choice = |bit: u8| if how & bit == bit { Unmatched::Refuse } else { Unmatched::Allow };
    let (missing, unexpected) = (choice(2), choice(8));
    let done = p.load_weights(
        file,
        Load::default().missing(missing).unexpected(unexpected).reshape(how & 16 == 16).cast(how & 4 == 4),
    );
    if let Err(e) = done {
        assert!(kept(&p) == before && !e.message.is_empty(), "{e}");
    }
    p.step().unwrap_or_else(|e| panic!("{e}"));
}
