//! Any pickle, and any file, opened as one of `torch.save`. If it opens, each tensor has bytes, the same at once and
//! in pieces. A load that fails changes nothing.

use super::weights::load;
use super::{READERS, Target};
use crate::files::file_path;
use arenagrad::train::Weights;

pub const TARGET: Target = Target {
    name: "pt",
    about: "any file of torch.save gives tensors, read at once or in pieces, or an error that names the file",
    run,
    seeds,
    words: &[],
    max_len: 2048,
    memory: super::MemoryLimit { base: 64 << 20, each: READERS.each },
};

/// A zip of stored records, whose CRC-32 are all 0 and so are not compared.
fn archive(records: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in records {
        let (at, n) = (file.len() as u32, bytes.len() as u32);
        let lengths = [&n.to_le_bytes()[..], &n.to_le_bytes(), &(name.len() as u16).to_le_bytes(), &[0; 2]].concat();
        file.extend([b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0", &lengths[..], name.as_bytes(), bytes].concat());
        directory.extend([b"PK\x01\x02\0\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0", &lengths[..], &[0; 10]].concat());
        directory.extend([&at.to_le_bytes()[..], name.as_bytes()].concat());
    }
    let (count, start) = ((records.len() as u16).to_le_bytes(), file.len() as u32);
    let sizes = [(directory.len() as u32).to_le_bytes(), start.to_le_bytes()].concat();
    [&file[..], &directory, b"PK\x05\x06\0\0\0\0", &count, &count, &sizes, &[0; 2]].concat()
}

/// Bytes of the records of tensors.
const DATA: [u8; 48] = {
    let mut data = [0; 48];
    let mut i = 0;
    while i < data.len() {
        data[i] = i as u8 % 2;
        i += 1;
    }
    data
};

/// The file of a pickle and two records.
fn torch_file(pickle: &[u8]) -> Vec<u8> {
    archive(&[("a/data.pkl", pickle), ("a/version", b"3\n"), ("a/data/0", &DATA[..24]), ("a/data/1", &DATA)])
}

/// Runs the target. The bits of the first byte choose how the weights are loaded, and whether a prefix is chosen; the
/// lowest, whether the rest is a file or the pickle in one.
pub fn run(data: &[u8]) {
    let (how, rest) = data.split_first().map_or((0, data), |(n, rest)| (*n, rest));
    let path = file_path("weights.pt");
    let file = if how & 1 == 1 { rest.to_vec() } else { torch_file(rest) };
    std::fs::write(&path, file).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    match Weights::open_part(&path, if how & 32 == 32 { "model" } else { "" }) {
        Err(e) => assert!(e.message.contains("weights.pt") && !e.message.contains('\n'), "{e}"),
        Ok(opened) => {
            check(&opened);
            load(&opened, how);
        }
    }
    let _ = std::fs::remove_file(&path);
}

/// Reads each tensor at once and in pieces.
fn check(file: &Weights) {
    assert!(file.tensors().windows(2).all(|w| w[0].name < w[1].name), "names rise");
    assert!(file.unusable().iter().all(|t| !t.error().message.contains('\n')));
    for t in file.tensors() {
        assert_eq!(t.dims.iter().product::<usize>() * t.dtype.size(), t.bytes, "{:?}", t.name);
        let (mut all, mut part) = (vec![0; t.bytes], vec![0; t.bytes.div_ceil(2)]);
        file.read(t, 0, &mut all).unwrap_or_else(|e| panic!("{e}"));
        for at in [0, t.bytes - part.len()] {
            file.read(t, at, &mut part).unwrap_or_else(|e| panic!("{e}"));
            assert!(part == all[at..at + part.len()], "{:?} from byte {at}", t.name);
        }
    }
}

/// A number, as an opcode.
fn number(n: i32) -> Vec<u8> {
    [b"J", &n.to_le_bytes()[..]].concat()
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The opcodes of a tensor of the record `key`, which holds `held` elements.
fn tensor(class: &str, key: &str, held: i32, offset: i32, dims: &[i32], strides: &[i32]) -> Vec<u8> {
    let tuple =
        |values: &[i32]| [b"(".to_vec(), values.iter().flat_map(|&n| number(n)).collect(), b"t".to_vec()].concat();
    let global = |module: &str, name: &str| format!("c{module}\n{name}\n").into_bytes();
    let typed = class == "UntypedStorage";
    let (module, function) =
        if typed { ("torch.storage", "_rebuild_tensor_v3") } else { ("torch", "_rebuild_tensor_v2") };
    let storage = [text("storage"), global(module, class), text(key), text("cpu"), number(held)].concat();
    let end = if typed { global("torch", "uint16") } else { Vec::new() };
    let shape = [number(offset), tuple(dims), tuple(strides)].concat();
    [
        global("torch._utils", function),
        b"((".to_vec(),
        storage,
        b"tQ".to_vec(),
        shape,
        b"\x89}".to_vec(),
        end,
        b"tR".to_vec(),
    ]
    .concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let dictionary = |items: &[(&str, Vec<u8>)]| {
        let items = items.iter().flat_map(|(key, value)| [text(key), value.clone()].concat());
        [b"\x80\x02}q\x00(".to_vec(), items.collect(), b"u.".to_vec()].concat()
    };
    let w = tensor("FloatStorage", "0", 6, 0, &[2, 3], &[3, 1]);
    let turned = tensor("FloatStorage", "0", 6, 0, &[2, 3], &[1, 2]);
    let bias = tensor("HalfStorage", "1", 24, 3, &[2], &[4]);
    let shared = tensor("BoolStorage", "1", 48, 1, &[1 << 21], &[0]);
    let param =
        [b"ctorch._utils\n_rebuild_parameter\n(".to_vec(), w.clone(), b"\x88ccollections\nOrderedDict\n)RtR".to_vec()];
    let unsigned = tensor("UntypedStorage", "0", 24, 2, &[3, 1], &[2, 9]);
    let state = [b"}(".to_vec(), text("w"), turned.clone(), text("fc.bias"), bias.clone(), b"u".to_vec()].concat();
    let list = [b"](".to_vec(), unsigned, b"q\x01h\x01K\x07N\x88e".to_vec()].concat();
    let object = b"cargparse\nNamespace\n)\x81}b".to_vec();
    let ordered = [b"ccollections\nOrderedDict\n)R(".to_vec(), text("s"), shared, b"u}b".to_vec()].concat();
    let pickles = [
        dictionary(&[("w", w), ("fc.bias", bias)]),
        dictionary(&[("w", turned), ("n", b"\x8a\x02\xff\x7f".to_vec())]),
        dictionary(&[("w", param.concat()), ("list", list)]),
        dictionary(&[("model", state), ("args", object)]),
        dictionary(&[("o", ordered)]),
        b"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94\x8c\x01a\x94\x8c\x05torch\x8c\x06uint16\x93\x94s.".to_vec(),
        b"\x80\x02]q\0(h\0h\0e.".to_vec(),
    ];
    let mut all: Vec<Vec<u8>> =
        pickles.iter().flat_map(|p| [0u8, 2, 4, 8, 16, 32].map(|how| [&[how], &p[..]].concat())).collect();
    all.extend(pickles.iter().map(|p| [&[1], &torch_file(p)[..]].concat()));
    all
}
