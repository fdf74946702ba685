//! The growing columns of a graph, with shape inference and hash-consing at every node.
//!
//! Errors stick: the first one is kept with its location, the results of a failed node are [`Value::NONE`], nodes on
//! such operands are skipped, and [`Emit::finish`] returns the error. So rules and builders are plain expressions.
//!
//! Value ids count from 0 in each region; `finish` lays the regions end to end.

use super::attrs::{Attr, Attrs, attrs_are_inline};
use super::dtype::{DType, Ty};
use super::flags::Flags;
use super::graph::Graph;
use super::infer::{Infer, Signature};
use super::opdef::{Op, OpDef, definition_fault};
use crate::arena::dims::Dims;
use crate::arena::shapes::Shapes;
use crate::arena::strings::Strings;
use crate::arena::{Node, Region, Shape, Sym, Value, ids::Id};
use crate::error::{Error, Kind, Location, Result};
use body::Body;
use hashbrown::DefaultHashBuilder;
use std::hash::{BuildHasher, Hash, Hasher};

mod body;
mod equal_regions;
mod finish;
mod leaves;
mod limits;
mod locations;
mod loop_captures;
mod names;
mod outputs;
mod outs;
mod regions;

pub use body::Closed;
pub use limits::MAX_NODES;
pub use outs::Outs;
pub use regions::Aside;

/// A node as [`Emit::def`] shows it.
pub struct Definition<'e> {
    /// The op.
    pub op: Op,
    /// Operands.
    pub args: &'e [Value],
    /// Attributes.
    pub attrs: Attrs<'e>,
}

/// A graph under construction.
pub struct Emit {
    /// The op table.
    pub ops: Vec<&'static OpDef>,
    /// Strings.
    pub strings: Strings,
    /// Shapes.
    pub shapes: Shapes,
    name: Sym,
    extra: Vec<u32>,
    locs: Vec<Location<Sym>>,
    loc_ids: hashbrown::HashMap<Location<Sym>, u32>,
    done: Vec<Body>,
    open: Vec<Body>,
    sigs: Vec<Signature>,
    leaves: hashbrown::HashMap<Sym, Value>,
    outputs: Vec<(Sym, Value)>,
    updates: Vec<(Value, Value)>,
    // By name and by leaf, so that each is found in constant time.
    outputs_seen: hashbrown::HashMap<Sym, Value>,
    /// The place in `updates` of the update of a leaf.
    update_of: hashbrown::HashMap<Value, usize>,
    equal: equal_regions::EqualRegions,
    /// Regions of copied fused ops.
    fused: hashbrown::HashSet<u32>,
    scopes: u32,
    /// Number of values in regions that are set aside.
    aside: usize,
    /// Nodes and operands of all regions.
    count: limits::LimitCount,
    here: u32,
    error: Option<Error>,
    /// The layers that are being built, from the outermost.
    layers: Vec<Sym>,
    /// Whether a leaf whose name is taken is the leaf that has the name.
    shares_leaves: bool,
    /// True after [`Emit::finish_shared`]: nothing more can be written.
    ended: bool,
    hasher: DefaultHashBuilder,
    words: Vec<u32>,
    tys: Vec<Ty>,
    out_tys: Vec<Ty>,
}

impl Emit {
    /// An empty graph with the name and the tables of `g`: ids of shapes, strings, ops and locations of `g` stay valid.
    pub fn like(g: &Graph<'_>) -> Emit {
        let strings = Strings::seeded(g.strings);
        let mut e =
            Emit::with_tables(g.ops.to_vec(), strings, Shapes::seeded(g.shapes), g.locs.to_vec(), g.str(g.name));
        e.extra.reserve(g.extra.len());
        // Most passes copy most nodes.
        e.current_mut().reserve(g.region_nodes(g.entry()).len(), g.region_values(g.entry()).len(), g.args.len());
        e
    }

    pub(in crate::nodes) fn with_tables(
        ops: Vec<&'static OpDef>,
        strings: Strings,
        shapes: Shapes,
        locs: Vec<Location<Sym>>,
        name: &str,
    ) -> Emit {
        let mut e = Emit {
            ops,
            strings,
            shapes,
            name: Sym::NONE,
            extra: Vec::new(),
            loc_ids: locs.iter().enumerate().map(|(i, &l)| (l, i as u32)).collect(),
            locs,
            done: Vec::new(),
            open: vec![Body::new()],
            sigs: Vec::new(),
            leaves: Default::default(),
            outputs: Vec::new(),
            updates: Vec::new(),
            outputs_seen: Default::default(),
            update_of: Default::default(),
            equal: Default::default(),
            fused: Default::default(),
            scopes: 0,
            aside: 0,
            count: limits::LimitCount::default(),
            here: u32::MAX,
            error: None,
            layers: Vec::new(),
            shares_leaves: false,
            ended: false,
            hasher: Default::default(),
            words: Vec::new(),
            tys: Vec::new(),
            out_tys: Vec::new(),
        };
        e.name = e.strings.intern(name);
        e
    }

    /// Adds a custom op to the op table. Another op of its name, or a definition with a [`definition_fault`], is an
    /// error.
    pub fn register(&mut self, def: &'static OpDef) -> Op {
        let found = self.ops.iter().position(|d| std::ptr::eq(*d, def));
        if let (None, Some(why)) = (found, definition_fault(def)) {
            self.fail(Error::new(Kind::Verify, format!("op {:?}: {why}", def.name)));
        }
        if found.is_none() && self.ops.iter().any(|d| d.name == def.name) {
            self.fail(Error::new(
                Kind::Name,
                format!("an op called {} exists already; a custom op is a `static`", def.name),
            ));
        }
        Op(found.unwrap_or_else(|| {
            self.ops.push(def);
            self.ops.len() - 1
        }) as u16)
    }

    fn current(&self) -> &Body {
        // There is always an open region: `new` opens the entry, and `finish` consumes `self`.
        &self.open[self.open.len() - 1]
    }

    fn current_mut(&mut self) -> &mut Body {
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    /// Type of `v`; an `f32` type of some shape for [`Value::NONE`], which only stands after an error.
    #[inline]
    pub fn ty(&self, v: Value) -> Ty {
        self.current().ty.get(v.at()).copied().unwrap_or(Ty { dtype: DType::F32, shape: Shape(0) })
    }

    /// Dimensions of `v`; `[]` for [`Value::NONE`].
    pub fn dims(&self, v: Value) -> Dims {
        if v == Value::NONE { Dims::default() } else { self.shapes.dims(self.ty(v).shape) }
    }

    /// Element type of `v`.
    pub fn dtype(&self, v: Value) -> DType {
        self.ty(v).dtype
    }

    /// The node that defines `v` in the open region.
    pub fn def(&self, v: Value) -> Option<Definition<'_>> {
        let b = self.current();
        let n = b.def.get(v.at())?.at();
        Some(Definition { op: b.op[n], args: b.args_of(n), attrs: self.attrs_in(b, n) })
    }

    /// Number of nodes in the open region.
    pub fn nodes(&self) -> usize {
        self.current().op.len()
    }

    /// Number of values in all regions so far, those set aside included.
    pub fn all_values(&self) -> usize {
        self.done.iter().chain(&self.open).map(|b| b.def.len()).sum::<usize>() + self.aside
    }

    /// Number of values in the open region.
    pub fn values(&self) -> usize {
        self.current().def.len()
    }

    fn attrs_in<'x>(&'x self, b: &'x Body, n: usize) -> Attrs<'x> {
        let fields = self.ops[b.op[n].0 as usize].attrs;
        let word = &b.attr[n];
        let words = if fields.is_empty() {
            &[]
        } else if attrs_are_inline(fields) {
            std::slice::from_ref(word)
        } else {
            let at = *word as usize;
            &self.extra[at + 1..at + 1 + self.extra[at] as usize]
        };
        Attrs { fields, words }
    }

    /// Records `e`, unless there is an earlier error.
    pub fn fail(&mut self, e: Error) {
        if self.error.is_none() {
            let location = self.location();
            let layer = self.layers.last().map(|&name| self.strings.str(name));
            let e = layer.map_or(e.clone(), |name| e.context(format!("layer {name:?}")));
            self.error = Some(e.at(location));
        }
    }

    /// The recorded error.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Takes the recorded error. For the parser, which continues with the next statement.
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Adds a node, or finds an equal pure one. The results.
    pub fn emit(&mut self, op: Op, args: &[Value], attrs: &[Attr<'_>]) -> Outs {
        let def = self.ops[op.0 as usize];
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        let outs = match self.encode_attrs(def, attrs, &mut words) {
            Err(e) => self.refuse(Kind::Shape, op, args, e),
            Ok(()) => self.emit_words(op, args, &words, None),
        };
        self.words = words;
        outs
    }

    /// Appends the words of the attributes of an op. An error says which is the first that does not fit.
    fn encode_attrs(&self, def: &OpDef, attrs: &[Attr<'_>], words: &mut Vec<u32>) -> Result<(), String> {
        let least = def.attrs.iter().filter(|f| !f.optional).count();
        if attrs.len() < least || attrs.len() > def.attrs.len() {
            return Err(format!("{} attributes where {} are asked for", attrs.len(), def.attrs.len()));
        }
        // Optional fields come last; those that are not named are absent.
        let given = attrs.iter().chain(std::iter::repeat(&Attr::Absent));
        given.zip(def.attrs).try_for_each(|(a, f)| self.knows(a).and_then(|()| a.encode(f, words)))
    }

    /// Whether the ids in `attr` exist here.
    fn knows(&self, attr: &Attr<'_>) -> Result<(), String> {
        match *attr {
            Attr::Shape(s) if s.at() >= self.shapes.len() => Err(format!("shape {s} is not of this graph")),
            Attr::Sym(s) if s.at() >= self.strings.len() => Err(format!("string {s} is not of this graph")),
            _ => Ok(()),
        }
    }

    /// Copies node `n` of `g`, from which this writer was made [`like`](Emit::like), with operands in this graph.
    /// Attribute words carry over, except regions, which `regions` maps.
    pub fn copy(&mut self, g: &Graph<'_>, n: Node, args: &[Value], regions: &[Region]) -> Outs {
        let (op, attrs) = (g.op[n.at()], g.attrs(n));
        let old = g.args_of(n);
        let types_hold = args.iter().zip(old).all(|(&a, &o)| a != Value::NONE && self.ty(a) == g.ty(o));
        let mut tys = std::mem::take(&mut self.tys);
        tys.clear();
        tys.extend(g.outs_of(n).map(|v| g.ty(v)));
        let known = types_hold.then_some(&tys[..]);
        let outs = if attrs.fields.iter().any(|f| f.kind == super::attrs::Kind::Region) {
            let owned: Vec<_> = attrs.iter().map(|(_, a)| a).collect();
            let mapped: Vec<_> = owned
                .iter()
                .map(|a| match a.as_attr() {
                    Attr::Region(r) => {
                        let r = regions.get(r.at()).copied().unwrap_or(Region::NONE);
                        Attr::Region(if args.contains(&Value::NONE) { r } else { self.region_of_copy(op, r) })
                    }
                    a => a,
                })
                .collect();
            self.emit(op, args, &mapped)
        } else {
            self.emit_words(op, args, attrs.words, known)
        };
        for (v, o) in outs.iter().zip(g.outs_of(n)) {
            let name = g.names[o.at()];
            if name.is_some() {
                self.set_name(v, name);
            }
        }
        self.tys = tys;
        outs
    }

    /// The hash of a node. Operands that may be exchanged have the same one in either order.
    fn hash(&self, op: Op, args: &[Value], words: &[u32]) -> u64 {
        let mut h = self.hasher.build_hasher();
        op.0.hash(&mut h);
        match args {
            &[a, b] if self.exchanges(op) => [a.min(b), a.max(b)].hash(&mut h),
            _ => args.hash(&mut h),
        }
        self.words_of_equal(op, words).hash(&mut h);
        h.finish()
    }

    /// Whether the operands of `op` may be exchanged.
    fn exchanges(&self, op: Op) -> bool {
        self.ops[op.0 as usize].flags.has(Flags::COMMUTES)
    }

    /// Adds a node whose attribute words are known, and maybe its result types.
    fn emit_words(&mut self, op: Op, args: &[Value], words: &[u32], known: Option<&[Ty]>) -> Outs {
        let def = self.ops[op.0 as usize];
        if self.is_over() || args.contains(&Value::NONE) {
            return Outs { first: Value::NONE, len: 0 };
        }
        if !def.arity.allows(args.len()) {
            return self.refuse(
                Kind::Arity,
                op,
                args,
                format!("{} operands where {} are asked for", args.len(), def.arity),
            );
        }
        let hash = if def.is_pure() { self.hash(op, args, words) } else { 0 };
        if def.is_pure() {
            let b = self.current();
            let exchanges = self.exchanges(op);
            let same_args = |known: &[Value]| match (known, args) {
                (&[a, b], &[x, y]) if exchanges => (a, b) == (x, y) || (a, b) == (y, x),
                _ => known == args,
            };
            let equal = self.words_of_equal(op, words);
            let same = |&n: &u32| {
                let n = n as usize;
                let known = || self.words_of_equal(op, self.attrs_in(b, n).words);
                b.op[n] == op && same_args(b.args_of(n)) && known() == equal
            };
            if let Some(&n) = b.table.find(hash, same) {
                return b.outs(n as usize);
            }
        }
        if let Err(e) = self.count.admit(args.len(), words.len(), self.extra.len()) {
            self.fail(Error::new(Kind::Verify, format!("{}: {e}", def.name)));
            return Outs { first: Value::NONE, len: 0 };
        }
        let mut out_tys = std::mem::take(&mut self.out_tys);
        out_tys.clear();
        match known {
            Some(tys) => out_tys.extend_from_slice(tys),
            None => {
                if let Err(e) = self.infer(op, args, words, &mut out_tys) {
                    self.out_tys = out_tys;
                    return self.refuse(Kind::Shape, op, args, e);
                }
            }
        }
        let outs = self.push(op, args, words, &out_tys, hash);
        self.out_tys = out_tys;
        outs
    }

    fn infer(&mut self, op: Op, args: &[Value], words: &[u32], out: &mut Vec<Ty>) -> Result<(), String> {
        let def = self.ops[op.0 as usize];
        let attrs = Attrs { fields: def.attrs, words };
        let args: Vec<Ty> = args.iter().map(|&a| self.ty(a)).collect();
        (def.infer)(&mut Infer { args: &args, attrs, shapes: &mut self.shapes, regions: &self.sigs, out })
    }

    fn push(&mut self, op: Op, args: &[Value], words: &[u32], tys: &[Ty], hash: u64) -> Outs {
        let def = self.ops[op.0 as usize];
        let attr = match words {
            [] => 0,
            [w] if attrs_are_inline(def.attrs) => *w,
            _ => {
                self.extra.push(words.len() as u32);
                self.extra.extend_from_slice(words);
                (self.extra.len() - words.len() - 1) as u32
            }
        };
        let here = self.here;
        let b = self.current_mut();
        let n = b.op.len();
        b.op.push(op);
        b.attr.push(attr);
        b.loc.push(here);
        b.args.extend_from_slice(args);
        b.args_at.push(b.args.len() as u32);
        for &ty in tys {
            b.def.push(Node::new(n));
            b.ty.push(ty);
            b.names.push(Sym::NONE);
        }
        b.outs_at.push(b.def.len() as u32);
        let outs = b.outs(n);
        if def.is_pure() {
            // The table moves out during the insertion, because rehashing reads the columns.
            let mut table = std::mem::take(&mut self.current_mut().table);
            table.insert_unique(hash, n as u32, |&n| {
                let b = self.current();
                self.hash(b.op[n as usize], b.args_of(n as usize), self.attrs_in(b, n as usize).words)
            });
            self.current_mut().table = table;
        }
        outs
    }

    fn refuse(&mut self, kind: Kind, op: Op, args: &[Value], why: String) -> Outs {
        if !args.contains(&Value::NONE) {
            let types: Vec<String> = args.iter().map(|&a| format!("{}{}", self.dtype(a), self.dims(a))).collect();
            let name = self.ops[op.0 as usize].name;
            self.fail(Error::new(kind, format!("{name}({}): {why}", types.join(", "))));
        }
        Outs { first: Value::NONE, len: 0 }
    }
}

#[cfg(test)]
mod tests;
