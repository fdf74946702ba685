//! Blocks of an f32 operand, packed as packed tiles of bf16 pairs.
//!
//! Invariant: a packed tile holds sixteen lines (rows of A, or columns of B) by 32 places of k, as 256 words of two
//! places. In one of A, word `16 * line + pair`; in one of B, `16 * pair + line`. What lies beyond the operand is zero.
//! Every instruction set gives the same words, those of `round`. Only `bf16/mod.rs` calls this.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx512_bf16;
use super::engine::Engine;
use super::packed::{LINES, Operand, PLACES, PackedTile, Runs, Side};
use super::round;

/// Packs `lines` lines of `places` places into packed tiles, `splits` for each block, blocks of a line one after the
/// other, sixteen lines after sixteen lines. Says whether a number among them has no terms (see [`round::splits`]).
pub fn pack(
    engine: Engine,
    x: Operand<'_>,
    side: Side,
    (lines, places): (usize, usize),
    splits: usize,
    to: &mut [PackedTile],
) -> bool {
    let steps = places.div_ceil(PLACES);
    let strips = lines.div_ceil(LINES);
    let mut nonfinite = false;
    let mut one = |strip: usize, step: usize| {
        let data = &x.data[strip * LINES * x.line + step * PLACES * x.place..];
        let size = (LINES.min(lines - strip * LINES), PLACES.min(places - step * PLACES));
        let to = &mut to[(strip * steps + step) * splits..][..splits];
        nonfinite |= block(engine, Operand { data, ..x }, size, side, to);
    };
    // In the order in which memory is read on.
    if x.place == 1 {
        (0..strips).for_each(|strip| (0..steps).for_each(|step| one(strip, step)));
    } else {
        (0..steps).for_each(|step| (0..strips).for_each(|strip| one(strip, step)));
    }
    nonfinite
}

fn block(engine: Engine, x: Operand<'_>, (lines, places): (usize, usize), side: Side, to: &mut [PackedTile]) -> bool {
    if (lines, places) == (LINES, PLACES) {
        if x.place == 1 {
            return convert(engine, &Runs::Lines(x.data, x.line), side, to);
        }
        if x.line == 1 {
            return convert(engine, &Runs::Places(x.data, x.place), side, to);
        }
    }
    let mut whole = [0f32; LINES * PLACES];
    if x.line == 1 {
        for (p, run) in whole.chunks_exact_mut(LINES).take(places).enumerate() {
            run[..lines].copy_from_slice(&x.data[p * x.place..][..lines]);
        }
        return convert(engine, &Runs::Places(&whole, LINES), side, to);
    }
    for (l, run) in whole.chunks_exact_mut(PLACES).take(lines).enumerate() {
        for (p, to) in run.iter_mut().take(places).enumerate() {
            *to = x.data[l * x.line + p * x.place];
        }
    }
    convert(engine, &Runs::Lines(&whole, PLACES), side, to)
}

fn convert(engine: Engine, runs: &Runs<'_>, side: Side, to: &mut [PackedTile]) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if engine != Engine::Portable
        && let Some(plain) = avx512_bf16::convert(runs.view(), side, to)
    {
        return plain;
    }
    let _ = engine;
    portable(runs, side, to)
}

/// Packs one block in plain Rust.
fn portable(runs: &Runs<'_>, side: Side, to: &mut [PackedTile]) -> bool {
    match to {
        [cell] => {
            each_word(runs, side, |w, x| {
                let [even, odd] = x.map(round::nearest);
                cell[w] = round::word(even, odd);
            });
            false
        }
        [_, _] => split::<2>(runs, side, to),
        [_, _, _] => split::<3>(runs, side, to),
        _ => unreachable!("one to three splits"),
    }
}

/// Packs one block as a packed tile for each term of its numbers.
fn split<const SPLITS: usize>(runs: &Runs<'_>, side: Side, to: &mut [PackedTile]) -> bool {
    let mut nonfinite = false;
    each_word(runs, side, |w, x| {
        let [(even, e), (uneven, u)] = x.map(round::splits::<SPLITS>);
        nonfinite |= e || u;
        for ((cell, even), uneven) in to.iter_mut().zip(even).zip(uneven) {
            cell[w] = round::word(even, uneven);
        }
    });
    nonfinite
}

/// Calls `each` with the place of each word in its packed tile and the two numbers of it.
fn each_word(runs: &Runs<'_>, side: Side, mut each: impl FnMut(usize, [f32; 2])) {
    let (data, step, lines) = runs.view();
    // (line, place) of a number among the runs.
    let at = |l: usize, p: usize| if lines { l * step + p } else { p * step + l };
    for l in 0..LINES {
        for pair in 0..PLACES / 2 {
            let w = if side == Side::A { l * LINES + pair } else { pair * LINES + l };
            each(w, [data[at(l, 2 * pair)], data[at(l, 2 * pair + 1)]]);
        }
    }
}
