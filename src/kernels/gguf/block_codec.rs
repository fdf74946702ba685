//! The trait of a block type: the parts of a block that the loops over blocks read.

use crate::simd::f16_value::f16_of_bits;

/// Elements of a group.
pub const GROUP: usize = 16;

/// Sixteen adjacent elements of a block: element `i` is `scale·codes[i] − min`, each step rounded to `f32`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Small integers.
    pub codes: [i8; GROUP],
    /// What a step of a code is worth.
    pub scale: f32,
    /// What is subtracted; 0 for types without it.
    pub min: f32,
}

/// The layout of a block type. Its values are zero-sized: they only name it.
pub trait BlockCodec: Copy {
    /// Elements of a block, a multiple of [`GROUP`].
    const ELEMENTS: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// Whether groups may have a min.
    const HAS_MIN: bool;

    /// Group `g` of a block of [`BYTES`](BlockCodec::BYTES) bytes.
    fn group(self, block: &[u8], g: usize) -> Group;

    /// Writes all groups of a block. Types that products read often have a loop of their own, which vectorises.
    #[inline(always)]
    fn unpack(self, block: &[u8], codes: &mut [i8], scales: &mut [f32], mins: &mut [f32]) {
        let codes = codes.as_chunks_mut::<GROUP>().0;
        for (g, ((codes, scale), min)) in codes.iter_mut().zip(scales).zip(mins).enumerate() {
            let group = self.group(block, g);
            (*codes, *scale, *min) = (group.codes, group.scale, group.min);
        }
    }
}

/// Declares block types of one number of elements: name, bytes, whether groups have a min, and group `g` of the block
/// `b`.
macro_rules! block_codecs {
    ($elements:literal; $($(#[$doc:meta])* $name:ident, $bytes:literal, $min:literal, |$b:ident, $g:ident| $group:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl BlockCodec for $name {
            const ELEMENTS: usize = $elements;
            const BYTES: usize = $bytes;
            const HAS_MIN: bool = $min;

            #[inline(always)]
            fn group(self, block: &[u8], $g: usize) -> Group {
                let $b: &[u8; $bytes] = leading_bytes(block);
                $group
            }
        }
    )*};
}
pub(super) use block_codecs;

/// The first bytes of a block as an array.
///
/// # Panics
/// If there are fewer.
#[inline(always)]
pub fn leading_bytes<const N: usize>(block: &[u8]) -> &[u8; N] {
    match block.first_chunk() {
        Some(block) => block,
        None => unreachable!("a block of {} bytes has {}", N, block.len()),
    }
}

/// Sixteen codes made from sixteen bytes.
#[inline(always)]
pub fn sixteen_codes(bytes: &[u8], code: impl Fn(u8) -> i8) -> [i8; GROUP] {
    let bytes: &[u8; GROUP] = leading_bytes(bytes);
    let mut codes = [0; GROUP];
    for (to, &byte) in codes.iter_mut().zip(bytes) {
        *to = code(byte);
    }
    codes
}

/// The lower four bits of sixteen bytes, or the upper four.
#[inline(always)]
pub fn sixteen_nibbles(bytes: &[u8], upper: bool) -> [i8; GROUP] {
    let shift = if upper { 4 } else { 0 };
    sixteen_codes(bytes, |b| (b >> shift & 15) as i8)
}

/// The number of a half in little-endian bytes.
#[inline(always)]
pub fn f16_value(bytes: [u8; 2]) -> f32 {
    f16_of_bits(u16::from_le_bytes(bytes))
}

/// The number of the half at byte `at` of a block.
#[inline(always)]
pub fn read_half(block: &[u8], at: usize) -> f32 {
    f16_value([block[at], block[at + 1]])
}
