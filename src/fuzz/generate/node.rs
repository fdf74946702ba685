//! One drawn node: an op, a conformance case as it is or with the sizes of values at hand, and operands.

use super::Generator;
use crate::arena::{DType, Value};
use crate::nodes::case_regions::add_case_region;
use crate::nodes::ir::attrs::{Attr, Attrs, Owned};
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Case, Domain, Flags, Op, OpDef, has_generic_types};
use crate::nodes::ir::text::parse_attrs;
use crate::nodes::ir::text::parse_types;

/// Operand types and attributes of a node that is about to be drawn.
struct Plan {
    tys: Vec<Ty>,
    attrs: Vec<Owned>,
}

/// The domain of operand `i` of a case.
fn operand_domain(case: &Case, i: usize) -> Option<Domain> {
    case.domains.get(i).or(case.domains.last()).copied()
}

impl Generator<'_, '_> {
    /// Draws a node with its operands. Where nothing fits, nothing is drawn.
    pub(super) fn node(&mut self) {
        let total = self.rows.last().map_or(0, |r| r.0);
        if total == 0 {
            return;
        }
        let at = (self.draw)(total);
        let (_, op, def) = self.rows[self.rows.partition_point(|r| r.0 <= at)];
        let has_region = def.cases.iter().any(|c| c.attrs.contains('@'));
        let unfit = has_region && (!self.options.regions || def.flags.has(Flags::FUSED));
        if unfit || self.level > 0 && def.flags.has(Flags::EFFECT) {
            return;
        }
        let outs = match has_region && self.chance(3, 4) {
            true => self.node_with_region(op),
            false => self.node_of_case(op, def),
        };
        outs.into_iter().for_each(|v| self.name(v));
    }

    /// A node of one of the op's conformance cases.
    pub(super) fn node_of_case(&mut self, op: Op, def: &'static OpDef) -> Vec<Value> {
        let case = &def.cases[(self.draw)(def.cases.len() as u32) as usize];
        let floats: Vec<DType> = [DType::F32, DType::F64].into_iter().filter(|&d| self.may_have(d)).collect();
        if floats.is_empty() && has_generic_types(case.args) {
            return Vec::new();
        }
        let float = if floats.is_empty() { DType::F32 } else { self.pick(&floats) };
        let Ok(tys) = parse_types(case.args, float, &mut self.e) else { return Vec::new() };
        if !tys.iter().all(|&ty| self.fits(ty)) {
            return Vec::new();
        }
        add_case_region(&mut self.e, case, &tys);
        let Ok(attrs) = parse_attrs(def.attrs, case.attrs, &mut self.e) else { return Vec::new() };
        let plan = Plan { tys, attrs };
        let plan = match case.attrs.contains('@') {
            true => plan,
            false => match self.node_at_sizes_at_hand(def, case, &plan) {
                Some(plan) => plan,
                None if self.node_results_fit(def, &plan) => plan,
                None => return Vec::new(),
            },
        };
        let mut args = Vec::new();
        for (i, &ty) in plan.tys.iter().enumerate() {
            let Some(v) = self.adapt_operand(ty, operand_domain(case, i), def.is_pointwise()) else {
                return Vec::new();
            };
            args.push(v);
        }
        let attrs: Vec<Attr<'_>> = plan.attrs.iter().map(Owned::as_attr).collect();
        self.emit(op, &args, &attrs)
    }

    /// Whether values may have elements of `dtype`.
    pub(super) fn may_have(&self, dtype: DType) -> bool {
        self.options.dtypes.contains(&dtype)
    }

    /// Whether shape inference takes the plan, and its results may be.
    fn node_results_fit(&mut self, def: &'static OpDef, plan: &Plan) -> bool {
        let mut words = Vec::new();
        let encoded = plan.attrs.iter().zip(def.attrs).all(|(a, f)| a.as_attr().encode(f, &mut words).is_ok());
        if !encoded || plan.attrs.len() != def.attrs.len() {
            return false;
        }
        let (attrs, mut out) = (Attrs { fields: def.attrs, words: &words }, Vec::new());
        let mut cx = Infer { args: &plan.tys, attrs, shapes: &mut self.e.shapes, regions: &[], out: &mut out };
        let inferred = (def.infer)(&mut cx).is_ok();
        inferred && plan.tys.iter().chain(&out).all(|&ty| self.fits(ty))
    }

    /// The plan with the type of a recent value in the place of an operand's, if shape inference takes it.
    fn node_at_sizes_at_hand(&mut self, def: &'static OpDef, case: &Case, plan: &Plan) -> Option<Plan> {
        // Indices are drawn for the sizes of the case.
        let indexed =
            (0..plan.tys.len()).any(|i| matches!(operand_domain(case, i), Some(Domain::Index(_) | Domain::Count(_))));
        let floats = plan.tys.iter().all(|ty| ty.dtype.is_float());
        if plan.tys.is_empty() || indexed && !def.is_pointwise() || !floats && !def.is_pointwise() {
            return None;
        }
        for _ in 0..3 {
            let at = (self.draw)(plan.tys.len() as u32) as usize;
            let ty = self.recent().map(|v| self.e.ty(v))?;
            let whole = self.node_with_type(plan, at, ty);
            let sized = self.node_with_sizes(plan, at, ty);
            if let Some(plan) = whole.into_iter().chain(sized).find(|plan| self.node_results_fit(def, plan)) {
                return Some(plan);
            }
        }
        None
    }

    /// The plan with `ty` in the place of all operands of the type of operand `at`, and its shape in the place of that
    /// shape.
    fn node_with_type(&self, plan: &Plan, at: usize, ty: Ty) -> Option<Plan> {
        let old = plan.tys[at];
        let one = |t: Ty| match (t == old, t.shape == old.shape) {
            (true, _) => ty,
            (false, true) => Ty { shape: ty.shape, ..t },
            _ => t,
        };
        Some(Plan { tys: plan.tys.iter().map(|&t| one(t)).collect(), attrs: plan.attrs.clone() })
    }

    /// The plan with each size of operand `at` replaced by that of `ty`, wherever the size occurs.
    fn node_with_sizes(&mut self, plan: &Plan, at: usize, ty: Ty) -> Vec<Plan> {
        let (old, new) = (self.e.shapes.dims(plan.tys[at].shape), self.e.shapes.dims(ty.shape));
        if old.len() != new.len() || ty.dtype != plan.tys[at].dtype {
            return Vec::new();
        }
        let size = |n: usize| old.iter().position(|&o| o == n).map_or(n, |i| new[i]);
        let mut mapped = |s| {
            let dims: Vec<usize> = self.e.shapes.dims(s).iter().map(|&n| size(n)).collect();
            self.e.shapes.intern(&dims).ok()
        };
        let Some(tys) = plan.tys.iter().map(|t| Some(Ty { shape: mapped(t.shape)?, ..*t })).collect::<Option<Vec<_>>>()
        else {
            return Vec::new();
        };
        let number = |n: i64| usize::try_from(n).map_or(n, |n| size(n) as i64);
        let mut attr = |a: &Owned| match a {
            Owned::Shape(s) => mapped(*s).map_or(a.clone(), Owned::Shape),
            Owned::Ints(list) => Owned::Ints(list.iter().map(|&n| number(n)).collect()),
            _ => a.clone(),
        };
        let attrs: Vec<Owned> = plan.attrs.iter().map(&mut attr).collect();
        vec![Plan { tys: tys.clone(), attrs }, Plan { tys, attrs: plan.attrs.clone() }]
    }
}
