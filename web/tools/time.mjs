// The time of a step in the module beside that of the program's portable code: node web/tools/time.mjs MODULE.wasm PROGRAM
//
// The step is that of the page: 64, 128 and 10 units, batch 32, AdamW. Both run in turn; the least time of each counts.
// The program's numbers have all bits. The module steps on such numbers, and on pixels: numbers of few bits, whose sums
// are often halfway between two others, which takes longer where a multiply-add has to be made of other operations.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { load } from "../arenagrad.mjs";
import { LEARN } from "../digits.mjs";

const [, , code, program] = process.argv;
const ag = await load(readFileSync(code));
const step = ag.parse(LEARN, { batch: 32 }).train("loss", { kind: "adamw", lr: 1e-3 });
const before = performance.now();
const compiled = ag.compile(step);
const planned = performance.now() - before;
compiled.init(0);
const images = {
  pixels: Float32Array.from({ length: 32 * 64 }, (_, i) => ((i * 131) % 17) / 16),
  numbers: Float32Array.from({ length: 32 * 64 }, (_, i) => Math.sin(i * 131)),
};
compiled.write("labels", Int32Array.from({ length: 32 }, (_, i) => i % 10));
compiled.write("lr", [1e-3]);

const folder = mkdtempSync(join(tmpdir(), "arenagrad-time-"));
const here = { pixels: Infinity, numbers: Infinity };
let there = Infinity;
try {
  writeFileSync(join(folder, "step.ir"), String(step));
  for (let round = 0; round < 20; round++) {
    for (const kind of Object.keys(here)) {
      compiled.init(0);
      compiled.write("images", images[kind]);
      for (let i = 0; i < 50; i++) {
        const start = performance.now();
        compiled.step();
        here[kind] = Math.min(here[kind], performance.now() - start);
      }
    }
    const args = ["trace", join(folder, "step.ir"), "--out", join(folder, "trace.json")];
    const table = execFileSync(program, args, { env: { ...process.env, ARENAGRAD_ISA: "portable" }, encoding: "utf8" });
    there = Math.min(there, Number(/^step ([0-9.]+) us/m.exec(table)[1]) / 1000);
  }
} finally {
  rmSync(folder, { recursive: true });
}
const memory = (compiled.module.exports.memory.buffer.byteLength / 2 ** 20).toFixed(1);
const us = (ms) => (ms * 1000).toFixed(0);
const times = (kind) => (here[kind] / there).toFixed(2);
console.log(
  `a step takes ${us(here.numbers)} us in the module (on pixels ${us(here.pixels)} us), ${us(there)} us in portable code: ` +
    `${times("numbers")} times (${times("pixels")}); compiling took ${planned.toFixed(0)} ms, and memory is ${memory} MiB`,
);
