//! Packing of f32 operands into packed tiles.
//!
//! Invariant: words beyond the edges of the operand are zero. Every instruction set gives the same words, those of
//! `terms`.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx512_bf16;
use super::engine::Bf16Engine;
use super::packed::{DEPTH, LINES, PackedSource, PackedTile, Runs, Side};
use super::terms;

/// Packs `lines` lines of `k` elements: micro-panel after micro-panel, and in each, for each 32 elements along k, a
/// packed tile for each of the `splits` terms of a number. Returns whether a number is infinite or NaN, and so has no
/// terms (see [`terms::split_number`]); false if `splits` is 1.
pub fn lay_out_lines(
    engine: Bf16Engine,
    x: PackedSource<'_>,
    side: Side,
    (lines, k): (usize, usize),
    splits: usize,
    to: &mut [PackedTile],
) -> bool {
    let steps = k.div_ceil(DEPTH);
    let panels = lines.div_ceil(LINES);
    let mut nonfinite = false;
    let mut one = |panel: usize, step: usize| {
        let data = &x.data[panel * LINES * x.line_step + step * DEPTH * x.k_step..];
        let size = (LINES.min(lines - panel * LINES), DEPTH.min(k - step * DEPTH));
        let to = &mut to[(panel * steps + step) * splits..][..splits];
        nonfinite |= lay_out_block(engine, PackedSource { data, ..x }, size, side, to);
    };
    // In the order of memory.
    if x.k_step == 1 {
        (0..panels).for_each(|panel| (0..steps).for_each(|step| one(panel, step)));
    } else {
        (0..steps).for_each(|step| (0..panels).for_each(|panel| one(panel, step)));
    }
    nonfinite
}

/// Packs the numbers of one packed tile, of which `lines` by `k` are inside the operand.
fn lay_out_block(
    engine: Bf16Engine,
    x: PackedSource<'_>,
    (lines, k): (usize, usize),
    side: Side,
    to: &mut [PackedTile],
) -> bool {
    if (lines, k) == (LINES, DEPTH) {
        if x.k_step == 1 {
            return convert_by_engine(engine, Runs { data: x.data, step: x.line_step, lines: true }, side, to);
        }
        if x.line_step == 1 {
            return convert_by_engine(engine, Runs { data: x.data, step: x.k_step, lines: false }, side, to);
        }
    }
    let mut whole = [0f32; LINES * DEPTH];
    if x.line_step == 1 {
        for (p, run) in whole.chunks_exact_mut(LINES).take(k).enumerate() {
            run[..lines].copy_from_slice(&x.data[p * x.k_step..][..lines]);
        }
        return convert_by_engine(engine, Runs { data: &whole, step: LINES, lines: false }, side, to);
    }
    for (l, run) in whole.chunks_exact_mut(DEPTH).take(lines).enumerate() {
        for (p, to) in run.iter_mut().take(k).enumerate() {
            *to = x.data[l * x.line_step + p * x.k_step];
        }
    }
    convert_by_engine(engine, Runs { data: &whole, step: DEPTH, lines: true }, side, to)
}

/// Packs the numbers of one packed tile by the engine's instructions.
fn convert_by_engine(engine: Bf16Engine, runs: Runs<'_>, side: Side, to: &mut [PackedTile]) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if engine != Bf16Engine::Portable
        && let Some(nonfinite) = avx512_bf16::pack_numbers(runs, side, to)
    {
        return nonfinite;
    }
    let _ = engine;
    convert_portably(runs, side, to)
}

/// Packs the numbers of one packed tile in plain Rust.
fn convert_portably(runs: Runs<'_>, side: Side, to: &mut [PackedTile]) -> bool {
    match to {
        [tile] => {
            each_word(runs, side, |w, x| {
                let [even, odd] = x.map(terms::nearest_term);
                tile[w] = terms::pack_word(even, odd);
            });
            false
        }
        [_, _] => split_numbers::<2>(runs, side, to),
        [_, _, _] => split_numbers::<3>(runs, side, to),
        _ => unreachable!("one to three splits"),
    }
}

/// Packs numbers as a packed tile for each of their terms.
fn split_numbers<const SPLITS: usize>(runs: Runs<'_>, side: Side, to: &mut [PackedTile]) -> bool {
    let mut nonfinite = false;
    each_word(runs, side, |w, x| {
        let [(even, nonfinite_even), (odd, nonfinite_odd)] = x.map(terms::split_number::<SPLITS>);
        nonfinite |= nonfinite_even || nonfinite_odd;
        for ((tile, even), odd) in to.iter_mut().zip(even).zip(odd) {
            tile[w] = terms::pack_word(even, odd);
        }
    });
    nonfinite
}

/// Calls `each` with the index of each word of a packed tile and its two numbers.
fn each_word(runs: Runs<'_>, side: Side, mut each: impl FnMut(usize, [f32; 2])) {
    let Runs { data, step, lines } = runs;
    // The offset of element p of line l.
    let at = |l: usize, p: usize| if lines { l * step + p } else { p * step + l };
    for l in 0..LINES {
        for pair in 0..DEPTH / 2 {
            let w = if side == Side::A { l * LINES + pair } else { pair * LINES + l };
            each(w, [data[at(l, 2 * pair)], data[at(l, 2 * pair + 1)]]);
        }
    }
}
