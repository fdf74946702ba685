// arenagrad in browsers and node: graphs, training steps and programs. Types and examples are in arenagrad.d.ts.
//
// Invariant: a view of the module's memory is made anew after the memory has grown, which detaches older views.

/** An error of the engine, or of a wrong call. */
export class ArenagradError extends Error {
  constructor(kind, message, location = null) {
    super(location === null ? message : `${message}, at ${location}`);
    Object.assign(this, { name: "ArenagradError", kind, location });
  }
}

const ARRAYS = {
  f32: Float32Array, f64: Float64Array, c64: Float32Array, f16: Uint16Array, bf16: Uint16Array, bool: Uint8Array,
  i8: Int8Array, i16: Int16Array, i32: Int32Array, i64: BigInt64Array,
  u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, u64: BigUint64Array,
};

/** Whether an array `A` has an element for `x` that is equal to it; floats are rounded. */
function holds(A, x) {
  if (typeof x !== "number" && typeof x !== "boolean" && typeof x !== "bigint") return false;
  if (A === Float32Array || A === Float64Array) return typeof x === "number";
  if (typeof x === "number" && !Number.isSafeInteger(x)) return false;
  return A.of(A.name.startsWith("Big") ? BigInt(x) : Number(x))[0] == x;
}
function refuse(kind, message) {
  throw new ArenagradError(kind, message);
}
const binary = (what, file) => (file instanceof Uint8Array ? file : refuse("Data", `${what} takes a Uint8Array`));
/** What JSON has no word for is refused; the norm of the largest element is called "inf". */
const worded = (key, x) => {
  if (typeof x === "bigint") refuse("Data", `${key} is the BigInt ${x}; it must be a number`);
  if (typeof x !== "number" || Number.isFinite(x)) return x;
  return key === "norm_type" && x === Infinity ? "inf" : refuse("Data", `${key} is ${x}; it must be a finite number`);
};
const whole = (what, n) => (n >>> 0 === n ? n : refuse("Data", `${what} is ${n}, no whole number below 4294967296`));

/** The calls of one module, and its memory. */
class Module {
  constructor(exports) {
    Object.assign(this, { exports, stopped: null });
    exports.ag_start();
  }

  /** Calls an export, which fails with a negative number. */
  call(name, ...args) {
    if (this.stopped !== null) refuse("Panic", `the module has stopped: ${this.stopped}`);
    let result;
    try {
      result = this.exports[name](...args);
    } catch (trap) {
      const panic = this.bytes(this.exports.ag_panic_at(), this.exports.ag_panic_bytes()).slice();
      refuse("Panic", (this.stopped = new TextDecoder().decode(panic) || `memory is exhausted, or ${trap.message}`));
    }
    if (result >= 0) return result;
    const { kind, message, location } = JSON.parse(new TextDecoder().decode(this.reply()));
    throw new ArenagradError(kind, message, location);
  }

  /** Calls an export whose request is bytes, or a value that becomes JSON. */
  ask(name, value, ...args) {
    const bytes = value instanceof Uint8Array ? value : new TextEncoder().encode(JSON.stringify(value, worded));
    this.call("ag_request", whole("the size of a request", bytes.length));
    this.bytes(this.exports.ag_request_at(), bytes.length).set(bytes);
    return this.call(name, ...args);
  }

  bytes = (at, length) => new Uint8Array(this.exports.memory.buffer, at >>> 0, length >>> 0);
  reply = () => this.bytes(this.exports.ag_reply_at(), this.exports.ag_reply_bytes()).slice();

  /** Calls an export that leaves bytes, or a text. */
  get = (name, ...args) => [this.call(name, ...args), this.reply()][1];
  text = (name, ...args) => new TextDecoder().decode(this.get(name, ...args));
}

/** A graph or a program: a number in the module, until it is freed. */
class Held {
  #id;
  constructor(module, id) {
    this.module = module;
    this.#id = id;
  }

  get id() {
    return this.#id ?? refuse("Name", `this ${this.constructor.name.toLowerCase()} was freed`);
  }

  free() {
    this.module.call("ag_free", this.id);
    this.#id = null;
  }
}

export class Graph extends Held {
  train(loss, optimiser) {
    return new Graph(this.module, this.module.ask("ag_train", { loss, optimiser }, this.id));
  }

  toString() {
    return this.module.text("ag_graph_text", this.id);
  }
}

export class Program extends Held {
  #views = new Map();
  #buffer = null;

  constructor(module, id) {
    super(module, id);
    Object.assign(this, JSON.parse(module.text("ag_tensors", id)));
  }

  #method(name) {
    const at = this.methods.indexOf(name);
    return at < 0 ? refuse("Name", `there is no method "${name}"; the program has ${this.methods.join(", ")}`) : at;
  }

  tensor(name, method = this.methods[0]) {
    const at = this.#method(method);
    const own = this.tensors.filter((t) => t.method === at || t.method === null);
    const list = own.map((t) => t.name).slice(0, 8).join(", ") + (own.length > 8 ? " and others" : "");
    return own.find((t) => t.name === name) ?? refuse("Name", `there is no tensor "${name}"; "${method}" has ${list}`);
  }

  values(name, method) {
    const [t, { buffer }] = [this.id !== null && this.tensor(name, method), this.module.exports.memory];
    if (buffer !== this.#buffer) [this.#views, this.#buffer] = [new Map(), buffer];
    if (!this.#views.has(t)) {
      const A = ARRAYS[t.dtype] ?? refuse("Data", `no array of JavaScript holds ${t.dtype}`);
      this.#views.set(t, new A(buffer, t.address, t.bytes / A.BYTES_PER_ELEMENT));
    }
    return this.#views.get(t);
  }

  write(name, numbers, method) {
    const [t, view] = [this.tensor(name, method), this.values(name, method)];
    const what = `${t.role} "${name}" is ${t.dtype}[${t.dims}]`;
    if (t.role === "output") refuse("Name", `"${name}" is an output; inputs, params and states can be written`);
    if (!Array.isArray(numbers) && numbers?.constructor !== view.constructor)
      refuse("Data", `${what}: it takes an Array or a ${view.constructor.name}, not ${numbers?.constructor?.name}`);
    if (numbers.length !== view.length) refuse("Data", `${what}; ${numbers.length} elements are written`);
    if (t.dtype === "bool" && numbers.some((x) => x != 0 && x != 1)) refuse("Data", `${what}: elements are 0 or 1`);
    const wrong = Array.isArray(numbers) ? numbers.findIndex((x) => !holds(view.constructor, x)) : -1;
    if (wrong >= 0) refuse("Data", `${what}: ${typeof numbers[wrong]} ${String(numbers[wrong])} at ${wrong} is no element of it`);
    const wide = Array.isArray(numbers) && (view instanceof BigInt64Array || view instanceof BigUint64Array);
    view.set(wide ? Array.from(numbers, BigInt) : numbers);
    this.mark(name, method);
  }

  mark(name, method = this.methods[0]) {
    this.module.ask("ag_mark", name, this.id, this.#method(method));
  }

  init = (seed = 0) => void this.module.call("ag_init", this.id, BigInt(whole("seed", seed)));
  step = (method = this.methods[0]) => void this.module.call("ag_run", this.id, this.#method(method));
  plan = ({ method = this.methods[0], svg = false } = {}) =>
    this.module.text("ag_plan", this.id, this.#method(method), svg ? 1 : 0);
  save = ({ weights = false } = {}) => this.module.get("ag_save", this.id, weights ? 1 : 0);
  load = (file) => void this.module.ask("ag_load", binary("load", file), this.id);
  export = () => this.module.get("ag_export", this.id);
}

/** A loaded module. */
export class Arenagrad {
  #module;
  constructor(exports) {
    this.#module = new Module(exports);
  }

  parse(text, sizes = {}) {
    return new Graph(this.#module, this.#module.ask("ag_parse", { text, sizes }));
  }

  compile(graphs, options = {}) {
    const methods = Object.entries(graphs instanceof Graph ? { step: graphs } : (graphs ?? {}));
    const other = methods.find(([, g]) => !(g instanceof Graph) || g.module !== this.#module);
    if (other) refuse("Data", `"${other[0]}" is no graph of this module`);
    const named = methods.map(([name, g]) => [name, g.id]);
    return new Program(this.#module, this.#module.ask("ag_compile", { ...options, methods: named }));
  }

  open(file) {
    return new Program(this.#module, this.#module.ask("ag_open", binary("open", file)));
  }

  permutation(n, seed = 0, epoch = 0) {
    const [count, ...key] = [whole("n", n), BigInt(whole("seed", seed)), BigInt(whole("epoch", epoch))];
    return new Uint32Array(this.#module.get("ag_permutation", count, ...key).buffer);
  }
}

/** Loads the module from its bytes, a URL, a response, a compiled module, or a promise of one of these. */
export async function load(source) {
  let code = await source;
  if (typeof code === "string" || code instanceof URL) code = await fetch(code);
  if (code instanceof Response) code = code.ok ? await code.arrayBuffer() : refuse("Io", `${code.url}: ${code.status}`);
  const made = await WebAssembly.instantiate(code, {});
  return new Arenagrad((made.instance ?? made).exports);
}
