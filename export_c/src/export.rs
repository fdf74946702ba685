//! The two files: source and header.

use crate::body::{self, Missing};
use crate::c_text::{comment, identifier};
use crate::helpers::{Helpers, math_functions};
use crate::interface::{self, Named};
use crate::start::Start;
use arenagrad::error::{Error, Kind};
use arenagrad::graph::{Graph, GraphBuf, Leaf};
use arenagrad::session::{Binding, Program, Role};
use arenagrad::tools::arena::{Node, ids::Id};
use arenagrad::tools::ops::constant::attrs::ConstantAttrs;
use arenagrad::tools::passes::pipeline::run_pipeline_without_scratch;
use arenagrad::tools::sched::{Scheduled, plan_without_thread_scratch};
use std::fmt;

/// A step as C.
#[derive(Clone, Debug)]
pub struct CFiles {
    /// The header.
    pub header: String,
    /// The source, which includes the header under the name `NAME.h`.
    pub source: String,
    /// Bytes of the static array.
    pub arena_bytes: usize,
    /// Bytes of params in it.
    pub param_bytes: usize,
    /// Bytes of the constant arrays with start values.
    pub table_bytes: usize,
    /// Number of instructions.
    pub instructions: usize,
}

/// Why there is no C.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// The graph does not compile, or the program is not of it.
    Engine(Error),
    /// All ops that C cannot be written for.
    Missing(Vec<Missing>),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Engine(e) => e.fmt(f),
            ExportError::Missing(all) => {
                let all: Vec<String> = all.iter().map(Missing::to_string).collect();
                write!(f, "not all ops can become C: {}", all.join("; "))
            }
        }
    }
}

impl std::error::Error for ExportError {}

impl From<Error> for ExportError {
    fn from(e: Error) -> ExportError {
        ExportError::Engine(e)
    }
}

fn data_error(why: impl Into<String>) -> ExportError {
    ExportError::Engine(Error::new(Kind::Data, why))
}

/// The step of `graph` as C. `start` is a program of the graph: its params and states are the start values. `name`
/// begins all names that other files see; characters that C does not allow in names become `_`.
///
/// # Errors
/// Those of compiling; a param or state that `start` does not have; all ops that C cannot be written for.
pub fn export_c(graph: &GraphBuf, start: &Program, name: &str) -> Result<CFiles, ExportError> {
    let name = identifier(name);
    let ready = run_pipeline_without_scratch(graph)?;
    let g = ready.view();
    let scheduled = plan_without_thread_scratch(g)?;
    let plan = &scheduled.plan;
    let helpers = Helpers::new();
    let body = body::write(&g, plan, &helpers).map_err(ExportError::Missing)?;
    let bindings = start.bindings();
    let named = named_tensors(&g, &scheduled, bindings)?;
    let first = start_values(&g, &scheduled, start)?;
    let macros = interface::macros(&name, &named).map_err(data_error)?;
    let arena_bytes = plan.bytes.max(64);
    let code = format!("{}\n{}", first.text, body.text);
    let helpers = helpers.used_by(&code);
    let digest = digest(&[&macros, &helpers, &code, &first.tables]);
    let parts = Parts { name: &name, title: g.str(g.name), digest, arena_bytes, checks: &body.checks };
    let counter = if body.text.contains("(i = 0;") { "    size_t i;\n" } else { "" };
    let math = math_functions(&format!("{helpers}{code}"));
    let source = format!(
        "{}{helpers}{}void {name}_init(void)\n{{\n{}}}\n\nint {name}_step(void)\n{{\n{counter}{}    return 0;\n}}\n",
        parts.source_head(&math),
        first.tables,
        first.text,
        body.text
    );
    let params = named.iter().filter(|n| n.binding.role == Role::Param);
    Ok(CFiles {
        header: parts.header(&macros),
        source,
        arena_bytes,
        param_bytes: params.map(|n| n.binding.bytes).sum(),
        table_bytes: first.bytes,
        instructions: plan.code.len(),
    })
}

/// The tensors that have names, with their places in the plan of the C.
fn named_tensors<'a>(g: &Graph<'_>, s: &Scheduled, bindings: &'a [Binding]) -> Result<Vec<Named<'a>>, ExportError> {
    let find = |name: &str, output: bool| {
        let fits = |b: &&Binding| b.name == name && (b.role == Role::Output) == output;
        bindings.iter().find(fits).ok_or_else(|| data_error(format!("the program has no tensor {name:?}")))
    };
    let mut all = Vec::new();
    for Leaf { value, name, .. } in g.leaves() {
        let at = s.plan.offset[s.slices[value.at()].buf as usize];
        all.push(Named { binding: find(name, false)?, at });
    }
    for (&name, o) in g.output_names.iter().zip(&s.plan.code.outputs) {
        all.push(Named { binding: find(g.str(name), true)?, at: s.plan.offset[o.buf as usize] + o.off });
    }
    Ok(all)
}

/// The start of params, states, constants, and inputs with a default.
fn start_values(g: &Graph<'_>, s: &Scheduled, start: &Program) -> Result<Start, ExportError> {
    let mut first = Start::default();
    for Leaf { value, name, .. } in g.leaves() {
        let at = s.plan.offset[s.slices[value.at()].buf as usize];
        let binding = start.bindings().iter().find(|b| b.name == name && b.role != Role::Output);
        let Some(b) = binding.filter(|b| b.role != Role::Input || b.default.is_some()) else { continue };
        if b.bytes != g.bytes(value) {
            return Err(data_error(format!("the program's {name:?} has another size than the graph's")));
        }
        first.push(name, at, b.dtype, start.bytes_of(b)).map_err(data_error)?;
    }
    for n in (0..g.nodes()).map(Node::new).filter(|n| g.def_of(*n).name == "constant") {
        let v = g.out(n);
        let Some(&at) = s.plan.offset.get(s.slices[v.at()].buf as usize) else { continue };
        let data = ConstantAttrs::of(&g.attrs(n)).data;
        first.push("constant", at, g.dtype[v.at()], &data).map_err(data_error)?;
    }
    Ok(first)
}

/// What both files say.
struct Parts<'a> {
    name: &'a str,
    title: &'a str,
    digest: u64,
    arena_bytes: usize,
    checks: &'a [(&'static str, arenagrad::error::Location)],
}

impl Parts<'_> {
    /// The header; `macros` name the tensors.
    fn header(&self, macros: &str) -> String {
        let Parts { name, digest, arena_bytes, .. } = self;
        let guard = format!("{}_H", name.to_uppercase());
        let mut checks = String::new();
        for (k, (op, place)) in self.checks.iter().enumerate() {
            checks += &format!("\n     {}: {op}, {}", k + 1, comment(&place.to_string()));
        }
        if checks.is_empty() {
            checks = "\n     This step has no such check.".into();
        }
        include_str!("../c/frame.h")
            .replace("@{TITLE}", &comment(self.title))
            .replace("@{GUARD}", &guard)
            .replace("@{NAME}", name)
            .replace("@{DIGEST}", &format!("0x{digest:016x}"))
            .replace("@{BYTES}", &arena_bytes.to_string())
            .replace("@{CHECKS}", &checks)
            .replace("@{MACROS}", macros.trim_end())
    }

    /// What stands before the functions of the source.
    fn source_head(&self, math: &[&str]) -> String {
        let uses = if math.is_empty() { "nothing".to_string() } else { math.join(", ") };
        include_str!("../c/frame.c")
            .replace("@{TITLE}", &comment(self.title))
            .replace("@{NAME}", self.name)
            .replace("@{DIGEST}", &format!("0x{:016x}", self.digest))
            .replace("@{MATH}", &uses)
    }
}

/// A number that differs for different files: FNV-1a.
fn digest(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|p| p.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}
