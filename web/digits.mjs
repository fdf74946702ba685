// The digits of the page: its network, its data, and what a drawing becomes.

/** The network from images [batch, 64], with pixels from 0 to 1, to logits [batch, 10]. */
const NETWORK = `
  %images = input : f32[batch,64]
  %fc1.weight = param init=uniform scale=0.125 frozen=false : f32[128,64]
  %fc1.bias = param init=uniform scale=0.125 frozen=false : f32[128]
  %p1 = matmul %images, %fc1.weight ta=false tb=true : f32[batch,128]
  %b1 = broadcast %fc1.bias shape=[batch,128]
  %s1 = add %p1, %b1
  %h = relu %s1
  %fc2.weight = param init=uniform scale=0.088 frozen=false : f32[10,128]
  %fc2.bias = param init=uniform scale=0.088 frozen=false : f32[10]
  %p2 = matmul %h, %fc2.weight ta=false tb=true : f32[batch,10]
  %b2 = broadcast %fc2.bias shape=[batch,10]
  %logits = add %p2, %b2`;

/** Images to the probabilities of the digits. */
export const ACT = `graph @act {${NETWORK}
  %p = softmax %logits axis=1
  return probabilities=%p
}`;

/** Images and labels to the mean cross entropy, in nats. */
export const LEARN = `graph @learn {${NETWORK}
  %labels = input : i32[batch]
  %each, %rest = softmax_cross_entropy %logits, %labels ignore_index=-100 label_smoothing=0.0
  %loss = reduce_mean %each axes=[0] keep=false
  return loss=%loss
}`;

const [PIXELS, RECORD] = [64, 65];

/** The images that `web/tools/pack-digits.mjs` packed: each 64 pixels from 0 to 16, then the digit. */
export class Digits {
  #packed;
  constructor(packed, from, to) {
    this.#packed = packed.subarray(from * RECORD, to * RECORD);
  }

  /** The images that are trained on, and those that are tested on, as the program `arenagrad` splits them. */
  static split(packed) {
    return { train: new Digits(packed, 0, 1438), test: new Digits(packed, 1438, 1797) };
  }

  get length() {
    return this.#packed.length / RECORD;
  }

  label(i) {
    return this.#packed[i * RECORD + PIXELS];
  }

  /** Copies the images of these numbers, and their labels if they are asked for. */
  copy(numbers, images, labels = null) {
    numbers.forEach((number, row) => {
      const at = number * RECORD;
      for (let k = 0; k < PIXELS; k++) images[row * PIXELS + k] = this.#packed[at + k] / 16;
      if (labels) labels[row] = this.label(number);
    });
  }
}

/** The number of the largest element. */
export function largest(row) {
  return row.reduce((best, x, i) => (x > row[best] ? i : best), 0);
}
