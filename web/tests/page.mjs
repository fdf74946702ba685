// The page in a browser: node web/tests/page.mjs DIST CHROMIUM SCREENSHOT; PLAYWRIGHT is the folder whose node_modules has
// playwright-core.
//
// Serves DIST on a free port, waits until the digits are learned, draws a zero and a four, and looks at the guesses.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";

const [, , dist, executablePath, screenshot] = process.argv;
const { chromium } = createRequire(join(process.env.PLAYWRIGHT, "from-here.js"))("playwright-core");
const TYPES = { ".html": "text/html", ".mjs": "text/javascript", ".wasm": "application/wasm", ".bin": "application/octet-stream" };

const server = createServer((request, response) => {
  const name = request.url === "/" ? "/index.html" : request.url;
  const type = TYPES[extname(name)];
  if (!type || !/^\/[a-z]+\.[a-z]+$/.test(name)) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": type }).end(readFileSync(join(dist, name)));
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));

const profile = mkdtempSync(join(tmpdir(), "arenagrad-page-"));
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launchPersistentContext(profile, { executablePath, headless: true, args, viewport: { width: 1100, height: 1250 } });
try {
  const page = browser.pages()[0] ?? (await browser.newPage());
  const faults = [];
  page.on("pageerror", (e) => faults.push(e.message));
  page.on("console", (m) => m.type() === "error" && !m.text().includes("favicon") && faults.push(m.text()));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);

  const status = () => page.textContent("#status");
  await page.waitForFunction(() => /, 9[0-9]\.\d % of the test images right/.test(document.getElementById("status").textContent) || document.getElementById("error").textContent, null, { timeout: 120000 });
  assert.equal(await page.textContent("#error"), "");
  assert.ok((await page.locator("#map svg rect").count()) > 10, "the memory map has rectangles");
  assert.match(await page.textContent("#plan"), /arena/);

  const pad = await page.locator("#pad").boundingBox();
  const at = (x, y) => [pad.x + x * pad.width, pad.y + y * pad.height];
  const draw = async (...points) => {
    await page.click("#clear");
    await page.mouse.move(...at(...points[0]));
    await page.mouse.down();
    for (const p of points.slice(1)) await page.mouse.move(...at(...p), { steps: 4 });
    await page.mouse.up();
  };
  const guessed = (digit) => page.waitForFunction((d) => document.getElementById("guess").textContent === d, digit, { timeout: 30000 });
  const round = [...Array(25).keys()].map((i) => (i * Math.PI) / 12).map((a) => [0.5 + 0.2 * Math.sin(a), 0.5 - 0.35 * Math.cos(a)]);
  await draw(...round);
  await guessed("0");
  await draw([0.6, 0.1], [0.25, 0.6], [0.8, 0.6], [0.6, 0.6], [0.6, 0.3], [0.6, 0.9]);
  await guessed("4");
  await page.screenshot({ path: screenshot });

  await page.click("#pause");
  // A slice of work that had begun may still report.
  await page.waitForTimeout(500);
  const [a] = [await status(), await page.waitForTimeout(500)];
  assert.equal(await status(), a, "a page that pauses does not train");
  await page.click("#again");
  await page.waitForFunction((before) => document.getElementById("status").textContent !== before, a, { timeout: 30000 });
  assert.deepEqual(faults, []);
  console.log(`the page learned, guessed a zero and a four, paused and began again: ${a}`);
} finally {
  await browser.close();
  server.close();
  rmSync(profile, { recursive: true, force: true });
}
