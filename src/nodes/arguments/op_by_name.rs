//! Ops by name: for bindings of other languages, and for programs that choose ops at run time.

use crate::error::{Error, Kind, Result};
use crate::names::nearest_name;
use crate::nodes::arguments::axes::axis_from_front;
use crate::nodes::arguments::broadcast::broadcast_dims;
use crate::nodes::ir::attrs::{Attr, Field, Kind as FieldKind, Owned};
use crate::nodes::ir::batch::Batch;
use crate::nodes::ir::builder::{Builder, Routine, Var};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::{Lower, Op, OpDef};
use crate::nodes::ir::results::Results;
use crate::nodes::ir::text::{describe_attr_kind, instead_of, parse_attr_text};

/// The value of an attribute, as [`Builder::op`] takes it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Given<'a> {
    /// A bool.
    Bool(bool),
    /// An integer; where a number or an element count is asked for, its value.
    Int(i64),
    /// A number.
    F64(f64),
    /// Integers; where a shape or a list of numbers is asked for, that.
    Ints(&'a [i64]),
    /// Numbers.
    Floats(&'a [f64]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A string, the name of an element type or of a choice, or any other value as the text form writes it.
    Text(&'a str),
    /// A region.
    Region(Routine<'a>),
}

impl std::fmt::Display for Given<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Given::Bool(b) => write!(f, "{b}"),
            Given::Int(i) => write!(f, "{i}"),
            Given::F64(x) => write!(f, "{x:?}"),
            Given::Ints(list) => write!(f, "{list:?}"),
            Given::Floats(list) => write!(f, "{list:?}"),
            Given::Bytes(b) => write!(f, "{} bytes", b.len()),
            Given::Text(s) => write!(f, "{s:?}"),
            Given::Region(_) => write!(f, "a region"),
        }
    }
}

impl Builder {
    /// Adds a node of the op called `name`, as `docs/ops.md` lists it, with attributes by name. Each attribute must be
    /// given, but optional ones. Axes (`axis`, `axes`) may count from the end of the first operand's shape. Operands of
    /// a pointwise op broadcast. The results, or none after an error.
    ///
    /// Errors are those of the text form: an unknown op or attribute, with the nearest name; an attribute that is
    /// missing, given twice or of another kind; and those of the op. Leaves are refused: [`Builder::input`],
    /// [`Builder::param`] and [`Builder::state`] make them.
    ///
    /// ```
    /// use arenagrad::graph::Given;
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let x = g.input("x", [2, 3], DType::F32);
    /// let y = g.op("softmax", &[x], &[("axis", Given::Int(-1))])[0];
    /// assert_eq!(y.dims()[..], [2, 3]);
    /// g.op("softmax", &[x], &[("axes", Given::Int(1))]);
    /// let e = g.finish([y]).unwrap_err().to_string();
    /// assert!(e.starts_with("softmax has no attribute axes; did you mean axis?"), "{e}");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn op(&self, name: &str, args: &[Var<'_>], attrs: &[(&str, Given<'_>)]) -> Results<'_> {
        let refuse = |e: Error| {
            self.fail(e.kind, e.message);
            Results::new(self, Vec::new())
        };
        let (op, def) = match self.op_called(name) {
            Ok(found) => found,
            Err(e) => return refuse(e),
        };
        if !self.owns(def.name, args) || args.iter().any(|x| !x.is_some()) {
            return Results::new(self, Vec::new());
        }
        let rank = args.first().map_or(0, |x| x.rank());
        let owned = match self.given_attrs(def, rank, attrs) {
            Ok(owned) => owned,
            Err(e) => return refuse(e),
        };
        let words: Vec<Attr<'_>> = owned.iter().map(Owned::as_attr).collect();
        match self.common_shape(op, def, args) {
            Some(args) => self.emit(op, &args, &words),
            None => self.emit(op, args, &words),
        }
    }

    /// The op called `name` and its definition.
    fn op_called(&self, name: &str) -> Result<(Op, &'static OpDef)> {
        self.with(|e| {
            let Some(at) = e.ops.iter().position(|d| d.name == name) else {
                let near = instead_of(name).unwrap_or_else(|| nearest_name(name, e.ops.iter().map(|d| d.name)));
                return Err(Error::new(Kind::Name, format!("there is no op {name:?}{near}")));
            };
            let op = Op(at as u16);
            if op.is_named_leaf() || op == Op::ARG {
                let text = format!("{name} is a leaf: the builder's own methods make leaves");
                return Err(Error::new(Kind::Name, text));
            }
            Ok((op, e.ops[at]))
        })
    }

    /// The attributes of `def` from `given`, in the order of the schema.
    fn given_attrs(&self, def: &'static OpDef, rank: usize, given: &[(&str, Given<'_>)]) -> Result<Vec<Owned>> {
        let fault = |text: String| Error::new(Kind::Syntax, text);
        let mut found: Vec<Option<Owned>> = vec![None; def.attrs.len()];
        for &(name, value) in given {
            let Some(i) = def.attrs.iter().position(|f| f.name == name) else {
                let near = nearest_name(name, def.attrs.iter().map(|f| f.name));
                return Err(fault(format!("{} has no attribute {name}{near}", def.name)));
            };
            let owned = self.given_attr(def, &def.attrs[i], rank, value)?;
            if found[i].replace(owned).is_some() {
                return Err(fault(format!("attribute {name} of {} is given twice", def.name)));
            }
        }
        let one = |(value, field): (Option<Owned>, &Field)| {
            let absent = field.optional.then_some(Owned::Absent);
            value.or(absent).ok_or_else(|| fault(format!("attribute {} of {} is missing", field.name, def.name)))
        };
        found.into_iter().zip(def.attrs).map(one).collect()
    }

    /// The value of the attribute `field` of `def`.
    fn given_attr(&self, def: &OpDef, field: &'static Field, rank: usize, given: Given<'_>) -> Result<Owned> {
        let owned = match (field.kind, given) {
            (FieldKind::Bool, Given::Bool(b)) => Owned::Bool(b),
            (FieldKind::Int, Given::Int(i)) if field.name == "axis" => Owned::Int(axis_from_front(i, rank)),
            (FieldKind::Int, Given::Int(i)) => Owned::Int(i),
            (FieldKind::F64, Given::F64(x)) => Owned::F64(x),
            (FieldKind::F64, Given::Int(i)) => Owned::F64(i as f64),
            (FieldKind::Ints, Given::Ints(list)) if field.name == "axes" => {
                let mut axes: Vec<i64> = list.iter().map(|&i| axis_from_front(i, rank)).collect();
                // Those of a reduction are a set.
                if def.attrs.iter().any(|f| f.name == "keep") {
                    axes.sort_unstable();
                }
                Owned::Ints(axes)
            }
            (FieldKind::Ints, Given::Ints(list)) => Owned::Ints(list.to_vec()),
            (FieldKind::Floats, Given::Floats(list)) => Owned::Floats(list.to_vec()),
            (FieldKind::Floats, Given::Ints(list)) => Owned::Floats(list.iter().map(|&i| i as f64).collect()),
            (FieldKind::Bytes, Given::Bytes(bytes)) => Owned::Bytes(bytes.to_vec()),
            (FieldKind::Sym, Given::Text(s)) => Owned::Sym(self.sym(s)),
            (FieldKind::Region, Given::Region(routine)) if std::ptr::eq(routine.g, self) => {
                Owned::Region(routine.region)
            }
            (FieldKind::DType, Given::Text(s)) if DType::parse(s).is_some() => {
                DType::parse(s).map_or(Owned::Absent, Owned::DType)
            }
            (FieldKind::Shape, Given::Ints(list)) => {
                let dims: Option<Vec<usize>> = list.iter().map(|&d| usize::try_from(d).ok()).collect();
                let dims = dims.ok_or_else(|| self.wrong_attr(def, field, given))?;
                let shape = self.with(|e| e.shapes.intern(&dims));
                Owned::Shape(shape.map_err(|m| Error::new(Kind::Shape, m))?)
            }
            (kind, Given::Text(s)) if !matches!(kind, FieldKind::Region) => {
                self.with(|e| parse_attr_text(def.name, std::slice::from_ref(field), s, e))?
            }
            _ => return Err(self.wrong_attr(def, field, given)),
        };
        Ok(owned)
    }

    fn wrong_attr(&self, def: &OpDef, field: &Field, given: Given<'_>) -> Error {
        let looks = describe_attr_kind(&field.kind);
        Error::new(Kind::Syntax, format!("attribute {} of {} takes {looks}, not {given}", field.name, def.name))
    }

    /// The operands of a pointwise op, or of a formula of the engine's of such ops, broadcast to their common shape;
    /// `None` if they need none. A user's op may take leading axes for a batch and be no pointwise one.
    #[track_caller]
    fn common_shape(&self, op: Op, def: &OpDef, args: &[Var<'_>]) -> Option<Vec<Var<'_>>> {
        let first = args.first()?.dims();
        let formula = op.is_built_in() && matches!(def.batch, Batch::Leading);
        let pointwise = matches!(def.lower, Lower::Tile(..)) || (formula && matches!(def.lower, Lower::Expand));
        if !pointwise || args.iter().all(|x| x.dims() == first) {
            return None;
        }
        let common = args.iter().try_fold(first, |dims, x| broadcast_dims(&dims, &x.dims()))?;
        Some(args.iter().map(|x| self.var_of(x.id()).broadcast(common)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{DType, Init};

    /// What `finish` says after the op `name` of `x`, `f32[2,3]`, and `y`, `f32[3]`.
    fn told(name: &str, operands: usize, attrs: &[(&str, Given<'_>)]) -> String {
        let g = Builder::new("g");
        let all = [g.input("x", [2, 3], DType::F32), g.input("y", [3], DType::F32)];
        let outs: Vec<Var<'_>> = g.op(name, &all[..operands], attrs).into();
        let said = |e: Error| e.message;
        g.finish(outs).map_or_else(said, |graph| graph.view().ty_text(graph.view().outputs()[0]))
    }

    #[test]
    fn attributes_are_values_or_texts() {
        assert_eq!(told("softmax", 1, &[("axis", Given::Int(-1))]), "f32[2,3]");
        assert_eq!(told("softmax", 1, &[("axis", Given::Text("1"))]), "f32[2,3]");
        assert_eq!(told("reduce_sum", 1, &[("axes", Given::Ints(&[-1])), ("keep", Given::Bool(false))]), "f32[2]");
        assert_eq!(told("reduce_sum", 1, &[("axes", Given::Ints(&[1, -2])), ("keep", Given::Bool(false))]), "f32[]");
        assert_eq!(told("cast", 1, &[("to", Given::Text("f64"))]), "f64[2,3]");
        assert_eq!(told("reshape", 1, &[("shape", Given::Ints(&[6]))]), "f32[6]");
        assert_eq!(told("leaky_relu", 1, &[("slope", Given::Int(1))]), "f32[2,3]");
        assert_eq!(
            told(
                "full",
                0,
                &[("value", Given::F64(0.5)), ("dtype", Given::Text("f32")), ("shape", Given::Text("[2]"))]
            ),
            "f32[2]"
        );
    }

    #[test]
    fn pointwise_ops_broadcast() {
        for name in ["atan2", "fmax", "fmin", "logaddexp", "xlogy"] {
            assert_eq!(told(name, 2, &[]), "f32[2,3]", "{name}");
        }
        assert!(told("mse_loss", 2, &[("reduction", Given::Text("none"))]).contains("differ"));
    }

    #[test]
    fn faults_are_those_of_the_text_form() {
        let axis = |given| told("softmax", 1, &[("axis", given)]);
        assert_eq!(axis(Given::F64(0.5)), "attribute axis of softmax takes a 64-bit integer, not 0.5");
        assert!(axis(Given::Text("last")).starts_with("attribute axis of softmax takes a 64-bit integer, not last"));
        assert!(axis(Given::Text("1 keep=true")).starts_with("softmax has no attribute keep"));
        assert_eq!(axis(Given::Int(-3)), "softmax(f32[2,3]): axis -3 is outside rank 2");
        assert_eq!(told("softmax", 1, &[]), "attribute axis of softmax is missing");
        let twice = [("axis", Given::Int(0)), ("axis", Given::Int(1))];
        assert_eq!(told("softmax", 1, &twice), "attribute axis of softmax is given twice");
        assert_eq!(told("softmx", 1, &[]), "there is no op \"softmx\"; did you mean softmax?");
        assert_eq!(told("input", 0, &[]), "input is a leaf: the builder's own methods make leaves");
        assert!(told("reshape", 1, &[("shape", Given::Ints(&[-1]))]).starts_with("attribute shape of reshape takes"));
    }

    #[test]
    fn values_of_another_builder_are_refused() {
        let (g, other) = (Builder::new("g"), Builder::new("other"));
        let x = other.param("x", [2], DType::F32, Init::Zeros);
        g.op("exp", &[x], &[]);
        assert!(g.error().unwrap().message.starts_with("exp: a value of another builder is used"));
    }
}
