// Reads a tensor through its pointer after the program was freed: what the address sanitizer must see.

#include "check.h"

int main(void) {
    ag_program program = compiled(NET);
    ag_tensor w;
    MUST(ag_init(program, 0));
    MUST(ag_binding(program, "w", &w));
    EXPECT(((volatile float *)w.data)[0] == 1.0f);
    MUST(ag_program_free(program));
    EXPECT(((volatile float *)w.data)[0] == 1.0f);
    return done();
}
