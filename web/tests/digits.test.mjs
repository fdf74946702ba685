// Ten steps of `arenagrad train digits` in the module: the weights that the program writes with portable code, to the bit.
//
// ARENAGRAD_WASM is the module, ARENAGRAD_DIGITS its packed images, ARENAGRAD_RUN a folder that
// `ARENAGRAD_ISA=portable arenagrad train digits --steps 10` wrote.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { load } from "../arenagrad.mjs";
import { Digits } from "../digits.mjs";

const { ARENAGRAD_WASM: wasm, ARENAGRAD_DIGITS: digits, ARENAGRAD_RUN: run } = process.env;

test("ten steps of the convnet have the program's bits", () => {
  const lines = readFileSync(`${run}/metrics.jsonl`, "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const steps = lines.filter((line) => "train/loss" in line);
  assert.equal(steps.length, 10);
  return load(readFileSync(wasm)).then((ag) => {
    const graph = ag.parse(readFileSync(new URL("digits.ir", import.meta.url), "utf8"));
    const program = ag.compile(graph.train("loss", { kind: "adamw", lr: 4e-3, weight_decay: 0.05 }));
    program.init(0);
    const { train } = Digits.split(readFileSync(digits));
    const order = ag.permutation(train.length, 0, 0);
    for (const [i, { lr, "train/loss": loss }] of steps.entries()) {
      train.copy(order.subarray(64 * i, 64 * (i + 1)), program.values("images"), program.values("labels"));
      program.mark("images");
      program.mark("labels");
      program.write("lr", [lr]);
      program.step();
      assert.equal(program.values("loss")[0], loss, `step ${i + 1}`);
    }
    assert.deepEqual(Buffer.from(program.save({ weights: true })), readFileSync(`${run}/weights.safetensors`));
  });
});
