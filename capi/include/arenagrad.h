// arenagrad: a training engine for CPUs. The C interface; docs/c.md is its guide.
//
// Every function that can fail returns an ag_status, and then changes nothing that it was to write. ag_last_error tells
// the thread's last error. Names and texts are UTF-8 and end with a zero byte. A handle (ag_graph, ag_program) is a
// number: one that was freed is an error of kind AG_USAGE. A pointer must be NULL or point to what the function says:
// NULL and a wrong alignment are errors, but a pointer to other memory is not found.
//
// Written by `cargo run --manifest-path capi/generate/Cargo.toml` from the source in capi/src: change that.


#ifndef ARENAGRAD_H
#define ARENAGRAD_H

#include <stddef.h>
#include <stdint.h>

// What a function returns: AG_OK, or the kind of the error, which `ag_last_error` describes.
typedef enum ag_status {
    // No error.
    AG_OK = 0,
    // The shapes, types or attributes of an op do not match.
    AG_SHAPE = 1,
    // An op has too few or too many operands.
    AG_ARITY = 2,
    // The stage of the graph does not allow an op.
    AG_STAGE = 3,
    // A name is unknown, used twice, or reserved.
    AG_NAME = 4,
    // A text or a file cannot be read.
    AG_SYNTAX = 5,
    // The requested derivative does not exist.
    AG_DERIVATIVE = 6,
    // A graph breaks an invariant.
    AG_VERIFY = 7,
    // No plan fits, or a plan breaks an invariant.
    AG_PLAN = 8,
    // Bad data: an index out of range, a wrong length, an input that was never written.
    AG_DATA = 9,
    // A file operation or another system call failed.
    AG_IO = 10,
    // The disk, or the user's share of it, is full.
    AG_FULL = 11,
    // The system has no memory for the arena.
    AG_MEMORY = 12,
    // A value is NaN or infinite, in a program that looks for them.
    AG_DIVERGED = 13,
    // An error of a kind that this version of the interface has no number for.
    AG_OTHER = 99,
    // A bug in the library. A program in which it happened is of no use any more: free it.
    AG_PANIC = 100,
    // The function was called wrongly: a pointer that is NULL or misaligned, a size that cannot be, a handle that was
    // freed, a program that another thread uses.
    AG_USAGE = 101,
} ag_status;

// An element type. `AG_F16`, `AG_BF16`, `AG_I16`, `AG_U16` and `AG_U64` are for storage and casts.
typedef enum ag_dtype {
    // float
    AG_F32 = 0,
    // double
    AG_F64 = 1,
    // IEEE binary16
    AG_F16 = 2,
    // bfloat16
    AG_BF16 = 3,
    // int8_t
    AG_I8 = 4,
    // uint8_t
    AG_U8 = 5,
    // int32_t
    AG_I32 = 6,
    // int64_t
    AG_I64 = 7,
    // uint32_t
    AG_U32 = 8,
    // One byte, 0 or 1.
    AG_BOOL = 9,
    // int16_t
    AG_I16 = 10,
    // uint16_t
    AG_U16 = 11,
    // uint64_t
    AG_U64 = 12,
    // Two floats: real and imaginary part.
    AG_C64 = 13,
    // Two doubles: real and imaginary part.
    AG_C128 = 14,
} ag_dtype;

// What a tensor is.
typedef enum ag_role {
    // Written by the caller.
    AG_INPUT = 0,
    // Trained.
    AG_PARAM = 1,
    // Kept from step to step.
    AG_STATE = 2,
    // Read by the caller.
    AG_OUTPUT = 3,
} ag_role;

// The last error of a thread. Texts are valid until the next call of this thread that fails.
typedef struct ag_error {
    // Its kind; AG_OK if no call of this thread has failed.
    enum ag_status status;
    // One sentence that names the op or argument, shapes and values at fault.
    const char *message;
    // The file at fault, or NULL.
    const char *file;
    // The line in that file, or in the text that was given, from 1; 0 if there is none.
    uint32_t line;
    // The column in the text that was given, from 1; 0 if there is none.
    uint32_t column;
} ag_error;

// The size of a symbol in a graph's text: of `batch` in `f32[batch,784]`.
typedef struct ag_size {
    // The symbol.
    const char *symbol;
    // Its size.
    size_t size;
} ag_size;

// A graph: a number that the library knows. Zero is no graph. A graph may be used by several threads at once.
typedef struct ag_graph {
    // The number.
    uint64_t id;
} ag_graph;

// Choices for compiling. Begin with `ag_options_default()` and change what you need.
typedef struct ag_options {
    // The size of this struct, in bytes: `ag_options_default` sets it.
    size_t size;
    // Most bytes of the arena; 0: no limit. Values are computed twice to fit.
    size_t max_memory;
    // How products of f32 matrices are computed: "f32", "bf16x3", "bf16x2" or "bf16"; NULL: "f32".
    const char *precision;
    // The type in which f32 values are kept for the backward half: "f32", "bf16" or "f16"; NULL: "f32".
    const char *keep;
    // Most threads of a step, from 1 to 1024. Results do not depend on it.
    uint32_t threads;
    // 1: a step fails at the first op that makes a NaN or an infinity, and runs slowly; 0: it does not look.
    uint32_t find_nan;
    // How convolutions are computed: "direct", or "winograd" for those of 3 × 3 kernels where that is faster; NULL:
    // "direct".
    const char *convolutions;
} ag_options;

// A program: a number that the library knows. Zero is no program. One thread at a time may use it; a call of a second
// one gets AG_USAGE.
typedef struct ag_program {
    // The number.
    uint64_t id;
} ag_program;

// A method of a program: a graph and its name.
typedef struct ag_method {
    // The name.
    const char *name;
    // The graph.
    struct ag_graph graph;
} ag_method;

// A tensor of a program. `data` is valid until the program is freed; a step of the program may run only while no
// thread reads or writes it.
typedef struct ag_tensor {
    // The first element, aligned to 64 bytes for inputs, params and states, and for its type else. Elements are in
    // row-major order. An output must not be written.
    void *data;
    // Size in bytes.
    size_t bytes;
    // Element type.
    enum ag_dtype dtype;
    // What it is.
    enum ag_role role;
    // Number of axes, from 0 to 8.
    size_t rank;
    // Dimensions; those from `rank` on are 0.
    size_t dims[8];
    // Name; valid until the program is freed.
    const char *name;
} ag_tensor;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version, as text: "0.1.0".
const char *ag_version(void);

// The name of a status: "AG_SHAPE"; "unknown" for a number that is none.
const char *ag_status_name(int32_t status);

// Tells the last error of this thread: of its last call that did not return AG_OK.
enum ag_status ag_last_error(struct ag_error *error);

// Frees a text that a function of this library gave. NULL is no error.
enum ag_status ag_string_free(char *text);

// Reads a graph from its text form, which need not end with a zero byte. `sizes` are those of the text's symbols, and
// may be NULL if `n_sizes` is 0.
//
// Errors: AG_SYNTAX and others of the text, with line and column.
enum ag_status ag_graph_parse(const char *text,
                              size_t text_bytes,
                              const struct ag_size *sizes,
                              size_t n_sizes,
                              struct ag_graph *graph);

// Reads a graph from a file with its text form, at most 64 MiB. Errors as for `ag_graph_parse`, with the file; AG_IO.
enum ag_status ag_graph_read(const char *path,
                             const struct ag_size *sizes,
                             size_t n_sizes,
                             struct ag_graph *graph);

// The text form of a graph. Free it with `ag_string_free`.
enum ag_status ag_graph_text(struct ag_graph graph, char **text);

// Makes a graph of one training step: `graph`, its backward pass, and the update of its params by an optimiser, so
// that the scalar output called `loss` falls. `optimiser` is TOML with the keys of the table [optimiser] of a run's
// configuration, of which `lr` must be given: "kind = 'adamw'\nlr = 1e-3". The new graph has an input `lr`, whose
// default is that rate.
//
// Errors: AG_SYNTAX with the line of `optimiser`; AG_NAME if there is no such output; AG_DERIVATIVE.
enum ag_status ag_train(struct ag_graph graph,
                        const char *loss,
                        const char *optimiser,
                        struct ag_graph *step);

// Frees a graph. Programs that were compiled from it stay.
enum ag_status ag_graph_free(struct ag_graph graph);

// The default choices: one thread, no limit of memory, f32, no search for NaN.
struct ag_options ag_options_default(void);

// Compiles a graph into a program: passes, plan, proof, one allocation. `options` may be NULL. The method is called
// "step".
//
// Errors: AG_PLAN if the budget is too small, with the least that can be met, or if `threads` is out of its range;
// AG_MEMORY.
enum ag_status ag_compile(struct ag_graph graph,
                          const struct ag_options *options,
                          struct ag_program *program);

// Compiles several graphs into one program, whose methods have one set of params and states and one block of memory.
// Errors as for `ag_compile`; AG_NAME if two methods have one name; params of one name that differ.
enum ag_status ag_compile_all(const struct ag_method *methods,
                              size_t n_methods,
                              const struct ag_options *options,
                              struct ag_program *program);

// Compiles the graphs of an exported program anew, with other options, and gives the program the params and states of
// the file: for a file that `ag_program_open` refuses with AG_PLAN, as another version of the library exported it, or
// it is for another processor. The file is read as a whole, and all checksums are compared. `options` may be NULL.
//
// Errors: AG_IO; AG_DATA if `path` is a folder or a pipe; AG_SYNTAX if the file is damaged, or no exported program;
// those of `ag_compile`.
enum ag_status ag_compile_exported(const char *path,
                                   const struct ag_options *options,
                                   struct ag_program *program);

// As `ag_compile_exported`, of a file that is in memory: `n_bytes` at `bytes`, at any address. Errors as for
// `ag_compile_exported`, but AG_IO and AG_DATA.
enum ag_status ag_compile_exported_bytes(const void *bytes,
                                         size_t n_bytes,
                                         const struct ag_options *options,
                                         struct ag_program *program);

// Frees a program and the memory of its tensors. A step that another thread runs goes on to its end.
enum ag_status ag_program_free(struct ag_program program);

// Fills params and states with their start values, which depend on the seed and their names alone.
enum ag_status ag_init(struct ag_program program, uint64_t seed);

// Runs one step of the first method. It allocates nothing.
//
// Errors: AG_DATA if an input was never written, a param or state neither initialised nor loaded, or an index is out
// of range. A step that fails leaves params and states as they were.
enum ag_status ag_step(struct ag_program program);

// Runs one step of a method. Errors as for `ag_step`; AG_NAME if there is no such method.
enum ag_status ag_run(struct ag_program program, const char *method);

// The memory plan of a method (NULL: the first one), as text. Free it with `ag_string_free`.
enum ag_status ag_plan_text(struct ag_program program, const char *method, char **text);

// The number of tensors of a method (NULL: the first one): its inputs, params and states, then its outputs.
enum ag_status ag_binding_count(struct ag_program program, const char *method, size_t *count);

// The tensor at `index` of a method (NULL: the first one), from 0.
enum ag_status ag_binding_at(struct ag_program program,
                             const char *method,
                             size_t index,
                             struct ag_tensor *tensor);

// The tensor of the first method called `name`: find it once, then read and write `data` before and after steps. Who
// writes an input in this way calls `ag_mark_written` once.
//
// Errors: AG_NAME if there is none; if an input, param or state has the name of an output, too, use `ag_binding_at`.
enum ag_status ag_binding(struct ag_program program,
                          const char *name,
                          struct ag_tensor *tensor);

// As `ag_binding`, of a method.
enum ag_status ag_binding_of(struct ag_program program,
                             const char *method,
                             const char *name,
                             struct ag_tensor *tensor);

// Copies `bytes` bytes at `data`, which need not be aligned, into the input, param or state of the first method called
// `name`. `dtype` is an ag_dtype.
//
// Errors: AG_NAME if there is none; AG_DATA for another element type or size, or a bool that is neither 0 nor 1.
enum ag_status ag_write(struct ag_program program,
                        const char *name,
                        uint32_t dtype,
                        const void *data,
                        size_t bytes);

// As `ag_write`, of a method.
enum ag_status ag_write_of(struct ag_program program,
                           const char *method,
                           const char *name,
                           uint32_t dtype,
                           const void *data,
                           size_t bytes);

// Copies a tensor of the first method, as the last step left it, to `data`, which need not be aligned. Errors as for
// `ag_write`.
enum ag_status ag_read(struct ag_program program,
                       const char *name,
                       uint32_t dtype,
                       void *data,
                       size_t bytes);

// As `ag_read`, of a method.
enum ag_status ag_read_of(struct ag_program program,
                          const char *method,
                          const char *name,
                          uint32_t dtype,
                          void *data,
                          size_t bytes);

// Tells the library that the input, param or state of the first method called `name` was written through `data` of
// `ag_binding`; once is enough. Bytes of an AG_BOOL must be 0 or 1.
enum ag_status ag_mark_written(struct ag_program program,
                               const char *name);

// As `ag_mark_written`, of a method.
enum ag_status ag_mark_written_of(struct ag_program program, const char *method, const char *name);

// Reads params and buffers of layers from a file of weights: safetensors, torch.save, or a folder of Hugging Face's.
// Names, types and shapes must be equal. A file that is refused changes nothing.
//
// Errors: AG_IO, AG_NAME, AG_DATA, AG_SYNTAX, with file and tensor.
enum ag_status ag_load(struct ag_program program,
                       const char *path);

// Writes params and buffers of layers to a safetensors file, as a whole or not at all.
//
// Errors: AG_DATA if one of them was neither initialised nor loaded; AG_IO, AG_FULL.
enum ag_status ag_save(struct ag_program program, const char *path);

// Writes all params and states, those of the optimiser among them, to a file, as a whole or not at all, with a digest.
// A program that resumes from it goes on with the same bits. Errors as for `ag_save`.
enum ag_status ag_checkpoint(struct ag_program program,
                             const char *path);

// Reads back what `ag_checkpoint` wrote. A file that is refused changes nothing.
enum ag_status ag_resume(struct ag_program program, const char *path);

// Writes the program as one file, as a whole or not at all: its graphs, its plans, and its params and states as they
// are now. `ag_program_open` makes the same program of it. Values of inputs are not in the file. By convention its
// name ends with .agp.
//
// Errors: AG_DATA if the program looks for NaN, or if a graph has constants of tens of megabytes; AG_IO, AG_FULL.
enum ag_status ag_program_export(struct ag_program program,
                                 const char *path);

// Opens an exported program. Nothing is compiled: the graphs are verified and the plans proved again. It has the
// methods and the threads of the program that was exported, and steps give the same bits. Params and states are mapped
// from the file: the system reads them when a step first uses them, and all programs that have the file open share
// their memory. One that writes them copies the pages it writes; the file stays as it is.
//
// The file must not be cut while the program lives: the system would end the process. Replacing it, as
// `ag_program_export` does, is harmless. The checksum of the values is not compared, as that would read them.
//
// Errors: AG_IO; AG_DATA if `path` is a folder or a pipe; AG_SYNTAX if the file is damaged, or no exported program;
// AG_PLAN if another version of the library exported it, or it is for another processor (`ag_compile_exported`
// compiles its graphs again); AG_MEMORY.
enum ag_status ag_program_open(const char *path,
                               struct ag_program *program);

// Opens an exported program whose file is in memory: `n_bytes` at `bytes`, at any address. Params and states are
// copied from there, and all checksums are compared. Errors as for `ag_program_open`, but AG_IO.
enum ag_status ag_program_open_bytes(const void *bytes,
                                     size_t n_bytes,
                                     struct ag_program *program);

// Puts each thread of a program on a core of its own: the thread that runs steps on the first of `cores`, the others
// on the next ones. Cores have the numbers of the system, from 0. There may be more of them than threads. The thread
// that runs steps moves when it runs its next step, and stays there. Linux alone can do this.
//
// Errors: AG_PLAN if there are fewer cores than threads, or a core is there twice; AG_IO if there is no such core, if
// the process may not use it, or if the system refuses. The threads then stay where they were.
enum ag_status ag_pin(struct ag_program program,
                      const size_t *cores,
                      size_t n_cores);

// How long the threads of a program, the caller's excepted, look for the next step before they sleep: a thread that
// looks keeps its core busy, one that sleeps takes some tens of microseconds to wake. 0 sleeps at once, UINT64_MAX
// never. A program on one thread has no thread that waits.
enum ag_status ag_spin(struct ag_program program,
                       uint64_t nanoseconds);

// Touches each page of a program's memory, so that no later step waits for one: the system gives memory, and reads the
// values of an exported program, page by page when they are first used.
enum ag_status ag_prefault(struct ag_program program);

// Keeps a program's memory in memory: the system may not write it to a swap area. Brings in all pages, as
// `ag_prefault` does. Call it before `ag_binding`: small arenas move to pages of their own.
//
// Errors: AG_USAGE after `ag_binding`; AG_MEMORY if the system refuses: most systems limit the memory that a process
// may lock (`ulimit -l`).
enum ag_status ag_lock_memory(struct ag_program program);

// The learning rate of step `step`, from 0, of a run of `steps` steps whose base or peak rate is `lr`. `schedule` is
// TOML with the keys of the table [schedule] of a run's configuration: "kind = 'one-cycle'".
//
// Errors: AG_SYNTAX with the line of `schedule`.
enum ag_status ag_schedule_rate(const char *schedule,
                                double lr,
                                uint64_t steps,
                                uint64_t step,
                                double *rate);

// Fills `order` with a permutation of 0, 1, … n − 1, a function of `seed`, `epoch` and `n`: the order of examples in
// an epoch, as the program `arenagrad train` takes them.
enum ag_status ag_permutation(uint64_t seed,
                              uint64_t epoch,
                              uint32_t *order,
                              size_t n);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ARENAGRAD_H */
