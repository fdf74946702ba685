// From a drawing to 64 pixels, as the images of the data were made: a bitmap of 32 by 32 that the digit fills, whose
// blocks of 4 by 4 are counted.

const SIDE = 32;

/**
 * The 64 pixels, from 0 to 1, of a drawing of `width` by `height` bytes from 0 (black) to 255 (white): all 0 if it has no
 * white.
 */
export function bitmapPixels(white, width, height) {
  const pixels = new Float32Array(64);
  let [left, right, top, bottom] = [width, -1, height, -1];
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      if (white[y * width + x] > 127) {
        [left, right] = [Math.min(left, x), Math.max(right, x)];
        [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
      }
  if (right < 0) return pixels;
  // The larger side fills the bitmap, and the other one is centred.
  const size = Math.max(right - left + 1, bottom - top + 1) / SIDE;
  const [fromX, fromY] = [(left + right + 1 - size * SIDE) / 2, (top + bottom + 1 - size * SIDE) / 2];
  for (let y = 0; y < SIDE; y++)
    for (let x = 0; x < SIDE; x++) {
      const [px, py] = [Math.floor(fromX + (x + 0.5) * size), Math.floor(fromY + (y + 0.5) * size)];
      const inside = px >= 0 && px < width && py >= 0 && py < height;
      if (inside && white[py * width + px] > 127) pixels[(y >> 2) * 8 + (x >> 2)] += 1 / 16;
    }
  return pixels;
}
