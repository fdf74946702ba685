// The page: draws the loss and the guess, and sends drawings to the worker.

import { bitmapPixels } from "./drawing.mjs";
import { largest } from "./digits.mjs";

const at = (id) => document.getElementById(id);
const [loss, pad] = [at("loss").getContext("2d"), at("pad").getContext("2d", { willReadFrequently: true })];
const worker = new Worker(new URL("worker.mjs", import.meta.url), { type: "module" });
const losses = [];
let [running, accuracy, drawn] = [true, null, false];

const fail = (message) => (at("error").textContent = message);
worker.onerror = (e) => fail(`The worker failed: ${e.message ?? "it could not be loaded"}`);

for (let digit = 0; digit < 10; digit++) {
  const row = at("bars").appendChild(document.createElement("div"));
  row.append(document.createTextNode(digit), document.createElement("i"));
}

/** The losses so far, with a logarithmic axis from 0.001 to 4 nats. */
function drawLosses(steps) {
  const { width, height } = loss.canvas;
  const x = (step) => 44 + (step / steps) * (width - 54);
  const y = (l) => 10 + (Math.log10(4 / Math.min(4, Math.max(l, 1e-3))) / Math.log10(4000)) * (height - 34);
  loss.clearRect(0, 0, width, height);
  [loss.font, loss.fillStyle, loss.strokeStyle] = ["11px system-ui", "#555", "#e3e6ea"];
  for (const tick of [0.001, 0.01, 0.1, 1]) {
    loss.fillText(tick, 6, y(tick) + 4);
    loss.beginPath();
    loss.moveTo(44, y(tick));
    loss.lineTo(width - 10, y(tick));
    loss.stroke();
  }
  loss.fillText("loss (nats) by step", width / 2 - 40, height - 6);
  loss.strokeStyle = "#3b6ea5";
  loss.beginPath();
  losses.forEach(([step, l], i) => (i ? loss.lineTo(x(step), y(l)) : loss.moveTo(x(step), y(l))));
  loss.stroke();
}

function progress({ step, steps, ms, loss: l, accuracy: a }) {
  if (losses.length && losses.at(-1)[0] >= step) losses.length = 0;
  losses.push([step, l]);
  accuracy = a ?? accuracy;
  const right = accuracy === null ? "" : `, ${(100 * accuracy).toFixed(1)} % of the test images right`;
  at("status").textContent = `step ${step} of ${steps}, ${ms.toFixed(2)} ms each, loss ${l.toFixed(4)}${right}`;
  drawLosses(steps);
}

function showGuess(p) {
  const best = largest(p);
  at("guess").textContent = drawn ? best : "–";
  [...at("bars").children].forEach((row, digit) => {
    row.classList.toggle("best", drawn && digit === best);
    row.lastChild.style.width = `${drawn ? 100 * p[digit] : 0}%`;
  });
}

worker.onmessage = ({ data }) => {
  if (data.kind === "progress") progress(data);
  if (data.kind === "guess") showGuess(data.probabilities);
  if (data.kind === "ready") {
    // The engine escapes the names in its picture.
    at("map").innerHTML = data.svg;
    at("plan").textContent = data.plan;
    at("pause").disabled = at("again").disabled = false;
  }
};

at("pause").onclick = () => {
  running = !running;
  at("pause").textContent = running ? "Pause" : "Go on";
  worker.postMessage({ kind: "run", running });
};
at("again").onclick = () => {
  [running, accuracy, at("pause").textContent] = [true, null, "Pause"];
  worker.postMessage({ kind: "restart" });
};

function clearPad() {
  pad.fillStyle = "#111";
  pad.fillRect(0, 0, pad.canvas.width, pad.canvas.height);
  drawn = false;
  showGuess(Array(10).fill(0));
}
clearPad();
at("clear").onclick = clearPad;

let last = null;
const scale = () => pad.canvas.width / pad.canvas.clientWidth;
const place = (e) => [e.offsetX * scale(), e.offsetY * scale()];
pad.canvas.onpointerdown = (e) => {
  pad.canvas.setPointerCapture(e.pointerId);
  last = place(e);
};
pad.canvas.onpointermove = (e) => {
  if (last === null) return;
  const next = place(e);
  [pad.strokeStyle, pad.lineWidth, pad.lineCap] = ["#fff", 28, "round"];
  pad.beginPath();
  pad.moveTo(...last);
  pad.lineTo(...next);
  pad.stroke();
  [last, drawn] = [next, true];
  const { width, height } = pad.canvas;
  const white = pad.getImageData(0, 0, width, height).data.filter((_, i) => i % 4 === 0);
  worker.postMessage({ kind: "draw", pixels: bitmapPixels(white, width, height) });
};
pad.canvas.onpointerup = pad.canvas.onpointercancel = () => (last = null);
