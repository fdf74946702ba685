//! A way to prevent masked stores.

use bytemuck::Pod;

/// Prevents masked stores. A compiler may turn `y = if c { x } else { y }` into a masked store. With AVX2, masked
/// stores take some CPUs twenty times as long as plain ones.
#[derive(Clone, Copy)]
pub struct Unmasked(u64);

impl Unmasked {
    /// Call it once, before the loop that uses the result.
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Unmasked {
        Unmasked(std::hint::black_box(0))
    }

    /// Returns `x`, and hides from the compiler how it was chosen.
    #[inline(always)]
    pub fn of<T: Pod>(self, x: T) -> T {
        match size_of::<T>() {
            4 => bytemuck::cast(bytemuck::cast::<T, u32>(x) | self.0 as u32),
            8 => bytemuck::cast(bytemuck::cast::<T, u64>(x) | self.0),
            _ => x,
        }
    }
}
