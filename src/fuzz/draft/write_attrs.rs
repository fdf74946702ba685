//! The attributes of a node as the draft writes them. Sizes that changed are replaced, and lists lose the entries that
//! belong to operands that are dropped.

use super::DraftResize;
use super::write::DraftWriter;
use crate::arena::{Node, Region, ids::Id};
use crate::error::Result;
use crate::nodes::Op;
use crate::nodes::ir::attrs::Owned;
use crate::nodes::ops::control::scan::Scan;
use crate::passes::region_users::regions_of_node;

/// Attribute `name` of a node whose operand loses its first axis, or its last: axes move down, and lists with an entry
/// for each axis lose one.
fn write_attr_without_axis(name: &str, attr: &mut Owned, first: bool) {
    let down = i64::from(first);
    match (name, attr) {
        ("axis", Owned::Int(axis)) => *axis -= down,
        ("axes", Owned::Ints(axes)) => axes.iter_mut().for_each(|axis| *axis -= down),
        ("starts" | "limits" | "steps" | "low" | "high" | "perm", Owned::Ints(list)) if !list.is_empty() => {
            list.remove(if first { 0 } else { list.len() - 1 });
            if name == "perm" {
                list.iter_mut().for_each(|axis| *axis -= down);
            }
        }
        _ => {}
    }
}

impl DraftWriter<'_, '_> {
    /// The attributes of `n` in the new graph.
    pub(super) fn attrs(&mut self, n: Node) -> Result<Vec<Owned>> {
        let mut attrs = self.d.attrs_of(n);
        self.count_operands_in_attrs(n, &mut attrs);
        let fields = self.d.src.def_of(n).attrs;
        for (a, f) in attrs.iter_mut().zip(fields) {
            if let Some(first) = self.attrs_lose_axis(n) {
                write_attr_without_axis(f.name, a, first);
            }
            match a {
                Owned::Region(r) => *r = self.regions.get(r.at()).copied().unwrap_or(Region::NONE),
                Owned::Shape(s) => *s = self.shape(*s)?,
                Owned::DType(t) => *t = self.dtype(*t),
                Owned::Int(i) => *i = self.attr_int(*i),
                Owned::Ints(list) => list.iter_mut().for_each(|i| *i = self.attr_int(*i)),
                _ => {}
            }
        }
        Ok(attrs)
    }

    /// Whether the first operand of `n` loses its first axis, or its last.
    fn attrs_lose_axis(&self, n: Node) -> Option<bool> {
        let src = self.d.src;
        let dims = src.args_of(n).first().map(|&v| src.dims(v))?;
        match self.d.resize? {
            DraftResize::DropFirst(size) if dims.first() == Some(&size) => Some(true),
            DraftResize::DropLast(size) if dims.last() == Some(&size) => Some(false),
            _ => None,
        }
    }

    fn attr_int(&self, i: i64) -> i64 {
        match (self.d.resize, usize::try_from(i)) {
            (Some(r @ (DraftResize::Exactly(from, _) | DraftResize::Multiples(from, _))), Ok(n)) if n >= from => {
                r.size(n) as i64
            }
            _ => i,
        }
    }

    /// Lowers the numbers of carries, constants and captures by the operands that go.
    fn count_operands_in_attrs(&self, n: Node, attrs: &mut [Owned]) {
        let src = self.d.src;
        let gone = |range: std::ops::Range<usize>| range.filter(|&i| !self.attrs_keep_operand(n, i)).count() as i64;
        let operands = src.args_of(n).len();
        let mut less = |name: &str, range| {
            let at = src.def_of(n).attrs.iter().position(|f| f.name == name);
            if let Some(Owned::Int(count)) = at.and_then(|at| attrs.get_mut(at)) {
                *count -= gone(range);
            }
        };
        match src.op[n.at()] {
            Op::SCAN => {
                let scan = Scan::of(&src.attrs(n));
                less("carries", 0..scan.carries);
                less("consts", scan.carries..scan.xs());
            }
            Op::CUSTOM_FN => {
                let captures = src.attrs(n).int(1).max(0) as usize;
                less("captures", operands.saturating_sub(captures)..operands);
            }
            _ => {}
        }
    }

    /// Whether the region of `n` still takes operand `i`.
    pub(super) fn attrs_keep_operand(&self, n: Node, i: usize) -> bool {
        let src = self.d.src;
        let arg = regions_of_node(src, n).next().and_then(|r| src.region_args(r).nth(i));
        arg.is_none_or(|arg| !self.d.dropped_args[arg.at()])
    }
}
