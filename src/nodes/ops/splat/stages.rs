//! `splat_render` in two ops: the projection of the splats, and the image of projected splats. Passes join the two
//! before they take derivatives, and when they fuse ops.

use super::attrs::SplatAttrs;
use super::pack::PACK;
use super::render::{count_splat_flops, infer_splat_image};
use super::{OPERANDS, check_splats, lower};
use crate::ensure;
use crate::kernels::splat::RECORD;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use Domain::{Chance, Count, Index, Real, Unit};

fn infer_splat_prepare(cx: &mut Infer<'_>) -> Result<(), String> {
    check_splats(cx, 0)?;
    let (dtype, n) = (cx.dtype(0), cx.dims(0)[0]);
    cx.result(dtype, &[n, RECORD])?;
    cx.result(DType::I32, &[n, 4])?;
    cx.result(DType::I32, &[n])
}

fn infer_splat_rasterize(cx: &mut Infer<'_>) -> Result<(), String> {
    let attrs = SplatAttrs::of(&cx.attrs);
    attrs.check()?;
    cx.float(0)?;
    cx.same_dtype(0, 3)?;
    let records = cx.rank(0, "what rays meet", 2)?;
    ensure!(i32::try_from(records[0]).is_ok(), "what rays meet has shape {records}; splats have no i32 positions");
    cx.expect_dims(0, "what rays meet", &[records[0], RECORD])?;
    cx.expect_dims(1, "the bounds", &[records[0], 4])?;
    cx.expect_dims(2, "the order", &[records[0]])?;
    cx.expect_dims(3, "the view", &[4, 3])?;
    for i in [1, 2] {
        ensure!(cx.dtype(i) == DType::I32, "operand {i} is {}; i32 is needed", cx.dtype(i));
    }
    infer_splat_image(cx, 0, &attrs)
}

/// Why neither stage has a derivative of its own.
const JOINED: &str = "it is differentiated as a part of splat_render only: give the results of splat_prepare and its view \
                      to splat_rasterize, with the same attributes";

/// The first stage of [`SPLAT_RENDER`](super::render::SPLAT_RENDER).
pub const SPLAT_PREPARE: OpDef = OpDef {
    name: "splat_prepare",
    doc: "what rays need of each splat, from the operands of splat_render: 16 numbers (the matrix that maps its ellipsoid to \
          the unit ball, that matrix times camera − centre, opacity, colour), the first column, the one behind the \
          last, the \
          first row, the one behind the last that it may touch, and the positions of the splats, nearest first",
    arity: Arity::Exactly(OPERANDS),
    attrs: SplatAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::EXACT),
    infer: infer_splat_prepare,
    deriv: Deriv::Error(JOINED),
    batch: Batch::Members,
    lower: Lower::Kernel(lower::emit_splat_prepare),
    cost: |cx| cx.arg(0) / 3 * 400,
    cases: &[
        Case {
            args: "f[3,3] f[3,3] f[3,4] f[3] f[3,3] f[4,3]",
            attrs: "width=5 height=4 tile=2 radius_scale=1.2 alpha_cutoff=1e-12 transmittance=0 gamma=2.2 \
                background=[0.5,0.6,0.7] near=-20 far=20 max_list=0 max_steps=0 truncate=false",
            domains: &[Unit, Unit, Real, Chance, Chance, Unit],
        },
        Case {
            args: "f[70,3] f[70,3] f[70,4] f[70] f[70,4,3] f[4,3]",
            attrs: "width=64 height=50 tile=16 radius_scale=0.02 alpha_cutoff=0.2 transmittance=0 gamma=1 \
                background=[0,0,0] near=0 far=20 max_list=0 max_steps=0 truncate=false",
            domains: &[Unit, Unit, Real, Chance, Unit, Unit],
        },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};

/// The second stage of [`SPLAT_RENDER`](super::render::SPLAT_RENDER).
pub const SPLAT_RASTERIZE: OpDef = OpDef {
    name: "splat_rasterize",
    doc: "the results of splat_render, from those of splat_prepare and the view",
    arity: Arity::Exactly(4),
    attrs: SplatAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::EXACT).and(Flags::HEAVY),
    infer: infer_splat_rasterize,
    deriv: Deriv::Error(JOINED),
    batch: Batch::Members,
    lower: Lower::Kernel(lower::emit_splat_rasterize),
    cost: |cx| count_splat_flops(cx, cx.arg(0) / RECORD as u64, 50),
    cases: &[
        Case {
            args: "f[5,16] i32[5,4] i32[5] f[4,3]",
            attrs: "width=5 height=4 tile=2 radius_scale=1.2 alpha_cutoff=1e-12 transmittance=0 gamma=2.2 \
                background=[0.5,0.6,0.7] near=-20 far=20 max_list=0 max_steps=0 truncate=false",
            domains: &[Chance, Count(4), Index(5), Unit],
        },
        Case {
            args: "f[0,16] i32[0,4] i32[0] f[4,3]",
            attrs: "width=5 height=4 tile=2 radius_scale=1.2 alpha_cutoff=1e-12 transmittance=0 gamma=2.2 \
                background=[0.5,0.6,0.7] near=-20 far=20 max_list=0 max_steps=0 truncate=false",
            domains: &[Chance, Count(4), Index(5), Unit],
        },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
