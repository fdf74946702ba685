//! Gaussian splats: soft ellipsoids with a colour and an opacity, seen by a camera.
//!
//! | file | holds |
//! |---|---|
//! | `render` | the image, its gradient and its tangent |
//! | `stages` | the image in two ops |
//! | `attrs` | their attributes |
//! | `lower` | their kernel calls |
//! | `pack` | the pattern that joins the two stages |
//! | `var` | the scene and the camera, for users |
//! | `splat_image` | the options of an image |
//!
//! Invariant: the operands of all ops but `splat_rasterize` are, in this order, positions, log-scales, quaternions,
//! opacities, colours and the view; [`check_splats`] checks them.

pub mod attrs;
pub mod lower;
pub mod pack;
pub mod render;
pub mod splat_image;
pub mod stages;
pub mod var;

use crate::ensure;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ops::splat::attrs::SplatAttrs;

/// Operands that describe the splats and the view.
const OPERANDS: usize = 6;

/// Requires that operands `first..first + 6` are a scene, and the attributes in range.
fn check_splats(cx: &Infer<'_>, first: usize) -> Result<SplatAttrs, String> {
    let attrs = SplatAttrs::of(&cx.attrs);
    attrs.check()?;
    cx.float(first)?;
    (1..OPERANDS).try_for_each(|i| cx.same_dtype(first, first + i))?;
    let positions = cx.rank(first, "positions", 2)?;
    let n = positions[0];
    ensure!(i32::try_from(n).is_ok(), "positions have shape {positions}; splats have no i32 positions");
    cx.expect_dims(first, "positions", &[n, 3])?;
    cx.expect_dims(first + 1, "log-scales", &[n, 3])?;
    cx.expect_dims(first + 2, "quaternions", &[n, 4])?;
    cx.expect_dims(first + 3, "opacities", &[n])?;
    let colours = cx.dims(first + 4);
    let fits = match colours[..] {
        [count, 3] => count == n,
        [count, harmonics, 3] => count == n && [1, 4, 9, 16].contains(&harmonics),
        _ => false,
    };
    ensure!(fits, "colours have shape {colours}, not [{n},3] or [{n},K,3] with K = 1, 4, 9 or 16");
    cx.expect_dims(first + 5, "the view", &[4, 3])?;
    Ok(attrs)
}
