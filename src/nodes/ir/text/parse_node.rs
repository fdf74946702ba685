//! The parser of nodes: `%a, %b = op %x, %y field=value : f32[2], i32[2]`.
//!
//! Invariant: attributes follow from the schema of the op. The only ops with special rules are the named leaves and
//! `arg`.

use super::lexer::{Tok, Token};
use super::parse_type::parsed_type_fields;
use super::parser::{Defined, Parser};
use super::renamed::instead_of;
use super::strings::brief_text_string;
use crate::arena::{Region, Sym, Value};
use crate::error::{Error, Kind, Result};
use crate::names::nearest_name;
use crate::nodes::ir::attrs::{Attr, Field, Owned};
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::opdef::{Flags, Op};

impl<'t> Parser<'t, '_> {
    /// Parses a line that defines values.
    pub(super) fn parse_node_statement(&mut self, entry: bool) -> Result<()> {
        let start = self.tok;
        let mut outs = Vec::new();
        let found = self.parse_node(entry, &start, &mut outs);
        let values = found.as_deref().unwrap_or(&[]);
        for (i, d) in outs.iter().enumerate() {
            self.bind(d, values.get(i).copied().unwrap_or(Value::NONE));
        }
        found.map(|_| ())
    }

    /// Parses `%a, %b = op …` and emits it. Its results; none after a recorded error.
    fn parse_node(&mut self, entry: bool, start: &Token<'t>, outs: &mut Vec<Defined<'t>>) -> Result<Vec<Value>> {
        while let Tok::Value(name) = self.tok.tok {
            outs.push(self.define(name)?);
            if !self.comma() {
                break;
            }
        }
        self.expect(b'=', "= and an op")?;
        let (op, at) = (self.parse_node_op(entry)?, self.before);
        let def = self.e.ops[op.0 as usize];
        let args = self.parse_values()?;
        let mut attrs = self.parse_node_attrs(def.name, def.attrs)?;
        let types = self.parse_node_types()?;
        let loc = self.location()?;
        self.end_of_line()?;
        if op.is_named_leaf() && attrs[0].is_none() {
            let name = outs.first().map_or(Sym::NONE, |d| d.name);
            attrs[0] = name.is_some().then_some(Owned::Sym(name));
            if attrs[0].is_none() {
                return Err(self.error(start, format!("a leaf has a name, not a number: %name = {}", def.name)));
            }
        }
        self.fill_node_type(def.attrs, &mut attrs, types.first());
        let attrs = self.complete_node_attrs(def.name, def.attrs, attrs, &at)?;
        if attrs.contains(&Owned::Region(Region::NONE)) {
            return Ok(Vec::new());
        }
        self.set_location(start);
        let first = self.e.nodes();
        let found = self.emit_parsed_node(op, &args, &attrs);
        // An error of the node has the location of this line, not `loc`.
        if let Some(loc) = loc {
            self.e.relocate(first, loc);
        }
        self.keep_emitted();
        if found.first() == Some(&Value::NONE) {
            return Ok(Vec::new());
        }
        self.check_node_results(start, def.name, outs.len(), &found, &types);
        Ok(found)
    }

    fn emit_parsed_node(&mut self, op: Op, args: &[Value], attrs: &[Owned]) -> Vec<Value> {
        let borrowed: Vec<Attr<'_>> = attrs.iter().map(Owned::as_attr).collect();
        match (op.is_named_leaf(), attrs.first()) {
            (true, Some(&Owned::Sym(name))) if args.is_empty() => {
                let name = self.e.strings.str(name).to_string();
                vec![self.e.leaf(op, &name, &borrowed[1..])]
            }
            _ => {
                let outs = self.e.emit(op, args, &borrowed);
                if outs.at(0) == Value::NONE { vec![Value::NONE] } else { outs.iter().collect() }
            }
        }
    }

    fn parse_node_op(&mut self, entry: bool) -> Result<Op> {
        let t = self.tok;
        let Tok::Word(word) = t.tok else { return Err(self.expected("an op")) };
        if t.first {
            return Err(self.expected("an op"));
        }
        let Some(&op) = self.ops.get(word) else {
            let near = instead_of(word).unwrap_or_else(|| nearest_name(word, self.e.ops.iter().map(|d| d.name)));
            let own = "; an op of your own is read by `parse_with`, given its definition";
            let near = if near.is_empty() { own.to_string() } else { near };
            return Err(self.error(&t, format!("there is no op {}{near}", brief_text_string(word))));
        };
        self.advance();
        let flags = self.e.ops[op.0 as usize].flags;
        match op {
            Op::ARG => Err(self.error(&t, "arguments stand in a region's head: region @body(%x: f32[4])")),
            _ if !entry && (op.is_named_leaf() || flags.has(Flags::EFFECT)) => {
                Err(self.error(&t, format!("{word} stands in the graph only, not in a region")))
            }
            _ => Ok(op),
        }
    }

    /// `: f32[2], i32[2]`.
    fn parse_node_types(&mut self) -> Result<Vec<Ty>> {
        let mut types = Vec::new();
        let mut more = self.is(b':') && !self.tok.first;
        while more {
            self.advance();
            types.push(self.parse_type()?);
            more = self.is(b',') && !self.tok.first;
        }
        Ok(types)
    }

    fn fill_node_type(&self, schema: &[Field], attrs: &mut [Option<Owned>], ty: Option<&Ty>) {
        if let (Some((d, s)), Some(ty)) = (parsed_type_fields(schema), ty) {
            attrs[d].get_or_insert(Owned::DType(ty.dtype));
            attrs[s].get_or_insert(Owned::Shape(ty.shape));
        }
    }

    pub(super) fn complete_node_attrs(
        &self,
        op: &str,
        schema: &[Field],
        attrs: Vec<Option<Owned>>,
        at: &Token<'t>,
    ) -> Result<Vec<Owned>> {
        let by_type = parsed_type_fields(schema);
        let absent = |i: usize| schema[i].optional.then_some(Owned::Absent);
        let one = |(i, a): (usize, Option<Owned>)| {
            a.or_else(|| absent(i)).ok_or_else(|| match by_type {
                Some((d, s)) if !self.lone && (i == d || i == s) => {
                    self.error(at, format!("{op} needs its type at the end of the line, like : f32[2,3]"))
                }
                _ => self.error(at, format!("attribute {} of {op} is missing", schema[i].name)),
            })
        };
        attrs.into_iter().enumerate().map(one).collect()
    }

    /// Checks the number of results and their types against the text.
    fn check_node_results(&mut self, start: &Token<'t>, op: &str, names: usize, found: &[Value], types: &[Ty]) {
        let n = found.len();
        if names != n {
            let why = format!("{op} has {n} result{}, and {names} stand before the =", if n == 1 { "" } else { "s" });
            return self.keep(self.error(start, why));
        }
        if !types.is_empty() && types.len() != n {
            let why = format!(
                "{op} has {n} result{}, and {} types stand after it",
                if n == 1 { "" } else { "s" },
                types.len()
            );
            return self.keep(self.error(start, why));
        }
        for (i, (&v, &stated)) in found.iter().zip(types).enumerate() {
            let ty = self.e.ty(v);
            if ty != stated {
                let show = |ty: Ty| format!("{}{}", ty.dtype, self.e.shapes.dims(ty.shape));
                let which = if n == 1 { "the result".to_string() } else { format!("result {i}") };
                let why = format!("{which} of {op} is {}, not {} as stated", show(ty), show(stated));
                self.keep(Error::new(Kind::Shape, why).at(self.location_of(start)));
            }
        }
    }
}
