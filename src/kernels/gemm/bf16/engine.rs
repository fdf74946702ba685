//! Which bf16 units compute: asked of the CPU and the system once, and the same for all threads and all products.

use crate::kernels::simd::{self, Isa};
use std::sync::OnceLock;

/// What computes products of bf16 numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// f32 arithmetic on rounded numbers.
    Portable,
    /// `vdpbf16ps` of AVX512-BF16.
    Avx512,
    /// Tiles of AMX.
    Amx,
}

/// By name, in the environment and in reports; least first.
const NAMES: [(&str, Engine); 3] = [("portable", Engine::Portable), ("avx512", Engine::Avx512), ("amx", Engine::Amx)];

impl Engine {
    /// The one that kernels use.
    pub fn current() -> Engine {
        match simd::isa() {
            Isa::Avx512 => chosen().0,
            _ => Engine::Portable,
        }
    }

    /// Whether this CPU has it and this process may use it.
    pub fn is_here(self) -> bool {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let wide = simd::detect() == Isa::Avx512 && std::arch::is_x86_feature_detected!("avx512bf16");
            match self {
                Engine::Portable => true,
                Engine::Avx512 => wide,
                Engine::Amx => wide && tiles(),
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            self == Engine::Portable
        }
    }

    /// The name.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].0
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn tiles() -> bool {
    #[cfg(target_os = "linux")]
    {
        static GRANTED: OnceLock<bool> = OnceLock::new();
        *GRANTED.get_or_init(super::amx::granted)
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

/// The best engine there is, unless the environment names another; and what it named in vain.
fn chosen() -> &'static (Engine, Option<String>) {
    static CHOSEN: OnceLock<(Engine, Option<String>)> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let best = NAMES.iter().rev().find(|e| e.1.is_here()).map_or(Engine::Portable, |e| e.1);
        let Ok(name) = std::env::var("ARENAGRAD_BF16") else { return (best, None) };
        let why = match NAMES.iter().find(|e| e.0 == name) {
            Some(e) if e.1.is_here() => return (e.1, None),
            Some(_) => format!("this CPU, or the system for this process, has no such units; it has {:?}", best.name()),
            None => format!("it may be {}", NAMES.map(|e| e.0).join(", ")),
        };
        (best, Some(format!("ARENAGRAD_BF16 asks for {name:?}: {why}")))
    })
}

/// The name of the units that compute products of bf16 numbers here, or why those that the environment variable
/// `ARENAGRAD_BF16` (`amx`, `avx512` or `portable`) asks for cannot be had.
pub fn bf16_engine() -> Result<&'static str, String> {
    match &chosen().1 {
        Some(why) => Err(why.clone()),
        None => Ok(Engine::current().name()),
    }
}
