//! The choice of the instruction set.
//!
//! Invariant: the CPU and the environment are asked once. The instruction set is the same for all kernels and threads.

use std::sync::atomic::{AtomicU8, Ordering};

/// Instruction sets, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isa {
    /// The instructions that the target guarantees.
    Portable = 1,
    /// AArch64 Advanced SIMD.
    Neon = 2,
    /// AVX2, FMA and F16C.
    Avx2 = 3,
    /// AVX-512 F, VL, BW, DQ.
    Avx512 = 4,
}

/// The names in `ARENAGRAD_ISA` and in reports, least first.
const NAMES: [(&str, Isa); 4] =
    [("portable", Isa::Portable), ("neon", Isa::Neon), ("avx2", Isa::Avx2), ("avx512", Isa::Avx512)];

impl Isa {
    /// The name: `portable`, `neon`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        NAMES[self as usize - 1].0
    }
}

static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The instruction set that kernels use: the best one of the CPU, unless `ARENAGRAD_ISA` names a lesser one.
#[inline]
pub fn isa() -> Isa {
    let chosen = match CHOSEN.load(Ordering::Relaxed) {
        4 => Isa::Avx512,
        3 => Isa::Avx2,
        2 => Isa::Neon,
        1 => Isa::Portable,
        _ => read_choice(),
    };
    #[cfg(test)]
    let chosen = best_at_most(chosen.min(LIMIT.get()));
    chosen
}

#[cfg(test)]
thread_local! {
    // Per thread, because tests run in parallel and compare instruction sets.
    static LIMIT: std::cell::Cell<Isa> = const { std::cell::Cell::new(Isa::Avx512) };
}

#[cold]
fn read_choice() -> Isa {
    let chosen = instruction_choice().unwrap_or_else(|_| detect_isa());
    CHOSEN.store(chosen as u8, Ordering::Relaxed);
    chosen
}

/// The instruction set that kernels use.
///
/// # Errors
/// Why the one that the environment variable `ARENAGRAD_ISA` names cannot be used.
pub fn instruction_choice() -> Result<Isa, String> {
    let Some(name) = std::env::var_os("ARENAGRAD_ISA") else { return Ok(detect_isa()) };
    let why = match NAMES.iter().find(|n| name == n.0) {
        Some(n) if best_at_most(n.1) == n.1 => return Ok(n.1),
        Some(_) => format!("this CPU lacks it; its best is {:?}", detect_isa().name()),
        None => format!("it may be {}", NAMES.map(|n| n.0).join(", ")),
    };
    Err(format!("ARENAGRAD_ISA asks for {name:?}: {why}"))
}

/// The best instruction set of this CPU that is at most `isa`.
pub fn best_at_most(isa: Isa) -> Isa {
    match (detect_isa(), isa) {
        // No CPU has both NEON and AVX.
        (Isa::Avx2 | Isa::Avx512, Isa::Neon) => Isa::Portable,
        (best, isa) => best.min(isa),
    }
}

/// The best instruction set of this CPU.
pub fn detect_isa() -> Isa {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("fma") && has!("f16c") {
            let v4 = has!("avx512f") && has!("avx512vl") && has!("avx512bw") && has!("avx512dq");
            return if v4 { Isa::Avx512 } else { Isa::Avx2 };
        }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    return Isa::Neon;
    #[cfg(not(all(target_arch = "aarch64", not(miri))))]
    Isa::Portable
}

/// Limits this thread to `isa` from now on.
#[cfg(test)]
pub fn limit(isa: Isa) {
    LIMIT.set(isa);
}
