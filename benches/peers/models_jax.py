"""The workloads of `arenagrad bench` in JAX: losses of params `p`, statistics `s`, a batch `d` and a key.

Layouts are those that XLA is best at: channels last, and weights of linear layers as `[inputs, outputs]`; `layout` brings
the params of the files into them.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

NHWC = ("NHWC", "HWIO", "NHWC")


def linear(p, name, x):
    """A linear layer."""
    y = x @ p[name + ".weight"]
    return y + p[name + ".bias"] if name + ".bias" in p else y


def cross_entropy(logits, y):
    """The loss of each row."""
    return jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, y[..., None], -1)[..., 0]


def binary(z, y):
    """The loss of each logit."""
    return jnp.maximum(z, 0) - z * y + jnp.log1p(jnp.exp(-jnp.abs(z)))


def normed(p, name, x, axes):
    """The norm over some axes, and its statistics."""
    mean = x.mean(axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p[name + ".weight"] + p[name + ".bias"], mean, variance


def layer_norm(p, name, x):
    """Layer norm of the last axis."""
    return normed(p, name, x, -1)[0]


def batch_norm(p, s, name, x):
    """Batch norm; it moves the running statistics in `s`."""
    y, mean, variance = normed(p, name, x, tuple(range(x.ndim - 1)))
    count = x.size // x.shape[-1]
    for key, value in ((".mean", mean), (".var", variance * (count / (count - 1)))):
        s[name + key] = lax.stop_gradient(0.9 * s[name + key] + 0.1 * value.ravel())
    return y


def group_norm(p, name, x):
    """Group norm of four groups of channels."""
    n, h, w, c = x.shape
    y = x.reshape(n, h, w, 4, c // 4)
    mean = y.mean((1, 2, 4), keepdims=True)
    variance = ((y - mean) ** 2).mean((1, 2, 4), keepdims=True)
    y = ((y - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return y * p[name + ".weight"] + p[name + ".bias"]


def conv(p, name, x, stride=1, pad=0):
    """A convolution of images."""
    y = lax.conv_general_dilated(x, p[name + ".weight"], (stride,) * 2, [(pad, pad)] * 2, dimension_numbers=NHWC)
    return y + p[name + ".bias"] if name + ".bias" in p else y


def pool(x, size, stride, pad=0):
    """Maxima of windows of images."""
    pads = [(0, 0), (pad, pad), (pad, pad), (0, 0)]
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), pads)


def mlp(act, loss):
    """The MLPs."""

    def forward(p, s, d, key):
        x, layers = d["x"], sum(k.endswith(".weight") for k in p)
        for i in range(1, layers + 1):
            x = linear(p, f"fc{i}", x)
            x = act(x) if i < layers else x
        return loss(x, d["y"]).mean()

    return forward


def squared(a, b):
    """Squared differences."""
    return (a - b) ** 2


def lenet(p, s, d, key):
    """W4."""
    h = pool(jax.nn.relu(conv(p, "conv1", d["x"], 1, 2)), 2, 2)
    h = pool(jax.nn.relu(conv(p, "conv2", h)), 2, 2).reshape(64, 400)
    h = jax.nn.relu(linear(p, "fc2", jax.nn.relu(linear(p, "fc1", h))))
    return cross_entropy(linear(p, "fc3", h), d["y"]).mean()


def residual(p, s, d, key):
    """W5."""
    h = jax.nn.relu(group_norm(p, "stem_gn", conv(p, "stem", d["x"], 1, 1)))
    for b in range(3):
        f = jax.nn.relu(group_norm(p, f"b{b}.gn1", conv(p, f"b{b}.conv1", h, 1, 1)))
        h = jax.nn.relu(h + group_norm(p, f"b{b}.gn2", conv(p, f"b{b}.conv2", f, 1, 1)))
    return cross_entropy(linear(p, "fc", h.mean((1, 2))), d["y"]).mean()


def attend(q, k, v, heads, causal):
    """Attention of heads that lie in the last axis."""
    b, t, c = q.shape
    q, k, v = (x.reshape(b, t, heads, c // heads).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = (q @ k.transpose(0, 1, 3, 2)) / np.sqrt(c // heads)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    return (jax.nn.softmax(scores, -1) @ v).transpose(0, 2, 1, 3).reshape(b, t, c)


def transformer(p, x, at, heads, causal):
    """A block of a transformer."""
    q, k, v = jnp.split(linear(p, at + "qkv", layer_norm(p, at + "ln1", x)), 3, -1)
    x = x + linear(p, at + "proj", attend(q, k, v, heads, causal))
    f = jax.nn.gelu(linear(p, at + "fc", layer_norm(p, at + "ln2", x)), approximate=causal)
    return x + linear(p, at + "fcproj", f)


def gpt(heads):
    """W6 and W7."""

    def forward(p, s, d, key):
        x = p["wte"][d["x"]] + p["wpe"][: d["x"].shape[1]]
        for i in range(sum(k.endswith("ln1.weight") for k in p)):
            x = transformer(p, x, f"h{i}.", heads, True)
        return cross_entropy(layer_norm(p, "lnf", x) @ p["wte"].T, d["y"]).mean()

    return forward


def gru(p, s, d, key):
    """W8."""
    w, b = p["w_hh"], p["b_hh"]

    def step(h, x):
        r, z, n = jnp.split(x, 3, -1)
        hr, hz, hn = jnp.split(h @ w + b, 3, -1)
        z = jax.nn.sigmoid(z + hz)
        n = jnp.tanh(n + jax.nn.sigmoid(r + hr) * hn)
        return (1 - z) * n + z * h, None

    h, _ = lax.scan(step, jnp.zeros((8, 128), jnp.float32), d["x"] @ p["w_ih"] + p["b_ih"])
    return squared(h, d["y"]).mean()


def eeg(p, s, d, key):
    """W10."""

    def conv1(name, x, pad, groups=1):
        how = {"dimension_numbers": ("NWC", "WIO", "NWC"), "feature_group_count": groups}
        return lax.conv_general_dilated(x, p[name + ".weight"], (1,), [(pad, pad)], **how)

    def pooled(name, x):
        x = jax.nn.elu(batch_norm(p, s, name, x))
        return x.reshape(x.shape[0], x.shape[1] // 4, 4, x.shape[2]).mean(2)

    h = batch_norm(p, s, "bn0", conv1("conv0", d["x"], 0))
    h = pooled("bn1", conv1("dw1", h, 31, 32))
    h = pooled("bn2", conv1("pw2", conv1("dw2", h, 7, 64), 0))
    h = pooled("bn3", conv1("pw3", conv1("dw3", h, 7, 64), 0))
    return cross_entropy(linear(p, "fc", h.reshape(h.shape[0], -1)), d["y"]).mean()


def tabular(p, s, d, key):
    """W11."""

    def drop(x, key):
        return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0.0)

    first, second = jax.random.split(key)
    rows = [p[f"emb.{i}.weight"][d["cat"][:, i]] for i in range(12)]
    h = jnp.concatenate([*rows, batch_norm(p, s, "bn0", d["x"])], 1)
    h = drop(batch_norm(p, s, "bn1", jax.nn.relu(linear(p, "fc1", h))), first)
    h = drop(batch_norm(p, s, "bn2", jax.nn.relu(linear(p, "fc2", h))), second)
    return binary(linear(p, "fc3", h), d["y"]).mean()


def vit(p, s, d, key):
    """W12."""
    x = conv(p, "patch", d["x"], 8).reshape(16, 64, 192)
    x = jnp.concatenate([jnp.broadcast_to(p["cls"], (16, 1, 192)), x], 1) + p["pos"]
    for i in range(12):
        x = transformer(p, x, f"h.{i}.", 3, False)
    return cross_entropy(linear(p, "head", layer_norm(p, "lnf", x[:, 0])), d["y"]).mean()


def vae(p, s, d, key):
    """W13."""

    def up(name, x):
        how = {"lhs_dilation": (2, 2), "dimension_numbers": NHWC}
        return lax.conv_general_dilated(x, p[name + ".weight"], (1, 1), [(2, 2)] * 2, **how) + p[name + ".bias"]

    def block(norm, x):
        return jax.nn.relu(batch_norm(p, s, norm, x))

    x = d["x"]
    h = block("be2", conv(p, "e2", block("be1", conv(p, "e1", x, 2, 1)), 2, 1))
    h = block("be3", conv(p, "e3", h, 2, 1)).reshape(x.shape[0], -1)
    mu, lv = linear(p, "mu", h), linear(p, "lv", h)
    h = jax.nn.relu(linear(p, "dec", mu + jnp.exp(0.5 * lv) * d["eps"])).reshape(-1, 4, 4, 128)
    h = block("bd2", up("d2", block("bd1", up("d1", h))))
    rec = binary(up("d3", h), x).sum()
    return (rec - 0.5 * (1 + lv - mu * mu - jnp.exp(lv)).sum()) / x.shape[0]


def burgers_u(p, x, t):
    """The network of W14."""
    h = jnp.tanh(linear(p, "fc1", jnp.concatenate([x, t], 1)))
    h = jnp.tanh(linear(p, "fc3", jnp.tanh(linear(p, "fc2", h))))
    return t * (1 - x * x) * linear(p, "fc4", h) - jnp.sin(np.pi * x)


def burgers(p, s, d, key):
    """W14, by two forward derivatives, which is faster here than two reverse ones."""
    x, t = d["x"], d["t"]
    one = jnp.ones_like(x)

    def slope(x):
        return jax.jvp(lambda x: burgers_u(p, x, t), (x,), (one,))

    (u, ux), (_, uxx) = jax.jvp(slope, (x,), (one,))
    ut = jax.jvp(lambda t: burgers_u(p, x, t), (t,), (one,))[1]
    return jnp.square(ut + u * ux - (0.01 / np.pi) * uxx).mean()


def dlrm(p, s, d, key):
    """W15."""
    i, j = np.tril_indices(27, -1)
    x = jax.nn.relu(linear(p, "b3", jax.nn.relu(linear(p, "b2", jax.nn.relu(linear(p, "b1", d["x"]))))))
    v = jnp.stack([x] + [p[f"emb.{i}.weight"][d["cat"][:, i]] for i in range(26)], 1)
    z = (v @ v.transpose(0, 2, 1)).reshape(-1, 729)[:, i * 27 + j]
    h = jax.nn.relu(linear(p, "t2", jax.nn.relu(linear(p, "t1", jnp.concatenate([x, z], 1)))))
    return binary(linear(p, "t3", h), d["y"]).mean()


def lstm_cell(a, c):
    """State and cell after a step."""
    i, f, g, o = jnp.split(a, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def translator(p, s, d, key):
    """W16."""
    zero = jnp.zeros((32, 128), jnp.float32)
    live = jnp.arange(32)[:, None] < d["slen"][None]
    words = p["src.weight"][d["src"]].transpose(1, 0, 2) @ p["enc.weight_ih_l0"] + p["enc.bias_ih_l0"]

    def read(carry, x):
        (h, c), (x, m) = carry, x
        h1, c1 = lstm_cell(x + h @ p["enc.weight_hh_l0"] + p["enc.bias_hh_l0"], c)
        m = m[:, None]
        return (jnp.where(m, h1, h), jnp.where(m, c1, c)), jnp.where(m, h1, 0.0)

    (h, c), o = lax.scan(read, (zero, zero), (words, live))
    o, hide = o.transpose(1, 0, 2), ~live.T
    words = p["tgt.weight"][d["tgt"]].transpose(1, 0, 2) @ p["cell.weight_ih"][:128] + p["cell.bias_ih"]

    def write(carry, x):
        h, c, a = carry
        h, c = lstm_cell(x + a @ p["cell.weight_ih"][128:] + h @ p["cell.weight_hh"] + p["cell.bias_hh"], c)
        w = jax.nn.softmax(jnp.where(hide, -jnp.inf, jnp.einsum("bth,bh->bt", o, h)), -1)
        a = jnp.tanh(linear(p, "mix", jnp.concatenate([h, jnp.einsum("bt,bth->bh", w, o)], 1)))
        return (h, c, a), a

    _, outs = lax.scan(write, (h, c, zero), words)
    losses = cross_entropy(linear(p, "out", outs.transpose(1, 0, 2)), d["y"])
    counts = (jnp.arange(32)[None] < d["tlen"][:, None]).astype(jnp.float32)
    return (losses * counts).sum() / counts.sum()


def resnet18(p, s, d, key):
    """ResNet-18."""
    h = pool(jax.nn.relu(batch_norm(p, s, "bn1", conv(p, "conv1", d["x"], 2, 3))), 3, 2, 1)
    for layer in range(1, 5):
        for b in range(2):
            at = f"layer{layer}.{b}."
            stride = 2 if layer > 1 and b == 0 else 1
            y = jax.nn.relu(batch_norm(p, s, at + "bn1", conv(p, at + "conv1", h, stride, 1)))
            y = batch_norm(p, s, at + "bn2", conv(p, at + "conv2", y, 1, 1))
            if stride == 2:
                h = batch_norm(p, s, at + "downsample.1", conv(p, at + "downsample.0", h, 2))
            h = jax.nn.relu(y + h)
    return cross_entropy(linear(p, "fc", h.mean((1, 2))), d["y"]).mean()


LOSSES = {
    "w1": mlp(jax.nn.relu, cross_entropy),
    "w2": mlp(jnp.tanh, squared),
    "w3": mlp(jax.nn.relu, squared),
    "w4": lenet,
    "w5": residual,
    "w6": gpt(4),
    "w7": gpt(12),
    "w8": gru,
    "w10": eeg,
    "w11": tabular,
    "w12": vit,
    "w13": vae,
    "w14": burgers,
    "w15": dlrm,
    "w16": translator,
    "resnet18": resnet18,
}
# Params that are no weights of layers.
PLAIN = ("emb.", "src.", "tgt.", "cls", "pos", "wte", "wpe")
# Linear layers that read channels of images as one row, and the images' channels and size.
ROWS = {("w4", "fc1"): (16, 5, 5), ("w10", "fc"): (128, 8), ("w13", "mu"): (128, 4, 4), ("w13", "lv"): (128, 4, 4)}


def layout(workload, name, v):
    """The param `name` of the file as the losses take it."""
    if name.startswith(PLAIN) or v.ndim < 2:
        if (workload, name) == ("w13", "dec.bias"):
            return v.reshape(128, 4, 4).transpose(1, 2, 0).reshape(-1)
        return v
    layer = name.removesuffix(".weight")
    if v.ndim == 4 and workload == "w13" and name[0] == "d":  # transposed: [inputs, outputs, h, w]
        return v[:, :, ::-1, ::-1].transpose(2, 3, 0, 1)
    if v.ndim > 2:
        return v.transpose(*range(2, v.ndim), 1, 0)
    if (workload, layer) in ROWS:
        v = np.moveaxis(v.reshape(len(v), *ROWS[workload, layer]), 1, -1).reshape(len(v), -1)
    if (workload, layer) == ("w13", "dec"):
        v = v.reshape(128, 4, 4, 64).transpose(1, 2, 0, 3).reshape(-1, 64)
    return v.T


def batch_layout(v):
    """Batches of images or signals with the channels last."""
    if v.ndim == 5:
        return v.transpose(0, 1, 3, 4, 2)
    return v


BATCH_NORM = re.compile(r"(^|\.)(bn|be|bd)\d\.weight$|downsample\.1\.weight$")


def statistics(raw):
    """The running statistics of batch norms."""
    names = [k.removesuffix(".weight") for k in raw if BATCH_NORM.search(k)]
    kinds = {".mean": 0.0, ".var": 1.0}
    return {n + k: jnp.full(raw[n + ".weight"].shape, x, jnp.float32) for n in names for k, x in kinds.items()}


def update(workload, raw):
    """The optimiser: its state at the start, and the function from params, state, gradients and count of steps to the
    next params and state."""
    plain = {"w1": 0.1, "w2": 0.01, "w8": 0.01, "w15": 0.1, "resnet18": 0.01}
    rate = plain.get(workload, {"w4": 0.01, "w5": 0.01, "w7": 1e-4}.get(workload, 1e-3))
    decay = {"w6": 0.1, "w12": 0.05}.get(workload, 0.0)
    beta = 0.95 if workload == "w6" else 0.999
    clip = workload in ("w6", "w12", "w16")

    def zeros(p):
        return {k: jnp.zeros_like(v) for k, v in p.items()}

    def clipped(g):
        norm = jnp.sqrt(sum(jnp.sum(x * x) for x in g.values()))
        scale = jnp.minimum(1.0 / (norm + 1e-6), 1.0)
        return {k: x * scale for k, x in g.items()}

    if workload in plain:
        return lambda p: (), lambda p, m, g, t: ({k: p[k] - rate * g[k] for k in p}, m)
    if workload in ("w4", "w5"):

        def momentum(p, m, g, t):
            m = {k: 0.9 * m[k] + g[k] for k in p}
            return {k: p[k] - rate * m[k] for k in p}, m

        return zeros, momentum

    def adam(p, state, g, t):
        g = clipped(g) if clip else g
        (m, v), t = state, t.astype(g[next(iter(g))].dtype)
        m = {k: 0.9 * m[k] + 0.1 * g[k] for k in p}
        v = {k: beta * v[k] + (1 - beta) * g[k] * g[k] for k in p}
        low, high = 1 - 0.9**t, 1 - beta**t

        def one(k):
            kept = p[k] * (1 - rate * decay) if decay and raw[k].ndim >= 2 else p[k]
            return kept - rate * (m[k] / low) / (jnp.sqrt(v[k]) / jnp.sqrt(high) + 1e-8)

        return {k: one(k) for k in p}, (m, v)

    return lambda p: (zeros(p), zeros(p)), adam
