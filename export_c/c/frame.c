/* @{TITLE}: a step that arenagrad planned, as C99 without allocation and threads. See @{NAME}.h.

   Its results have the engine's bits where float and double are IEEE 754 numbers and each operation is rounded by
   itself. So compile it with -std=c99 or with -ffp-contract=off, and without -ffast-math.

   Of the C library it uses functions of math.h: @{MATH}.
   Compilers may make calls of memcpy and memset of its loops. */
#include "@{NAME}.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

#if @{NAME}_digest != @{DIGEST}
#error "the header and the source are of different exports"
#endif
#if defined(__FAST_MATH__)
#error "compile without -ffast-math"
#endif
#if FLT_EVAL_METHOD != 0
#error "the compiler computes float in another type; for x86 use -msse2 -mfpmath=sse"
#endif
#if defined(__GNUC__) && !defined(__clang__)
#if !defined(__STRICT_ANSI__) && !defined(ARENAGRAD_FP_CONTRACT_OFF)
#error "compile with -std=c99, or with -ffp-contract=off -DARENAGRAD_FP_CONTRACT_OFF"
#endif
#else
#pragma STDC FP_CONTRACT OFF
#endif

union @{NAME}_memory @{NAME}_arena;

/* The element of a type at a byte of the arena. */
#define AG_F32(at) (@{NAME}_arena.f32 + (at) / 4)
#define AG_F64(at) (@{NAME}_arena.f64 + (at) / 8)
#define AG_I8(at) (@{NAME}_arena.i8 + (at))
#define AG_U8(at) (@{NAME}_arena.u8 + (at))
#define AG_I16(at) (@{NAME}_arena.i16 + (at) / 2)
#define AG_U16(at) (@{NAME}_arena.u16 + (at) / 2)
#define AG_I32(at) (@{NAME}_arena.i32 + (at) / 4)
#define AG_U32(at) (@{NAME}_arena.u32 + (at) / 4)
#define AG_I64(at) (@{NAME}_arena.i64 + (at) / 8)
#define AG_U64(at) (@{NAME}_arena.u64 + (at) / 8)

