// The bits of products, convolutions and functions, beside those of the program `arenagrad` on the same numbers.
//
// WebAssembly has no fused multiply-add. So there are numbers of few bits, whose sums are often halfway between two
// others; numbers whose products are subnormal; sums that cancel; and what is no number.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { load } from "../arenagrad.mjs";

const path = process.env.ARENAGRAD_WASM ?? new URL("../dist/arenagrad.wasm", import.meta.url);
const program = process.env.ARENAGRAD_PROGRAM;

/** The graph, and the inputs with their dimensions. */
function graph() {
  const [inputs, lines, outputs] = [{}, [], []];
  const input = (name, dims) => {
    inputs[name] = dims;
    lines.push(`%${name} = input : f32[${dims}]`);
    return `%${name}`;
  };
  const output = (line) => {
    lines.push(`%y${outputs.length} = ${line}`);
    outputs.push(`y${outputs.length}=%y${outputs.length}`);
  };
  for (const [m, n, k] of [[1, 9, 40], [2, 5, 7], [3, 8, 33], [4, 4, 16], [7, 10, 70], [33, 13, 20], [5, 70, 300], [50, 31, 64]]) {
    for (const [ta, tb] of [[false, false], [false, true], [true, false]]) {
      const at = `${lines.length}`;
      const a = input(`a${at}`, ta ? [k, m] : [m, k]);
      const b = input(`b${at}`, tb ? [n, k] : [k, n]);
      output(`matmul ${a}, ${b} ta=${ta} tb=${tb} : f32[${m},${n}]`);
    }
  }
  const conv = "stride=[1,1] pad=[1,1,1,1] dilation=[1,1]";
  output(`conv2d ${input("x1", [2, 3, 9, 7])}, ${input("w1", [5, 3, 3, 3])} ${conv} groups=1`);
  output(`conv2d ${input("x2", [2, 16, 8, 8])}, ${input("w2", [8, 16, 3, 3])} ${conv} groups=1`);
  output(`conv2d ${input("x3", [1, 4, 9, 9])}, ${input("w3", [4, 1, 3, 3])} ${conv} groups=4`);
  const x = input("x", [11, 13]);
  for (const f of ["exp", "log", "tanh", "sigmoid", "erf", "sin"]) output(`${f} ${x}`);
  output(`softmax ${x} axis=1`);
  output(`reduce_sum ${x} axes=[0] keep=false`);
  return { text: `graph @bits {\n  ${lines.join("\n  ")}\n  return ${outputs.join(", ")}\n}`, inputs, outputs: outputs.length };
}

/** A .npy file of `f32`. */
function npy(values, dims) {
  const head = `{'descr': '<f4', 'fortran_order': False, 'shape': (${dims.map((d) => `${d},`).join(" ")}), }`;
  const padded = `${head.padEnd(64 * Math.ceil((head.length + 11) / 64) - 11)}\n`;
  const start = Buffer.from(`\x93NUMPY\x01\x00${String.fromCharCode(padded.length & 255, padded.length >> 8)}`, "latin1");
  return Buffer.concat([start, Buffer.from(padded, "latin1"), Buffer.from(values.buffer)]);
}

/** The bits of the numbers of a .npy file. */
function bits(file) {
  const at = 10 + file.readUInt16LE(8);
  return new Uint32Array(file.buffer.slice(file.byteOffset + at, file.byteOffset + file.length));
}

let state = 88172645463325252n;
/** Some 32 bits. */
function draw() {
  state ^= (state << 13n) & 0xffffffffffffffffn;
  state ^= state >> 7n;
  state ^= (state << 17n) & 0xffffffffffffffffn;
  return Number(state >> 32n);
}

const of = (word) => new Float32Array(Uint32Array.of(word).buffer)[0];
const sign = () => (draw() & 1 ? 1 : -1);
const KINDS = {
  "of all bits": () => (draw() / 2 ** 32 - 0.5) * 4,
  "of few bits": () => sign() * ((draw() & 15) / 16),
  "of few bits by all bits": (i, name) => (name.startsWith("b") ? KINDS["of all bits"]() : KINDS["of few bits"]()),
  "with subnormal products": () => sign() * (1 + draw() / 2 ** 32) * 2 ** -(58 + (draw() % 12)),
  "that cancel": (i) => (i % 2 ? -1 : 1) * (1 + ((i >> 1) % 3) * 2 ** -23 + (draw() % 3) * 2 ** -22),
  "of all sizes": () => sign() * (1 + draw() / 2 ** 32) * 2 ** ((draw() % 60) - 30),
  "with what is no number": () => (draw() % 40 === 0 ? [Infinity, -Infinity, NaN, 3e38, 1e-40, -0][draw() % 6] : KINDS["of few bits"]()),
  "of any bits": () => of(draw()),
};

test("numbers have the bits of the program", { skip: !program }, async () => {
  const ag = await load(readFileSync(path));
  const folder = mkdtempSync(join(tmpdir(), "arenagrad-bits-"));
  const { text, inputs, outputs } = graph();
  writeFileSync(join(folder, "bits.ir"), text);
  const here = ag.compile(ag.parse(text));
  try {
    for (const [kind, number] of Object.entries(KINDS)) {
      const args = ["run", join(folder, "bits.ir"), "--out", join(folder, "out")];
      for (const [name, dims] of Object.entries(inputs)) {
        const values = Float32Array.from({ length: dims.reduce((n, d) => n * d) }, (_, i) => number(i, name));
        here.write(name, values);
        writeFileSync(join(folder, `${name}.npy`), npy(values, dims));
        args.push("--in", `${name}=${join(folder, `${name}.npy`)}`);
      }
      here.step();
      execFileSync(program, args);
      for (let y = 0; y < outputs; y++) {
        const want = bits(readFileSync(join(folder, "out", `y${y}.npy`)));
        const values = here.values(`y${y}`);
        const got = new Uint32Array(values.buffer, values.byteOffset, values.length);
        assert.equal(got.length, want.length);
        const isNaN = (word) => (word & 0x7fffffff) > 0x7f800000;
        const at = got.findIndex((word, i) => word !== want[i] && !(isNaN(word) && isNaN(want[i])));
        assert.equal(at, -1, `numbers ${kind}: element ${at} of ${text.match(new RegExp(`%y${y} = .*`))[0]}: ${of(got[at])}, ${of(want[at])}`);
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
