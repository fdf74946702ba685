// What the tests in C share: expectations that name their line.

#ifndef CHECK_H
#define CHECK_H

#include <arenagrad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                      \
    do {                                                                       \
        if (!(condition)) {                                                    \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);     \
            failures++;                                                        \
        }                                                                      \
    } while (0)

// The call gives this status, and an error whose message holds `part`.
#define REFUSED(call, wanted, part) refused(__FILE__, __LINE__, #call, (call), (wanted), (part))

static inline void refused(const char *file, int line, const char *call, ag_status got, ag_status wanted,
                           const char *part) {
    ag_error e;
    if (ag_last_error(&e) != AG_OK || got != wanted || e.status != wanted || strstr(e.message, part) == NULL) {
        printf("%s:%d: %s: %s, %s: %s; wanted %s: %s\n", file, line, call, ag_status_name(got),
               ag_status_name(e.status), e.message, ag_status_name(wanted), part);
        failures++;
    }
}

// The call succeeds.
#define MUST(call) must(__FILE__, __LINE__, #call, (call))

static inline void must(const char *file, int line, const char *call, ag_status got) {
    if (got != AG_OK) {
        ag_error e = {AG_OK, "", NULL, 0, 0};
        (void)ag_last_error(&e);
        printf("%s:%d: %s: %s: %s\n", file, line, call, ag_status_name(got), e.message);
        exit(1);
    }
}

// y = Σ w·x, loss = y²: a graph that is easy to check.
static const char *const NET = "graph @net {\n"
                               "  %x = input : f32[4]\n"
                               "  %w = param init=ones scale=0 frozen=false : f32[4]\n"
                               "  %p = mul %x, %w\n"
                               "  %y = reduce_sum %p axes=[0] keep=false\n"
                               "  %loss = mul %y, %y\n"
                               "  return y=%y, loss=%loss\n"
                               "}\n";

static inline ag_graph parsed(const char *text) {
    ag_graph graph;
    MUST(ag_graph_parse(text, strlen(text), NULL, 0, &graph));
    return graph;
}

static inline ag_program compiled(const char *text) {
    ag_graph graph = parsed(text);
    ag_program program;
    MUST(ag_compile(graph, NULL, &program));
    MUST(ag_graph_free(graph));
    return program;
}

// A program whose steps run on two threads, ready to run: y = a·b, and all elements of a and b are 1.
static inline ag_program on_two_threads(void) {
    const char *net = "graph @net {\n"
                      "  %a = param init=ones scale=0 frozen=false : f32[256,256]\n"
                      "  %b = param init=ones scale=0 frozen=false : f32[256,256]\n"
                      "  %y = matmul %a, %b ta=false tb=false\n"
                      "  return y=%y\n"
                      "}\n";
    ag_graph graph = parsed(net);
    ag_program program;
    ag_options options = ag_options_default();
    options.threads = 2;
    MUST(ag_compile(graph, &options, &program));
    MUST(ag_graph_free(graph));
    MUST(ag_init(program, 0));
    return program;
}

static inline int done(void) {
    if (failures == 0) printf("all well\n");
    return failures == 0 ? 0 : 1;
}

#endif
