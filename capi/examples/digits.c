// Trains a convnet on the digits of data/digits.csv.gz, as `arenagrad train digits` does, to the same bits.
//
//   gzip -dc data/digits.csv.gz > digits.csv
//   cc digits.c $(pkg-config --cflags --libs arenagrad) -o digits
//   ./digits digits.csv capi/examples STEPS weights.safetensors

#include <arenagrad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 10, PIXELS = 64, MOST = 2000, BATCH = 64, TEST_BATCH = 120 };

// Images with pixels from 0 to 1, and their digits.
typedef struct Images {
    size_t n;
    float pixels[MOST][PIXELS];
    int32_t labels[MOST];
} Images;

static Images all, train, test;

// Ends the program with the error of a call that failed.
static void must(ag_status status) {
    if (status != AG_OK) {
        ag_error e;
        if (ag_last_error(&e) == AG_OK) {
            fprintf(stderr, "%s: %s", ag_status_name(e.status), e.message);
            if (e.file != NULL) fprintf(stderr, ", at %s:%u", e.file, (unsigned)e.line);
            fprintf(stderr, "\n");
        }
        exit(1);
    }
}

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(2);
}

// Reads lines of 64 pixels from 0 to 16 and a digit.
static void read_digits(const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) fail("the digits cannot be read");
    int x;
    while (fscanf(file, "%d", &x) == 1) {
        if (all.n == MOST) fail("there are too many digits");
        for (size_t i = 0; i < PIXELS; i++) {
            if (x < 0 || x > 16) fail("a pixel is not from 0 to 16");
            all.pixels[all.n][i] = (float)x / 16.0f;
            if (fscanf(file, ",%d", &x) != 1) fail("a line has fewer than 65 numbers");
        }
        if (x < 0 || x >= CLASSES) fail("a label is no digit");
        all.labels[all.n++] = x;
    }
    fclose(file);
}

static void add(Images *to, size_t i) {
    memcpy(to->pixels[to->n], all.pixels[i], sizeof all.pixels[i]);
    to->labels[to->n++] = all.labels[i];
}

// Of each class, a fifth is for the test: the first ones of a fixed order.
static void split(void) {
    static unsigned char tested[MOST];
    for (int class_ = 0; class_ < CLASSES; class_++) {
        static size_t members[MOST];
        static uint32_t order[MOST];
        size_t n = 0;
        for (size_t i = 0; i < all.n; i++) {
            if (all.labels[i] == class_) members[n++] = i;
        }
        must(ag_permutation(0, (uint64_t)class_, order, n));
        for (size_t k = 0; k < (n + 2) / 5; k++) tested[members[order[k]]] = 1;
    }
    for (size_t i = 0; i < all.n; i++) add(tested[i] ? &test : &train, i);
}

static ag_graph graph_of(const char *folder, const char *name) {
    char path[4096];
    ag_graph graph;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) fail("the folder's name is too long");
    must(ag_graph_read(path, NULL, 0, &graph));
    return graph;
}

// Learning and classifying, with one set of params.
static ag_program compiled(const char *folder) {
    ag_graph loss = graph_of(folder, "digits.ir"), step;
    must(ag_train(loss, "loss", "kind = 'adamw'\nlr = 4e-3\nweight_decay = 0.05", &step));
    ag_graph logits = graph_of(folder, "digits_logits.ir");
    ag_method methods[2] = {{"learn", step}, {"classify", logits}};
    ag_options options = ag_options_default();
    options.threads = 2; // the weights do not depend on it
    ag_program program;
    must(ag_compile_all(methods, 2, &options, &program));
    must(ag_graph_free(loss));
    must(ag_graph_free(step));
    must(ag_graph_free(logits));
    return program;
}

static ag_tensor tensor_of(ag_program program, const char *method, const char *name) {
    ag_tensor tensor;
    must(ag_binding_of(program, method, name, &tensor));
    return tensor;
}

static void learn(ag_program program, uint64_t steps) {
    ag_tensor images = tensor_of(program, "learn", "images"), labels = tensor_of(program, "learn", "labels");
    ag_tensor rate = tensor_of(program, "learn", "lr"), loss = tensor_of(program, "learn", "loss");
    // Their memory is written directly, before each step.
    must(ag_mark_written(program, "images"));
    must(ag_mark_written(program, "labels"));
    must(ag_mark_written(program, "lr"));
    static uint32_t order[MOST];
    uint64_t per_epoch = train.n / BATCH;
    for (uint64_t step = 0; step < steps; step++) {
        size_t first = (size_t)(step % per_epoch) * BATCH;
        if (first == 0) must(ag_permutation(0, step / per_epoch, order, train.n));
        for (size_t k = 0; k < BATCH; k++) {
            size_t i = order[first + k];
            memcpy((float *)images.data + k * PIXELS, train.pixels[i], sizeof train.pixels[i]);
            ((int32_t *)labels.data)[k] = train.labels[i];
        }
        double lr;
        must(ag_schedule_rate("kind = 'one-cycle'", 4e-3, steps, step, &lr));
        *(float *)rate.data = (float)lr;
        must(ag_step(program));
        if ((step + 1) % 20 == 0) printf("step %u: loss %.4f\n", (unsigned)(step + 1), (double)*(float *)loss.data);
    }
}

// The number of test images whose largest logit is that of their digit.
static size_t right_ones(ag_program program) {
    static float logits[TEST_BATCH][CLASSES], batch[TEST_BATCH][PIXELS];
    size_t right = 0;
    for (size_t first = 0; first < test.n; first += TEST_BATCH) {
        // The last batch is filled up with the last image, which still counts once.
        for (size_t k = 0; k < TEST_BATCH; k++) {
            size_t i = first + k < test.n ? first + k : test.n - 1;
            memcpy(batch[k], test.pixels[i], sizeof batch[k]);
        }
        must(ag_write_of(program, "classify", "images", AG_F32, batch, sizeof batch));
        must(ag_run(program, "classify"));
        must(ag_read_of(program, "classify", "logits", AG_F32, logits, sizeof logits));
        for (size_t k = 0; k < TEST_BATCH && first + k < test.n; k++) {
            int best = 0;
            for (int class_ = 1; class_ < CLASSES; class_++) {
                if (logits[k][class_] > logits[k][best]) best = class_;
            }
            right += best == test.labels[first + k];
        }
    }
    return right;
}

int main(int argc, char **argv) {
    if (argc != 5) fail("usage: digits DIGITS.csv FOLDER STEPS WEIGHTS");
    read_digits(argv[1]);
    split();
    if (train.n < BATCH || test.n == 0) fail("there are too few digits");
    ag_program program = compiled(argv[2]);
    must(ag_init(program, 0));
    learn(program, strtoull(argv[3], NULL, 10));
    printf("%u of %u test images are right\n", (unsigned)right_ones(program), (unsigned)test.n);
    must(ag_save(program, argv[4]));
    must(ag_program_free(program));
    return 0;
}
