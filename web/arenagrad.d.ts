/**
 * arenagrad in browsers and node.
 *
 * ```js
 * import { load } from "./arenagrad.mjs";
 *
 * const ag = await load(new URL("arenagrad.wasm", import.meta.url));
 * const line = ag.parse(`graph @line {
 *   %x = input : f32[batch,3]
 *   %y = input : f32[batch,1]
 *   %w = param init=zeros scale=0.0 frozen=false : f32[1,3]
 *   %p = matmul %x, %w ta=false tb=true : f32[batch,1]
 *   %d = sub %p, %y : f32[batch,1]
 *   %s = mul %d, %d : f32[batch,1]
 *   %loss = reduce_sum %s axes=[0,1] keep=false : f32[]
 *   return loss=%loss
 * }`, { batch: 2 });
 * const program = ag.compile(line.train("loss", { kind: "sgd", lr: 0.1 }));
 * program.init(0);
 * program.write("x", [1, 0, 0, 0, 1, 0]);
 * program.write("y", [3, 4]);
 * program.write("lr", [0.1]);
 * for (let i = 0; i < 50; i++) program.step();
 * console.log(program.values("w"), program.values("loss")[0]); // near [3, 4, 0], near 0
 * ```
 */

/** The classes of the engine's errors; `Panic`: the module has stopped and has to be loaded anew. */
export type Kind =
  | "Shape" | "Arity" | "Stage" | "Name" | "Syntax" | "Derivative" | "Verify" | "Plan" | "Data" | "Io" | "Full"
  | "Memory" | "Diverged" | "Panic";

/** An error of the engine, or of a wrong call. */
export class ArenagradError extends Error {
  readonly kind: Kind;
  /** The line and column of a graph's text (`"3:8"`), or the node at fault. */
  readonly location: string | null;
}

export type Numbers =
  | Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | Uint8Array | Uint16Array | Uint32Array
  | BigInt64Array | BigUint64Array;

export interface Tensor {
  readonly name: string;
  readonly role: "input" | "param" | "state" | "output";
  /** The number of the method whose input or output it is; `null` for params and states, which all methods share. */
  readonly method: number | null;
  /** `f32`, `i32` and so on. */
  readonly dtype: string;
  readonly dims: readonly number[];
  /** The first byte in the module's memory. */
  readonly address: number;
  readonly bytes: number;
}

/** Keys of the table `[optimiser]` of a configuration; `lr` must be given. */
export interface Optimiser {
  kind?: string;
  lr: number;
  [key: string]: unknown;
}

export interface Options {
  /** The largest size of the arena, in bytes: values are computed again to fit. */
  max_memory?: number;
  /** How products of f32 are computed: `f32`, `bf16x3`, `bf16x2` or `bf16`. */
  precision?: string;
  /** The type in which a step keeps values for its backward half: `f32`, `bf16` or `f16`. */
  keep?: string;
  /** A step fails at the first op that makes a NaN. */
  find_nan?: boolean;
}

/** A graph in the module. */
export class Graph {
  /**
   * The graph of one training step: gradients of the scalar output `loss`, and updates of all params. It has a new input
   * `lr` (f32[]), the rate of each step. Throws `Name`, `Shape`, `Derivative`, and `Syntax` for a wrong key.
   */
  train(loss: string, optimiser: Optimiser): Graph;
  /** The text form. */
  toString(): string;
  /** Gives the memory back. Later calls of this graph throw. */
  free(): void;
}

/** A compiled program: one method, or several that share params and states, in one arena. */
export class Program {
  /** The names of the methods; that of a single graph is `step`. */
  readonly methods: readonly string[];
  readonly tensors: readonly Tensor[];
  /** The tensor of this name: an input or output of the method (by default the first one), a param or a state. */
  tensor(name: string, method?: string): Tensor;
  /**
   * The elements of a tensor, as a view of the module's memory: nothing is copied. Steps keep it; every call that makes
   * something (`parse`, `compile`, `save` …) may move the memory, after which the view has no elements and `values` has to
   * be called again. An input that is written through a view has to be marked by [`mark`](#mark). Half floats (`f16`,
   * `bf16`) are given as their bits, `c64` as pairs.
   */
  values(name: string, method?: string): Numbers;
  /**
   * Copies numbers into an input, param or state. Throws `Data` for another length, another type of array, and an element
   * that the type has not, as 300 for `u8` or `undefined`. Half floats (`f16`, `bf16`) are written as their bits.
   */
  write(name: string, numbers: Numbers | readonly number[] | readonly bigint[], method?: string): void;
  /** Counts an input, param or state as written. */
  mark(name: string, method?: string): void;
  /** Fills params and states with start values; they depend on the seed (below 2³²) and on the names alone. */
  init(seed?: number): void;
  /** Runs the method (by default the first one) once. Throws `Data` if an input was never written. */
  step(method?: string): void;
  /** The memory plan of a method as a text; as a picture of the arena with `svg`. */
  plan(options?: { method?: string; svg?: boolean }): string;
  /** A safetensors file of params and states; with `weights` of the params and the buffers of layers alone. */
  save(options?: { weights?: boolean }): Uint8Array;
  /**
   * Reads a safetensors file. Throws, and changes nothing, if names, types or shapes do not match. A program without an
   * optimiser leaves out the states of one that trained.
   */
  load(file: Uint8Array): void;
  /** An `.agp`: graphs, plans, params and states, which `Arenagrad.open` and the programs in Rust, C and Python open. */
  export(): Uint8Array;
  /** Gives the memory back. Later calls of this program throw. */
  free(): void;
}

/** A loaded module. */
export class Arenagrad {
  /** Parses a graph's text. `sizes` are those of its symbols. Throws `Syntax`, `Shape` and so on, with line and column. */
  parse(text: string, sizes?: Record<string, number>): Graph;
  /** Optimises, plans and proves a graph, or several as methods of one program, and allocates the arena. */
  compile(graphs: Graph | Record<string, Graph>, options?: Options): Program;
  /**
   * The program of an `.agp`, with its params and states: without compiling if this module exported it, else compiled
   * again from the graph inside. Throws `Syntax` if the file is damaged or none.
   */
  open(file: Uint8Array): Program;
  /** The numbers from 0 to n − 1 in the order of an epoch: the batches that `arenagrad train` takes. */
  permutation(n: number, seed?: number, epoch?: number): Uint32Array;
}

/** Loads the module from its bytes, a URL, a response, a compiled module, or a promise of one of these. */
export function load(
  source: BufferSource | string | URL | Response | WebAssembly.Module | Promise<BufferSource | Response>,
): Promise<Arenagrad>;
