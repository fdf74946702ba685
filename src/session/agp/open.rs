//! Opening an exported program: from its sections to a program that runs.
//!
//! Invariant: nothing in a file is believed. Its graph is verified, its plan and its tapes are proved, the plans of its
//! methods are proved to keep apart, and its params and states must be those of its graphs.

use super::engine::EngineRecord;
use super::fields::Record;
use super::graph_record::GraphRecord;
use super::method_record::MethodRecord;
use super::sections::{FIRST, PAGE, Section, SectionEntry, check_crc, check_head, read_table, table_bytes};
use super::value_record::ValueRecord;
use crate::arena::front::Front;
use crate::arena::tensor::{LINE, TensorArena};
use crate::error::{Error, Kind, Result};
use crate::nodes::GraphBuf;
use crate::nodes::ir::opdef::OpDef;
use crate::nodes::ir::text::parse_with;
use crate::sched::areas::{own_bytes, prove_beside};
use crate::sched::plan::Plan;
use crate::session::bindings::{Binding, bindings};
use crate::session::choices::Choices;
use crate::session::compiled_graph::CompiledGraph;
use crate::session::leaves_by_name::LeafTable;
use crate::session::method_source::MethodSource;
use crate::session::program::Program;
use crate::session::program::part::Part;
use crate::session::runner::Runner;
use crate::session::{MAX_THREADS, Session, elem};

/// Most bytes of inputs that an opened program fills with defaults other than zero.
const MOST_FILLED: usize = 256 << 20;

/// An exported program in memory, up to its values. Its bytes have been checked.
pub struct OpenedHead<'a> {
    bytes: &'a [u8],
    entries: Vec<SectionEntry>,
}

fn damaged(why: String) -> Error {
    Error::new(Kind::Syntax, why)
}

impl<'a> OpenedHead<'a> {
    /// The head `bytes` of a file of `len` bytes; the values may follow it. Errors: the file is damaged, or no exported
    /// program.
    pub fn new(bytes: &'a [u8], len: u64) -> Result<OpenedHead<'a>> {
        let table = table_bytes(&bytes[..bytes.len().min(FIRST)], len).map_err(damaged)?;
        let table = bytes.get(..table).ok_or_else(|| damaged("the file ends within its table".into()))?;
        let entries = read_table(table, len).map_err(damaged)?;
        check_head(bytes, &entries).map_err(damaged)?;
        Ok(OpenedHead { bytes, entries })
    }

    /// Where the values of a file of `len` bytes begin, which begins with `table`.
    pub fn values_at(table: &[u8], len: u64) -> Result<u64> {
        let entries = read_table(table, len).map_err(damaged)?;
        Ok(entries.last().map_or(0, |e| e.offset))
    }

    /// Where the values are.
    pub fn values(&self) -> SectionEntry {
        self.entries[self.entries.len() - 1]
    }

    /// The bytes of an entry that must be of `section` and of `method`.
    fn section(&self, at: usize, section: Section, method: usize) -> Result<&'a [u8]> {
        match self.entries.get(at) {
            Some(e) if e.section == section && e.method as usize == method => Ok(&self.bytes[e.range()]),
            _ => Err(damaged(format!("section {} does not stand at place {at} of the table", section.name()))),
        }
    }

    fn record<R: Record>(&self, at: usize, section: Section, method: usize) -> Result<R> {
        let bytes = self.section(at, section, method)?;
        R::decode(bytes).map_err(|why| damaged(why).context(self.entries[at].name()))
    }

    fn methods(&self) -> usize {
        self.entries.len().saturating_sub(3) / 3
    }

    fn names(&self) -> Result<ValueRecord> {
        self.record(1 + 3 * self.methods(), Section::Names, 0)
    }

    fn text(&self, method: usize) -> Result<String> {
        let bytes = self.section(1 + 3 * method, Section::Text, method)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| damaged("the graph is no UTF-8 text".into()))
    }

    /// The program, whose params and states are `front`. Ops of the user's own are found among `ops`.
    pub fn program(&self, front: Front, ops: &[&'static OpDef]) -> Result<Program> {
        let engine: EngineRecord = self.record(0, Section::Engine, 0)?;
        let again = "compile it again from the graph in the file, by `Session::compile_exported` or `arenagrad export`";
        if !engine.is_of_here() {
            let (by, here) = (engine.text(), EngineRecord::here().text());
            return Err(Error::new(Kind::Plan, format!("it was exported by {by}, and this is {here}: {again}")));
        }
        let (mut names, mut texts, mut ready) = (Vec::new(), Vec::new(), Vec::new());
        for m in 0..self.methods() {
            let plan: MethodRecord = self.record(3 + 3 * m, Section::Plan, m)?;
            let graph: GraphRecord = self.record(2 + 3 * m, Section::Graph, m)?;
            let of_method = |e: Error| e.context(format!("method {:?}", plan.name));
            let graph = graph.graph(ops).map_err(of_method)?;
            let compiled = CompiledGraph::again(graph, plan.decisions).map_err(|e| {
                let by = engine.text();
                let text = format!("{}; it was exported by {by}: {again}", e.message);
                e_with(&e, text).context(format!("method {:?}", plan.name))
            })?;
            texts.push(self.text(m)?);
            names.push(plan.name);
            ready.push(compiled);
        }
        let twice = (1..names.len()).find(|&i| names[..i].contains(&names[i]));
        if let Some(twice) = twice {
            return Err(damaged(format!("two methods are called {:?}", names[twice])));
        }
        let ready = keep_apart(&names, ready)?;
        let mut program = assemble(&names, &ready, front)?;
        self.names()?.mark(&program.bindings, &mut program.fresh)?;
        program.sources = texts.into_iter().zip(ready).map(|(text, r)| MethodSource::of_text(text, r)).collect();
        Ok(program)
    }

    /// The graphs, compiled by `session`, with the params and states that `front` holds.
    pub fn compiled(&self, session: &Session, front: &Front, ops: &[&'static OpDef]) -> Result<Program> {
        let mut graphs: Vec<(String, GraphBuf)> = Vec::new();
        for m in 0..self.methods() {
            // A plan of another version may have other fields behind its name.
            let plan = self.section(3 + 3 * m, Section::Plan, m)?;
            let name = name_of_plan(plan).unwrap_or_else(|| format!("method{m}"));
            let graph = parse_with(&self.text(m)?, ops).map_err(|e| e.context(format!("method {name:?}")))?;
            graphs.push((name, graph));
        }
        let views: Vec<_> = graphs.iter().map(|(name, g)| (name.as_str(), g)).collect();
        let mut program = session.compile_all(&views)?;
        for value in self.names()?.0.iter().filter(|v| v.set) {
            let stored = front
                .bytes()
                .get(value.range())
                .ok_or_else(|| damaged(format!("{:?} lies outside of section values", value.name)))?;
            program.write_bytes(&value.name, stored)?;
        }
        Ok(program)
    }
}

/// `e` with another text.
fn e_with(e: &Error, text: String) -> Error {
    Error { message: text, ..e.clone() }
}

/// The name that a plan begins with.
fn name_of_plan(plan: &[u8]) -> Option<String> {
    let len = usize::try_from(u64::from_le_bytes(*plan.first_chunk()?)).ok()?;
    String::from_utf8(plan.get(8..)?.get(..len)?.to_vec()).ok()
}

/// Proves that the methods `names`, in one arena, share params and states by name and nothing else.
fn keep_apart(names: &[String], ready: Vec<CompiledGraph>) -> Result<Vec<CompiledGraph>> {
    let Some(first) = ready.first() else { return Err(damaged("the file has no method".into())) };
    let bytes = first.scheduled.plan.bytes;
    if ready.iter().any(|r| r.scheduled.plan.bytes != bytes) {
        return Err(damaged("the methods are for arenas of different sizes".into()));
    }
    let called: Vec<String> = names.iter().map(|name| format!("method {name:?}")).collect();
    let views = called.iter().map(String::as_str).zip(ready.iter().map(|r| r.graph.view()));
    LeafTable::default().add(&views.collect::<Vec<_>>())?;
    let leaves: Vec<Vec<Binding>> = ready.iter().map(persistent).collect();
    let mut known: hashbrown::HashMap<&str, usize> = hashbrown::HashMap::new();
    for leaf in leaves.iter().flatten() {
        if *known.entry(&leaf.name).or_insert(leaf.offset) != leaf.offset {
            return Err(damaged(format!("{:?} lies at two places", leaf.name)));
        }
    }
    let own: Vec<Vec<_>> = ready.iter().map(|r| own_bytes(&r.scheduled.plan)).collect();
    let end = leaves_end(leaves.iter().flatten());
    if ready.iter().any(|r| !stays_on_one_side(&r.scheduled.plan, end)) || own.iter().flatten().any(|r| r.start < end) {
        return Err(damaged("params and states do not stand in front of all else".into()));
    }
    if ready.len() == 1 {
        return Ok(ready);
    }
    let mut apart = Vec::new();
    for (m, r) in ready.into_iter().enumerate() {
        let mine = |b: &&Binding| leaves[m].iter().any(|own| own.name == b.name);
        let others = (0..own.len()).filter(|&k| k != m);
        let foreign = others.clone().flat_map(|k| own[k].iter().cloned());
        let theirs = others.flat_map(|k| leaves[k].iter()).filter(|b| !mine(b) && b.bytes > 0).map(Binding::range);
        let scheduled =
            prove_beside(r.scheduled, foreign.chain(theirs).collect()).map_err(|e| e.context(called[m].as_str()))?;
        apart.push(CompiledGraph { scheduled, ..r });
    }
    Ok(apart)
}

/// The params and states of a method.
fn persistent(r: &CompiledGraph) -> Vec<Binding> {
    bindings(&r.graph.view(), &r.scheduled).into_iter().filter(Binding::is_persistent).collect()
}

fn leaves_end<'a>(leaves: impl Iterator<Item = &'a Binding>) -> usize {
    leaves.map(|b| b.range().end).max().unwrap_or(0).next_multiple_of(LINE)
}

/// Whether each buffer of `plan` lies in front of byte `end`, or behind it.
fn stays_on_one_side(plan: &Plan, end: usize) -> bool {
    let buffers = plan.offset.iter().zip(&plan.code.bytes).filter(|b| *b.1 > 0);
    buffers.map(|(&at, &bytes)| at..at + bytes).all(|r| r.start >= end || r.end <= end)
}

/// The program of `ready`, whose plans have been proved.
fn assemble(names: &[String], ready: &[CompiledGraph], front: Front) -> Result<Program> {
    let choices = Choices { threads: MAX_THREADS, ..Choices::default() };
    let (mut execs, mut parts, mut filled) = (Vec::new(), Vec::new(), 0usize);
    for (name, r) in names.iter().zip(ready) {
        let (exec, part) = Part::of_compiled(name, r, &choices, false)?;
        let defaults =
            bindings(&r.graph.view(), &r.scheduled).into_iter().filter(|b| b.default.is_some_and(|x| x != 0.0));
        filled = defaults.fold(filled, |sum, b| sum.saturating_add(b.bytes));
        execs.push(exec);
        parts.push(part);
    }
    if filled > MOST_FILLED {
        return Err(damaged(format!("inputs with defaults have {filled} bytes; at most {MOST_FILLED} are filled")));
    }
    let end = ready.iter().map(|r| leaves_end(persistent(r).iter())).max().unwrap_or(0);
    if front.len() != end {
        return Err(damaged(format!("section values has {} bytes; params and states have {end}", front.len())));
    }
    let bytes = ready.first().map_or(0, |r| r.scheduled.plan.bytes);
    let arena = TensorArena::behind(front, bytes);
    let arena = arena.ok_or_else(|| Error::new(Kind::Memory, format!("no memory for an arena of {bytes} bytes")))?;
    let program = Program::new(parts, Runner::new(execs, false)?, arena);
    for b in program.bindings.iter().filter(|b| b.is_persistent()) {
        elem::check_value_bytes(b, if b.dtype == crate::nodes::DType::Bool { program.bytes_of(b) } else { &[] })?;
    }
    Ok(program)
}

impl Program {
    /// The program that `bytes` are, as [`Program::export_bytes`] gave them. Its params and states are copied from
    /// `bytes`, and all of `bytes` is checked.
    ///
    /// # Errors
    /// `bytes` are damaged, or no exported program (kind `Syntax`). They are of another engine, or for other
    /// instructions (kind `Plan`): [`Session::compile_exported_bytes`] compiles the graph inside again.
    pub fn open_bytes(bytes: &[u8]) -> Result<Program> {
        Program::open_bytes_with(bytes, &[])
    }

    /// As [`Program::open_bytes`], for a program with ops of the user's own.
    pub fn open_bytes_with(bytes: &[u8], ops: &[&'static OpDef]) -> Result<Program> {
        let (head, front) = in_memory(bytes)?;
        head.program(front, ops)
    }
}

impl Session {
    /// Compiles the graphs of an exported program anew, with the choices of this session, and gives the program the
    /// params and states of `bytes`: for a program that another engine exported, or for other choices.
    ///
    /// # Errors
    /// `bytes` are damaged; a graph cannot be compiled: see [`Session::compile`].
    pub fn compile_exported_bytes(&self, bytes: &[u8]) -> Result<Program> {
        let (head, front) = in_memory(bytes)?;
        head.compiled(self, &front, &[])
    }
}

/// A file in memory: its head, and its values.
fn in_memory(bytes: &[u8]) -> Result<(OpenedHead<'_>, Front)> {
    let head = OpenedHead::new(bytes, bytes.len() as u64)?;
    let e = head.values();
    let values = &bytes[e.range()];
    check_crc(&e, crc32fast::hash(values)).map_err(damaged)?;
    if !values.len().is_multiple_of(LINE) {
        return Err(damaged(format!("section values has {} bytes, which are no whole lines", values.len())));
    }
    let none = || Error::new(Kind::Memory, format!("no memory for {} bytes of params and states", values.len()));
    let mut front = Front::zeroed(values.len()).ok_or_else(none)?;
    front.bytes_mut().copy_from_slice(values);
    Ok((head, front))
}

const _: () = assert!(PAGE.is_multiple_of(LINE));
