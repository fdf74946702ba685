/* @{TITLE}: a step that arenagrad planned, for small machines. See @{NAME}.c.

   Call @{NAME}_init() once. Then write the inputs, call @{NAME}_step(), and read the outputs, again and again. Params
   and states keep their values from step to step. All tensors lie in @{NAME}_arena, in row-major order.

   @{NAME}_step() returns 0, or the number of a check that failed, because an index or a label is out of range. Params
   and states then have the values that they had before the step. The checks:@{CHECKS} */
#ifndef @{GUARD}
#define @{GUARD}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which export this is: the source asks for its own header. */
#define @{NAME}_digest @{DIGEST}
/* Bytes of the arena. */
#define @{NAME}_arena_bytes @{BYTES}

/* The memory of a step. */
extern union @{NAME}_memory {
    float f32[@{BYTES} / 4];
    double f64[@{BYTES} / 8];
    int8_t i8[@{BYTES}];
    uint8_t u8[@{BYTES}];
    int16_t i16[@{BYTES} / 2];
    uint16_t u16[@{BYTES} / 2];
    int32_t i32[@{BYTES} / 4];
    uint32_t u32[@{BYTES} / 4];
    int64_t i64[@{BYTES} / 8];
    uint64_t u64[@{BYTES} / 8];
} @{NAME}_arena;

/* Writes the start values of params and states, the constants, and the defaults of inputs. */
void @{NAME}_init(void);
/* Makes one step. */
int @{NAME}_step(void);

/* The tensors: a pointer to the first element, and the number of elements. */
@{MACROS}

#ifdef __cplusplus
}
#endif

#endif
