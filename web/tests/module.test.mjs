// The module under node: what it computes, and that wrong calls are errors which leave it usable.
//
// ARENAGRAD_WASM is the module; by default that of web/dist.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { ArenagradError, load } from "../arenagrad.mjs";

const path = process.env.ARENAGRAD_WASM ?? new URL("../dist/arenagrad.wasm", import.meta.url);
const code = await WebAssembly.compile(readFileSync(path));
const ag = await load(code);

const LINE = `graph @line {
  %x = input : f32[batch,3]
  %y = input : f32[batch,1]
  %w = param init=zeros scale=0.0 frozen=false : f32[1,3]
  %p = matmul %x, %w ta=false tb=true : f32[batch,1]
  %d = sub %p, %y : f32[batch,1]
  %s = mul %d, %d : f32[batch,1]
  %loss = reduce_sum %s axes=[0,1] keep=false : f32[]
  return loss=%loss
}`;

/** A program that learns [3, 4, 0]. */
function line() {
  const program = ag.compile(ag.parse(LINE, { batch: 2 }).train("loss", { kind: "sgd", lr: 0.1 }));
  program.init(0);
  program.write("x", [1, 0, 0, 0, 1, 0]);
  program.write("y", Float32Array.of(3, 4));
  program.write("lr", [0.1]);
  return program;
}

/** Asserts that `call` throws this kind of error, with a message that has these words. */
function refused(kind, words, call) {
  assert.throws(call, (e) => {
    assert.ok(e instanceof ArenagradError, `${e.stack}`);
    assert.equal(e.kind, kind, e.message);
    assert.ok(e.message.includes(words), e.message);
    return true;
  });
}

test("products in f64 are refused by name where the module has none", () => {
  const text = "graph @g {\n  %a = input : f64[2,2]\n  %y = matmul %a, %a ta=false tb=false\n  return y=%y\n}";
  refused("Plan", "no kernel for f64, because it was built without the feature f64", () => ag.compile(ag.parse(text)));
  const sum = ag.compile(ag.parse("graph @g {\n  %a = input : f64[3]\n  %y = reduce_sum %a axes=[0] keep=false\n  return y=%y\n}"));
  sum.write("a", [1, 2, 3.5]);
  sum.step();
  assert.equal(sum.values("y")[0], 6.5);
  sum.free();
});

test("the module imports nothing", () => {
  assert.deepEqual(WebAssembly.Module.imports(code), []);
});

test("a program learns", () => {
  const program = line();
  for (let i = 0; i < 50; i++) program.step();
  const [w, loss] = [program.values("w"), program.values("loss")[0]];
  assert.ok(Math.abs(w[0] - 3) < 1e-3 && Math.abs(w[1] - 4) < 1e-3 && w[2] === 0, `${w}`);
  assert.ok(loss < 1e-6, `${loss}`);
  program.free();
});

test("methods share params and have inputs of their own", () => {
  const forward = (name, batch) => ag.parse(`graph @${name} {
  %x = input : f32[batch,3]
  %w = param init=ones scale=0.0 frozen=false : f32[1,3]
  %p = matmul %x, %w ta=false tb=true : f32[batch,1]
  return p=%p
}`, { batch });
  const program = ag.compile({ one: forward("one", 1), two: forward("two", 2) });
  program.init(0);
  program.write("x", [1, 2, 3]);
  program.write("x", [1, 1, 1, 2, 2, 2], "two");
  program.step();
  program.step("two");
  assert.deepEqual([...program.values("p")], [6]);
  assert.deepEqual([...program.values("p", "two")], [3, 6]);
  assert.equal(program.tensors.filter((t) => t.name === "w").length, 1);
  program.free();
});

test("views are made anew after the memory has grown", () => {
  const program = line();
  const before = program.values("w");
  assert.equal(program.values("w"), before);
  const held = [];
  while (before.length > 0) held.push(ag.compile(ag.parse("graph @g {\n  %x = input : f32[1048576]\n  %y = exp %x\n  return y=%y\n}")));
  program.step();
  assert.equal(program.values("w").length, 3);
  assert.notEqual(program.values("w")[0], 0);
  held.forEach((p) => p.free());
  program.free();
});

test("a file gives back what was saved", () => {
  const [a, b] = [line(), line()];
  for (let i = 0; i < 3; i++) a.step();
  const file = a.save();
  b.load(file);
  assert.deepEqual(b.values("w"), a.values("w"));
  a.step();
  b.step();
  assert.deepEqual(b.save(), a.save());
  assert.ok(new TextDecoder().decode(file.subarray(8, 60)).startsWith('{"__metadata__"'));
  [a, b].forEach((p) => p.free());
});

test("a program that evaluates reads the file of one that trains", () => {
  const graph = ag.parse(LINE, { batch: 2 });
  const [a, b] = [ag.compile(graph.train("loss", { kind: "adam", lr: 0.1, ema: 0.9 })), ag.compile(graph)];
  a.init(1);
  const file = a.save();
  b.load(file);
  assert.deepEqual(b.values("w"), a.values("w"));
  const other = ag.compile(graph.train("loss", { kind: "sgd", momentum: 0.9, lr: 0.1 }));
  refused("Name", "opt.exp_avg", () => other.load(file));
  [a, b, other].forEach((p) => p.free());
});

test("an exported program is opened, and learns on", () => {
  const a = line();
  a.step();
  const file = a.export();
  const b = ag.open(file);
  for (const p of [a, b]) {
    p.write("x", [1, 0, 0, 0, 1, 0]);
    p.write("y", [3, 4]);
    p.write("lr", [0.1]);
    p.step();
  }
  assert.deepEqual(b.values("w"), a.values("w"));
  [a, b].forEach((p) => p.free());
});

test("a program that the engine exported elsewhere is compiled again", { skip: !process.env.ARENAGRAD_AGP }, () => {
  const program = ag.open(new Uint8Array(readFileSync(process.env.ARENAGRAD_AGP)));
  program.write("x", [1, 2, 3, 4, 5, 6]);
  program.step();
  assert.deepEqual([...program.values("y")], [6, 15]);
  program.free();
});

test("plans are text and pictures", () => {
  const program = line();
  assert.match(program.plan(), /arena/);
  assert.match(program.plan({ svg: true }), /^<svg .*<\/svg>$/s);
  assert.match(String(ag.parse(LINE, { batch: 2 })), /^graph @line \{\n/);
  program.free();
});

for (const [file, block] of [["docs/browser.md", /```js\n(.*?)```/s], ["web/arenagrad.d.ts", / \* ```js\n(.*?) \* ```/s]])
  test(`the example of ${file} runs`, () => {
    const text = block.exec(readFileSync(new URL(`../../${file}`, import.meta.url), "utf8"))[1];
    const lines = text.replace(/^ \*( |$)/gm, "").split("\n").filter((line) => !/^(import|const ag) /.test(line));
    const [said, document] = [[], { body: {} }];
    new Function("ag", "document", "console", lines.join("\n"))(ag, document, { log: (...all) => said.push(...all) });
    const [w, loss] = said;
    assert.ok(Math.abs(w[0] - 3) < 0.1 && Math.abs(w[1] - 4) < 0.1 && loss < 0.1, `${w} ${loss}`);
    if (file === "docs/browser.md") assert.match(document.body.innerHTML, /^<svg/);
  });

test("a permutation is one, and depends on seed and epoch", () => {
  const sorted = (a) => [...a].sort((x, y) => x - y);
  const [a, b] = [ag.permutation(100, 1, 0), ag.permutation(100, 1, 1)];
  assert.deepEqual(sorted(a), [...Array(100).keys()]);
  assert.notDeepEqual(a, b);
  assert.deepEqual(a, ag.permutation(100, 1, 0));
});

const bad = {
  "a file that is no exported program": () => refused("Syntax", "", () => ag.open(new Uint8Array(64))),
  "an exported program that is cut": () => refused("Syntax", "", () => ag.open(line().export().slice(0, -64))),
  "an exported program as an array": () => refused("Data", "open takes a Uint8Array", () => ag.open([1, 2])),
  "a text that is no graph": () => refused("Syntax", "1:1", () => ag.parse("grph @x {}")),
  "a text that is no text": () => refused("Syntax", "expected a string", () => ag.parse(3)),
  "a symbol without a size": () => refused("Syntax", "batch", () => ag.parse(LINE)),
  "a size that is no number": () => refused("Syntax", "parse", () => ag.parse(LINE, { batch: -1 })),
  "shapes that do not match": () => refused("Shape", "matmul", () => ag.parse(LINE.replace("f32[batch,3]", "f32[batch,5]"), { batch: 2 })),
  "a loss that is not there": () => refused("Name", "lost", () => ag.parse(LINE, { batch: 2 }).train("lost", { lr: 0.1 })),
  "an optimiser without a rate": () => refused("Syntax", "optimiser.lr is missing", () => ag.parse(LINE, { batch: 2 }).train("loss", {})),
  "a key of another optimiser": () => refused("Syntax", "means nothing to sgd", () => ag.parse(LINE, { batch: 2 }).train("loss", { kind: "sgd", lr: 1, rho: 0.9 })),
  "a budget that nothing fits": () => refused("Plan", "", () => ag.compile(ag.parse(LINE, { batch: 2 }), { max_memory: 1 })),
  "an unknown option": () => refused("Syntax", "unknown field", () => ag.compile(ag.parse(LINE, { batch: 2 }), { threads: 2 })),
  "an unknown precision": () => refused("Syntax", "it may be f32", () => ag.compile(ag.parse(LINE, { batch: 2 }), { precision: "f8" })),
  "no graph at all": () => refused("Name", "at least one method", () => ag.compile(null)),
  "a graph of nothing": () => refused("Data", "is no graph of this module", () => ag.compile({ step: 7 })),
  "an input that was never written": () => refused("Data", "never written", () => {
    const program = ag.compile(ag.parse(LINE, { batch: 2 }));
    program.init(0);
    program.step();
  }),
  "params without values": () => refused("Data", "neither initialised", () => {
    const program = ag.compile(ag.parse(LINE, { batch: 2 }));
    program.write("x", [1, 2, 3, 4, 5, 6]);
    program.write("y", [1, 2]);
    program.step();
  }),
  "a tensor that is not there": () => refused("Name", 'no tensor "z"', () => line().values("z")),
  "a method that is not there": () => refused("Name", 'no method "act"', () => line().step("act")),
  "too few elements": () => refused("Data", "5 elements are written", () => line().write("x", [1, 2, 3, 4, 5])),
  "an array of another type": () => refused("Data", "not Float64Array", () => line().write("x", new Float64Array(6))),
  "elements that the type has not": () => {
    const of = (dtype) => ag.compile(ag.parse(`graph @g {\n  %x = input : ${dtype}[2]\n  return y=%x\n}`));
    const rows = [
      ["f32", [1, undefined], [null, 1], ["1", 2], [, 1], [1n, 2n], [true, 1]],
      ["u8", [300, 0], [0, -1], [1.5, 1], [NaN, 1], ["1", 1]],
      ["i32", [1, 2 ** 31], [0.5, 1], [1, null], [1n << 40n, 1]],
      ["i64", [1.5, 1], [2 ** 60, 1], [1, 1n << 63n], ["1", 1]],
      ["bool", [2, 0], ["1", 0]],
    ];
    for (const [dtype, ...arrays] of rows)
      for (const array of arrays) refused("Data", `is ${dtype}[2]`, () => of(dtype).write("x", array));
    const whole = of("i64");
    whole.write("x", [1, -2n]);
    whole.step();
    assert.deepEqual([...whole.values("y")], [1n, -2n]);
  },
  "numbers that JSON has not": () => {
    const train = (keys) => ag.parse(LINE, { batch: 2 }).train("loss", { kind: "sgd", lr: 0.1, ...keys });
    refused("Data", "momentum is NaN", () => train({ momentum: NaN }));
    refused("Data", "clip_norm is Infinity", () => train({ clip_norm: Infinity }));
    refused("Data", "batch is the BigInt 2", () => ag.parse(LINE, { batch: 2n }));
    const text = (norm_type) => String(train({ clip_norm: 1, norm_type }));
    assert.notEqual(text(Infinity), text(2));
  },
  "an output that is written": () => refused("Name", "is an output", () => line().write("loss", [1])),
  "an output that is marked": () => refused("Name", "no input, param or state", () => line().mark("loss")),
  "a seed that is no whole number": () => refused("Data", "seed is 0.5", () => line().init(0.5)),
  "a file that is none": () => refused("Data", "", () => line().load(Uint8Array.of(1, 2, 3))),
  "a file that is damaged": () => refused("Data", "", () => {
    const file = line().save();
    file[file.length - 1] ^= 1;
    line().load(file);
  }),
  "a file of another program": () => refused("Name", '"v"', () => {
    const other = ag.compile(ag.parse(LINE.replaceAll("%w", "%v"), { batch: 2 }));
    other.init(0);
    line().load(other.save());
  }),
  "a program that was freed": () => refused("Name", "program was freed", () => {
    const program = line();
    program.free();
    program.step();
  }),
  "a graph that was freed": () => refused("Name", "graph was freed", () => {
    const graph = ag.parse(LINE, { batch: 2 });
    graph.free();
    ag.compile(graph);
  }),
  "an arena that no memory holds": () => refused("Plan", "", () => {
    const names = [..."abcdefg"];
    const inputs = names.map((name) => `  %${name} = input : f32[130000000]\n  %${name}1 = exp %${name}\n`);
    ag.compile(ag.parse(`graph @g {\n${inputs.join("")}  return ${names.map((name) => `${name}=%${name}1`)}\n}`));
  }),
};
for (const [name, call] of Object.entries(bad))
  test(`refused: ${name}`, () => {
    call();
    const program = line();
    program.step();
    assert.ok(program.values("w")[0] > 0, "the module is usable afterwards");
    program.free();
  });

test("calls past the wrapper are errors, too", () => {
  const e = new WebAssembly.Instance(code, {}).exports;
  for (const call of ["ag_train", "ag_graph_text", "ag_tensors", "ag_mark", "ag_run", "ag_plan", "ag_save", "ag_load", "ag_free"]) assert.equal(e[call](9, 9, 9), -1, call);
  assert.equal(e.ag_request(0xffffffff), -1);
  assert.equal(e.ag_request(4), 0);
  assert.equal(e.ag_parse(), -1);
});
