//! Opened weights: parts of tensors, files without data, shards whose tensors are mixed.

use super::*;

fn bytes(name: &str, data: &[u8]) -> Tensor {
    Tensor::new(name, DType::U8, &[data.len()], data).unwrap()
}

fn write(path: &Path, tensors: &[Tensor]) {
    save(path, &tensors.iter().map(Tensor::entry).collect::<Vec<_>>()).unwrap();
}

#[test]
fn parts_are_read_within_their_tensor() {
    let dir = scratch("parts");
    let path = dir.join("w");
    write(&path, &[bytes("a", &[1, 2, 3, 4]), bytes("b", &[5, 6, 7, 8, 9])]);
    let w = Weights::open(&path).unwrap();
    let read = |name: &str, from: usize, n: usize| {
        let mut part = vec![0; n];
        w.read(w.find(name).unwrap(), from, &mut part).map(|_| part).map_err(|e| e.to_string())
    };
    assert_eq!(read("a", 0, 4).unwrap(), [1, 2, 3, 4]);
    assert_eq!(read("b", 1, 3).unwrap(), [6, 7, 8]);
    assert_eq!(read("b", 5, 0).unwrap(), Vec::<u8>::new());
    assert_eq!(read("a", 2, 3).unwrap_err(), "3 bytes from byte 2 of \"a\", which has 4");
    let e = read("a", usize::MAX, 1).unwrap_err();
    assert_eq!(e, format!("1 bytes from byte {} of \"a\", which has 4", usize::MAX));
    write(&path, &[bytes("a", &[1, 2, 3])]);
    let other = Weights::open(&path).unwrap();
    let e = other.read(w.find("a").unwrap(), 0, &mut [0; 3]).unwrap_err().to_string();
    assert_eq!(e, "tensor \"a\" is one of another file");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_file_may_have_no_data() {
    let dir = scratch("empty");
    let path = dir.join("w");
    for header in ["{}", r#"{"__metadata__":{"format":"pt"}}"#] {
        let file = with_header(header, 0);
        std::fs::write(&path, &file).unwrap();
        let w = Weights::open(&path).unwrap();
        assert_eq!((w.tensors().len(), w.digest()), (0, Digest::Absent));
        assert_eq!(Loaded::parse(file).unwrap().entries().len(), 0);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Even numbers are in one file, odd ones in the other.
#[test]
fn shards_may_hold_tensors_in_turn() {
    let dir = scratch("turns");
    let of = |rest: u8| -> Vec<Tensor> {
        (0..20).filter(|i| i % 2 == rest).map(|i| bytes(&format!("{i:02}"), &[i])).collect()
    };
    write(&dir.join("even"), &of(0));
    write(&dir.join("odd"), &of(1));
    let map: Vec<String> =
        (0..20).map(|i| format!(r#""{i:02}":"{}""#, if i % 2 == 0 { "even" } else { "odd" })).collect();
    let path = dir.join("w.index.json");
    std::fs::write(&path, format!(r#"{{"weight_map":{{{}}}}}"#, map.join(","))).unwrap();
    let w = Weights::open(&path).unwrap();
    let names: Vec<&str> = w.tensors().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, (0..20).map(|i| format!("{i:02}")).collect::<Vec<_>>());
    for (i, t) in w.tensors().iter().enumerate() {
        let mut byte = [0];
        w.read(t, 0, &mut byte).unwrap();
        assert_eq!((byte[0], w.path(t)), (i as u8, &*dir.join(if i % 2 == 0 { "even" } else { "odd" })));
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
