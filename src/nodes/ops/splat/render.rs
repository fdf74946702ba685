//! The image of splats, with its gradient and its tangent.

use super::attrs::SplatAttrs;
use super::pack::PACK;
use super::{OPERANDS, check_splats, lower};
use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Chance, Real, Unit};

/// Splats that a pixel is taken to meet, for the cost: what lists hold depends on the numbers.
const MET: u64 = 32;

/// The dimensions of the image and of its last T.
fn image_dims(attrs: &SplatAttrs) -> [usize; 2] {
    [attrs.height, attrs.width].map(|n| usize::try_from(n).unwrap_or(0))
}

/// Adds the image and T, of the dtype of operand `i`.
pub(super) fn infer_splat_image(cx: &mut Infer<'_>, i: usize, attrs: &SplatAttrs) -> Result<(), String> {
    let (dtype, [rows, columns]) = (cx.dtype(i), image_dims(attrs));
    cx.result(dtype, &[rows, columns, 4])?;
    cx.result(dtype, &[rows, columns])
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let attrs = check_splats(cx, 0)?;
    infer_splat_image(cx, 0, &attrs)
}

fn infer_backward_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let attrs = check_splats(cx, 1)?;
    cx.same_dtype(0, 1)?;
    let [rows, columns] = image_dims(&attrs);
    cx.expect_dims(0, "the cotangent of the image", &[rows, columns, 4])?;
    ensure!(cx.dims(1)[0] > 0, "there are no splats");
    (1..=OPERANDS).try_for_each(|i| cx.same_as(i))
}

fn infer_tangent_types(cx: &mut Infer<'_>) -> Result<(), String> {
    infer_types(cx)?;
    ensure!(cx.dims(0)[0] > 0, "there are no splats");
    for i in 0..OPERANDS {
        cx.same_dtype(0, OPERANDS + i)?;
        cx.expect_dims(OPERANDS + i, "a tangent", &cx.dims(i))?;
    }
    Ok(())
}

/// Operations: `each` for a splat at a pixel, and the projections.
pub(super) fn count_splat_flops(cx: &CostCx<'_>, splats: u64, each: u64) -> u64 {
    let SplatAttrs { width, height, .. } = SplatAttrs::of(&cx.graph.attrs(cx.node));
    let pixels = width.unsigned_abs().saturating_mul(height.unsigned_abs());
    pixels.saturating_mul(splats.min(MET) * each).saturating_add(splats.saturating_mul(400))
}

fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    if s.args[3].numel() == 0 || t.iter().all(Option::is_none) {
        return vec![None; 2];
    }
    let tangents = s.args.iter().zip(t).map(|(x, t)| t.unwrap_or_else(|| x.full_like(0.0)));
    let args: Vec<Var<'g>> = s.args.iter().copied().chain(tangents).collect();
    s.g.emit(Op::SPLAT_RENDER_TANGENT, &args, &SplatAttrs::of(&s.attrs).list()).iter().map(|y| Some(*y)).collect()
}

/// The cotangent of T is that of alpha, 1 − T, with the other sign.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let alpha = ct[1].map(|t| (-t).unsqueeze(-1).pad(&[0, 0, 3], &[0, 0, 0], 0.0));
    let image = match (ct[0], alpha) {
        (Some(image), Some(alpha)) => image + alpha,
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return vec![None; OPERANDS],
    };
    if s.args[3].numel() == 0 {
        return vec![None; OPERANDS];
    }
    let args: Vec<Var<'g>> = std::iter::once(image).chain(s.args.iter().copied()).collect();
    s.g.emit(Op::SPLAT_RENDER_BACKWARD, &args, &SplatAttrs::of(&s.attrs).list()).iter().map(|d| Some(*d)).collect()
}

/// Why neither the gradient nor the tangent of an image has a derivative.
const NO_SECOND: &str = "splats have no second derivative";

/// The image of splats.
pub const SPLAT_RENDER: OpDef = OpDef {
    name: "splat_render",
    doc: "the image [height, width, 4] of Gaussian splats, and how much of the light from behind passes them, T [height, \
          width]; front to back, colour += T·α·c and T *= 1 − α with α = opacity·exp(−½ρ²), ρ the distance of the ray \
          from \
          the centre in units of the axes exp(log-scale)·radius_scale; a pixel is (max(0, colour + \
          T·background)^gamma, 1 − T); \
          from (positions [N,3], log-scales [N,3], quaternions wxyz [N,4], opacities [N], colours [N,3] or harmonics \
          [N,K,3], view [4,3]: camera, right, up, forward); the ray of pixel (i, j) is (j + ½ − width/2)·right + \
          (height/2 − i − ½)·up + forward; nearest centres first, ties by index; left out are α < alpha_cutoff, depths \
          outside near..far, and what stands behind T < transmittance; more than max_list splats of a tile or \
          max_steps of a pixel are a fault, or with truncate are left out",
    arity: Arity::Exactly(OPERANDS),
    attrs: SplatAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::EXACT).and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Members,
    lower: Lower::Kernel(lower::emit_splat_render),
    cost: |cx| count_splat_flops(cx, cx.arg(0) / 3, 50),
    cases: &[
        Case {
            args: "f[3,3] f[3,3] f[3,4] f[3] f[3,3] f[4,3]",
            attrs: "width=5 height=4 tile=2 radius_scale=1.2 alpha_cutoff=1e-12 transmittance=0 gamma=2.2 \
                background=[0.5,0.6,0.7] near=-20 far=20 max_list=0 max_steps=0 truncate=false",
            domains: &[Unit, Real, Real, Chance, Chance, Unit],
        },
        Case {
            args: "f[4,3] f[4,3] f[4,4] f[4] f[4,4,3] f[4,3]",
            attrs: "width=3 height=3 tile=16 radius_scale=0.8 alpha_cutoff=1e-12 transmittance=1e-12 gamma=1 \
                background=[2.5,1.5,2] near=-20 far=20 max_list=9 max_steps=9 truncate=false",
            domains: &[Unit, Real, Real, Chance, Unit, Real],
        },
        Case {
            args: "f[1,3] f[1,3] f[1,4] f[1] f[1,1,3] f[4,3]",
            attrs: "width=1 height=2 tile=1 radius_scale=1 alpha_cutoff=0 transmittance=0 gamma=1.5 \
                background=[0.5,0.6,0.7] near=-20 far=20 max_list=0 max_steps=0 truncate=true",
            domains: &[Unit, Unit, Real, Chance, Chance, Unit],
        },
        // Several units, and lanes of several widths.
        Case {
            args: "f[70,3] f[70,3] f[70,4] f[70] f[70,9,3] f[4,3]",
            attrs: "width=37 height=19 tile=20 radius_scale=0.2 alpha_cutoff=1e-12 transmittance=0 gamma=1 \
                background=[8,8,8] near=-20 far=20 max_list=0 max_steps=0 truncate=false",
            domains: &[Unit, Unit, Real, Chance, Unit, Unit],
        },
        Case {
            args: "f[0,3] f[0,3] f[0,4] f[0] f[0,3] f[4,3]",
            attrs: "width=3 height=2 tile=2 radius_scale=1 alpha_cutoff=0.01 transmittance=0 gamma=2.2 \
                background=[0.5,0.6,0.7] near=0 far=10 max_list=0 max_steps=0 truncate=false",
            domains: &[Real],
        },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};

/// The gradients of [`SPLAT_RENDER`].
pub const SPLAT_RENDER_BACKWARD: OpDef = OpDef {
    name: "splat_render_backward",
    doc: "the gradients of positions, log-scales, quaternions, opacities, colours and view of splat_render, from (the \
          cotangent of the image, the six operands); 0 for clamped opacities and colours; order, cutoffs and depth \
          limits are \
          constants",
    arity: Arity::Exactly(OPERANDS + 1),
    attrs: SplatAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::EXACT),
    infer: infer_backward_types,
    deriv: Deriv::Error(NO_SECOND),
    batch: Batch::Members,
    lower: Lower::Kernel(lower::emit_splat_render_backward),
    cost: |cx| count_splat_flops(cx, cx.arg(1) / 3, 180),
    cases: &[
        Case {
            args: "f[5,4,4] f[3,3] f[3,3] f[3,4] f[3] f[3,3] f[4,3]",
            attrs: "width=4 height=5 tile=2 radius_scale=1.2 alpha_cutoff=1e-12 transmittance=0 gamma=2.2 \
                background=[0.5,0.6,0.7] near=-20 far=20 max_list=0 max_steps=0 truncate=false",
            domains: &[Real, Unit, Real, Real, Chance, Chance, Unit],
        },
        Case {
            args: "f[3,3,4] f[4,3] f[4,3] f[4,4] f[4] f[4,4,3] f[4,3]",
            attrs: "width=3 height=3 tile=1 radius_scale=0.8 alpha_cutoff=1e-12 transmittance=0 gamma=1 \
                background=[2.5,1.5,2] near=-20 far=20 max_list=9 max_steps=9 truncate=true",
            domains: &[Real, Unit, Real, Real, Chance, Unit, Unit],
        },
        Case {
            args: "f[19,37,4] f[70,3] f[70,3] f[70,4] f[70] f[70,1,3] f[4,3]",
            attrs: "width=37 height=19 tile=4 radius_scale=0.2 alpha_cutoff=1e-12 transmittance=0 gamma=1 \
                background=[8,8,8] near=-20 far=20 max_list=0 max_steps=0 truncate=false",
            domains: &[Unit, Unit, Unit, Real, Chance, Unit, Unit],
        },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};

/// The tangents of the results of [`SPLAT_RENDER`].
pub const SPLAT_RENDER_TANGENT: OpDef = OpDef {
    name: "splat_render_tangent",
    doc: "the tangents of both results of splat_render, from (the six operands, a tangent of each); order, cutoffs and depth \
          limits are constants",
    arity: Arity::Exactly(2 * OPERANDS),
    attrs: SplatAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::EXACT),
    infer: infer_tangent_types,
    deriv: Deriv::Error(NO_SECOND),
    batch: Batch::Members,
    lower: Lower::Kernel(lower::emit_splat_render_tangent),
    cost: |cx| count_splat_flops(cx, cx.arg(0) / 3, 120),
    cases: &[
        Case {
            args: "f[3,3] f[3,3] f[3,4] f[3] f[3,3] f[4,3] f[3,3] f[3,3] f[3,4] f[3] f[3,3] f[4,3]",
            attrs: "width=4 height=5 tile=2 radius_scale=1.2 alpha_cutoff=1e-12 transmittance=0 gamma=2.2 \
                background=[0.5,0.6,0.7] near=-20 far=20 max_list=0 max_steps=0 truncate=false",
            domains: &[Unit, Real, Real, Chance, Chance, Unit],
        },
        Case {
            args: "f[4,3] f[4,3] f[4,4] f[4] f[4,4,3] f[4,3] f[4,3] f[4,3] f[4,4] f[4] f[4,4,3] f[4,3]",
            attrs: "width=17 height=3 tile=16 radius_scale=0.8 alpha_cutoff=1e-12 transmittance=0 gamma=1 \
                background=[2.5,1.5,2] near=-20 far=20 max_list=9 max_steps=9 truncate=true",
            domains: &[Unit, Real, Real, Chance, Unit, Unit],
        },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
