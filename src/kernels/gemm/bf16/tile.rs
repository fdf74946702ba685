//! Tiles of C from packed tiles, by an engine.
//!
//! Invariant: the order of an engine's sums follows from k alone. An engine goes along k in pieces of 32 elements. For
//! each piece it adds the products of terms in the order of [`terms::product_order`]. Every product of two terms is
//! exact. Subnormal numbers count as zero. The portable engine has the bits of `vdpbf16ps`, except near overflow and
//! underflow. AMX sums the even and the odd elements of each 32 separately.

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
use super::amx;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx512_bf16;
use super::engine::Bf16Engine;
use super::operands::Tile;
use super::packed::{DEPTH, PackedTile};
use super::terms;

/// The state of an engine on a thread.
pub struct Bf16TileMachine {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    engine: Bf16Engine,
    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
    tiles: Option<amx::Tiles>,
}

impl Bf16TileMachine {
    /// Configures the engine on this thread.
    pub fn new(engine: Bf16Engine) -> Bf16TileMachine {
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = engine;
        Bf16TileMachine {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            engine,
            // SAFETY: `Bf16Engine::Amx` is chosen only where `amx::ask_permission` said yes.
            #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
            #[allow(unsafe_code)]
            tiles: (engine == Bf16Engine::Amx).then(|| unsafe { amx::Tiles::new() }),
        }
    }

    /// Computes a tile. Inlined, because its arguments would else go through memory, right after the stores of the last
    /// tile: a wait as long as a small product.
    #[inline(always)]
    pub fn tile(&self, t: Tile<'_, '_>) {
        #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
        if let Some(tiles) = &self.tiles {
            return tiles.multiply(t.splits, t.a, t.b, t.c, t.c_row, t.add);
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.engine != Bf16Engine::Portable {
            return avx512_bf16::compute_tile(t);
        }
        compute_portably(t);
    }
}

/// Computes a tile in plain Rust.
fn compute_portably(t: Tile<'_, '_>) {
    for (i, a) in t.a.iter().enumerate() {
        for row in 0..16 {
            let c = &mut t.c[(16 * i + row) * t.c_row..][..32];
            if !t.add {
                c.fill(0.0);
            }
            for (b, c) in t.b.iter().zip(c.as_chunks_mut::<16>().0) {
                let steps = a.chunks_exact(t.splits).zip(b.chunks_exact(t.splits));
                steps.for_each(|(a, b)| {
                    for &(of_a, of_b) in terms::product_order(t.splits) {
                        sum_bf16_tile_row(&a[of_a], row, &b[of_b], c);
                    }
                });
            }
        }
    }
}

crate::simd! {
    /// Adds the products of one row of a packed tile of A and a packed tile of B.
    fn sum_bf16_tile_row(a: &PackedTile, row: usize, b: &PackedTile, c: &mut [f32; 16]) {
        for p in 0..DEPTH / 2 {
            let [even, odd] = terms::unpack_word(a[row * 16 + p]);
            for (c, w) in c.iter_mut().zip(&b[p * 16..p * 16 + 16]) {
                let w = terms::unpack_word(*w);
                // Products are exact, so a fused addition has the same bits.
                *c = flush_subnormal(odd * w[1] + *c);
                *c = flush_subnormal(even * w[0] + *c);
            }
        }
    }
}

/// `x`, or zero of its sign below the normal range.
#[inline(always)]
fn flush_subnormal(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}
