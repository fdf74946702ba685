//! Packing of f32 operands into packed tiles.
//!
//! Invariant: words beyond the edges of the operand are zero. Every instruction set gives the same words, those of
//! `round`.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx512_bf16;
use super::engine::Engine;
use super::packed::{DEPTH, LINES, Operand, PackedTile, Runs, Side};
use super::round;

/// Packs `lines` lines of `k` elements: micro-panel after micro-panel, and in each, for each 32 elements along k, a
/// packed tile for each of the `splits` terms of a number. Returns whether a number is infinite or NaN, and so has no
/// terms (see [`round::splits`]); false if `splits` is 1.
pub fn pack(
    engine: Engine,
    x: Operand<'_>,
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
        nonfinite |= block(engine, Operand { data, ..x }, size, side, to);
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
fn block(engine: Engine, x: Operand<'_>, (lines, k): (usize, usize), side: Side, to: &mut [PackedTile]) -> bool {
    if (lines, k) == (LINES, DEPTH) {
        if x.k_step == 1 {
            return convert(engine, Runs { data: x.data, step: x.line_step, lines: true }, side, to);
        }
        if x.line_step == 1 {
            return convert(engine, Runs { data: x.data, step: x.k_step, lines: false }, side, to);
        }
    }
    let mut whole = [0f32; LINES * DEPTH];
    if x.line_step == 1 {
        for (p, run) in whole.chunks_exact_mut(LINES).take(k).enumerate() {
            run[..lines].copy_from_slice(&x.data[p * x.k_step..][..lines]);
        }
        return convert(engine, Runs { data: &whole, step: LINES, lines: false }, side, to);
    }
    for (l, run) in whole.chunks_exact_mut(DEPTH).take(lines).enumerate() {
        for (p, to) in run.iter_mut().take(k).enumerate() {
            *to = x.data[l * x.line_step + p * x.k_step];
        }
    }
    convert(engine, Runs { data: &whole, step: DEPTH, lines: true }, side, to)
}

/// Packs the numbers of one packed tile by the engine's instructions.
fn convert(engine: Engine, runs: Runs<'_>, side: Side, to: &mut [PackedTile]) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if engine != Engine::Portable
        && let Some(nonfinite) = avx512_bf16::convert(runs, side, to)
    {
        return nonfinite;
    }
    let _ = engine;
    portable(runs, side, to)
}

/// Packs the numbers of one packed tile in plain Rust.
fn portable(runs: Runs<'_>, side: Side, to: &mut [PackedTile]) -> bool {
    match to {
        [tile] => {
            each_word(runs, side, |w, x| {
                let [even, odd] = x.map(round::nearest);
                tile[w] = round::word(even, odd);
            });
            false
        }
        [_, _] => split::<2>(runs, side, to),
        [_, _, _] => split::<3>(runs, side, to),
        _ => unreachable!("one to three splits"),
    }
}

/// Packs numbers as a packed tile for each of their terms.
fn split<const SPLITS: usize>(runs: Runs<'_>, side: Side, to: &mut [PackedTile]) -> bool {
    let mut nonfinite = false;
    each_word(runs, side, |w, x| {
        let [(even, nonfinite_even), (odd, nonfinite_odd)] = x.map(round::splits::<SPLITS>);
        nonfinite |= nonfinite_even || nonfinite_odd;
        for ((tile, even), odd) in to.iter_mut().zip(even).zip(odd) {
            tile[w] = round::word(even, odd);
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
