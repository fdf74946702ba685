//! Bad data files: for each refusal there is a file that is refused for that reason. Files that change while they are
//! read are among them.

use super::*;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file of one test, which goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("arenagrad-data-{}-{name}", std::process::id())))
    }

    fn write(&self, bytes: &[u8]) -> &Path {
        std::fs::write(&self.0, bytes).unwrap();
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn refused<T>(r: Result<T>, part: &str) {
    let e = r.err().unwrap();
    assert!(e.kind == Kind::Data && e.to_string().contains(part), "{e} should mention {part:?}");
}

/// An input that gives `bytes` and then fails.
struct Fails<'a>(&'a [u8]);

impl Read for Fails<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(io::Error::other("the disk is gone")),
            n => Ok(n),
        }
    }
}

/// An `.npy` file of a version whose header's length has `wide` bytes.
fn npy(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let length = (header.len() as u32).to_le_bytes();
    let wide = if version == 1 { 2 } else { 4 };
    [b"\x93NUMPY", &[version, 0][..], &length[..wide], header.as_bytes(), data].concat()
}

#[test]
fn npy_headers_are_refused_by_what_is_wrong() {
    let good = "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }";
    assert_eq!(parse_npy(&npy(2, good, &[1, 0])).unwrap().bytes, [1, 0]);
    assert_eq!(parse_npy(&npy(3, good, &[1, 0])).unwrap().dims, [2]);
    let bad = |bytes: &[u8], part: &str| refused(parse_npy(bytes), part);
    bad(&npy(4, good, &[1, 0]), "byte 6: npy version 4.0 is unknown");
    bad(&npy(1, good, &[1, 2]), "byte 68: 2 is no truth value");
    bad(&npy(1, good, &[])[..7], "byte 7: the file ends inside the header");
    bad(&npy(1, good, &[])[..9], "byte 9: the file ends inside the header");
    bad(&npy(1, good, &[])[..20], "byte 20: the file ends inside the header");
    bad(&npy(2, &" ".repeat((64 << 10) + 1), &[]), "byte 8: a header of 65537 bytes; at most 65536 are allowed");
    bad(&npy(2, &" ".repeat(64 << 10), &[]), "'{' is missing in the header");
    let text = |header: &str, part: &str| bad(&npy(1, header, &[1, 0]), part);
    bad(b"\x93NUMPY\x01\x00\x02\x00{\xff", "byte 11: not text");
    text("'descr'", "byte 10: '{' is missing in the header");
    text("{'descr' '|b1'}", "byte 19: ':' is missing in the header");
    text("{'descr': '|b1' 'shape': (2,)}", "'}' is missing in the header");
    text("{'descr': '|b1', 'shape': 2}", "'(' is missing in the header");
    text("{'descr': '|b1', 'shape': (2 2)}", "')' is missing in the header");
    text("{'descr", "byte 11: a string does not end");
    text("{'descr': '|b1', 'order': 'C'}", "key \"order\" is unknown or stands twice");
    text("{'fortran_order': False, 'fortran_order': False}", "\"fortran_order\" is unknown or stands twice");
    text("{'shape': (), 'shape': ()}", "\"shape\" is unknown or stands twice");
    text("{'shape': (99999999999999999999,)}", "a dimension is no valid size");
}

/// A limit is kept to the byte, behind the header as well.
#[test]
fn npy_limits_hold_on_both_sides() {
    let file = Scratch::new("limits.npy");
    let path = file.write(&encode_npy(DType::U8, &[8], &[0; 8]).unwrap());
    assert_eq!(read_npy_within(path, 8).unwrap().bytes.len(), 8);
    refused(read_npy_within(path, 7), "8 bytes of elements, where at most 7 are expected");
    refused(encode_npy(DType::BF16, &[1], &[0; 2]), "bf16 is a dtype that .npy files cannot hold");
    refused(encode_npy(DType::F32, &[2], &[0; 7]), "7 bytes are no elements of f32[2]");
    refused(encode_npy(DType::U8, &[1; 9], &[0]), "1 bytes are no elements of u8[1, 1, 1, 1, 1, 1, 1, 1, 1]");
    let other = Scratch::new("eight");
    assert_eq!(read_within_limit(other.write(&[7; 8]), 8).unwrap(), [7; 8]);
    refused(read_within_limit(&other.0, 7), "eight: more than 7 bytes");
    let array = Array { dtype: DType::F32, dims: vec![2], bytes: vec![0; 7] };
    refused(write_npy(path, &array), "limits.npy: 7 bytes are no elements of f32[2]");
    refused(array.values::<f32>(), "7 bytes are no whole elements of f32");
    refused(array.values::<i32>(), "the array is f32[2]; it is asked for as i32");
}

#[test]
fn idx_inputs_are_refused_by_what_is_wrong() {
    let open = |bytes: &'static [u8]| Idx::new("f", bytes, None);
    refused(open(&[0, 0, 8]), "f: byte 3: the file ends inside the magic");
    refused(open(&[0, 0, 8, 2, 0, 0, 0, 1, 0]), "f: byte 9: the file ends inside the sizes");
    refused(Idx::new("f", Fails(&[0, 0, 8, 1, 0]), None), "f: byte 5: the disk is gone");
    let ints: &[u8] = &[0, 0, 12, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
    let mut idx = open(ints).unwrap();
    refused(idx.read_part(&mut [0; 3]), "f: byte 8: 3 bytes are no room for an element of 4");
    // Room for an element and a half holds one.
    assert_eq!(idx.read_part(&mut [0; 6]).unwrap(), 4);
    refused(idx.read_all(), "f: byte 12: 4 bytes of elements were read before");
    let mut idx = Idx::new("f", Fails(&ints[..14]), None).unwrap();
    refused(idx.each_part(|_, _| Ok(())), "f: byte 14: the disk is gone");
    let mut idx = open(ints).unwrap();
    refused(idx.each_part(|at, _| Err(bad_data(format!("stopped at {at}")))), "stopped at 8");
    let missing = Scratch::new("absent");
    let e = read_idx(&missing.0).unwrap_err();
    assert!(e.kind == Kind::Io && e.to_string().contains("absent"), "{e}");
    let e = read_npy(&missing.0).unwrap_err();
    assert!(e.kind == Kind::Io && e.to_string().contains("absent"), "{e}");
}

#[cfg(feature = "csv")]
#[test]
fn csv_inputs_are_refused_by_what_is_wrong() {
    let mut rows = CsvRows::new("t.csv", Fails(b"1,2\n3,"), false).unwrap();
    let mut row = Vec::new();
    assert!(rows.read_row(&mut row).unwrap());
    refused(rows.read_row(&mut row), "t.csv:2: the disk is gone");
    let mut rows = CsvRows::new("t.csv", b"1,2\n".chain(io::repeat(b'0')), false).unwrap();
    assert!(rows.read_row(&mut row).unwrap());
    refused(rows.read_row(&mut row), "t.csv:2: a row of more than 16777216 bytes");
    // A field is shown by its head.
    let long = format!("1\n{}\n", "x".repeat(10_000));
    let mut rows = CsvRows::new("t.csv", long.as_bytes(), false).unwrap();
    assert!(rows.read_row(&mut row).unwrap());
    let e = rows.read_row(&mut row).unwrap_err().to_string();
    assert_eq!(e, format!("t.csv:2: column 1: {:?} is no number", "x".repeat(40)));
    let missing = Scratch::new("absent.csv");
    let e = read_csv(&missing.0, false).unwrap_err();
    assert!(e.kind == Kind::Io && e.to_string().contains("absent.csv"), "{e}");
}

/// Files of the system have bytes, but no length.
#[cfg(all(feature = "csv", target_os = "linux"))]
#[test]
fn a_table_that_is_longer_than_its_file_is_refused() {
    let path = "/proc/sys/kernel/pid_max";
    let Ok(bytes) = std::fs::read(path) else { return };
    refused(read_csv(path, false), &format!("the file had 0 bytes; {} were read: it changes", bytes.len()));
}

/// An input that cuts its file to `len` bytes before the second read.
struct Cut {
    file: File,
    path: PathBuf,
    len: u64,
    reads: usize,
}

impl Cut {
    fn new(path: &Path, len: u64) -> Cut {
        Cut { file: File::open(path).unwrap(), path: path.to_path_buf(), len, reads: 0 }
    }
}

impl Read for Cut {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.reads == 2 {
            File::options().write(true).open(&self.path)?.set_len(self.len)?;
        }
        self.file.read(into)
    }
}

/// No reader maps a file, so a file that becomes shorter is an end, and no bus error.
#[test]
fn a_file_that_becomes_shorter_is_an_error() {
    let file = Scratch::new("shorter");
    let n: u32 = 300_000;
    let mut whole = vec![0, 0, 8, 1];
    whole.extend(n.to_be_bytes());
    whole.resize(8 + n as usize, 7);
    let path = file.write(&whole);
    let idx = Idx::new("f", io::BufReader::new(Cut::new(path, 100_000)), Some(whole.len() as u64)).unwrap();
    refused(idx.read_all(), "f: byte 100000: the file is truncated: its sizes are [300000]");
    #[cfg(feature = "csv")]
    {
        let path = file.write("1.25,2\n".repeat(50_000).as_bytes());
        let mut rows = CsvRows::new("t.csv", Cut::new(path, 200_007), false).unwrap();
        let (mut row, mut seen) = (Vec::new(), 0);
        let e = loop {
            match rows.read_row(&mut row) {
                Ok(true) => seen += 1,
                Ok(false) => panic!("{seen} rows, and an end in the middle of a row"),
                Err(e) => break e,
            }
        };
        assert_eq!((seen, e.to_string()), (28_572, "t.csv:28573: 1 fields, where the first row has 2".to_string()));
    }
}

/// While another program writes a file anew, again and again, readers find a whole array or give an error.
#[test]
fn files_that_change_are_read_whole_or_refused() {
    let file = Scratch::new("changes");
    let small = encode_npy(DType::U8, &[64], &[1; 64]).unwrap();
    let large = encode_npy(DType::U8, &[1 << 20], &vec![2; 1 << 20]).unwrap();
    let path = file.write(&small);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for bytes in [&large, &small] {
                    let mut f = File::create(path).unwrap();
                    bytes.chunks(100_000).for_each(|part| f.write_all(part).unwrap());
                }
            }
        });
        for _ in 0..300 {
            match read_npy(path) {
                Ok(a) => assert!(a.bytes.len() == 64 || a.bytes.len() == 1 << 20, "{:?}", a.dims),
                Err(e) => assert!(e.kind == Kind::Data && e.to_string().contains("changes"), "{e}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
