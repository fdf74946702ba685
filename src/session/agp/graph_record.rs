//! A graph as a record: its columns, with ops by name and interned shapes and strings.
//!
//! Invariant: what is read may be any numbers. Shapes and strings are interned anew, ids of ops and types are looked
//! up, and the verifier checks all else before anything uses the graph.

use super::fields::{Done, Fields, Record};
use crate::arena::shapes::Shapes;
use crate::arena::strings::Strings;
use crate::arena::{Node, Shape, Sym, Value};
use crate::error::{Error, Kind, Location, Result};
use crate::nodes::ir::graph::Graph;
use crate::nodes::ir::opdef::{Op, OpDef};
use crate::nodes::ir::verify::{self, Stage};
use crate::nodes::ops::table::OPS;
use crate::nodes::{DType, GraphBuf};

/// See the file's head.
#[derive(Default)]
pub struct GraphRecord {
    name: u32,
    /// The names of the ops that the graph uses; `op` indexes them.
    ops: Vec<String>,
    op: Vec<u32>,
    args_at: Vec<u32>,
    outs_at: Vec<u32>,
    attr: Vec<u32>,
    loc: Vec<u32>,
    args: Vec<u32>,
    extra: Vec<u32>,
    def: Vec<u32>,
    dtype: Vec<u8>,
    shape: Vec<u32>,
    names: Vec<u32>,
    nodes_at: Vec<u32>,
    yields_at: Vec<u32>,
    yields: Vec<u32>,
    region_names: Vec<u32>,
    output_names: Vec<u32>,
    /// Leaf and next value, in turn.
    updates: Vec<u32>,
    /// Dimensions of all shapes, and where each shape begins.
    dims: Vec<u64>,
    dims_at: Vec<u32>,
    /// Bytes of all strings, and where each string begins.
    letters: Vec<u8>,
    letters_at: Vec<u32>,
    /// Three words for each location: its kind and two numbers.
    locs: Vec<u32>,
}

impl Record for GraphRecord {
    fn fields(&mut self, f: &mut dyn Fields) -> Done {
        let mut name = u64::from(self.name);
        f.long(&mut name)?;
        self.name = u32::try_from(name).map_err(|_| "the graph has no name".to_string())?;
        let mut ops = self.ops.len();
        f.count(&mut ops)?;
        for i in 0..ops {
            if i == self.ops.len() {
                self.ops.push(String::new());
            }
            f.text(&mut self.ops[i])?;
        }
        let nodes = [&mut self.op, &mut self.args_at, &mut self.outs_at, &mut self.attr, &mut self.loc];
        let values = [&mut self.args, &mut self.extra, &mut self.def, &mut self.shape, &mut self.names];
        let regions = [&mut self.nodes_at, &mut self.yields_at, &mut self.yields, &mut self.region_names];
        let rest = [&mut self.output_names, &mut self.updates, &mut self.dims_at, &mut self.letters_at, &mut self.locs];
        nodes.into_iter().chain(values).chain(regions).chain(rest).try_for_each(|column| f.words(column))?;
        f.bytes(&mut self.dtype)?;
        f.longs(&mut self.dims)?;
        f.bytes(&mut self.letters)
    }
}

impl GraphRecord {
    /// The record of `g`.
    pub fn of(g: &Graph<'_>) -> GraphRecord {
        let mut number = vec![u32::MAX; g.ops.len()];
        let mut ops = Vec::new();
        let op = g.op.iter().map(|op| {
            let at = &mut number[op.0 as usize];
            if *at == u32::MAX {
                *at = ops.len() as u32;
                ops.push(g.ops[op.0 as usize].name.to_string());
            }
            *at
        });
        let op = op.collect();
        let ids = |column: &[Sym]| column.iter().map(|s| s.0).collect();
        let values = |column: &[Value]| column.iter().map(|v| v.0).collect();
        let starts = |lens: &mut dyn Iterator<Item = usize>| {
            let mut at = vec![0u32];
            lens.for_each(|len| at.push(at[at.len() - 1] + len as u32));
            at
        };
        let (shapes, strings) = (|i| g.shapes.run(i), |i| g.strings.run(i));
        let loc = |l: &Location<Sym>| match *l {
            Location::Nowhere => [0, 0, 0],
            Location::Source(file, line) => [1, file.0, line],
            Location::Text(line, column) => [2, line, column],
            Location::Node(node) => [3, node.0, 0],
        };
        GraphRecord {
            name: g.name.0,
            ops,
            op,
            args_at: g.args_at.to_vec(),
            outs_at: g.outs_at.to_vec(),
            attr: g.attr.to_vec(),
            loc: g.loc.to_vec(),
            args: values(g.args),
            extra: g.extra.to_vec(),
            def: g.def.iter().map(|n| n.0).collect(),
            dtype: g.dtype.iter().map(|&d| d as u8).collect(),
            shape: g.shape.iter().map(|s| s.0).collect(),
            names: ids(g.names),
            nodes_at: g.nodes_at.to_vec(),
            yields_at: g.yields_at.to_vec(),
            yields: values(g.yields),
            region_names: ids(g.region_names),
            output_names: ids(g.output_names),
            updates: g.updates.iter().flat_map(|&(leaf, next)| [leaf.0, next.0]).collect(),
            dims: (0..g.shapes.len()).flat_map(shapes).map(|&d| d as u64).collect(),
            dims_at: starts(&mut (0..g.shapes.len()).map(|i| shapes(i).len())),
            letters: (0..g.strings.len()).flat_map(strings).copied().collect(),
            letters_at: starts(&mut (0..g.strings.len()).map(|i| strings(i).len())),
            locs: g.locs.iter().flat_map(loc).collect(),
        }
    }

    /// The graph, verified. Custom ops are found among `more`. Errors: it is no graph; this engine has no op of a name.
    pub fn graph(&self, more: &[&'static OpDef]) -> Result<GraphBuf> {
        let bad = |why: &str| Error::new(Kind::Syntax, why.to_string());
        let ops: Vec<&'static OpDef> = OPS.iter().chain(more).copied().collect();
        let numbers = self.ops.iter().map(|name| {
            let at = ops.iter().position(|def| def.name == name);
            at.map(|at| Op(at as u16)).ok_or_else(|| Error::new(Kind::Name, format!("there is no op {name:?}")))
        });
        let numbers = numbers.collect::<Result<Vec<Op>>>()?;
        let op = self.op.iter().map(|&i| numbers.get(i as usize).copied());
        let op: Vec<Op> = op.collect::<Option<_>>().ok_or_else(|| bad("a node has no op"))?;
        let dtype = self.dtype.iter().map(|&d| DType::ALL.get(d as usize).copied());
        let dtype: Vec<DType> = dtype.collect::<Option<_>>().ok_or_else(|| bad("a value has no type"))?;
        let (shapes, strings) = (self.shapes()?, self.strings()?);
        let locs = self.locs(strings.len()).ok_or_else(|| bad("a location is none"))?;
        let names = |column: &[u32]| -> Vec<Sym> { column.iter().map(|&s| Sym(s)).collect() };
        let values = |column: &[u32]| -> Vec<Value> { column.iter().map(|&v| Value(v)).collect() };
        let (pairs, rest) = self.updates.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(bad("an update has no next value"));
        }
        let graph = GraphBuf::make(|bump| {
            Ok::<_, Error>(Graph {
                name: Sym(self.name),
                ops: bump.alloc_slice_copy(&ops),
                op: bump.alloc_slice_copy(&op),
                args_at: bump.alloc_slice_copy(&self.args_at),
                outs_at: bump.alloc_slice_copy(&self.outs_at),
                attr: bump.alloc_slice_copy(&self.attr),
                loc: bump.alloc_slice_copy(&self.loc),
                args: bump.alloc_slice_copy(&values(&self.args)),
                extra: bump.alloc_slice_copy(&self.extra),
                def: bump.alloc_slice_fill_iter(self.def.iter().map(|&n| Node(n))),
                dtype: bump.alloc_slice_copy(&dtype),
                shape: bump.alloc_slice_fill_iter(self.shape.iter().map(|&s| Shape(s))),
                names: bump.alloc_slice_copy(&names(&self.names)),
                nodes_at: bump.alloc_slice_copy(&self.nodes_at),
                yields_at: bump.alloc_slice_copy(&self.yields_at),
                yields: bump.alloc_slice_copy(&values(&self.yields)),
                region_names: bump.alloc_slice_copy(&names(&self.region_names)),
                output_names: bump.alloc_slice_copy(&names(&self.output_names)),
                updates: bump.alloc_slice_fill_iter(pairs.iter().map(|&[leaf, next]| (Value(leaf), Value(next)))),
                shapes: shapes.freeze(bump),
                strings: strings.freeze(bump),
                locs: bump.alloc_slice_copy(&locs),
            })
        })?;
        verify::check(graph.view(), Stage::Fused)?;
        Ok(graph)
    }

    /// The shapes, interned. Errors: two are equal, or one does not fit in memory.
    fn shapes(&self) -> Result<Shapes> {
        let mut shapes = Shapes::default();
        for (i, dims) in runs(&self.dims_at, &self.dims)?.enumerate() {
            let dims = dims.iter().map(|&d| usize::try_from(d).unwrap_or(usize::MAX)).collect::<Vec<_>>();
            let id = shapes.intern(&dims).map_err(|why| Error::new(Kind::Syntax, why))?;
            if id.0 as usize != i {
                return Err(Error::new(Kind::Syntax, format!("shape {dims:?} is there twice")));
            }
        }
        Ok(shapes)
    }

    /// The strings, interned. Errors: two are equal, or one is not UTF-8.
    fn strings(&self) -> Result<Strings> {
        let mut strings = Strings::default();
        for (i, letters) in runs(&self.letters_at, &self.letters)?.enumerate() {
            let id = std::str::from_utf8(letters).ok().map(|s| strings.intern(s).0 as usize);
            if id != Some(i) {
                return Err(Error::new(Kind::Syntax, "a string is there twice, or is not UTF-8"));
            }
        }
        Ok(strings)
    }

    fn locs(&self, strings: usize) -> Option<Vec<Location<Sym>>> {
        let known = |s: u32| ((s as usize) < strings).then_some(Sym(s));
        let (all, rest) = self.locs.as_chunks::<3>();
        let one = |&[kind, a, b]: &[u32; 3]| match kind {
            0 => Some(Location::Nowhere),
            1 => Some(Location::Source(known(a)?, b)),
            2 => Some(Location::Text(a, b)),
            3 => Some(Location::Node(known(a)?)),
            _ => None,
        };
        all.iter().map(one).collect::<Option<Vec<_>>>().filter(|_| rest.is_empty())
    }
}

/// The runs of `items` that begin at `at`. An error if these do not rise from 0 to the number of items.
fn runs<'a, T>(at: &'a [u32], items: &'a [T]) -> Result<impl Iterator<Item = &'a [T]>> {
    let ends = at.first() == Some(&0) && at.last().map(|&end| end as usize) == Some(items.len());
    if !ends || !at.is_sorted() {
        return Err(Error::new(Kind::Syntax, "shapes or strings do not divide their items"));
    }
    Ok(at.windows(2).map(|w| &items[w[0] as usize..w[1] as usize]))
}
