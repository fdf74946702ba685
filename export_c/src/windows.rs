//! Convolutions and pools: inference.

use crate::c_text::c_type;
use crate::call::{Call, Statement};
use crate::products::activation;
use arenagrad::graph::DType;
use arenagrad_kernels::conv::ConvGeom;
use arenagrad_kernels::gemm::Act;
use arenagrad_kernels::pool::{COUNT_PAD, PoolGeom, SUM};
use arenagrad_kernels::window::WindowGeometry;
use std::fmt::Write;

/// The windows as C: for each axis its size, taps, stride, padding before, dilation, and the number of windows.
fn table(w: &WindowGeometry<2>) -> String {
    let out = w.out();
    let axis =
        |a: usize| [w.size[a], w.kernel[a], w.stride[a], w.pad[a][0], w.dilation[a], out[a]].map(|n| n.to_string());
    format!("    static const size_t w[12] = {{{}, {}}};\n", axis(0).join(", "), axis(1).join(", "))
}

/// A convolution with its bias and activation.
pub fn convolution(c: &Call<'_>, dtype: DType) -> Result<Statement, String> {
    let (g, f) = (ConvGeom::from_words(c.words()), c_type(dtype)?.tag);
    // Where few channels meet, or windows are pixels, sums run over channels first.
    let channels = (g.c_in / g.groups).min(g.c_out / g.groups);
    if g.window() > 1 && channels >= 32 {
        return Err(
            "C has convolutions of windows with less than 32 channels on one side; write it as unfold and matmul"
                .into(),
        );
    }
    let (x, weight, y) = (c.read(0, dtype)?, c.read(1, dtype)?, c.write(0, dtype)?);
    let (n, c_in, c_out, groups) = (g.n, g.c_in, g.c_out, g.groups);
    let area: usize = g.windows.out().iter().product();
    let mut text = format!(
        "{{\n{}    ag_conv2d_{f}({x}, {weight}, {y}, {n}, {c_in}, {c_out}, {groups}, w);\n}}",
        table(&g.windows)
    );
    if c.reads().len() > 2 {
        let _ = write!(text, "\nag_channel_bias_{f}({y}, {n}, {c_out}, {area}, {});", c.read(2, dtype)?);
    }
    let act = c.words().get(ConvGeom::WORDS).and_then(|&a| Act::ALL.get(a as usize)).copied().unwrap_or_default();
    if act != Act::None {
        let value = activation(act, f, &format!("{y}[i]"), "", dtype);
        let _ = write!(text, "\nfor (i = 0; i < {}; i++)\n    {y}[i] = {value};", g.y_len());
    }
    Ok(Statement::plain(text))
}

/// A max pool, with positions if they are read.
pub fn max_pool(c: &Call<'_>, dtype: DType) -> Result<Statement, String> {
    let (g, f) = (PoolGeom::from_words(c.words()), c_type(dtype)?.tag);
    let at = if c.writes().len() > 1 { c.write(1, DType::I32)? } else { "(int32_t *)0".into() };
    let (x, y, planes) = (c.read(0, dtype)?, c.write(0, dtype)?, g.n * g.c);
    Ok(Statement::plain(format!("{{\n{}    ag_max_pool_{f}({x}, {y}, {at}, {planes}, w);\n}}", table(&g.windows))))
}

/// The gradient of a max pool.
pub fn max_pool_backward(c: &Call<'_>, dtype: DType) -> Result<Statement, String> {
    let (g, f) = (PoolGeom::from_words(c.words()), c_type(dtype)?.tag);
    let [plane, area] = [g.windows.size, g.windows.out()].map(|[h, w]| h * w);
    let (dy, at, dx, planes) = (c.read(0, dtype)?, c.read(1, DType::I32)?, c.write(0, dtype)?, g.n * g.c);
    Ok(Statement::check(format!("ag_max_pool_backward_{f}({dy}, {at}, {dx}, {planes}, {area}, {plane})")))
}

/// An average pool, or a pool of sums.
pub fn avg_pool(c: &Call<'_>, dtype: DType) -> Result<Statement, String> {
    let (g, f) = (PoolGeom::from_words(c.words()), c_type(dtype)?.tag);
    let flags = c.words().get(PoolGeom::WORDS).copied().unwrap_or(0);
    let by = if flags & SUM != 0 { 2 } else { u8::from(flags & COUNT_PAD != 0) };
    let WindowGeometry { size, kernel, stride, .. } = g.windows;
    let lone = g.windows.out()[1] == 1;
    let tiles = g.windows == WindowGeometry { stride: [2, 2], ..WindowGeometry::new(size, [2, 2]) };
    let short = kernel[0] == 1 && kernel[1] < 8 && (kernel[1] <= 2 * stride[1] || lone);
    let wide = kernel[1] >= 4 && (stride[1] >= 3 || lone) && !short;
    let way = if tiles {
        "tile_"
    } else if wide {
        "wide_"
    } else {
        ""
    };
    let (x, y, planes) = (c.read(0, dtype)?, c.write(0, dtype)?, g.n * g.c);
    Ok(Statement::plain(format!("{{\n{}    ag_{way}avg_pool_{f}({x}, {y}, {planes}, {by}, w);\n}}", table(&g.windows))))
}
