//! A complex value as its two parts. All complex arithmetic is written in them.

use crate::error::Kind;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::emit::Definition;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::constant::attrs::FullAttrs;

/// The real and the imaginary part of a complex value.
#[derive(Clone, Copy)]
pub(in crate::nodes) struct Parts<'g> {
    pub(in crate::nodes) re: Var<'g>,
    pub(in crate::nodes) im: Var<'g>,
}

/// What a complex value is known to be made of.
enum Known {
    Parts([crate::arena::Value; 2]),
    Fill(f64),
}

impl<'g> Parts<'g> {
    /// The parts of a complex value. Those of a value that was just joined are what it was joined of.
    #[track_caller]
    pub(in crate::nodes) fn of(z: Var<'g>) -> Parts<'g> {
        let here = z.g.local(z);
        let known = z.g.with(|e| match e.def(here)? {
            Definition { op: Op::COMPLEX, args, .. } => Some(Known::Parts([*args.first()?, *args.get(1)?])),
            Definition { op: Op::FULL, attrs, .. } => Some(Known::Fill(FullAttrs::of(&attrs).value)),
            _ => None,
        });
        match known {
            Some(Known::Parts([re, im])) => Parts { re: z.g.var(re), im: z.g.var(im) },
            Some(Known::Fill(x)) => {
                let part = |x: f64| z.g.full(x, z.dims(), z.dtype().part());
                Parts { re: part(x), im: part(0.0) }
            }
            None => Parts { re: z.g.emit1(Op::REAL, &[z], &[]), im: z.g.emit1(Op::IMAG, &[z], &[]) },
        }
    }

    /// The complex value.
    #[track_caller]
    pub(in crate::nodes) fn join(self) -> Var<'g> {
        self.re.complex(self.im)
    }

    /// `f` of each part.
    pub(in crate::nodes) fn each(self, f: impl Fn(Var<'g>) -> Var<'g>) -> Parts<'g> {
        Parts { re: f(self.re), im: f(self.im) }
    }

    /// `f` of each pair of parts of this and `b`.
    pub(in crate::nodes) fn both(self, b: Parts<'g>, f: impl Fn(Var<'g>, Var<'g>) -> Var<'g>) -> Parts<'g> {
        Parts { re: f(self.re, b.re), im: f(self.im, b.im) }
    }

    /// Whether both parts are 0.
    pub(in crate::nodes) fn is_zero(self) -> Var<'g> {
        self.re.equal(0.0).logical_and(self.im.equal(0.0))
    }

    /// This where `c` is true, `b` elsewhere.
    pub(in crate::nodes) fn chosen(c: Var<'g>, a: Parts<'g>, b: Parts<'g>) -> Parts<'g> {
        a.both(b, |a, b| c.select(a, b))
    }

    /// The number `re + i·im` in the shape of this.
    pub(in crate::nodes) fn full(self, re: f64, im: f64) -> Parts<'g> {
        Parts { re: self.re.full_like(re), im: self.im.full_like(im) }
    }
}

/// True if `z` is a complex value.
pub(in crate::nodes) fn has_parts(z: Var<'_>) -> bool {
    z.is_some() && z.dtype().is_complex()
}

/// The parts of two complex operands of `op`; an error if their types differ. `None` if neither is complex, or after an
/// error of another builder.
#[track_caller]
pub(in crate::nodes) fn parts_of_pair<'g>(op: Op, a: Var<'g>, b: Var<'g>) -> Option<Result<[Parts<'g>; 2], Var<'g>>> {
    if !a.is_some() || !b.is_some() || !(has_parts(a) || has_parts(b)) || !a.g.owns(a.g.op_name(op), &[b]) {
        return None;
    }
    if a.dtype() != b.dtype() {
        let text = format!("{}({a:?}, {b:?}): operand types differ; cast one of them", a.g.op_name(op));
        return Some(Err(a.g.fail(Kind::Shape, text)));
    }
    Some(Ok([Parts::of(a), Parts::of(b)]))
}
