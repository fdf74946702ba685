// Wrong calls: each is an error with its kind and a message that names what is wrong, and nothing is damaged.

// fork, threads
#define _POSIX_C_SOURCE 200809L

#include "check.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void pointers(void) {
    ag_graph graph = parsed(NET);
    ag_program program = compiled(NET);
    ag_tensor tensor;
    float x[4] = {1, 2, 3, 4};
    REFUSED(ag_graph_parse(NULL, 7, NULL, 0, &graph), AG_USAGE, "ag_graph_parse: text is NULL");
    REFUSED(ag_graph_parse(NET, strlen(NET), NULL, 0, NULL), AG_USAGE, "graph is NULL");
    REFUSED(ag_graph_parse(NET, strlen(NET), NULL, 1, &graph), AG_USAGE, "sizes is NULL");
    REFUSED(ag_graph_read(NULL, NULL, 0, &graph), AG_USAGE, "path is NULL");
    REFUSED(ag_graph_text(graph, NULL), AG_USAGE, "text is NULL");
    REFUSED(ag_train(graph, NULL, "lr = 0.1", &graph), AG_USAGE, "loss is NULL");
    REFUSED(ag_train(graph, "loss", NULL, &graph), AG_USAGE, "optimiser is NULL");
    REFUSED(ag_compile(graph, NULL, NULL), AG_USAGE, "program is NULL");
    REFUSED(ag_compile_all(NULL, 2, NULL, &program), AG_USAGE, "methods is NULL");
    REFUSED(ag_binding(program, NULL, &tensor), AG_USAGE, "name is NULL");
    REFUSED(ag_binding(program, "x", NULL), AG_USAGE, "tensor is NULL");
    REFUSED(ag_binding_count(program, NULL, NULL), AG_USAGE, "count is NULL");
    REFUSED(ag_write(program, "x", AG_F32, NULL, sizeof x), AG_USAGE, "data is NULL");
    REFUSED(ag_read(program, "x", AG_F32, NULL, sizeof x), AG_USAGE, "data is NULL");
    REFUSED(ag_mark_written(program, NULL), AG_USAGE, "name is NULL");
    REFUSED(ag_run(program, NULL), AG_USAGE, "method is NULL");
    REFUSED(ag_plan_text(program, NULL, NULL), AG_USAGE, "text is NULL");
    REFUSED(ag_load(program, NULL), AG_USAGE, "path is NULL");
    REFUSED(ag_save(program, NULL), AG_USAGE, "path is NULL");
    REFUSED(ag_save(program, ""), AG_USAGE, "path is empty");
    REFUSED(ag_schedule_rate(NULL, 0.1, 1, 0, (double *)x), AG_USAGE, "schedule is NULL");
    REFUSED(ag_permutation(0, 0, NULL, 3), AG_USAGE, "order is NULL");
    REFUSED(ag_last_error(NULL), AG_USAGE, "error is NULL");
    // A place that is not aligned. The address is not that of the type it is called, so it comes from a number.
    static uint64_t place[32];
    REFUSED(ag_binding(program, "x", (ag_tensor *)((uintptr_t)place + 1)), AG_USAGE, "not a multiple of 8");
    REFUSED(ag_permutation(0, 0, (uint32_t *)((uintptr_t)place + 2), 3), AG_USAGE, "not a multiple of 4");
    // Data of a tensor may lie anywhere.
    static unsigned char bytes[sizeof x + 1];
    memcpy(bytes + 1, x, sizeof x);
    MUST(ag_write(program, "x", AG_F32, bytes + 1, sizeof x));
    REFUSED(ag_graph_parse("\xff\xfe", 2, NULL, 0, &graph), AG_USAGE, "text is no UTF-8");
    REFUSED(ag_binding(program, "\xff", &tensor), AG_USAGE, "name is no UTF-8");
    MUST(ag_graph_free(graph));
    MUST(ag_program_free(program));
}

static void sizes(void) {
    ag_program program = compiled(NET);
    ag_graph graph;
    float x[4] = {1, 2, 3, 4};
    REFUSED(ag_write(program, "x", AG_F32, x, 12), AG_DATA, "input \"x\" is f32[4], which is 16 bytes; 12 are written");
    REFUSED(ag_write(program, "x", AG_F32, x, SIZE_MAX), AG_DATA, "are written");
    REFUSED(ag_write(program, "x", AG_F32, x, 0), AG_DATA, "0 are written");
    REFUSED(ag_write(program, "x", AG_F64, x, 16), AG_DATA, "input \"x\" is f32[4]; it is written as f64");
    REFUSED(ag_write(program, "x", 15, x, 16), AG_USAGE, "dtype is 15, which is no ag_dtype");
    REFUSED(ag_read(program, "y", AG_F32, x, 8), AG_DATA, "output \"y\" is f32[], which is 4 bytes; 8 are read");
    REFUSED(ag_read(program, "y", AG_I32, x, 4), AG_DATA, "it is read as i32");
    REFUSED(ag_graph_parse(NET, SIZE_MAX, NULL, 0, &graph), AG_USAGE, "more than memory can hold");
    REFUSED(ag_permutation(0, 0, (uint32_t *)x, SIZE_MAX), AG_USAGE, "n is 18446744073709551615");
    REFUSED(ag_permutation(0, 0, (uint32_t *)x, UINT32_MAX + (size_t)1), AG_USAGE, "it goes to 4294967295");
    ag_method method = {"a", {1}};
    REFUSED(ag_compile_all(&method, SIZE_MAX / 2, NULL, &program), AG_USAGE, "more than memory can hold");
    MUST(ag_program_free(program));
}

static void names(void) {
    ag_program program = compiled(NET);
    ag_tensor tensor;
    float x[4] = {1, 2, 3, 4};
    REFUSED(ag_binding(program, "z", &tensor), AG_NAME, "there is no tensor \"z\"; the program has input \"x\"");
    REFUSED(ag_write(program, "y", AG_F32, x, 4), AG_NAME, "there is no input, param or state \"y\"");
    REFUSED(ag_write(program, "", AG_F32, x, 4), AG_NAME, "there is no input, param or state \"\"");
    REFUSED(ag_mark_written(program, "loss"), AG_NAME, "there is no input, param or state \"loss\"");
    REFUSED(ag_run(program, "learn"), AG_NAME, "there is no method \"learn\"; the program has step");
    REFUSED(ag_binding_of(program, "learn", "x", &tensor), AG_NAME, "there is no method \"learn\"");
    REFUSED(ag_binding_at(program, NULL, 4, &tensor), AG_USAGE, "index is 4; method \"step\" has 4 tensors");
    MUST(ag_program_free(program));
}

static void handles(void) {
    ag_graph graph = parsed(NET), none = {0};
    ag_program program = compiled(NET), wrong = {graph.id}, far = {UINT64_MAX};
    ag_tensor tensor;
    REFUSED(ag_step(wrong), AG_USAGE, "is a graph");
    REFUSED(ag_step(far), AG_USAGE, "program 0xffffffffffffffff is no handle of this library");
    REFUSED(ag_graph_free(none), AG_USAGE, "graph is zero");
    MUST(ag_graph_free(graph));
    REFUSED(ag_graph_free(graph), AG_USAGE, "was freed");
    REFUSED(ag_compile(graph, NULL, &program), AG_USAGE, "was freed");
    REFUSED(ag_train(graph, "loss", "lr = 0.1", &graph), AG_USAGE, "was freed");
    MUST(ag_program_free(program));
    REFUSED(ag_program_free(program), AG_USAGE, "was freed");
    REFUSED(ag_step(program), AG_USAGE, "was freed");
    REFUSED(ag_binding(program, "x", &tensor), AG_USAGE, "was freed");
    // A handle that takes the place of a freed one is another number.
    ag_program next = compiled(NET);
    EXPECT(next.id != program.id);
    REFUSED(ag_init(program, 0), AG_USAGE, "was freed");
    MUST(ag_program_free(next));
    char own[] = "text", *text;
    REFUSED(ag_string_free(own), AG_USAGE, "is no text of this library");
    graph = parsed(NET);
    MUST(ag_graph_text(graph, &text));
    MUST(ag_graph_free(graph));
    EXPECT(strstr(text, "graph @net") == text);
    MUST(ag_string_free(text));
    REFUSED(ag_string_free(text), AG_USAGE, "was freed");
    MUST(ag_string_free(NULL));
}

static void texts(void) {
    ag_graph graph = parsed(NET), other;
    ag_error e;
    double rate;
    const char *bad = "graph @g {\n  %x = input : f32[4]\n  %y = relu %z\n  return y=%y\n}\n";
    EXPECT(ag_graph_parse(bad, strlen(bad), NULL, 0, &other) != AG_OK);
    MUST(ag_last_error(&e));
    EXPECT(e.line == 3 && e.column > 0 && e.file == NULL);
    const char *open = "graph @g {\n  %x = input : f32[batch]\n  return y=%x\n}\n";
    REFUSED(ag_graph_parse(open, strlen(open), NULL, 0, &other), AG_SYNTAX, "batch");
    REFUSED(ag_graph_read("/no/such.ir", NULL, 0, &other), AG_IO, "/no/such.ir");
    REFUSED(ag_graph_read("/", NULL, 0, &other), AG_IO, "/");
    REFUSED(ag_train(graph, "cost", "lr = 0.1", &other), AG_NAME, "cost");
    REFUSED(ag_train(graph, "loss", "kind = 'adamw'", &other), AG_SYNTAX, "optimiser.lr is missing");
    REFUSED(ag_train(graph, "loss", "lr = 0.1\nkind = 'adm'", &other), AG_SYNTAX, "unknown name `adm`");
    MUST(ag_last_error(&e));
    EXPECT(e.line == 2);
    REFUSED(ag_train(graph, "loss", "lr = ", &other), AG_SYNTAX, "optimiser: ");
    REFUSED(ag_train(graph, "loss", "lr = -1.0", &other), AG_SYNTAX, "optimiser.lr is -1");
    REFUSED(ag_schedule_rate("kind = 'steps'", 0.1, 9, 0, &rate), AG_SYNTAX, "unknown name `steps`");
    MUST(ag_graph_free(graph));
}

static void choices(void) {
    ag_graph graph = parsed(NET);
    ag_program program;
    ag_options options = ag_options_default();
    options.size = 8;
    REFUSED(ag_compile(graph, &options, &program), AG_USAGE, "options.size is 8; it goes from 40 to 48");
    options.size = SIZE_MAX;
    REFUSED(ag_compile(graph, &options, &program), AG_USAGE, "options.size is ");
    options = ag_options_default();
    options.threads = 0;
    REFUSED(ag_compile(graph, &options, &program), AG_PLAN, "threads is 0; it goes from 1 to 1024");
    options = ag_options_default();
    options.find_nan = 2;
    REFUSED(ag_compile(graph, &options, &program), AG_USAGE, "options.find_nan is 2");
    options = ag_options_default();
    options.precision = "f8";
    REFUSED(ag_compile(graph, &options, &program), AG_USAGE, "options.precision is \"f8\"; it may be f32, ");
    options = ag_options_default();
    options.keep = "f64";
    REFUSED(ag_compile(graph, &options, &program), AG_USAGE, "options.keep is \"f64\"; it may be ");
    options = ag_options_default();
    options.convolutions = "fast";
    REFUSED(ag_compile(graph, &options, &program), AG_USAGE,
            "options.convolutions is \"fast\"; it may be direct, winograd");
    options = ag_options_default();
    options.max_memory = 1;
    REFUSED(ag_compile(graph, &options, &program), AG_PLAN, "1");
    ag_method twice[2] = {{"a", graph}, {"a", graph}};
    REFUSED(ag_compile_all(twice, 2, NULL, &program), AG_NAME, "a");
    EXPECT(ag_compile_all(twice, 0, NULL, &program) != AG_OK);
    MUST(ag_graph_free(graph));
    // A tensor that no machine holds.
    const char *huge = "graph @g {\n  %x = input : f32[1099511627776,1048576]\n  %y = neg %x\n  return y=%y\n}\n";
    ag_status status = ag_graph_parse(huge, strlen(huge), NULL, 0, &graph);
    if (status == AG_OK) status = ag_compile(graph, NULL, &program);
    EXPECT(status != AG_OK && status < AG_OTHER);
}

static void order_of_calls(void) {
    ag_program program = compiled(NET);
    float x[4] = {1, 2, 3, 4}, y;
    REFUSED(ag_step(program), AG_DATA, "input \"x\" (f32[4]) was never written");
    MUST(ag_write(program, "x", AG_F32, x, sizeof x));
    REFUSED(ag_step(program), AG_DATA, "param \"w\" (f32[4]) was neither initialised nor loaded");
    REFUSED(ag_load(program, "/no/such.safetensors"), AG_IO, "/no/such.safetensors");
    REFUSED(ag_save(program, "w.safetensors"), AG_DATA, "without values, neither initialised nor loaded: w");
    REFUSED(ag_checkpoint(program, "w.safetensors"), AG_DATA, "without values, neither initialised nor loaded: w");
    MUST(ag_init(program, 0));
    REFUSED(ag_save(program, "/no/such/folder/w.safetensors"), AG_IO, "/no/such/folder");
    MUST(ag_step(program));
    MUST(ag_read(program, "y", AG_F32, &y, sizeof y));
    EXPECT(y == 10.0f);
    MUST(ag_program_free(program));
    const char *pick = "graph @g {\n  %t = input : f32[3]\n  %i = input : i32[2]\n  %m = input : bool[2]\n"
                       "  %y = gather %t, %i axis=0\n  return y=%y, m=%m\n}\n";
    program = compiled(pick);
    int32_t i[2] = {0, 3};
    unsigned char m[2] = {1, 2};
    MUST(ag_write(program, "t", AG_F32, x, 12));
    MUST(ag_write(program, "i", AG_I32, i, sizeof i));
    REFUSED(ag_write(program, "m", AG_BOOL, m, sizeof m), AG_DATA, "element 1 of input \"m\" is 2; a bool is 0 or 1");
    REFUSED(ag_read(program, "m", AG_BOOL, m, sizeof m), AG_NAME, "an input and an output are called \"m\"");
    m[1] = 0;
    MUST(ag_mark_written(program, "m"));
    REFUSED(ag_step(program), AG_DATA, "gather");
    MUST(ag_program_free(program));
}

static void latency(void) {
    ag_program program = on_two_threads(), zero = {0};
    size_t none[2] = {8191, 8192}, twice[2] = {0, 0};
    REFUSED(ag_pin(program, NULL, 1), AG_USAGE, "ag_pin: cores is NULL");
    REFUSED(ag_pin(program, NULL, 0), AG_PLAN, "there are fewer cores: []");
    REFUSED(ag_pin(program, (size_t *)((uintptr_t)twice + 1), 1), AG_USAGE, "not a multiple of 8");
    REFUSED(ag_pin(program, twice, SIZE_MAX), AG_USAGE, "more than memory can hold");
    REFUSED(ag_pin(program, twice, 2), AG_PLAN, "core 0 is given twice; each thread has a core of its own");
    REFUSED(ag_pin(program, none, 1), AG_PLAN, "threads is 2, and there are fewer cores: [8191]");
    REFUSED(ag_pin(program, none, 2), AG_IO, "no thread can be put on core 8191: ");
    REFUSED(ag_pin(zero, twice, 1), AG_USAGE, "program is zero");
    REFUSED(ag_spin(zero, 0), AG_USAGE, "ag_spin: program is zero");
    REFUSED(ag_prefault(zero), AG_USAGE, "ag_prefault: program is zero");
    REFUSED(ag_lock_memory(zero), AG_USAGE, "ag_lock_memory: program is zero");
    MUST(ag_program_free(program));
    REFUSED(ag_pin(program, twice, 1), AG_USAGE, "was freed");
    REFUSED(ag_spin(program, 0), AG_USAGE, "was freed");
    REFUSED(ag_prefault(program), AG_USAGE, "was freed");
    REFUSED(ag_lock_memory(program), AG_USAGE, "was freed");
    // The system says no to a process that may lock no memory.
    struct rlimit before, nothing = {0, 0};
    program = compiled(NET);
    EXPECT(getrlimit(RLIMIT_MEMLOCK, &before) == 0);
    nothing.rlim_max = before.rlim_max;
    EXPECT(setrlimit(RLIMIT_MEMLOCK, &nothing) == 0);
    if (geteuid() != 0) REFUSED(ag_lock_memory(program), AG_MEMORY, "bytes of a program are not locked in memory");
    EXPECT(setrlimit(RLIMIT_MEMLOCK, &before) == 0);
    MUST(ag_program_free(program));
}

static void put(const char *path, const unsigned char *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL);
    if (file == NULL) return;
    EXPECT(fwrite(bytes, 1, n, file) == n);
    EXPECT(fclose(file) == 0);
}

// The call refuses a damaged file, or one that tells of another engine, and gives no program.
static int is_refused(ag_status status, ag_program program, const char *part) {
    ag_error e;
    int told = ag_last_error(&e) == AG_OK && e.status == status && strstr(e.message, part) != NULL;
    return (status == AG_SYNTAX || status == AG_PLAN) && told && program.id == 7;
}

static void exported(const char *folder) {
    ag_program program = compiled(NET), other = {7};
    static char path[4096], wrong[4096];
    static unsigned char bytes[1 << 16];
    enum { VALUES = 64 }; // the end of the file, which ag_program_open maps and does not read
    EXPECT(snprintf(path, sizeof path, "%s/net.agp", folder) < (int)sizeof path);
    EXPECT(snprintf(wrong, sizeof wrong, "%s/wrong.agp", folder) < (int)sizeof wrong);
    REFUSED(ag_program_export(program, NULL), AG_USAGE, "ag_program_export: path is NULL");
    REFUSED(ag_program_export(program, ""), AG_USAGE, "path is empty");
    REFUSED(ag_program_export(program, "/no/such/net.agp"), AG_IO, "/no/such/net.agp");
    REFUSED(ag_program_export(program, folder), AG_IO, folder);
    MUST(ag_init(program, 0));
    MUST(ag_program_export(program, path));
    MUST(ag_program_free(program));
    REFUSED(ag_program_export(program, path), AG_USAGE, "was freed");
    ag_options options = ag_options_default();
    options.find_nan = 1;
    ag_graph graph = parsed(NET);
    MUST(ag_compile(graph, &options, &program));
    REFUSED(ag_program_export(program, path), AG_DATA, "cannot be exported");
    MUST(ag_graph_free(graph));
    MUST(ag_program_free(program));

    REFUSED(ag_program_open(NULL, &other), AG_USAGE, "ag_program_open: path is NULL");
    REFUSED(ag_program_open("", &other), AG_USAGE, "path is empty");
    REFUSED(ag_program_open("\xff", &other), AG_USAGE, "path is no UTF-8");
    REFUSED(ag_program_open(path, NULL), AG_USAGE, "program is NULL");
    REFUSED(ag_program_open("/no/such.agp", &other), AG_IO, "/no/such.agp");
    REFUSED(ag_program_open("/dev/null", &other), AG_DATA, "/dev/null: no regular file");
    REFUSED(ag_program_open("/", &other), AG_DATA, "/: a directory");
    put(wrong, (const unsigned char *)NET, strlen(NET));
    REFUSED(ag_program_open(wrong, &other), AG_SYNTAX, "the file is no exported program");

    FILE *file = fopen(path, "rb");
    EXPECT(file != NULL);
    size_t n = file == NULL ? 0 : fread(bytes, 1, sizeof bytes, file);
    EXPECT(n > 4096 && n < sizeof bytes && file != NULL && fclose(file) == 0);
    REFUSED(ag_program_open_bytes(NULL, n, &other), AG_USAGE, "ag_program_open_bytes: bytes is NULL");
    REFUSED(ag_program_open_bytes(bytes, n, NULL), AG_USAGE, "program is NULL");
    REFUSED(ag_program_open_bytes(bytes, SIZE_MAX, &other), AG_USAGE, "more than memory can hold");
    REFUSED(ag_program_open_bytes(NULL, 0, &other), AG_SYNTAX, "fewer than a header");
    // Cut short, or with one bit that is wrong: refused wherever it is.
    for (size_t i = 0; i < n; i += i < 512 ? 1 : 13) {
        EXPECT(is_refused(ag_program_open_bytes(bytes, i, &other), other, ""));
        bytes[i] ^= (unsigned char)(1u << i % 8);
        EXPECT(is_refused(ag_program_open_bytes(bytes, n, &other), other, ""));
        if (i % 101 == 0 && i < n - VALUES) {
            put(wrong, bytes, n);
            EXPECT(is_refused(ag_program_open(wrong, &other), other, wrong));
        }
        bytes[i] ^= (unsigned char)(1u << i % 8);
        if (i % 101 == 0) {
            put(wrong, bytes, i);
            EXPECT(is_refused(ag_program_open(wrong, &other), other, wrong));
        }
    }
    put(wrong, bytes, n + 1);
    EXPECT(is_refused(ag_program_open(wrong, &other), other, wrong));

    REFUSED(ag_compile_exported(NULL, NULL, &other), AG_USAGE, "ag_compile_exported: path is NULL");
    REFUSED(ag_compile_exported(path, NULL, NULL), AG_USAGE, "program is NULL");
    REFUSED(ag_compile_exported("/no/such.agp", NULL, &other), AG_IO, "/no/such.agp");
    REFUSED(ag_compile_exported("/", NULL, &other), AG_DATA, "/: a directory");
    options = ag_options_default();
    options.threads = 0;
    REFUSED(ag_compile_exported(path, &options, &other), AG_PLAN, "threads is 0");
    REFUSED(ag_compile_exported_bytes(bytes, n, &options, &other), AG_PLAN, "threads is 0");
    options.size = 1;
    REFUSED(ag_compile_exported(path, &options, &other), AG_USAGE, "options.size is 1");
    REFUSED(ag_compile_exported_bytes(bytes, n, &options, &other), AG_USAGE, "options.size is 1");
    REFUSED(ag_compile_exported_bytes(NULL, n, NULL, &other), AG_USAGE, "ag_compile_exported_bytes: bytes is NULL");
    REFUSED(ag_compile_exported_bytes(bytes, n, NULL, NULL), AG_USAGE, "program is NULL");
    REFUSED(ag_compile_exported_bytes(bytes, SIZE_MAX, NULL, &other), AG_USAGE, "more than memory can hold");
    REFUSED(ag_compile_exported_bytes(NULL, 0, NULL, &other), AG_SYNTAX, "fewer than a header");
    EXPECT(is_refused(ag_compile_exported_bytes(bytes, n - 1, NULL, &other), other, ""));
    // The values are read, so they are checked, too.
    for (size_t i = 0; i < n; i += i < n - VALUES ? 101 : 1) {
        bytes[i] ^= (unsigned char)(1u << i % 8);
        put(wrong, bytes, n);
        EXPECT(is_refused(ag_compile_exported(wrong, NULL, &other), other, wrong));
        EXPECT(is_refused(ag_compile_exported_bytes(bytes, n, NULL, &other), other, ""));
        bytes[i] ^= (unsigned char)(1u << i % 8);
    }
    EXPECT(other.id == 7);

    // The bytes may lie at any address.
    memmove(bytes + 1, bytes, n);
    MUST(ag_program_open_bytes(bytes + 1, n, &other));
    REFUSED(ag_step(other), AG_DATA, "input \"x\" (f32[4]) was never written");
    MUST(ag_program_free(other));
    REFUSED(ag_step(other), AG_USAGE, "was freed");
    MUST(ag_program_open(path, &other));
    REFUSED(ag_step(other), AG_DATA, "input \"x\" (f32[4]) was never written");
    MUST(ag_program_free(other));
}

// Steps of one program from several threads: those that are refused change nothing.
static ag_program shared;
static int done_steps[3], refused_steps[3], other_steps[3];

static void *steps_of(void *arg) {
    int me = *(int *)arg;
    for (int i = 0; i < 4000 && (i < 200 || refused_steps[me] == 0); i++) {
        ag_status status = ag_step(shared);
        if (status == AG_OK) {
            done_steps[me]++;
        } else {
            ag_error e;
            int known = ag_last_error(&e) == AG_OK && strstr(e.message, "another thread uses the program") != NULL;
            *(status == AG_USAGE && known ? &refused_steps[me] : &other_steps[me]) += 1;
        }
    }
    return NULL;
}

static void threads(void) {
    // w falls by 1 in each step.
    const char *net = "graph @net {\n"
                      "  %w = param init=zeros scale=0 frozen=false : f32[200000]\n"
                      "  %loss = reduce_sum %w axes=[0] keep=false\n"
                      "  return loss=%loss\n"
                      "}\n";
    ag_graph graph = parsed(net), step;
    MUST(ag_train(graph, "loss", "kind = 'sgd'\nlr = 1.0", &step));
    MUST(ag_compile(step, NULL, &shared));
    MUST(ag_graph_free(graph));
    MUST(ag_graph_free(step));
    MUST(ag_init(shared, 0));
    pthread_t workers[3];
    int numbers[3] = {0, 1, 2}, all = 0;
    for (int i = 0; i < 3; i++) EXPECT(pthread_create(&workers[i], NULL, steps_of, &numbers[i]) == 0);
    for (int i = 0; i < 3; i++) EXPECT(pthread_join(workers[i], NULL) == 0);
    for (int i = 0; i < 3; i++) all += done_steps[i];
    EXPECT(refused_steps[0] + refused_steps[1] + refused_steps[2] > 0);
    EXPECT(other_steps[0] + other_steps[1] + other_steps[2] == 0);
    ag_tensor w;
    MUST(ag_binding(shared, "w", &w));
    EXPECT(((float *)w.data)[0] == (float)-all && ((float *)w.data)[199999] == (float)-all);
}

// The thread of a program that is freed meanwhile finds an error, and no freed memory.
static void *steps_until_freed(void *arg) {
    ag_error *e = (ag_error *)arg;
    ag_status status;
    do {
        status = ag_step(shared);
        MUST(ag_last_error(e));
    } while (status == AG_OK || strstr(e->message, "another thread uses the program") != NULL);
    EXPECT(status == AG_USAGE && strstr(e->message, "was freed") != NULL);
    return NULL;
}

static void freed_meanwhile(void) {
    pthread_t worker;
    ag_error e;
    EXPECT(pthread_create(&worker, NULL, steps_until_freed, &e) == 0);
    for (int i = 0; i < 100; i++) (void)ag_step(shared);
    MUST(ag_program_free(shared));
    EXPECT(pthread_join(worker, NULL) == 0);
}

// The threads of a program are not in the child of a fork.
static void forks(void) {
    ag_program program = on_two_threads();
    MUST(ag_step(program));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        REFUSED(ag_step(program), AG_USAGE, "compiled before this process was forked");
        MUST(ag_program_free(program));
        fflush(stdout);
        _exit(failures);
    }
    int ended = 1;
    EXPECT(child > 0 && waitpid(child, &ended, 0) == child && ended == 0);
    MUST(ag_step(program));
    MUST(ag_program_free(program));
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    pointers();
    sizes();
    names();
    handles();
    texts();
    choices();
    order_of_calls();
    latency();
    exported(argv[1]);
    threads();
    freed_meanwhile();
    forks();
    return done();
}
