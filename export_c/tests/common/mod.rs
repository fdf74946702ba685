//! Cases: graphs, their steps by the engine, and a C program that makes the same steps.

pub mod graphs;

use arenagrad::prelude::*;
use arenagrad::session::{Binding, Role};
use arenagrad_export_c::{CFiles, export_c};
use std::fmt::Write;
use std::path::Path;

/// A graph, and how it is run.
pub struct Case {
    /// A name that C takes.
    pub name: String,
    /// The graph.
    pub graph: GraphBuf,
    /// Number of steps.
    pub steps: usize,
    /// Integers of inputs are in `0..bound`.
    pub bound: u64,
}

/// Draws of numbers: SplitMix64.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// The elements of an input.
    fn bytes(&mut self, b: &Binding, bound: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(b.bytes);
        for _ in 0..b.dims.iter().product::<usize>() {
            let unit = (self.next() >> 40) as f64 / f64::from(1 << 23) - 1.0;
            let whole = self.next() % bound.max(1);
            match b.dtype {
                DType::F32 => out.extend((unit as f32).to_le_bytes()),
                DType::F64 => out.extend(unit.to_le_bytes()),
                DType::Bool => out.push((whole % 2) as u8),
                d => out.extend(&whole.to_le_bytes()[..d.size()]),
            }
        }
        out
    }
}

/// What the C program of some cases reads, and what it must write.
#[derive(Default)]
pub struct Corpus {
    /// Files of C: names and texts.
    pub files: Vec<(String, String)>,
    /// The inputs of all steps.
    pub inputs: Vec<u8>,
    /// The outputs, params and states behind all steps, in parts with a name.
    pub expected: Vec<(String, Vec<u8>)>,
    /// Bytes of the arena of each case.
    pub arenas: Vec<(String, usize)>,
    includes: String,
    body: String,
}

impl Corpus {
    /// The corpus of these cases.
    pub fn of(cases: &[Case]) -> Corpus {
        let mut corpus = Corpus::default();
        cases.iter().for_each(|case| corpus.add(case));
        corpus
    }

    /// Runs a case by the engine and writes its C.
    pub fn add(&mut self, case: &Case) {
        let mut p = Session::new().threads(1).compile(&case.graph).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        p.init(3).unwrap();
        let c = export_c(&case.graph, &p, &case.name).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert!(self.add_steps(case, &mut p, &c), "{} makes a NaN", case.name);
    }

    /// Adds a drawn graph, unless C has not all of its ops, or a result is NaN: of that, the sign differs between CPUs.
    /// True if it was added.
    pub fn add_if_it_fits(&mut self, case: &Case) -> bool {
        let Ok(mut p) = Session::new().threads(1).compile(&case.graph) else { return false };
        let c = p.init(3).ok().and_then(|()| export_c(&case.graph, &p, &case.name).ok());
        c.is_some_and(|c| self.add_steps(case, &mut p, &c))
    }

    /// Adds the steps of a case, unless a result is NaN.
    fn add_steps(&mut self, case: &Case, p: &mut Program, c: &CFiles) -> bool {
        let name = &case.name;
        let bindings: Vec<Binding> = p.bindings().to_vec();
        let written = || bindings.iter().filter(|b| is_written(b));
        let (mut draws, mut given, mut expected) = (Draws(case.steps as u64), Vec::new(), Vec::new());
        for step in 0..case.steps {
            for b in written() {
                let bytes = draws.bytes(b, case.bound);
                p.write_bytes(&b.name, &bytes).unwrap();
                given.extend(bytes);
            }
            p.step().unwrap_or_else(|e| panic!("{name}: {e}"));
            for role in [Role::Output, Role::Param, Role::State] {
                for b in bindings.iter().filter(|b| b.role == role) {
                    let bytes = p.bytes_of(b).to_vec();
                    if b.dtype == DType::F32
                        && bytes.chunks_exact(4).any(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]).is_nan())
                    {
                        return false;
                    }
                    expected.push((format!("{name}, step {step}, {} {:?}", role.name(), b.name), bytes));
                }
            }
        }
        self.inputs.extend(given);
        self.expected.extend(expected);
        self.add_program(case, c, &bindings);
        true
    }

    /// Adds the files of a case, and its part of the program.
    fn add_program(&mut self, case: &Case, c: &CFiles, bindings: &[Binding]) {
        let name = &case.name;
        self.files.push((format!("{name}.h"), c.header.clone()));
        self.files.push((format!("{name}.c"), c.source.clone()));
        self.arenas.push((name.clone(), c.arena_bytes));
        let _ = writeln!(self.includes, "#include \"{name}.h\"");
        let _ = writeln!(self.body, "    {name}_init();\n    for (step = 0; step < {}; step++) {{", case.steps);
        let inputs = bindings.iter().filter(|b| b.role == Role::Input);
        for (own, _) in names(&c.header, &["in"], name).into_iter().zip(inputs).filter(|(_, b)| is_written(b)) {
            let _ = writeln!(self.body, "        take({own}, sizeof *({own}) * {own}_len);");
        }
        let _ = writeln!(self.body, "        if ({name}_step() != 0)\n            return 2;");
        for own in names(&c.header, &["out", "param", "state"], name) {
            let _ = writeln!(self.body, "        give({own}, sizeof *({own}) * {own}_len);");
        }
        self.body.push_str("    }\n");
    }

    /// Writes all files into a folder: the sources, `main.c`, `inputs.bin`, `expected.bin`.
    pub fn write(&mut self, dir: &Path) {
        let main = format!(
            "#include <stdio.h>\n#include <stdlib.h>\n{}\nstatic FILE *from, *to;\n\n\
             static void take(void *at, size_t n)\n{{\n    if (n > 0 && fread(at, n, 1, from) != 1)\n        exit(3);\n}}\n\n\
             static void give(const void *at, size_t n)\n{{\n    if (n > 0 && fwrite(at, n, 1, to) != 1)\n        exit(4);\n}}\n\n\
             int main(int count, char **names)\n{{\n    int step;\n    if (count != 3)\n        return 1;\n    \
             from = fopen(names[1], \"rb\");\n    to = fopen(names[2], \"wb\");\n    \
             if (from == NULL || to == NULL)\n        return 1;\n{}    return fclose(to) == 0 ? 0 : 4;\n}}\n",
            self.includes, self.body
        );
        std::fs::create_dir_all(dir).unwrap();
        for (name, text) in &self.files {
            std::fs::write(dir.join(name), text).unwrap();
        }
        std::fs::write(dir.join("main.c"), main).unwrap();
        std::fs::write(dir.join("inputs.bin"), &self.inputs).unwrap();
        let all: Vec<u8> = self.expected.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        std::fs::write(dir.join("expected.bin"), all).unwrap();
    }
}

/// Whether the caller writes it: an input with a default, such as the learning rate, keeps it.
fn is_written(b: &Binding) -> bool {
    b.role == Role::Input && b.default.is_none()
}

/// The macros of tensors with these roles in a header, in order: first those of the first role.
fn names(header: &str, roles: &[&str], name: &str) -> Vec<String> {
    let defined = header.lines().filter_map(|l| l.strip_prefix("#define ")?.split(' ').next());
    // Behind the guard, the digest and the size of the arena. Each is followed by the number of its elements.
    let defined: Vec<&str> = defined.skip(3).step_by(2).collect();
    let of = |role: &&str| {
        let prefix = format!("{name}_{role}_");
        defined.iter().filter(move |n| n.starts_with(&prefix)).map(|n| n.to_string()).collect::<Vec<_>>()
    };
    roles.iter().flat_map(of).collect()
}
