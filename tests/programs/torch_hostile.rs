//! Archives and pickles that lie: each is refused with a message that names the file and the place.

use crate::files::Folder;
use arenagrad::train::Weights;

/// A zip of stored records, whose CRC-32 are all 0.
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

/// The archive of a pickle and of one record of floats.
fn torch_file(pickle: &[u8]) -> Vec<u8> {
    archive(&[("a/data.pkl", pickle), ("a/version", b"3\n"), ("a/byteorder", b"little"), ("a/data/0", &[7; 24])])
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn numbers(values: &[i32]) -> Vec<u8> {
    let each = values.iter().flat_map(|n| [b"J", &n.to_le_bytes()[..]].concat());
    [b"(".to_vec(), each.collect(), b"t".to_vec()].concat()
}

/// The opcodes of a tensor.
fn tensor(class: &str, key: &str, held: i32, offset: i32, dims: &[i32], strides: &[i32]) -> Vec<u8> {
    let (call, class) = (b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(), format!("ctorch\n{class}\n").into_bytes());
    let storage = [text("storage"), class, text(key), text("cpu"), [b"J", &held.to_le_bytes()[..]].concat()].concat();
    let rest = [b"tQJ", &offset.to_le_bytes()[..], &numbers(dims), &numbers(strides), b"\x89}tR"].concat();
    [call, storage, rest].concat()
}

/// The pickle of a dictionary of these keys and values.
fn dictionary(items: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let items = items.iter().flat_map(|(key, value)| [text(key), value.clone()].concat());
    [b"\x80\x02}(".to_vec(), items.collect(), b"u.".to_vec()].concat()
}

fn open(bytes: &[u8]) -> Result<Weights, String> {
    let name = std::thread::current().name().unwrap_or_default().replace(':', "_");
    let folder = Folder::new(&name);
    std::fs::write(folder.at("w.pt"), bytes).unwrap();
    Weights::open(folder.at("w.pt")).map_err(|e| {
        assert!(e.message.contains("w.pt") && !e.message.contains('\n') && e.message.len() < 4096, "{e}");
        e.to_string()
    })
}

fn refused(bytes: &[u8], part: &str) {
    let e = open(bytes).map(|_| ()).expect_err(part);
    assert!(e.contains(part), "{part:?}: {e}");
}

fn w() -> Vec<u8> {
    tensor("FloatStorage", "0", 6, 0, &[2, 3], &[3, 1])
}

#[test]
fn a_small_archive_is_read() {
    let file = open(&torch_file(&dictionary(&[("w", w()), ("n", b"K\x07".to_vec())]))).unwrap();
    assert_eq!((file.tensors().len(), &file.tensors()[0].name[..], &file.tensors()[0].dims[..]), (1, "w", &[2, 3][..]));
}

#[test]
fn tensors_outside_their_record_are_refused() {
    let case = |class, key, held, offset, dims: &[i32], strides: &[i32], part: &str| {
        refused(&torch_file(&dictionary(&[("w", tensor(class, key, held, offset, dims, strides))])), part);
    };
    case("FloatStorage", "0", 6, 1, &[2, 3], &[3, 1], "\"w\": [2, 3] with the strides [3, 1] from element 1 on");
    case("FloatStorage", "0", 6, 0, &[2, 3], &[4, 1], "is not in its record \"data/0\" of 6 elements");
    case("FloatStorage", "0", 6, 0, &[i32::MAX; 4], &[0; 4], "is not in its record");
    case("FloatStorage", "0", 6, -1, &[2, 3], &[3, 1], "not those of a tensor");
    case("FloatStorage", "0", 6, 0, &[-2, 3], &[3, 1], "not those of a tensor");
    case("FloatStorage", "0", 6, 0, &[2, 3], &[3], "not those of a tensor");
    case("FloatStorage", "0", 5, 0, &[2], &[1], "\"w\": its record \"data/0\" has 24 bytes, not 5 elements");
    case("DoubleStorage", "0", 6, 0, &[2], &[1], "24 bytes, not 6 elements");
    case("FloatStorage", "1", 6, 0, &[2, 3], &[3, 1], "\"w\": there is no record \"data/1\"");
    // No elements are outside of none.
    let none = open(&torch_file(&dictionary(&[("w", tensor("FloatStorage", "0", 6, 7, &[0], &[1]))]))).unwrap();
    assert!(none.values::<f32>("w").unwrap().is_empty());
    // Elements that share bytes, and too many of them.
    let many = open(&torch_file(&dictionary(&[("w", tensor("FloatStorage", "0", 6, 0, &[1 << 21], &[0]))]))).unwrap();
    assert!(many.unusable()[0].error().message.contains("save tensor.contiguous()"));
    assert!(many.values::<f32>("w").is_err());
}

#[test]
fn objects_are_refused_with_their_keys() {
    let call = |module: &str, name: &str| format!("c{module}\n{name}\n").into_bytes();
    let system = [call("os", "system"), b"(".to_vec(), text("true"), b"tR".to_vec()].concat();
    let nested = dictionary(&[("a", [b"}".to_vec(), text("b"), system.clone(), b"s".to_vec()].concat())]);
    refused(&torch_file(&nested), "\"a.b\" is a \"os.system\", which is not read");
    refused(&torch_file(&dictionary(&[("f", call("builtins", "eval"))])), "\"f\" is a \"builtins.eval\"");
    refused(&torch_file(&[b"\x80\x02", &system[..], b"."].concat()), "the file holds a \"os.system\"");
    let object = [call("m", "C"), b")\x81}b".to_vec()].concat();
    refused(&torch_file(&dictionary(&[("o", object)])), "\"o\" is a \"m.C\"");
    refused(&torch_file(&dictionary(&[("k", [text("x"), b"Q".to_vec()].concat())])), "\"k\": bytes without a tensor");
    refused(&torch_file(&dictionary(&[("w", w()), ("w", w())])), "\"w\": the name occurs twice");
    refused(
        &torch_file(&[b"\x80\x02}N", &w()[..], b"s."].concat()),
        "has a tensor under a key that is no text and no integer",
    );
}

#[test]
fn pickles_that_lie_are_refused_at_their_byte() {
    for (pickle, part) in [
        (&b""[..], "byte 0: 1 bytes are needed; 0 follow"),
        (b"\x80\x01.", "byte 0: protocol 1; 2 to 5 can be read"),
        (b"\x80\x02}", "byte 3: 1 bytes are needed"),
        (b"\x80\x02.", "byte 2: the stack is empty"),
        (b"\x80\x02(}.", "left"),
        (b"\x80\x02}N.", "left"),
        (b"\x80\x02}.x", "left"),
        (b"\x80\x02X\xff\xff\xff\xffa", "byte 2: 4294967295 bytes are needed; 1 follow"),
        (b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xffa", "byte 2: 18446744073709551615 bytes are needed"),
        (b"\x80\x02h\x05.", "byte 2: nothing is kept under 5"),
        (b"\x80\x02t.", "byte 2: there is no mark"),
        (b"\x80\x02(\x85.", "byte 3: the stack is empty"),
        (b"\x80\x02}(K", "byte 4: 1 bytes are needed"),
        (b"\x80\x02}(K\x01u.", "byte 6: items for what is no list"),
        (b"\x80\x02)Na.", "byte 4: items for what is no list"),
        (b"\x80\x02ca", "byte 2: a name without an end"),
        (b"\x80\x02NN\x93.", "byte 4: a name that is no text"),
        (b"\x80\x02I1\n.", "byte 2: opcode 0x49"),
        (b"\x80\x02\x82\x01.", "byte 2: opcode 0x82"),
    ] {
        refused(&torch_file(pickle), part);
    }
}

#[test]
fn depth_and_repetition_are_bounded() {
    // A list in itself; 80 lists, each in the next; a list twice in a list, 60 times.
    refused(&torch_file(b"\x80\x02]q\0h\0a."), "more than 64 keys");
    let deep = [b"\x80\x02".to_vec(), vec![b']'; 80], w(), vec![b'a'; 80], b".".to_vec()].concat();
    refused(&torch_file(&deep), "more than 64 keys");
    let doubled = (0..60u8).flat_map(|i| [b'q', i, b'0', b']', b'(', b'h', i, b'h', i, b'e']);
    let wide = [b"\x80\x02]".to_vec(), doubled.collect(), b".".to_vec()].concat();
    refused(&torch_file(&wide), "the same values under too many names");
    refused(&torch_file(&dictionary(&[(&"k".repeat(2000), w())])), "1024 bytes in a name");
    // One tensor under many long names; a tensor of many axes.
    let again = [b"](".to_vec(), w(), b"q\x07".to_vec(), b"h\x07".repeat(100_000), b"e".to_vec()].concat();
    refused(&torch_file(&dictionary(&[(&"k".repeat(1000), again)])), "the same values under too many names");
    let wide = tensor("FloatStorage", "0", 6, 0, &[1; 65], &[1; 65]);
    refused(&torch_file(&dictionary(&[("w", wide)])), "at most 64 axes");
}

#[test]
fn archives_that_lie_are_refused() {
    let pickle = dictionary(&[("w", w())]);
    let file = torch_file(&pickle);
    for len in 4..file.len() {
        assert!(open(&file[..len]).is_err(), "the first {len} bytes");
    }
    let records = [("a/data.pkl", &pickle[..]), ("a/version", b"3\n"), ("a/data/0", &[7; 24])];
    assert!(open(&archive(&records)).is_ok(), "an old file says no byte order");
    let with = |name, bytes| archive(&[&records[..], &[(name, bytes)]].concat());
    refused(&with("a/data/0", &[7; 24]), "record \"a/data/0\" occurs twice");
    refused(&with("a/byteorder", b"big"), "little-endian");
    refused(&with("b/data.pkl", b""), "several records \"data.pkl\"");
    refused(&with("a/code/x.py", b""), "TorchScript");
    refused(&archive(&[("w.npy", b"")]), "numpy.savez");
    refused(&archive(&[("x", b"")]), "torch.save did not write");
    refused(&archive(&[("a/data.pkl", &pickle)]), "record \"version\"");
    refused(&archive(&[("a/data.pkl", &pickle), ("a/version", b"11\n")]), "versions 1 to 10");
    // In the entry of the first record: its flags, its method, its lengths, its CRC-32, the place of its header.
    let entry = file.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    let lie = |at: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[entry + at..entry + at + bytes.len()].copy_from_slice(bytes);
        file
    };
    refused(&lie(8, &[1]), "record \"a/data.pkl\" is encrypted");
    refused(&lie(10, &[8]), "record \"a/data.pkl\" is compressed");
    refused(&lie(24, &[1, 0, 0, 0]), "has two lengths");
    refused(&lie(24, &[0xff; 4]), "lacks its long lengths");
    refused(&lie(20, &[0, 9, 0, 0, 0, 9, 0, 0]), "is not in the file");
    refused(&lie(16, &[1]), "does not have its CRC-32");
    refused(&lie(42, &[1]), "the header of record \"a/data.pkl\" is not here");
    refused(&lie(42, &[0xfe, 0xff, 0xff, 0xff]), "is not in the file");
    let longer = (pickle.len() as u32 + 20).to_le_bytes().repeat(2);
    refused(&lie(20, &longer), "records \"a/data.pkl\" and \"a/version\" overlap");
    let end = file.len() - 22 - entry;
    refused(&lie(end + 10, &[9, 0]), "there is no entry of the directory");
    refused(&lie(end + 12, &[0xff; 4]), "does not lie before this byte");
    refused(&lie(end + 4, &[1]), "in several parts");
}
