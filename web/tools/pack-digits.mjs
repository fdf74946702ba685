// Packs data/digits.csv.gz for the page: node web/tools/pack-digits.mjs MODULE.wasm TO
//
// Each image is 64 pixels from 0 to 16 and the digit, a byte each. First come the images that are trained on, then those
// that are tested on, split as the program `arenagrad` splits them: each class is ordered by the permutation of its
// number, and the first fifth, rounded, is for the test.

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { load } from "../arenagrad.mjs";

const [, , code, to] = process.argv;
const ag = await load(readFileSync(code));
const text = gunzipSync(readFileSync(new URL("../../data/digits.csv.gz", import.meta.url))).toString();
const rows = text.trim().split("\n").map((line) => line.split(",").map(Number));
const bad = rows.findIndex((r) => r.length !== 65 || r.some((x) => !(Number.isInteger(x) && x >= 0 && x <= 16)) || r[64] > 9);
if (bad >= 0) throw new Error(`data/digits.csv.gz:${bad + 1}: not 64 pixels from 0 to 16 and a digit`);

const tested = new Set();
for (let digit = 0; digit < 10; digit++) {
  const members = rows.flatMap((r, i) => (r[64] === digit ? [i] : []));
  const order = ag.permutation(members.length, 0, digit);
  order.subarray(0, Math.floor((members.length + 2) / 5)).forEach((i) => tested.add(members[i]));
}
const [train, test] = [rows.filter((_, i) => !tested.has(i)), rows.filter((_, i) => tested.has(i))];
if (train.length !== 1438 || test.length !== 359) throw new Error(`${train.length} and ${test.length} images`);
writeFileSync(`${to}.tmp`, Uint8Array.from([...train, ...test].flat()));
renameSync(`${to}.tmp`, to);
