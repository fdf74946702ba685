// Answers requests on several threads, from the file of an exported program. Each thread has a program of its own; the
// weights of all are mapped from the file, so they are in memory once.
//
//   arenagrad export net.ir --weights net.safetensors -o net.agp
//   cc serve.c $(pkg-config --cflags --libs arenagrad) -lpthread -o serve
//   ./serve net.agp THREADS REQUESTS
//
// Each thread answers all requests, so that the answers of all can be compared: they have the same bits.

// clock_gettime, threads
#define _POSIX_C_SOURCE 200809L

#include <arenagrad.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_THREADS = 64, MOST_REQUESTS = 1000000, MOST_TENSORS = 16 };

// A thread: its program, what goes in and comes out, and for each request the answer's hash and its time in seconds.
typedef struct Worker {
    pthread_t thread;
    ag_program program;
    ag_tensor inputs[MOST_TENSORS], outputs[MOST_TENSORS];
    size_t n_inputs, n_outputs, n_requests, first;
    uint64_t *answers;
    double *seconds;
} Worker;

static Worker workers[MOST_THREADS];

static void fail(const char *what) {
    fprintf(stderr, "serve: %s\n", what);
    exit(2);
}

// Ends the process with the error of a call that failed.
static void must(ag_status status) {
    if (status != AG_OK) {
        ag_error e;
        if (ag_last_error(&e) == AG_OK) fprintf(stderr, "serve: %s: %s\n", ag_status_name(e.status), e.message);
        exit(1);
    }
}

static double now(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) fail("there is no clock");
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocated(size_t n, size_t size) {
    void *memory = calloc(n, size);
    if (memory == NULL) fail("there is no memory");
    return memory;
}

static void open_program(Worker *w, const char *path) {
    must(ag_program_open(path, &w->program));
    size_t count;
    must(ag_binding_count(w->program, NULL, &count));
    for (size_t i = 0; i < count; i++) {
        ag_tensor t;
        must(ag_binding_at(w->program, NULL, i, &t));
        if (t.role == AG_INPUT) {
            if (w->n_inputs == MOST_TENSORS || t.dtype != AG_F32) fail("the program needs 1 to 16 inputs of f32");
            must(ag_mark_written(w->program, t.name)); // its memory is written directly
            w->inputs[w->n_inputs++] = t;
        } else if (t.role == AG_OUTPUT) {
            if (w->n_outputs == MOST_TENSORS) fail("the program has more than 16 outputs");
            w->outputs[w->n_outputs++] = t;
        }
    }
    if (w->n_inputs == 0 || w->n_outputs == 0) fail("the program has no input or no output");
}

// A request: numbers from -1 to 1 that depend on its number alone. A server would read them from a client.
static void receive(Worker *w, size_t request) {
    uint64_t state = request;
    for (size_t i = 0; i < w->n_inputs; i++) {
        float *x = (float *)w->inputs[i].data;
        for (size_t k = 0; k < w->inputs[i].bytes / sizeof *x; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            x[k] = (float)(state >> 40) / 8388608.0f - 1.0f;
        }
    }
}

// The hash of an answer (FNV-1a of 64 bits). A server would send the answer.
static uint64_t answer(const Worker *w) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < w->n_outputs; i++) {
        const unsigned char *bytes = (const unsigned char *)w->outputs[i].data;
        for (size_t k = 0; k < w->outputs[i].bytes; k++) hash = (hash ^ bytes[k]) * 1099511628211u;
    }
    return hash;
}

// Each thread begins with another request.
static void *serve(void *arg) {
    Worker *w = (Worker *)arg;
    for (size_t i = 0; i < w->n_requests; i++) {
        size_t request = (w->first + i) % w->n_requests;
        double start = now();
        receive(w, request);
        must(ag_step(w->program));
        w->answers[request] = answer(w);
        w->seconds[request] = now() - start;
    }
    return NULL;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static size_t number(const char *text, size_t most, const char *what) {
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || n < 1 || n > most) fail(what);
    return (size_t)n;
}

int main(int argc, char **argv) {
    if (argc != 4) fail("usage: serve NET.agp THREADS REQUESTS");
    size_t n_threads = number(argv[2], MOST_THREADS, "THREADS goes from 1 to 64");
    size_t n_requests = number(argv[3], MOST_REQUESTS, "REQUESTS goes from 1 to 1000000");
    double *seconds = (double *)allocated(n_threads * n_requests, sizeof *seconds);
    for (size_t t = 0; t < n_threads; t++) {
        Worker *w = &workers[t];
        open_program(w, argv[1]);
        w->n_requests = n_requests;
        w->first = t * n_requests / n_threads;
        w->answers = (uint64_t *)allocated(n_requests, sizeof *w->answers);
        w->seconds = seconds + t * n_requests;
    }

    double start = now();
    for (size_t t = 0; t < n_threads; t++) {
        if (pthread_create(&workers[t].thread, NULL, serve, &workers[t]) != 0) fail("a thread does not start");
    }
    for (size_t t = 0; t < n_threads; t++) {
        if (pthread_join(workers[t].thread, NULL) != 0) fail("a thread does not end");
    }
    double took = now() - start;

    size_t other = 0, n = n_threads * n_requests;
    for (size_t t = 1; t < n_threads; t++) {
        for (size_t r = 0; r < n_requests; r++) other += workers[t].answers[r] != workers[0].answers[r];
    }
    qsort(seconds, n, sizeof *seconds, by_size);
    printf("%u threads, %u answers: %.0f per second, p50 %.3f ms, p99 %.3f ms; %u differ\n", (unsigned)n_threads,
           (unsigned)n, (double)n / took, 1e3 * seconds[(n - 1) / 2], 1e3 * seconds[(n - 1) * 99 / 100], (unsigned)other);
    for (size_t t = 0; t < n_threads; t++) {
        must(ag_program_free(workers[t].program));
        free(workers[t].answers);
    }
    free(seconds);
    return other == 0 ? 0 : 1;
}
