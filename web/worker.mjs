// Trains the digits away from the page's thread, tests once an epoch, and guesses drawings with the weights of the moment.

import { load } from "./arenagrad.mjs";
import { ACT, Digits, LEARN, largest } from "./digits.mjs";

const BATCH = 32;
/** Steps end here: the loss falls no more. */
const STEPS = 3000;
/** Milliseconds of training between two looks at messages. */
const SLICE = 30;

async function fetched(name) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return new Uint8Array(await response.arrayBuffer());
}

const [code, packed] = await Promise.all([fetched("arenagrad.wasm"), fetched("digits.bin")]);
const ag = await load(code);
const { train, test } = Digits.split(packed);
const learn = ag.parse(LEARN, { batch: BATCH }).train("loss", { kind: "adamw", lr: 2e-3, weight_decay: 0.05 });
const program = ag.compile({
  learn,
  test: ag.parse(ACT, { batch: test.length }),
  act: ag.parse(ACT, { batch: 1 }),
});

let [step, order, running, seed, drawing] = [0, new Uint32Array(), true, 0, null];

function restart() {
  program.init(seed);
  program.write("lr", [2e-3]);
  step = 0;
}

function trainOne() {
  const perEpoch = Math.floor(train.length / BATCH);
  if (step % perEpoch === 0) order = ag.permutation(train.length, seed, step / perEpoch);
  const batch = order.subarray((step % perEpoch) * BATCH).subarray(0, BATCH);
  train.copy(batch, program.values("images"), program.values("labels"));
  program.mark("images");
  program.mark("labels");
  program.step();
  step += 1;
  return step % perEpoch === 0;
}

/** The part of the test images whose digit is the most probable one. */
function tested() {
  test.copy([...Array(test.length).keys()], program.values("images", "test"));
  program.mark("images", "test");
  program.step("test");
  const p = program.values("probabilities", "test");
  let right = 0;
  for (let i = 0; i < test.length; i++) right += largest(p.subarray(i * 10, i * 10 + 10)) === test.label(i);
  return right / test.length;
}

function guess() {
  if (drawing === null) return;
  program.write("images", drawing, "act");
  program.step("act");
  postMessage({ kind: "guess", probabilities: [...program.values("probabilities", "act")] });
}

/** Trains for a moment, tells the page, and lets messages in. */
function work() {
  if (running && step < STEPS) {
    const [start, before] = [performance.now(), step];
    let epoch = false;
    while (step < STEPS && performance.now() - start < SLICE) epoch = trainOne() || epoch;
    const ms = (performance.now() - start) / (step - before);
    const news = { kind: "progress", step, steps: STEPS, ms, loss: program.values("loss")[0] };
    postMessage(epoch || step === STEPS ? { ...news, accuracy: tested() } : news);
    guess();
  }
  setTimeout(work, running ? 0 : SLICE);
}

onmessage = ({ data }) => {
  if (data.kind === "run") running = data.running;
  if (data.kind === "restart") [seed, running] = [seed + 1, true], restart();
  if (data.kind === "draw") (drawing = data.pixels), guess();
};

restart();
const memory = (method) => program.plan({ method, svg: true });
postMessage({ kind: "ready", plan: program.plan({ method: "learn" }), svg: memory("learn") });
work();
