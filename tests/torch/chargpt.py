"""`arenagrad train chargpt` as a PyTorch program, to lay times and losses beside it.

    python tests/torch/chargpt.py TEXT [STEPS] [THREADS]        (torch; defaults 2000 and 1)

nanoGPT's configuration for CPUs: 4 layers of 4 heads, width 128, context 64, batch 12, no biases, exact GELU, head tied to
the embedding; AdamW (0.9, 0.99) with weight decay 0.1 on matrices, clipping at 1, 100 steps up to 1e-3 and half a cosine
down to 1e-4. The text's first nine tenths are trained on; the validation loss is that of all whole windows of the rest.
"""

import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 4, 4, 128, 64, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.c_attn, self.c_proj = linear(WIDTH, 3 * WIDTH), linear(WIDTH, WIDTH)
        self.c_fc, self.c_out = linear(WIDTH, 4 * WIDTH), linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.c_proj(y)
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(WIDTH, bias=False)
        for name, p in self.named_parameters():
            if p.ndim > 1:
                ends = name.endswith("c_proj.weight") or name.endswith("c_out.weight")
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * LAYERS) if ends else 0.02)

    def forward(self, x, y):
        h = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for block in self.h:
            h = block(h)
        logits = F.linear(self.ln_f(h), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.reshape(-1))


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    torch.set_num_threads(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    torch.manual_seed(0)
    known = {c: i for i, c in enumerate(sorted(set(text)))}
    data = torch.tensor([known[c] for c in text])
    cut = len(data) * 9 // 10
    train, validate = data[:cut], data[cut:]
    model = Gpt(len(known))
    ps = list(model.parameters())
    groups = [dict(params=[p for p in ps if p.ndim > 1], weight_decay=0.1), dict(params=[p for p in ps if p.ndim == 1], weight_decay=0.0)]
    opt = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    place = torch.arange(CONTEXT)
    begin, times = time.perf_counter(), []
    for step in range(steps):
        rate = (step + 1) / 101 if step < 100 else 0.1 + 0.45 * (1 + math.cos(math.pi * (step - 100) / (steps - 100)))
        for g in opt.param_groups:
            g["lr"] = 1e-3 * rate
        at = torch.randint(len(train) - CONTEXT, (BATCH, 1)) + place
        start = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        loss = model(train[at], train[at + 1])
        loss.backward()
        nn.utils.clip_grad_norm_(ps, 1.0)
        opt.step()
        loss = loss.item()
        times.append(time.perf_counter() - start)
    wall = time.perf_counter() - begin
    windows = (len(validate) - 1) // CONTEXT
    with torch.no_grad():
        x = validate[: windows * CONTEXT].view(windows, CONTEXT)
        y = validate[1 : windows * CONTEXT + 1].view(windows, CONTEXT)
        losses = [(model(a, b).item(), len(a)) for a, b in zip(x.split(64), y.split(64))]
    mean = sum(l * n for l, n in losses) / windows
    print(f"steps {steps}  training {wall:.2f} s  step p50 {sorted(times)[steps // 2] * 1e3:.2f} ms  last loss {loss:.4f}  validation loss {mean:.4f}")


if __name__ == "__main__":
    main()
