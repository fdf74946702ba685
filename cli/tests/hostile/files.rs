//! Hostile files of other formats, and the commands that read them.
//!
//! Invariant: a command line names files by `DIR/…`, the folder that they were written to.

use super::texts::{File, SOUND};
use std::io::Write;

/// Files and the command lines that read them.
#[derive(Default)]
pub struct Set {
    pub files: Vec<File>,
    pub runs: Vec<Vec<String>>,
}

impl Set {
    fn file(&mut self, name: &str, bytes: impl Into<Vec<u8>>) {
        self.files.push((name.into(), bytes.into()));
    }

    fn run(&mut self, line: &str) {
        self.runs.push(line.split(' ').map(String::from).collect());
    }
}

fn npy(header: &str, data: usize) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.resize(out.len() + data, 0);
    out
}

fn npys(s: &mut Set) {
    s.file("in.ir", "graph @g {\n  %x = input : f32[2,3]\n  %y = tanh %x : f32[2,3]\n  return y=%y\n}\n");
    let shape = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let headers = [
        shape("(2, 3)"),
        shape("(4611686018427387904, 4)"),
        shape("(0, 99999999999999999999999)"),
        shape("(-2, 3)"),
        shape(&"(".repeat(10_000)),
        shape("(2, 3)").replace("False", "True"),
        shape("(2, 3)").replace("'shape'", "'descr'"),
        shape("(2, 3)").replace("<f4", "|O"),
        "{".into(),
        String::new(),
        "\u{e9}".repeat(20_000),
    ];
    for (i, header) in headers.iter().enumerate() {
        for data in [0, 23, 24] {
            s.file(&format!("{i}-{data}.npy"), npy(header, data));
            s.run(&format!("run DIR/in.ir --in x=DIR/{i}-{data}.npy --out DIR/out"));
        }
    }
    let mut long = b"\x93NUMPY\x02\x00".to_vec();
    long.extend(u32::MAX.to_le_bytes());
    s.file("long.npy", long);
    for line in [
        "--in x=DIR/long.npy",
        "--in x=DIR",
        "--in x",
        "--in x=/dev/zero",
        "--in =",
        "--in x=DIR/0-24.npy x=DIR/0-24.npy",
    ] {
        s.run(&format!("run DIR/in.ir {line} --out DIR/out"));
    }
}

fn tensors(header: &str, len: u64) -> Vec<u8> {
    let mut out = len.to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend([0; 64]);
    out
}

fn safetensors(s: &mut Set) {
    s.file("sound.ir", SOUND);
    let one = |shape: &str, offsets: &str| {
        format!("{{\"x\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}")
    };
    let headers = [
        one("[3,4]", "[0,48]"),
        one("[4611686018427387904,4]", "[0,48]"),
        one("[3,4]", "[48,0]"),
        one("[3,4]", "[0,18446744073709551615]"),
        one("[-1]", "[0,4]"),
        "[".repeat(100_000),
        "{\"a\":".repeat(50_000),
        "{}".into(),
        "{\"x\":1}".into(),
        String::new(),
    ];
    for (i, header) in headers.iter().enumerate() {
        for (j, len) in [header.len() as u64, u64::MAX, 0].into_iter().enumerate() {
            s.file(&format!("{i}-{j}.safetensors"), tensors(header, len));
            s.run(&format!("run DIR/sound.ir --weights DIR/{i}-{j}.safetensors --out DIR/out"));
        }
        let resumed = format!("resumed-{i}/checkpoint.safetensors");
        s.file(&resumed, tensors(header, header.len() as u64));
        s.run(&format!("train digits --steps 1 --quiet --threads 1 --resume DIR/{resumed} --out DIR/out"));
        s.file(&format!("w{i}/w1.safetensors"), tensors(header, header.len() as u64));
        s.run(&format!("bench --workloads w1 --seconds 0 --data DIR/w{i}"));
    }
}

/// A GGUF file of a text, an array and two tensors, each of its lengths changed, and cut.
fn ggufs(s: &mut Set) {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut sound = b"GGUF".to_vec();
    sound.extend(3u32.to_le_bytes());
    sound.extend(2u64.to_le_bytes());
    sound.extend(2u64.to_le_bytes());
    sound.extend([text("name"), 8u32.to_le_bytes().to_vec(), text("toy")].concat());
    let array = [9u32.to_le_bytes(), 4u32.to_le_bytes()].concat();
    sound.extend([text("list"), array, 2u64.to_le_bytes().to_vec(), vec![0; 8]].concat());
    for (name, kind, dims) in [("q", 2u32, [32u64, 2]), ("x", 0, [5, 3])] {
        sound.extend([text(name), 2u32.to_le_bytes().to_vec()].concat());
        dims.iter().for_each(|d| sound.extend(d.to_le_bytes()));
        sound.extend([&kind.to_le_bytes()[..], &(if name == "q" { 0u64 } else { 64 }).to_le_bytes()].concat());
    }
    sound.resize(sound.len().next_multiple_of(32), 0);
    let head = sound.len();
    sound.resize(head + 128, 0);
    let mut add = |name: String, bytes: Vec<u8>| {
        s.file(&name, bytes);
        for json in ["", " --json"] {
            s.run(&format!("inspect DIR/{name}{json}"));
        }
    };
    for at in (0..head - 8).step_by(4) {
        for lie in [u64::MAX, 1 << 63, 0x0100_0000_0000] {
            let mut bytes = sound.clone();
            bytes[at..at + 8].copy_from_slice(&lie.to_le_bytes());
            add(format!("lie-{at}-{lie:x}.gguf"), bytes);
        }
        add(format!("cut-{at}.gguf"), sound[..at].to_vec());
    }
    add("controls.gguf".into(), sound.iter().map(|b| if *b == b't' { 27 } else { *b }).collect());
    add("sound.gguf".into(), sound);
    for file in ["DIR", "DIR/absent.gguf", "/dev/zero", "/dev/null"] {
        s.run(&format!("inspect {file}"));
    }
    for i in 0..10 {
        s.run(&format!("inspect DIR/{i}-0.safetensors"));
    }
}

fn idx(kind: u8, dims: &[u32], data: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0, kind, dims.len() as u8];
    dims.iter().for_each(|d| out.extend(d.to_be_bytes()));
    out.extend(data);
    out
}

/// `head`, and zeros to a gigabyte and more, packed.
pub fn bomb(head: &[u8], zeros: usize) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let block = vec![0; 1 << 20];
    gz.write_all(head).unwrap();
    for _ in 0..zeros >> 20 {
        gz.write_all(&block).unwrap();
    }
    gz.finish().unwrap()
}

fn images(s: &mut Set, zeros: usize) {
    let good = idx(8, &[8, 9, 7], &[1; 8 * 63]);
    let huge = idx(8, &[u32::MAX; 3], &[]);
    let mut magic = good.clone();
    magic[3] = 200;
    let cases: [(&str, Vec<u8>); 11] = [
        ("", good.clone()),
        ("", good[..9].to_vec()),
        ("", good[..100].to_vec()),
        ("", huge.clone()),
        ("", idx(8, &[0, u32::MAX, u32::MAX], &[])),
        ("", idx(8, &[8, 0, 0], &[])),
        ("", idx(0x0d, &[8, 9, 7], &[0xff; 4 * 8 * 63])),
        ("", magic),
        (".gz", bomb(&good, zeros)),
        (".gz", bomb(&huge, zeros)),
        (".gz", vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]),
    ];
    for (i, (gz, bytes)) in cases.into_iter().enumerate() {
        let labels = idx(8, &[8], &[0, 1, 0, 1, 0, 1, 0, 1]);
        for (half, bytes) in [("train", bytes), ("t10k", good.clone())] {
            let gz = if half == "train" { gz } else { "" };
            s.file(&format!("idx{i}/{half}-images-idx3-ubyte{gz}"), bytes);
            s.file(&format!("idx{i}/{half}-labels-idx1-ubyte"), labels.clone());
        }
        s.run(&format!("train digits --data DIR/idx{i} --steps 1 --quiet --threads 1 --out DIR/out"));
    }
}

fn tables(s: &mut Set) {
    let head = "id,lower,upper,size\n";
    let rows: String = (0..50_000).map(|i| format!("{i},{},{},{}\n", i % 900, i % 900 + 9, i % 1000)).collect();
    for (i, text) in [
        String::new(),
        "\n".repeat(1000),
        head.into(),
        format!("{head}{rows}"),
        format!("{head}a,0,18446744073709551615,18446744073709551615\nb,0,2,18446744073709551615\n"),
        format!("{head}a,0,18446744073709551615,1\n"),
        "id,lower,upper,size,size\na,0,1,1,2\n".into(),
        format!("{head}\"a,0,1,1\n"),
        format!("{head}{}\n", ",".repeat(100_000)),
        "id,lower,upper,size\0\n".into(),
    ]
    .into_iter()
    .enumerate()
    {
        s.file(&format!("{i}.csv"), text);
        s.run(&format!("pack DIR/{i}.csv --nodes 1000 --out DIR/out.csv"));
    }
    s.file("bytes.csv", b"id,lower,upper,size\n\xff,0,1,1\n".to_vec());
    s.run("pack DIR/bytes.csv");
    for what in ["training:0:0", "power:18446744073709551616", "perfect:2000:1", ":::", "unrolled:1"] {
        s.run(&format!("pack --make {what} --nodes 1000"));
    }
    s.run("pack /dev/null --capacity 0");
}

fn configurations(s: &mut Set) {
    for (i, text) in [
        "steps = -1",
        "steps = 1\nbatch = 65536",
        "max_memory = -1",
        "max_memory = 99999999999999999999",
        "max_memory = \"999999999999 PiB\"",
        "max_memory = 0",
        "threads = 1000000000",
        "threads = 0",
        "seed = -9223372036854775808",
        "[model]\nchannels = []",
        "[model]\nchannels = [65536, 65536, 65536]",
        "[model]\nhidden = 65536\nchannels = [65536]",
        "[model]\ndropout = nan",
        "task = \"chargpt\"\n[gpt]\nwidth = 65536\nlayers = 256\ncontext = 65536",
        "task = \"chargpt\"\n[gpt]\nlayers = 256\nwidth = 8\nheads = 1",
        "[optimiser]\naccumulate = 65536",
        "[optimiser]\nlr = inf",
        "[optimiser]\nkind = \"muon\"\nns_steps = 9999999",
        "[schedule]\nkind = \"step\"\nstep_size = 0",
        "[optimiser]\nkind = \"lbfgs\"\nhistory_size = 10000",
        "[optimiser]\nclip_norm = 1e-300\nnorm_type = 1e300",
        "[schedule]\nkind = \"cosine-restarts\"\nt_0 = 1\nt_mult = 9223372036854775807",
        "[schedule]\nkind = \"sequential\"\nmilestones = [9223372036854775807]\npart = [{}, {}]",
        "[schedule]\nkind = \"chained\"\npart = [{ kind = \"chained\", part = [{ kind = \"chained\", part = [{}] }] }]",
        "data = \"/dev/zero\"",
        "out = \"/dev/null/x\"",
        "a.a.a.a.a.a = 1\n[a.a]\n[a]",
        "x = \"\\u{110000}\"",
        "\0",
        "[[[[[[",
    ]
    .into_iter()
    .enumerate()
    {
        s.file(&format!("{i}.toml"), text);
        s.run(&format!("train DIR/{i}.toml --steps 1 --quiet --out DIR/out"));
        s.file(&format!("run{i}/run.toml"), text);
        s.file(&format!("run{i}/vocabulary.json"), if i % 2 == 0 { "\"ab\"" } else { "[[[[" });
        s.run(&format!("sample DIR/run{i} --tokens 3"));
    }
    s.file("deep.toml", format!("x = {}1{}", "[".repeat(100_000), "]".repeat(100_000)));
    s.file("bytes.toml", b"steps = \xff".to_vec());
    s.file("long.toml", "steps = 1\n".repeat(200_000));
    s.file("parts.toml", format!("schedule = {}{}", "{ kind = \"chained\", part = [".repeat(60), "] }".repeat(60)));
    for name in ["deep", "bytes", "long", "parts"] {
        s.run(&format!("train DIR/{name}.toml --out DIR/out"));
    }
}

fn flags(s: &mut Set) {
    s.file("g.ir", SOUND);
    for n in ["0", "1", "3", "1024", "1025", "1000000000", "-1", "99999999999999999999"] {
        for line in [
            "plan DIR/g.ir",
            "run DIR/g.ir --out DIR/out",
            "trace DIR/g.ir --out DIR/out.json",
            "bench --workloads w2 --seconds 0",
        ] {
            s.run(&format!("{line} --threads {n}"));
        }
    }
    for line in [
        "plan DIR/g.ir --max-memory 0",
        "plan DIR/g.ir --max-memory 99999999PiB",
        "plan DIR/g.ir --budgets --json --html DIR/p.html --svg DIR/p.svg",
        "grad DIR/g.ir --wrt x,x --output loss",
        "grad DIR/g.ir --output nothing",
        "opt DIR/g.ir --passes inline,inline,fuse,unfuse,legalize,legalize",
        "check DIR/g.ir --elements 18446744073709551615 --tolerance 1e308",
        "check DIR/g.ir --elements 0 --seed 18446744073709551615",
        "bench --seconds inf",
        "bench --workloads ,,,",
        "trace /dev/null --out DIR/out.json",
        "trace DIR --out DIR/out.json",
        "print /dev/zero",
        "print DIR",
        "print DIR/none.ir",
        "sample DIR --tokens 1",
    ] {
        s.run(line);
    }
}

/// All of them; archives hold `zeros` zeros.
pub fn all(zeros: usize) -> Set {
    let mut s = Set::default();
    npys(&mut s);
    safetensors(&mut s);
    ggufs(&mut s);
    images(&mut s, zeros);
    tables(&mut s);
    configurations(&mut s);
    flags(&mut s);
    s
}
