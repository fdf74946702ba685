// Writes an input from memory that is shorter than it says: the address sanitizer must see how the library reads on.

#include "check.h"

int main(void) {
    ag_program program = compiled(NET);
    float *x = malloc(2 * sizeof *x);
    if (x == NULL) return 2;
    x[0] = x[1] = 1.0f;
    MUST(ag_write(program, "x", AG_F32, x, 4 * sizeof *x));
    free(x);
    MUST(ag_program_free(program));
    return done();
}
