//! The printer of the text form. Debug output and messages of the verifier use it too.
//!
//! Invariant: the text of a sound graph parses to an equal graph.

use super::parse_type::parsed_type_fields;
use super::strings::{is_plain_string, quote_string};
use crate::arena::{Node, Region, Sym, Value, ids::Id};
use crate::error::Location;
use crate::nodes::ir::attrs::{Kind, Owned};
use crate::nodes::ir::graph::Graph;
use crate::nodes::ir::leaf::NameAttrs;
use crate::nodes::ir::opdef::Op;
use std::fmt::Write;

/// Options of [`print_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintOptions<'a> {
    /// Prints source locations of nodes and arguments: `loc("file.rs":12)`.
    pub locations: bool,
    /// The file name for locations in a text. Without it, these are not printed.
    pub file: Option<&'a str>,
}

/// `g` as text, without locations.
pub fn print(g: Graph<'_>) -> String {
    print_with(g, PrintOptions::default())
}

/// `g` as text, with `options`.
pub fn print_with(g: Graph<'_>, options: PrintOptions<'_>) -> String {
    let printer = Printer { options, ..Printer::new(g) };
    // A node prints as 40 to 60 bytes.
    let mut out = String::with_capacity(64 * g.nodes() + 64);
    for r in (0..g.regions()).map(Region::new) {
        printer.region(&mut out, r);
    }
    out
}

/// The debug form of a graph is its text form.
impl std::fmt::Debug for Graph<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print(*self))
    }
}

/// A graph with the labels of its values and regions.
pub(in crate::nodes) struct Printer<'a> {
    pub(super) g: Graph<'a>,
    /// Number of each value in its region.
    number: Vec<u32>,
    /// True if the value's name is its label.
    by_name: Vec<bool>,
    /// True if the region's name is its label.
    region_by_name: Vec<bool>,
    options: PrintOptions<'a>,
}

impl<'a> Printer<'a> {
    /// The labels of `g`. Its offsets must be monotone; other columns may be broken.
    pub(in crate::nodes) fn new(g: Graph<'a>) -> Printer<'a> {
        let (number, by_name) = (vec![0; g.values()], vec![false; g.values()]);
        let mut p = Printer { g, number, by_name, region_by_name: vec![], options: PrintOptions::default() };
        // For each string, the last region with a value of this name and the number of such values. The region number
        // saves clearing the counts between regions.
        let mut seen = vec![(u32::MAX, 0u32); g.strings.len()];
        for r in 0..g.regions() {
            let first = g.outs_at[g.nodes_at[r] as usize];
            let end = g.outs_at[g.nodes_at[r + 1] as usize];
            for pass in [0, 1] {
                for v in first..end {
                    let name = g.names[v as usize];
                    let Some(slot) = seen.get_mut(name.at()).filter(|_| !p.str(name).is_empty()) else { continue };
                    match (pass, slot.0 == r as u32) {
                        (0, true) => slot.1 += 1,
                        (0, false) => *slot = (r as u32, 1),
                        _ => p.by_name[v as usize] = slot.1 == 1 || p.is_leaf(Value(v), name),
                    }
                    p.number[v as usize] = v - first;
                }
            }
            (first..end).for_each(|v| p.number[v as usize] = v - first);
        }
        let called = &g.region_names[..g.regions() - 1];
        let mut uses = vec![0u32; g.strings.len()];
        called.iter().for_each(|s| uses.get_mut(s.at()).into_iter().for_each(|n| *n += 1));
        p.region_by_name =
            called.iter().map(|&s| uses.get(s.at()) == Some(&1) && !p.str(s).is_empty()).chain([true]).collect();
        p
    }

    /// The string of `s`; empty if there is none.
    fn str(&self, s: Sym) -> &'a str {
        if s.at() < self.g.strings.len() { self.g.str(s) } else { "" }
    }

    /// True if `v` is a leaf called `name`.
    fn is_leaf(&self, v: Value, name: Sym) -> bool {
        let g = &self.g;
        let n = g.def[v.at()].at();
        let op = g.op.get(n).copied().unwrap_or(Op::ARG);
        op.is_named_leaf() && g.attr.get(n).and_then(|&at| g.extra.get(at as usize + 1)) == Some(&name.0)
    }

    /// Appends `v` as an operand.
    pub(super) fn value(&self, out: &mut String, v: Value) {
        match self.by_name.get(v.at()) {
            Some(true) => write_named(out, '%', self.str(self.g.names[v.at()])),
            Some(false) => {
                let _ = write!(out, "%{}", self.number[v.at()]);
            }
            None => out.push_str("%?"),
        }
    }

    /// Appends `v` as it is defined.
    fn defined(&self, out: &mut String, v: Value) {
        self.value(out, v);
        let name = self.str(self.g.names[v.at()]);
        if !self.by_name[v.at()] && !name.is_empty() {
            quote_string(out, name);
        }
    }

    /// Appends the label of `r`.
    pub(super) fn region_label(&self, out: &mut String, r: Region) {
        match self.region_by_name.get(r.at()) {
            Some(true) => write_named(out, '@', self.str(self.g.region_names[r.at()])),
            _ => {
                let _ = write!(out, "@{}", r.0);
            }
        }
    }

    fn ty(&self, out: &mut String, v: Value) {
        let _ = write!(out, "{}{}", self.g.dtype[v.at()], self.g.dims(v));
    }

    /// Appends node `n`, whose ids must exist, without a line end.
    pub(in crate::nodes) fn node(&self, out: &mut String, n: Node) {
        let g = &self.g;
        let def = g.def_of(n);
        write_list(out, g.outs_of(n), |out, v| self.defined(out, v));
        out.push_str(if g.outs_of(n).len() > 0 { " = " } else { "" });
        out.push_str(def.name);
        if !g.args_of(n).is_empty() {
            out.push(' ');
            write_list(out, g.args_of(n).iter().copied(), |out, v| self.value(out, v));
        }
        for (i, (field, attr)) in g.attrs(n).iter().enumerate() {
            if attr != Owned::Absent && !self.is_elided(n, i) {
                let _ = write!(out, " {}=", field.name);
                write_attr(out, self, &field.kind, &attr);
            }
        }
        out.push_str(if g.outs_of(n).len() > 0 { " : " } else { "" });
        write_list(out, g.outs_of(n), |out, v| self.ty(out, v));
        self.location(out, n);
    }

    /// Appends the location of `n`, if the options ask for it and it is a line of a file.
    fn location(&self, out: &mut String, n: Node) {
        let g = &self.g;
        let at = g.loc.get(n.at()).and_then(|&at| g.locs.get(at as usize)).filter(|_| self.options.locations);
        let Some(loc) = at else { return };
        let (file, line) = match *loc {
            Location::Source(file, line) => (Some(self.str(file)), line),
            Location::Text(line, _) => (self.options.file, line),
            Location::Nowhere | Location::Node(_) => return,
        };
        if let (Some(file), 1..) = (file, line) {
            out.push_str(" loc(");
            quote_string(out, file);
            let _ = write!(out, ":{line})");
        }
    }

    /// True if the value's name or its type gives field `i` of `n`.
    fn is_elided(&self, n: Node, i: usize) -> bool {
        let (g, attrs) = (&self.g, self.g.attrs(n));
        let Some(first) = g.outs_of(n).next() else { return false };
        if g.op[n.at()].is_named_leaf() && i == 0 {
            return self.str(g.names[first.at()]) == self.str(NameAttrs::of(&attrs).name);
        }
        match parsed_type_fields(attrs.fields) {
            Some((d, s)) if i == d || i == s => {
                attrs.dtype(d) == g.dtype[first.at()] && attrs.shape(s) == g.shape[first.at()]
            }
            _ => false,
        }
    }

    fn region(&self, out: &mut String, r: Region) {
        let g = &self.g;
        let entry = r == g.entry();
        let args: Vec<Value> = if entry { Vec::new() } else { g.region_args(r).collect() };
        if entry {
            out.push_str("graph ");
            write_named(out, '@', self.str(g.name));
        } else {
            out.push_str("region ");
            self.region_label(out, r);
            let name = self.str(g.region_names[r.at()]);
            if !self.region_by_name[r.at()] && !name.is_empty() {
                quote_string(out, name);
            }
            out.push('(');
            write_list(out, args.iter().copied(), |out, v| {
                self.defined(out, v);
                out.push_str(": ");
                self.ty(out, v);
                self.location(out, g.def[v.at()]);
            });
            out.push(')');
        }
        out.push_str(" {\n");
        for n in g.region_nodes(r).skip(args.len()) {
            out.push_str("  ");
            self.node(out, n);
            out.push('\n');
        }
        self.tail(out, r, entry);
        out.push_str("\n}\n");
    }

    fn tail(&self, out: &mut String, r: Region, entry: bool) {
        let g = &self.g;
        if !entry {
            out.push_str(if g.region_yields(r).is_empty() { "  yield" } else { "  yield " });
            return write_list(out, g.region_yields(r).iter().copied(), |out, v| self.value(out, v));
        }
        for &(leaf, next) in g.updates {
            out.push_str("  update ");
            self.value(out, leaf);
            out.push_str(" <- ");
            self.value(out, next);
            out.push('\n');
        }
        out.push_str(if g.outputs().is_empty() { "  return" } else { "  return " });
        write_list(out, g.output_names.iter().zip(g.outputs()), |out, (&name, &v)| {
            let name = self.str(name);
            if is_plain_string(name) {
                out.push_str(name)
            } else {
                quote_string(out, name)
            }
            out.push('=');
            self.value(out, v);
        });
    }
}

fn write_named(out: &mut String, sigil: char, name: &str) {
    out.push(sigil);
    if is_plain_string(name) { out.push_str(name) } else { quote_string(out, name) }
}

fn write_list<T>(out: &mut String, items: impl IntoIterator<Item = T>, mut one: impl FnMut(&mut String, T)) {
    for (i, item) in items.into_iter().enumerate() {
        out.push_str(if i == 0 { "" } else { ", " });
        one(out, item);
    }
}

/// Appends attribute `a` of kind `kind`. `fields` reads what this writes, to the bit.
fn write_attr(out: &mut String, p: &Printer<'_>, kind: &Kind, a: &Owned) {
    let _ = match a {
        Owned::Bool(b) => write!(out, "{b}"),
        Owned::Int(i) => write!(out, "{i}"),
        Owned::F64(x) => write_f64(out, *x),
        Owned::DType(d) => write!(out, "{d}"),
        Owned::Shape(s) => write!(out, "{}", p.g.shape_dims(*s)),
        Owned::Ints(write_list) => {
            for (i, x) in write_list.iter().enumerate() {
                let _ = write!(out, "{}{x}", if i == 0 { "[" } else { "," });
            }
            out.write_str(if write_list.is_empty() { "[]" } else { "]" })
        }
        Owned::Floats(list) => {
            for (i, x) in list.iter().enumerate() {
                out.push(if i == 0 { '[' } else { ',' });
                let _ = write_f64(out, *x);
            }
            out.write_str(if list.is_empty() { "[]" } else { "]" })
        }
        Owned::Sym(s) => {
            quote_string(out, p.g.str(*s));
            Ok(())
        }
        Owned::Region(r) => {
            p.region_label(out, *r);
            Ok(())
        }
        Owned::Bytes(bytes) => {
            let digit = |d: u8| char::from(if d < 10 { b'0' + d } else { b'a' + d - 10 });
            out.push_str("0x");
            bytes.iter().for_each(|b| out.extend([digit(b >> 4), digit(b & 15)]));
            Ok(())
        }
        Owned::Choice(i) => match kind {
            Kind::Choice(names) => out.write_str(names.get(*i as usize).unwrap_or(&"?")),
            _ => Ok(()),
        },
        Owned::Absent => Ok(()),
    };
}

fn write_f64(out: &mut String, x: f64) -> std::fmt::Result {
    match x {
        _ if x.to_bits() == f64::NAN.to_bits() => out.write_str("nan"),
        // Any other pattern keeps its bits: equality of graphs is by bits.
        _ if x.is_nan() => write!(out, "nan0x{:016x}", x.to_bits()),
        _ => write!(out, "{x:?}"),
    }
}
