//! The engine of bf16 products.
//!
//! Invariant: the CPU and the system are asked once. The engine is the same for all threads and products.

use crate::simd::{self, Isa};
use std::sync::OnceLock;

/// The instructions that compute products of bf16 numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bf16Engine {
    /// f32 arithmetic on numbers that are rounded to bf16.
    Portable,
    /// `vdpbf16ps` of AVX512-BF16.
    Avx512,
    /// AMX tile registers.
    Amx,
}

/// The names in the environment and in reports, least engine first.
const NAMES: [(&str, Bf16Engine); 3] =
    [("portable", Bf16Engine::Portable), ("avx512", Bf16Engine::Avx512), ("amx", Bf16Engine::Amx)];

impl Bf16Engine {
    /// The engine that kernels use.
    pub fn current() -> Bf16Engine {
        match simd::isa() {
            Isa::Avx512 => pick_by_environment().0,
            _ => Bf16Engine::Portable,
        }
    }

    /// Whether this CPU has the engine and this process may use it.
    pub fn is_here(self) -> bool {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let wide = simd::detect_isa() == Isa::Avx512 && std::arch::is_x86_feature_detected!("avx512bf16");
            match self {
                Bf16Engine::Portable => true,
                Bf16Engine::Avx512 => wide,
                Bf16Engine::Amx => wide && may_use_amx(),
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            self == Bf16Engine::Portable
        }
    }

    /// The name: `portable`, `avx512` or `amx`.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].0
    }
}

/// Whether this process may use AMX.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn may_use_amx() -> bool {
    #[cfg(target_os = "linux")]
    {
        static GRANTED: OnceLock<bool> = OnceLock::new();
        *GRANTED.get_or_init(super::amx::ask_permission)
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

/// The engine that `ARENAGRAD_BF16` names, else the best one; and why the named one cannot be used.
fn pick_by_environment() -> &'static (Bf16Engine, Option<String>) {
    static CHOSEN: OnceLock<(Bf16Engine, Option<String>)> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let best = NAMES.iter().rev().find(|e| e.1.is_here()).map_or(Bf16Engine::Portable, |e| e.1);
        let Ok(name) = std::env::var("ARENAGRAD_BF16") else { return (best, None) };
        let why = match NAMES.iter().find(|e| e.0 == name) {
            Some(e) if e.1.is_here() => return (e.1, None),
            Some(_) => format!("this CPU, or the system for this process, has no such units; it has {:?}", best.name()),
            None => format!("it may be {}", NAMES.map(|e| e.0).join(", ")),
        };
        (best, Some(format!("ARENAGRAD_BF16 asks for {name:?}: {why}")))
    })
}

/// The name of the engine of bf16 products: `amx`, `avx512` or `portable`.
///
/// # Errors
/// Why the engine that the environment variable `ARENAGRAD_BF16` names cannot be used.
pub fn bf16_engine() -> Result<&'static str, String> {
    match &pick_by_environment().1 {
        Some(why) => Err(why.clone()),
        None => Ok(Bf16Engine::current().name()),
    }
}
