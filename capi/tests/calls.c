// Right calls: what they give.

#include "check.h"
#include <math.h>
#include <stdint.h>

static void facts(void) {
    ag_error e;
    MUST(ag_last_error(&e));
    EXPECT(e.status == AG_OK && strcmp(e.message, "") == 0 && e.file == NULL);
    EXPECT(strcmp(ag_version(), VERSION) == 0);
    EXPECT(strcmp(ag_status_name(AG_SHAPE), "AG_SHAPE") == 0 && strcmp(ag_status_name(77), "unknown") == 0);
    uint32_t order[8], wanted[8] = {0, 3, 7, 4, 5, 6, 2, 1};
    MUST(ag_permutation(0, 0, order, 8));
    EXPECT(memcmp(order, wanted, sizeof order) == 0);
    MUST(ag_permutation(0, 0, NULL, 0));
    double rate;
    MUST(ag_schedule_rate("kind = 'constant'", 0.25, 10, 3, &rate));
    EXPECT(rate == 0.25);
    MUST(ag_schedule_rate("", 0.25, 10, 0, &rate)); // one cycle
    EXPECT(fabs(rate - 0.01) < 1e-12);
}

static void tensors(void) {
    ag_program program = compiled(NET);
    size_t count;
    ag_tensor t;
    const char *names[] = {"x", "w", "y", "loss"};
    const ag_role roles[] = {AG_INPUT, AG_PARAM, AG_OUTPUT, AG_OUTPUT};
    MUST(ag_binding_count(program, NULL, &count));
    EXPECT(count == 4);
    for (size_t i = 0; i < count; i++) {
        MUST(ag_binding_at(program, "step", i, &t));
        EXPECT(strcmp(t.name, names[i]) == 0 && t.role == roles[i] && t.dtype == AG_F32);
        EXPECT(t.rank == (i < 2 ? 1u : 0u) && t.bytes == (i < 2 ? 16u : 4u) && t.dims[0] == (i < 2 ? 4u : 0u));
    }
    ag_tensor x, w, y;
    MUST(ag_binding(program, "x", &x));
    MUST(ag_binding(program, "w", &w));
    MUST(ag_binding(program, "y", &y));
    MUST(ag_init(program, 0));
    for (int i = 0; i < 4; i++) ((float *)x.data)[i] = (float)i;
    MUST(ag_mark_written(program, "x"));
    MUST(ag_step(program));
    EXPECT(*(float *)y.data == 6.0f);
    ((float *)w.data)[3] = 10.0f;
    MUST(ag_step(program));
    EXPECT(*(float *)y.data == 33.0f);
    char *plan;
    MUST(ag_plan_text(program, NULL, &plan));
    EXPECT(strstr(plan, "arena") != NULL);
    MUST(ag_string_free(plan));
    MUST(ag_program_free(program));
}

static void symbols(void) {
    const char *net = "graph @g {\n  %x = input : f32[batch,3]\n  %y = reduce_sum %x axes=[0,1] keep=false\n"
                      "  return y=%y\n}\n";
    ag_size sizes[1] = {{"batch", 5}};
    ag_graph graph;
    ag_program program;
    ag_tensor x;
    MUST(ag_graph_parse(net, strlen(net), sizes, 1, &graph));
    MUST(ag_compile(graph, NULL, &program));
    MUST(ag_binding(program, "x", &x));
    EXPECT(x.rank == 2 && x.dims[0] == 5 && x.dims[1] == 3);
    MUST(ag_graph_free(graph));
    MUST(ag_program_free(program));
}

static void methods(void) {
    const char *twice = "graph @twice {\n  %x = input : f32[2]\n  %w = param init=ones scale=0 frozen=false : f32[2]\n"
                        "  %p = mul %x, %w\n  %y = add %p, %p\n  return y=%y\n}\n";
    const char *square = "graph @square {\n  %x = input : f32[2]\n"
                         "  %w = param init=ones scale=0 frozen=false : f32[2]\n"
                         "  %p = mul %x, %w\n  %y = mul %p, %p\n  return y=%y\n}\n";
    ag_method all[2] = {{"twice", parsed(twice)}, {"square", parsed(square)}};
    ag_options options = ag_options_default();
    ag_program program;
    MUST(ag_compile_all(all, 2, &options, &program));
    MUST(ag_graph_free(all[0].graph));
    MUST(ag_graph_free(all[1].graph));
    MUST(ag_init(program, 0));
    float w[2] = {3, 5}, x[2] = {1, 2}, y[2];
    MUST(ag_write(program, "w", AG_F32, w, sizeof w));
    MUST(ag_write_of(program, "square", "x", AG_F32, x, sizeof x));
    MUST(ag_run(program, "square"));
    MUST(ag_read_of(program, "square", "y", AG_F32, y, sizeof y));
    EXPECT(y[0] == 9.0f && y[1] == 100.0f);
    REFUSED(ag_step(program), AG_DATA, "input \"x\"");
    MUST(ag_mark_written_of(program, "twice", "x"));
    MUST(ag_step(program));
    MUST(ag_program_free(program));
}

// Momentum is kept: a program that resumes goes on with equal bits.
static void files(const char *folder) {
    ag_graph graph = parsed(NET), step;
    MUST(ag_train(graph, "loss", "kind = 'sgd'\nlr = 1e-3\nmomentum = 0.9", &step));
    ag_program a, b;
    MUST(ag_compile(step, NULL, &a));
    MUST(ag_compile(step, NULL, &b));
    float x[4] = {1, 2, 3, 4}, of_a[4], of_b[4];
    char path[4096];
    EXPECT(snprintf(path, sizeof path, "%s/checkpoint.safetensors", folder) < (int)sizeof path);
    MUST(ag_init(a, 0));
    MUST(ag_write(a, "x", AG_F32, x, sizeof x));
    MUST(ag_write(b, "x", AG_F32, x, sizeof x));
    for (int i = 0; i < 3; i++) MUST(ag_step(a));
    MUST(ag_checkpoint(a, path));
    MUST(ag_resume(b, path));
    for (int i = 0; i < 3; i++) {
        MUST(ag_step(a));
        MUST(ag_step(b));
    }
    MUST(ag_read(a, "w", AG_F32, of_a, sizeof of_a));
    MUST(ag_read(b, "w", AG_F32, of_b, sizeof of_b));
    EXPECT(memcmp(of_a, of_b, sizeof of_a) == 0 && of_a[0] != 1.0f);
    // Weights alone lack the momentum.
    EXPECT(snprintf(path, sizeof path, "%s/weights.safetensors", folder) < (int)sizeof path);
    MUST(ag_save(a, path));
    MUST(ag_init(b, 0));
    MUST(ag_load(b, path));
    MUST(ag_read(b, "w", AG_F32, of_b, sizeof of_b));
    EXPECT(memcmp(of_a, of_b, sizeof of_a) == 0);
    REFUSED(ag_resume(b, path), AG_NAME, path);
    ag_graph read;
    char text[4096];
    EXPECT(snprintf(text, sizeof text, "%s/net.ir", folder) < (int)sizeof text);
    FILE *file = fopen(text, "w");
    EXPECT(file != NULL);
    if (file != NULL) {
        fputs(NET, file);
        fclose(file);
        MUST(ag_graph_read(text, NULL, 0, &read));
        MUST(ag_graph_free(read));
        file = fopen(text, "w");
        EXPECT(file != NULL);
        if (file != NULL) {
            fputs("graph @g {\n  %x = inputs : f32[4]\n}\n", file);
            fclose(file);
        }
        ag_error e;
        EXPECT(ag_graph_read(text, NULL, 0, &read) != AG_OK);
        MUST(ag_last_error(&e));
        EXPECT(e.file != NULL && strcmp(e.file, text) == 0 && e.line == 2);
    }
    MUST(ag_graph_free(graph));
    MUST(ag_graph_free(step));
    MUST(ag_program_free(a));
    MUST(ag_program_free(b));
}

static unsigned crc32_of(unsigned crc, const unsigned char *bytes, size_t n) {
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

static void put32(unsigned char *to, unsigned number) {
    for (int i = 0; i < 4; i++) to[i] = (unsigned char)(number >> 8 * i);
}

static size_t get32(const unsigned char *from) {
    return (size_t)from[0] | (size_t)from[1] << 8 | (size_t)from[2] << 16 | (size_t)from[3] << 24;
}

// Makes an exported program that of version 9 of the library, with checksums that fit.
static void of_another_version(unsigned char *file) {
    enum { HEADER = 40, ENTRY = 32 };
    unsigned char *entry = file + HEADER, *engine = file + get32(entry + 8);
    engine[8] = '9'; // behind the length of the text
    put32(entry + 24, crc32_of(0, engine, get32(entry + 16)));
    unsigned crc = crc32_of(0, file, 32);
    put32(file + 32, crc32_of(crc, file + 36, HEADER + ENTRY * get32(file + 16) - 36));
}

// What another version exported is refused, and compiled again from the graphs in the file: it trains on to the same
// bits, also on more threads.
static void compiled_again(const char *folder) {
    ag_graph graph = parsed(NET), step;
    MUST(ag_train(graph, "loss", "kind = 'sgd'\nlr = 1e-3\nmomentum = 0.9", &step));
    ag_method both[2] = {{"learn", step}, {"ask", graph}};
    ag_program program, other = {7}, again[4];
    MUST(ag_compile_all(both, 2, NULL, &program));
    MUST(ag_graph_free(graph));
    MUST(ag_graph_free(step));
    float x[4] = {1, 2, 3, 4}, w[2][4], y[2];
    MUST(ag_init(program, 0));
    MUST(ag_write(program, "x", AG_F32, x, sizeof x));
    for (int i = 0; i < 3; i++) MUST(ag_step(program));
    char path[4096];
    static unsigned char bytes[1 << 16];
    EXPECT(snprintf(path, sizeof path, "%s/other.agp", folder) < (int)sizeof path);
    MUST(ag_program_export(program, path));
    MUST(ag_compile_exported(path, NULL, &again[0]));
    FILE *file = fopen(path, "rb");
    size_t n = file == NULL ? 0 : fread(bytes, 1, sizeof bytes, file);
    EXPECT(n > 0 && n < sizeof bytes && file != NULL && fclose(file) == 0);
    of_another_version(bytes);
    file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(bytes, 1, n, file) == n && fclose(file) == 0);
    REFUSED(ag_program_open(path, &other), AG_PLAN, "it was exported by arenagrad 9.");
    EXPECT(other.id == 7);
    ag_options options = ag_options_default();
    MUST(ag_compile_exported(path, &options, &again[1]));
    options.threads = 2;
    MUST(ag_compile_exported(path, &options, &again[2]));
    REFUSED(ag_program_open_bytes(bytes, n, &other), AG_PLAN, "it was exported by arenagrad 9.");
    MUST(ag_compile_exported_bytes(bytes, n, &options, &again[3]));
    memset(bytes, 0, n);
    for (int i = 0; i < 3; i++) MUST(ag_step(program));
    MUST(ag_write_of(program, "ask", "x", AG_F32, x, sizeof x));
    MUST(ag_run(program, "ask"));
    MUST(ag_read(program, "w", AG_F32, w[0], sizeof w[0]));
    MUST(ag_read_of(program, "ask", "y", AG_F32, &y[0], sizeof y[0]));
    for (int p = 0; p < 4; p++) {
        MUST(ag_write(again[p], "x", AG_F32, x, sizeof x));
        for (int i = 0; i < 3; i++) MUST(ag_step(again[p]));
        MUST(ag_write_of(again[p], "ask", "x", AG_F32, x, sizeof x));
        MUST(ag_run(again[p], "ask"));
        MUST(ag_read(again[p], "w", AG_F32, w[1], sizeof w[1]));
        MUST(ag_read_of(again[p], "ask", "y", AG_F32, &y[1], sizeof y[1]));
        EXPECT(memcmp(w[0], w[1], sizeof w[0]) == 0 && memcmp(&y[0], &y[1], sizeof y[0]) == 0);
        MUST(ag_program_free(again[p]));
    }
    MUST(ag_program_free(program));
}

// A program that waits for nothing has the bits of one that does.
static void latency(void) {
    ag_program program = on_two_threads();
    MUST(ag_prefault(program));
    // What the system may refuse is refused with its reason, and steps go on.
    ag_error e;
    size_t cores[2] = {0, 1};
    if (ag_pin(program, cores, 2) != AG_OK) {
        MUST(ag_last_error(&e));
        EXPECT(e.status == AG_IO);
    }
    if (ag_lock_memory(program) != AG_OK) {
        MUST(ag_last_error(&e));
        EXPECT(e.status == AG_MEMORY);
    }
    ag_tensor y;
    MUST(ag_binding(program, "y", &y));
    REFUSED(ag_lock_memory(program), AG_USAGE, "the arena cannot move to memory of its own after ag_binding");
    const uint64_t times[3] = {0, 1000, UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        MUST(ag_spin(program, times[i]));
        MUST(ag_step(program));
        EXPECT(((float *)y.data)[0] == 256.0f && ((float *)y.data)[65535] == 256.0f);
    }
    MUST(ag_program_free(program));
}

// A program that was exported trains on, to the bits of the one that was not. What it writes stays its own.
static void exported(const char *folder) {
    ag_graph graph = parsed(NET), step;
    MUST(ag_train(graph, "loss", "kind = 'sgd'\nlr = 1e-3\nmomentum = 0.9", &step));
    ag_method both[2] = {{"learn", step}, {"ask", graph}};
    ag_program programs[4];
    MUST(ag_compile_all(both, 2, NULL, &programs[0]));
    MUST(ag_graph_free(graph));
    MUST(ag_graph_free(step));
    float x[4] = {1, 2, 3, 4}, w[4][4], y[4], start[4], of_file[4];
    MUST(ag_init(programs[0], 0));
    MUST(ag_write(programs[0], "x", AG_F32, x, sizeof x));
    for (int i = 0; i < 3; i++) MUST(ag_step(programs[0]));
    MUST(ag_read(programs[0], "w", AG_F32, start, sizeof start));
    char path[4096];
    EXPECT(snprintf(path, sizeof path, "%s/exported.agp", folder) < (int)sizeof path);
    MUST(ag_program_export(programs[0], path));
    MUST(ag_program_open(path, &programs[1]));
    MUST(ag_program_open(path, &programs[2]));
    static unsigned char bytes[1 << 16];
    FILE *file = fopen(path, "rb");
    EXPECT(file != NULL);
    if (file == NULL) return;
    size_t n = fread(bytes, 1, sizeof bytes, file);
    EXPECT(n < sizeof bytes && fclose(file) == 0);
    MUST(ag_program_open_bytes(bytes, n, &programs[3]));
    memset(bytes, 0, n);
    for (int p = 0; p < 4; p++) {
        if (p > 0) MUST(ag_write(programs[p], "x", AG_F32, x, sizeof x));
        for (int i = 0; i < 3; i++) MUST(ag_step(programs[p]));
        MUST(ag_write_of(programs[p], "ask", "x", AG_F32, x, sizeof x));
        MUST(ag_run(programs[p], "ask"));
        MUST(ag_read(programs[p], "w", AG_F32, w[p], sizeof w[p]));
        MUST(ag_read_of(programs[p], "ask", "y", AG_F32, &y[p], sizeof y[p]));
        EXPECT(memcmp(w[p], w[0], sizeof w[0]) == 0 && memcmp(&y[p], &y[0], sizeof y[0]) == 0);
    }
    EXPECT(w[0][0] != start[0]);
    // The file is as it was, also while it is replaced under the programs that map it.
    ag_program again;
    MUST(ag_program_open(path, &again));
    MUST(ag_read(again, "w", AG_F32, of_file, sizeof of_file));
    EXPECT(memcmp(of_file, start, sizeof start) == 0);
    MUST(ag_program_export(programs[1], path));
    MUST(ag_read(again, "w", AG_F32, of_file, sizeof of_file));
    EXPECT(memcmp(of_file, start, sizeof start) == 0);
    MUST(ag_program_free(again));
    MUST(ag_program_open(path, &again));
    MUST(ag_read(again, "w", AG_F32, of_file, sizeof of_file));
    EXPECT(memcmp(of_file, w[1], sizeof of_file) == 0);
    MUST(ag_program_free(again));
    for (int p = 0; p < 4; p++) MUST(ag_program_free(programs[p]));
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    facts();
    tensors();
    symbols();
    methods();
    files(argv[1]);
    exported(argv[1]);
    compiled_again(argv[1]);
    latency();
    return done();
}
