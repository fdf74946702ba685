//! Exported programs: bits after opening, what is not believed of a file, and files that lie.

use crate::common::zoo;
use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::nn;
use arenagrad::optim::{self, train};
use arenagrad::session::{Program, Role, Session};
use arenagrad::tools::testing::seal_exported;
use arenagrad::train::check_exported;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("arenagrad-exported-{}-{name}", std::process::id()))
}

/// Writes all inputs of all methods, as `seed` says: small integers, or floats around zero.
fn feed(p: &mut Program, seed: usize) {
    let inputs: Vec<_> = p.bindings().iter().filter(|b| b.role == Role::Input).cloned().collect();
    for m in p.methods().map(str::to_string).collect::<Vec<_>>() {
        let m = p.method(&m).unwrap();
        for b in inputs.iter() {
            let number = |i: usize| (seed * 7919 + i * 104_729 + b.name.len()) % 1000;
            match b.dtype {
                DType::F32 => {
                    let Ok(h) = p.input_of::<f32>(m, &b.name) else { continue };
                    p[h].iter_mut().enumerate().for_each(|(i, x)| *x = number(i) as f32 / 500.0 - 1.0);
                }
                DType::I32 => {
                    let Ok(h) = p.input_of::<i32>(m, &b.name) else { continue };
                    p[h].iter_mut().enumerate().for_each(|(i, x)| *x = (number(i) % 3) as i32);
                }
                other => panic!("{other}"),
            }
        }
    }
}

/// All params, states and outputs.
fn bits(p: &Program) -> Vec<(String, Vec<u8>)> {
    let shown = p.bindings().iter().filter(|b| b.role != Role::Input);
    shown.map(|b| (b.name.clone(), p.bytes_of(b).to_vec())).collect()
}

/// Runs `steps` steps of each method of both; they must have the same bits after each.
fn run_alike(a: &mut Program, b: &mut Program, steps: usize) {
    for step in 0..steps {
        for name in a.methods().map(str::to_string).collect::<Vec<_>>() {
            feed(a, step);
            feed(b, step);
            let (m, n) = (a.method(&name).unwrap(), b.method(&name).unwrap());
            a.run(m).unwrap();
            b.run(n).unwrap();
            assert!(bits(a) == bits(b), "{name}: step {step}");
        }
    }
}

/// A step that trains, with dropout and Adam.
fn learner(rows: usize) -> GraphBuf {
    let g = Builder::new("learner");
    let h = nn::linear(&g, "fc1", g.input("x", [rows, 6], DType::F32), 24).tanh().dropout(0.25);
    let loss = nn::linear(&g, "fc2", h, 3).mse(g.input("y", [rows, 3], DType::F32)).named("loss");
    train(&g.finish([loss]).unwrap(), "loss", optim::AdamW::new(1e-2)).unwrap()
}

fn actor(rows: usize) -> GraphBuf {
    let g = Builder::new("actor");
    let h = nn::linear(&g, "fc1", g.input("x", [rows, 6], DType::F32), 24).tanh();
    g.finish([nn::linear(&g, "fc2", h, 3).named("p")]).unwrap()
}

#[test]
fn a_program_trains_on_with_the_same_bits() {
    let graph = learner(16);
    for session in [Session::new(), Session::new().threads(3).share(true), Session::new().optimise(false)] {
        let mut p = session.compile(&graph).unwrap();
        p.init(3).unwrap();
        let twin = session.compile(&graph).unwrap();
        let mut opened = Program::open_bytes(&p.export_bytes().unwrap()).unwrap();
        run_alike(&mut p, &mut opened, 2);
        let path = path("trains.agp");
        p.export(&path).unwrap();
        check_exported(&path).unwrap();
        let mut q = Program::open(&path).unwrap();
        assert_eq!((q.threads(), q.plan().arena_bytes), (p.threads(), twin.plan().arena_bytes));
        assert_eq!(q.plan().buffers.len(), p.plan().buffers.len());
        run_alike(&mut p, &mut q, 4);
        // The opened program is exported again, and the file was never written.
        let again = q.export_bytes().unwrap();
        check_exported(&path).unwrap();
        run_alike(&mut q, &mut Program::open_bytes(&again).unwrap(), 2);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn methods_share_their_params_after_opening() {
    let (learn, act, judge) = (learner(8), actor(1), actor(5));
    let graphs = [("learn", &learn), ("act", &act), ("judge", &judge)];
    for session in [Session::new(), Session::new().threads(2).share(true)] {
        let mut p = session.compile_all(&graphs).unwrap();
        p.init(1).unwrap();
        let mut q = Program::open_bytes(&p.export_bytes().unwrap()).unwrap();
        assert!(p.methods().eq(q.methods()));
        run_alike(&mut p, &mut q, 3);
    }
}

#[test]
fn well_known_models_open_with_their_bits() {
    for model in zoo::ZOO {
        let mut p = Session::new().compile(&(model.small)()).unwrap();
        p.init(0).unwrap();
        let mut q = Program::open_bytes(&p.export_bytes().unwrap()).unwrap_or_else(|e| panic!("{}: {e}", model.name));
        run_alike(&mut p, &mut q, 2);
    }
}

#[test]
fn what_was_never_set_stays_unset() {
    let mut p = Session::new().compile(&learner(2)).unwrap();
    let mut q = Program::open_bytes(&p.export_bytes().unwrap()).unwrap();
    feed(&mut q, 0);
    assert!(q.step().unwrap_err().message.contains("neither initialised nor loaded"));
    p.init(5).unwrap();
    q.init(5).unwrap();
    run_alike(&mut p, &mut q, 2);
}

#[test]
fn the_graph_inside_is_compiled_again_with_other_choices() {
    let mut p = Session::new().compile(&learner(4)).unwrap();
    p.init(2).unwrap();
    let (path, bytes) = (path("again.agp"), p.export_bytes().unwrap());
    p.export(&path).unwrap();
    let mut by_path = Session::new().threads(2).share(true).compile_exported(&path).unwrap();
    let mut by_bytes = Session::new().compile_exported_bytes(&bytes).unwrap();
    run_alike(&mut by_bytes, &mut by_path, 2);
    run_alike(&mut p, &mut Session::new().compile_exported_bytes(&bytes).unwrap(), 2);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn what_cannot_be_exported_says_why() {
    let why = |p: Program| p.export_bytes().unwrap_err().message;
    let traced = why(Session::new().compile_traced(&actor(1)).unwrap());
    assert!(traced.starts_with("this program cannot be exported"), "{traced}");
    why(Session::new().find_nan(true).compile(&actor(1)).unwrap());
    let g = Builder::new("g");
    let large = g.constant(&vec![1.5f32; 9 << 20], [9 << 20]);
    let sum = (g.param("w", [9 << 20], DType::F32, Init::Zeros) * large).sum(..).named("sum");
    let e = why(Session::new().compile(&g.finish([sum]).unwrap()).unwrap());
    assert!(e.contains("too large to be exported: make its large constants params or states"), "{e}");
}

/// Bytes of the header, and of an entry of the table.
const HEADER: usize = 40;
const ENTRY: usize = 32;

fn long(file: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*file[at..].first_chunk().unwrap())
}

/// A small file with a loop, two methods and two threads.
fn small_file() -> Vec<u8> {
    let g = Builder::new("loop");
    let x = g.input("x", [3, 2], DType::F32);
    let zeros = || g.constant(&[0.0f32; 2], [1, 2]);
    let end = nn::lstm(&g, "rnn", x.reshape([3, 1, 2]), zeros(), zeros()).0.sum(..);
    let looped = g.finish([end.named("end")]).unwrap();
    let act = actor(1);
    let mut p = Session::new().threads(2).share(true).compile_all(&[("a", &looped), ("b", &act)]).unwrap();
    p.init(0).unwrap();
    p.export_bytes().unwrap()
}

#[test]
fn every_flipped_byte_and_every_cut_is_an_error() {
    let file = small_file();
    assert!(Program::open_bytes(&file).is_ok());
    for at in 0..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 1 << (at % 8);
        let e = Program::open_bytes(&bad).err().unwrap_or_else(|| panic!("byte {at} of {}", file.len()));
        assert_eq!(e.kind, Kind::Syntax, "byte {at}: {e}");
    }
    for len in (0..file.len()).step_by(7) {
        assert_eq!(Program::open_bytes(&file[..len]).err().unwrap().kind, Kind::Syntax, "{len} bytes");
    }
    let mut longer = file.clone();
    longer.extend([0; 64]);
    assert!(Program::open_bytes(&longer).is_err());
}

/// Files that are sealed, so that nothing but their contents is wrong: an error or a program, never a panic.
#[test]
fn no_number_of_a_file_is_believed() {
    let file = small_file();
    let (mut refused, mut opened) = (0, 0);
    let last = HEADER + ENTRY * (u32::from_le_bytes(*file[16..].first_chunk().unwrap()) as usize - 1);
    let head = long(&file, last + 8) as usize;
    for at in (8..head - 8).step_by(4) {
        let old = u32::from_le_bytes(*file[at..].first_chunk().unwrap());
        for new in [u64::from(old) + 1, 1 << 31, 1 << 63] {
            let mut bad = file.clone();
            let wide = new > u64::from(u32::MAX);
            match wide {
                true => bad[at..at + 8].copy_from_slice(&new.to_le_bytes()),
                false => bad[at..at + 4].copy_from_slice(&(new as u32).to_le_bytes()),
            }
            // The places of sections must be sound for a seal.
            if at >= HEADER + ENTRY * 9 {
                seal_exported(&mut bad);
            }
            match Program::open_bytes(&bad) {
                Ok(mut p) => {
                    opened += 1;
                    let inputs: Vec<_> = p.bindings().iter().map(|b| b.name.clone()).collect();
                    inputs.iter().for_each(|name| drop(p.mark_written(name)));
                    for m in p.methods().map(str::to_string).collect::<Vec<_>>() {
                        let m = p.method(&m).unwrap();
                        let _ = p.run(m);
                    }
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 500 && opened > 10, "{refused} refused, {opened} opened");
}

#[test]
fn errors_name_file_and_section() {
    let path = path("damaged.agp");
    let file = small_file();
    let wrong = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let e = Program::open(&path).err().unwrap().message;
        assert!(e.contains("damaged.agp: "), "{e}");
        e
    };
    let section = |kind: u32| {
        let entries = (0..20).map(|i| HEADER + ENTRY * i);
        let e = entries.clone().find(|&e| file[e] as u32 == kind).unwrap();
        long(&file, e + 8) as usize
    };
    for (kind, name) in [(1, "engine"), (2, "text of method 0"), (3, "graph"), (4, "plan of method"), (5, "names")] {
        let mut bad = file.clone();
        bad[section(kind) + 9] ^= 4;
        let e = wrong(&bad);
        let named = e.contains(&format!("section {}", name.split(' ').next().unwrap()));
        assert!(named && e.contains("is damaged: its CRC-32 is"), "{e}");
    }
    // The values are not read by `open`, but by those who ask.
    let mut bad = file.clone();
    let last = bad.len() - 100;
    bad[last] ^= 1;
    std::fs::write(&path, &bad).unwrap();
    assert!(Program::open(&path).is_ok());
    assert!(check_exported(&path).unwrap_err().message.contains("damaged.agp: section values is damaged"));
    // Another engine.
    let mut bad = file.clone();
    bad[section(1) + 8] ^= 1;
    seal_exported(&mut bad);
    let e = wrong(&bad);
    assert!(e.contains("it was exported by arenagrad") && e.contains("`Session::compile_exported`"), "{e}");
    assert!(Session::new().compile_exported(&path).is_ok());
    // Other kernels: the checksum of the code that a plan is for.
    let mut bad = file.clone();
    let plan = section(4);
    let words = (plan..bad.len()).step_by(8).find(|&at| long(&bad, at) == 3 && at > plan + 16).unwrap();
    bad[words + 8] ^= 1;
    seal_exported(&mut bad);
    let e = wrong(&bad);
    assert!(e.contains("lowers the graph to other instructions") && e.contains("compile it again"), "{e}");
    assert!(wrong(b"\x89HDF\r\n\x1a\n and more").contains("no exported program, but an HDF5 file"));
    assert!(wrong(b"").contains("fewer than a header"));
    std::fs::remove_file(&path).unwrap();
    assert!(Program::open(&path).err().unwrap().message.contains("damaged.agp"));
    assert!(Program::open(std::env::temp_dir()).err().unwrap().message.contains("directory"));
}

/// KiB of the file at `path` that are in this process's memory.
#[cfg(target_os = "linux")]
fn resident(path: &std::path::Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines().skip_while(|l| !l.ends_with(path.to_str().unwrap()));
    assert!(lines.next().is_some(), "{} is not mapped", path.display());
    let line = lines.find(|l| l.starts_with("Rss:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn opening_reads_no_weights() {
    let g = Builder::new("wide");
    let w = g.param("w", [2048, 2048], DType::F32, Init::Normal(0.1));
    let y = g.input("x", [1, 2048], DType::F32).matmul(w).named("y");
    let mut p = Session::new().compile(&g.finish([y]).unwrap()).unwrap();
    p.init(0).unwrap();
    let path = path("wide.agp");
    p.export(&path).unwrap();
    let mut q = Program::open(&path).unwrap();
    // The system maps a few pages around one that is touched.
    let opened = resident(&path);
    assert!(opened <= 256, "{opened} KiB of 16 MiB are read");
    run_alike(&mut p, &mut q, 1);
    assert!(resident(&path) >= 16 << 10);
    // A param that is written is copied; the file stays as it is.
    q.values_mut::<f32>("w").unwrap().fill(1.0);
    check_exported(&path).unwrap();
    assert_ne!(q.values::<f32>("w").unwrap()[5], p.values::<f32>("w").unwrap()[5]);
    std::fs::remove_file(&path).unwrap();
}
