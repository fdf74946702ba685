//! AMX tile registers. One instruction multiplies 16 × 32 by 32 × 16 bf16 numbers, in sixteen cycles.
//!
//! Invariant: an [`Tiles`] exists on a thread only while the thread's tile registers are configured, and only if the
//! system lets this process use them. It never leaves its thread, and nothing but [`Tiles::multiply`] uses the
//! registers meanwhile.

use super::packed::{PACKED, PackedTile};
use crate::gemm::operands::lines_fit;
use std::arch::asm;
use std::marker::PhantomData;

/// Whether this process may use AMX with bf16 products. This asks the system for permission, which is given to all
/// threads, so the caller keeps the answer.
pub fn ask_permission() -> bool {
    let leaf = |l: u32| std::arch::x86_64::__cpuid_count(l, 0);
    // Bit 22 of edx: AMX-BF16. Bit 24: AMX-TILE.
    if leaf(0).eax < 7 || leaf(7).edx & (1 << 22 | 1 << 24) != (1 << 22 | 1 << 24) {
        return false;
    }
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XTILEDATA: i64 = 18;
    let answer: i64;
    // SAFETY: a system call whose two arguments are numbers. It writes no memory. It writes `rcx` and `r11`, as
    // declared.
    #[allow(unsafe_code)]
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    answer == 0
}

/// The configured tile registers of a thread: eight tiles of sixteen rows of 64 bytes.
pub struct Tiles(PhantomData<*mut ()>);

impl Tiles {
    /// Configures this thread's registers.
    ///
    /// # Safety
    /// [`ask_permission`] must have returned true.
    #[allow(unsafe_code)]
    pub unsafe fn new() -> Tiles {
        let mut config = [0u8; 64];
        config[0] = 1;
        for tile in 0..8 {
            config[16 + 2 * tile] = 64;
            config[48 + tile] = 16;
        }
        // SAFETY: the caller has permission. The instruction reads 64 bytes, which `config` has.
        #[allow(unsafe_code)]
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) config.as_ptr(), options(nostack, readonly));
        }
        Tiles(PhantomData)
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: `new` configured the registers on this thread, and nothing else uses them.
        #[allow(unsafe_code)]
        unsafe {
            asm!("tilerelease", options(nostack, nomem));
        }
    }
}

/// Loads the packed tile of a split from the address in a register.
macro_rules! load {
    ($tile:literal, $from:literal, $split:literal) => {
        concat!("tileloadd ", $tile, ", [{", $from, "} + {s}*1 + 1024*", $split, "]\n")
    };
}

/// Adds a product of two tiles to a third.
macro_rules! product {
    ($c:literal, $a:literal, $b:literal) => {
        concat!("tdpbf16ps ", $c, ", ", $a, ", ", $b, "\n")
    };
}

/// The products of a pair of splits, for two micro-panels of A or for one. `a` and `b` name the split of A and of B
/// that the pair loads. An operand that is not named stays from the pair before. Each product comes as soon as its
/// operands are loaded.
macro_rules! pair {
    (two, a $a:literal b $b:literal) => {
        concat!(
            load!("tmm4", "a0", $a),
            load!("tmm6", "b0", $b),
            product!("tmm0", "tmm4", "tmm6"),
            load!("tmm7", "b1", $b),
            product!("tmm1", "tmm4", "tmm7"),
            load!("tmm5", "a1", $a),
            product!("tmm2", "tmm5", "tmm6"),
            product!("tmm3", "tmm5", "tmm7")
        )
    };
    (two, b $b:literal) => {
        concat!(
            load!("tmm6", "b0", $b),
            product!("tmm0", "tmm4", "tmm6"),
            load!("tmm7", "b1", $b),
            product!("tmm1", "tmm4", "tmm7"),
            product!("tmm2", "tmm5", "tmm6"),
            product!("tmm3", "tmm5", "tmm7")
        )
    };
    (two, a $a:literal) => {
        concat!(
            load!("tmm4", "a0", $a),
            product!("tmm0", "tmm4", "tmm6"),
            product!("tmm1", "tmm4", "tmm7"),
            load!("tmm5", "a1", $a),
            product!("tmm2", "tmm5", "tmm6"),
            product!("tmm3", "tmm5", "tmm7")
        )
    };
    (one, a $a:literal b $b:literal) => {
        concat!(
            load!("tmm4", "a0", $a),
            load!("tmm6", "b0", $b),
            product!("tmm0", "tmm4", "tmm6"),
            load!("tmm7", "b1", $b),
            product!("tmm1", "tmm4", "tmm7")
        )
    };
    (one, b $b:literal) => {
        concat!(
            load!("tmm6", "b0", $b),
            product!("tmm0", "tmm4", "tmm6"),
            load!("tmm7", "b1", $b),
            product!("tmm1", "tmm4", "tmm7")
        )
    };
    (one, a $a:literal) => {
        concat!(load!("tmm4", "a0", $a), product!("tmm0", "tmm4", "tmm6"), product!("tmm1", "tmm4", "tmm7"))
    };
}

/// A kernel for one or two micro-panels of A. It loads or zeroes C, repeats the products of the pairs of splits `steps`
/// times, in the order of `terms::product_order`, and stores C.
macro_rules! kernel {
    ($name:ident: one, $splits:literal splits, $pairs:tt) => {
        kernel!($name, one, $splits, ["tmm0" at "{c0}", "tmm1" at "{c0} + 64"], $pairs);
    };
    ($name:ident: two, $splits:literal splits, $pairs:tt) => {
        kernel!(
            $name, two, $splits,
            ["tmm0" at "{c0}", "tmm1" at "{c0} + 64", "tmm2" at "{c1}", "tmm3" at "{c1} + 64"], $pairs
        );
    };
    ($name:ident, $rows:ident, $splits:literal, [$($tile:literal at $at:literal),+], [$($pair:tt),+]) => {
        #[inline(always)]
        fn $name(a: Panels, b: Panels, steps: usize, c: *mut f32, c_row: usize, add: bool) {
            // SAFETY: see `Tiles::multiply`.
            #[allow(unsafe_code)]
            unsafe {
                asm!(
                    "test {add:e}, {add:e}",
                    "jz 2f",
                    $(concat!("tileloadd ", $tile, ", [", $at, " + {row}*1]"),)+
                    "jmp 3f",
                    "2:",
                    $(concat!("tilezero ", $tile),)+
                    "3:",
                    $(kernel!(@ $rows $pair),)+
                    "add {a0}, {bytes}",
                    "add {a1}, {bytes}",
                    "add {b0}, {bytes}",
                    "add {b1}, {bytes}",
                    "dec {steps}",
                    "jnz 3b",
                    $(concat!("tilestored [", $at, " + {row}*1], ", $tile),)+
                    "# {c1}",
                    a0 = inout(reg) a[0] => _,
                    a1 = inout(reg) a[1] => _,
                    b0 = inout(reg) b[0] => _,
                    b1 = inout(reg) b[1] => _,
                    steps = inout(reg) steps => _,
                    c0 = in(reg) c,
                    c1 = in(reg) c.wrapping_add(16 * c_row),
                    row = in(reg) 4 * c_row,
                    add = in(reg) u32::from(add),
                    s = in(reg) 64usize,
                    bytes = const 4 * PACKED as i32 * $splits,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
    (@ $rows:ident ($($pair:tt)+)) => { pair!($rows, $($pair)+) };
}

impl Tiles {
    /// C (+)= A·B for one or two micro-panels of A and two of B. A micro-panel has `splits` packed tiles for each step
    /// of 32 terms, one for each bf16 term of its numbers. Their products are summed in the order of
    /// `terms::product_order`. `c` has rows of 32 columns, `c_row` apart.
    ///
    /// # Panics
    /// If a slice is too short.
    #[inline(always)]
    pub fn multiply(
        &self,
        splits: usize,
        a: &[&[PackedTile]],
        b: [&[PackedTile]; 2],
        c: &mut [f32],
        c_row: usize,
        add: bool,
    ) {
        let packed = a[0].len();
        let rows = 16 * a.len();
        assert!((a.len() == 1 || a.len() == 2) && splits <= 3 && packed > 0 && packed.is_multiple_of(splits));
        assert!(a.iter().chain(&b).all(|panel| panel.len() == packed));
        assert!(c_row >= 32 && lines_fit(rows, c_row, 0, 32, c.len()));
        let steps = packed / splits;
        // The kernels below rely on this: every micro-panel has `steps * splits` packed tiles of 1024 bytes, of which
        // each step reads the next `splits`. C has `rows` rows of 128 bytes, 4 * c_row bytes apart. The tile registers
        // are configured. With one micro-panel of A, only its first address is used.
        let (one, b) = (a.len() == 1, b.map(|s| s.as_ptr().cast::<u32>()));
        let a = [a[0].as_ptr().cast::<u32>(), a[a.len() - 1].as_ptr().cast::<u32>()];
        let c = c.as_mut_ptr();
        match (splits, one) {
            (1, false) => two_by_two(a, b, steps, c, c_row, add),
            (1, true) => one_by_two(a, b, steps, c, c_row, add),
            (2, false) => two_by_two_of_two(a, b, steps, c, c_row, add),
            (2, true) => one_by_two_of_two(a, b, steps, c, c_row, add),
            (_, false) => two_by_two_of_three(a, b, steps, c, c_row, add),
            (_, true) => one_by_two_of_three(a, b, steps, c, c_row, add),
        }
    }
}

/// The addresses of two micro-panels.
type Panels = [*const u32; 2];

kernel!(two_by_two: two, 1 splits, [(a 0 b 0)]);
kernel!(one_by_two: one, 1 splits, [(a 0 b 0)]);
kernel!(two_by_two_of_two: two, 2 splits, [(a 0 b 1), (b 0), (a 1)]);
kernel!(one_by_two_of_two: one, 2 splits, [(a 0 b 1), (b 0), (a 1)]);
kernel!(two_by_two_of_three: two, 3 splits, [(a 0 b 2), (b 1), (a 1), (b 0), (a 2), (a 0)]);
kernel!(one_by_two_of_three: one, 3 splits, [(a 0 b 2), (b 1), (a 1), (b 0), (a 2), (a 0)]);
