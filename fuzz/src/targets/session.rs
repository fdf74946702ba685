//! A program used in any order: never a panic, and after any failure params and states are what they were.

use super::{GRAPHS, Target, scripts};
use crate::engine::{drawn_graph, fill_leaves};
use crate::files::file_path;
use crate::script::Script;
use arenagrad::error::{Error, Result};
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::session::{Handle, Program, Session};
use arenagrad::train::{Entry, Loaded, checkpoint, copy_params};
use std::path::PathBuf;

pub const TARGET: Target = Target {
    name: "session",
    about: "init, write, step, save, load, copy and drop in any order: no panic, and failures change nothing",
    run,
    seeds: scripts,
    words: &[],
    max_len: 256,
    memory: GRAPHS,
};

/// A graph with params, states, an index that may be out of range, and an input with a default.
fn small() -> GraphBuf {
    let g = Builder::new("small");
    let x = g.input("x", [3], DType::F32);
    let at = g.input_or("at", [2], DType::I32, 1.0);
    let w = g.param("w", [3], DType::F32, Init::Ones);
    let s = g.state("s", [2], DType::F32, Init::Zeros);
    let flag = g.state("flag", [2], DType::Bool, Init::Zeros);
    let y = w * x + g.uniform([3], DType::F32);
    g.update(w, y);
    g.update(s, y.gather(at, 0));
    g.output("flag", flag);
    g.finish([y.sum(..).named("y")]).unwrap_or_else(|e| panic!("{e}"))
}

/// What must not change when a call fails.
fn kept(p: &Program) -> Vec<(String, Vec<u8>)> {
    p.persistent().map(|(b, bytes)| (b.name.clone(), bytes.to_vec())).collect()
}

/// The files and handles that calls leave behind.
#[derive(Default)]
struct Desk {
    file: Vec<u8>,
    handle: Option<Handle<f32>>,
    path: Option<PathBuf>,
}

impl Desk {
    /// A file of this process and thread, which is removed with the desk.
    fn path(&mut self) -> PathBuf {
        self.path.get_or_insert_with(|| file_path("session.safetensors")).clone()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let graph = if script.below(4) == 0 { drawn_graph(&mut script, 3) } else { small() };
    let session = Session::new().poison(script.below(8) == 0).find_nan(script.below(8) == 0);
    let compile = || session.compile(&graph).unwrap_or_else(|e| panic!("{e}\n{graph:?}"));
    let mut programs = vec![compile()];
    let mut desk = Desk::default();
    for _ in 0..12 {
        if script.is_over() {
            break;
        }
        let i = script.below(programs.len() as u32) as usize;
        match script.below(24) {
            0 if programs.len() < 3 => programs.push(compile()),
            1 if programs.len() > 1 => drop(programs.swap_remove(i)),
            2 | 3 if programs.len() > 1 => {
                let from = programs.swap_remove(i);
                let to = script.below(programs.len() as u32) as usize;
                let before = kept(&programs[to]);
                let done = copy_params(&from, &mut programs[to]);
                assert!(
                    done.is_ok() || kept(&programs[to]) == before,
                    "a copy that failed changed something: {done:?}"
                );
                programs.push(from);
            }
            call => {
                let p = &mut programs[i];
                let before = kept(p);
                let done = one_call(p, call, &mut script, &mut desk);
                if let Err(e) = done {
                    assert!(kept(p) == before, "a call that failed changed something: call {call}: {e}\n{graph:?}");
                    assert!(!e.message.is_empty() && e.message.len() < 1 << 16, "{e:?}");
                }
            }
        }
    }
}

/// A name that a program has, or has not.
fn some_name(p: &Program, script: &mut Script<'_>) -> String {
    let names: Vec<&str> = p.bindings().iter().map(|b| b.name.as_str()).chain(["", "nothing", "y"]).collect();
    names[script.below(names.len() as u32) as usize].to_string()
}

/// One call of a program's methods; its error.
fn one_call(p: &mut Program, call: u32, script: &mut Script<'_>, desk: &mut Desk) -> Result<()> {
    match call {
        4 | 5 => p.init(script.seed()),
        6 => p.init_rest(script.seed()),
        7 | 8 => p.step(),
        9 => {
            fill_leaves(p, script.seed());
            Ok(())
        }
        10 => {
            let name = some_name(p, script);
            let have = p.bindings().iter().find(|b| b.name == name).map_or(4, |b| b.bytes);
            let len = if script.flag() { have } else { script.below(40) as usize };
            let bytes: Vec<u8> = (0..len).map(|_| script.byte()).collect();
            p.write_bytes(&name, &bytes)
        }
        11 => {
            desk.handle = Some(p.input::<f32>(&some_name(p, script))?);
            Ok(())
        }
        12 => {
            desk.handle = Some(p.param::<f32>(&some_name(p, script)).or_else(|_| p.output(&some_name(p, script)))?);
            Ok(())
        }
        13 => {
            let data: Vec<f32> = (0..script.below(5)).map(|_| f32::from(script.byte()) - 100.0).collect();
            desk.handle.map_or(Ok(()), |h| p.write(h, &data))
        }
        14 => desk.handle.map_or(Ok(()), |h| {
            let data = p.get(h)?.to_vec();
            assert_eq!(p.dims(p.name_of(h)?).map_or(data.len(), |d| d.iter().product()), data.len());
            Ok(())
        }),
        15 => save(p, desk),
        16 | 17 => load(p, script, desk),
        18 => p.save(desk.path()),
        19 => p.load(desk.path()).map(drop),
        20 => p.step_traced().map(drop),
        21 => p.method(&some_name(p, script)).and_then(|m| p.run(m)),
        22 => p.values::<f32>(&some_name(p, script)).map(drop).or_else(|_| p.values::<u8>("flag").map(drop)),
        _ => {
            let m = p.method("step")?;
            p.run(m)
        }
    }
}

/// The program's params and states as a checkpoint in memory.
fn save(p: &Program, desk: &mut Desk) -> Result<()> {
    let entries: Vec<Entry<'_>> =
        p.persistent().map(|(b, bytes)| Entry::new(&b.name, b.dtype, &b.dims, bytes)).collect();
    desk.file = checkpoint::encode(&entries)?;
    Ok(())
}

/// Resumes from the checkpoint in memory, some bytes of which may be wrong.
fn load(p: &mut Program, script: &mut Script<'_>, desk: &mut Desk) -> Result<()> {
    let mut file = desk.file.clone();
    for _ in 0..script.below(3) {
        let at = script.below(file.len() as u32) as usize;
        let byte = script.byte();
        file.get_mut(at).into_iter().for_each(|b| *b = byte);
    }
    let loaded = Loaded::parse(file)?;
    let path = desk.path();
    std::fs::write(&path, checkpoint::encode(&loaded.entries().collect::<Vec<_>>())?).map_err(Error::from)?;
    p.load(&path)?;
    let found: Vec<_> = p.persistent().map(|(b, bytes)| (b.name.clone(), bytes.to_vec())).collect();
    for (name, bytes) in found {
        assert_eq!(loaded.find(&name).map(|e| e.bytes), Some(&bytes[..]), "{name:?} is what the file holds");
    }
    Ok(())
}
