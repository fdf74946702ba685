"""What torch's fake quantisation gives: writes tests/torch/quantized.safetensors.

Run with torch and safetensors installed: python tests/torch/quantized.py
"""

from pathlib import Path

import torch
from safetensors.torch import save_file

torch.manual_seed(11)
out = {}

# Halves of a step are among the numbers: scale 0.25 and multiples of 1/8.
grid = torch.arange(-40, 41, dtype=torch.float32) / 8
drawn = torch.randn(200) * 2.0
x = torch.cat([grid, drawn])
dy = torch.randn(x.shape)
out["x"], out["dy"] = x, dy

TENSOR = {
    "int8": (0.03, 0, -128, 127),
    "uint8": (0.021, 117, 0, 255),
    "narrow": (0.25, -3, -7, 8),
    "zero_at_end": (0.25, 8, -7, 8),
    "wide": (0.001, 5, -1000, 900),
}
for name, (scale, zero, lo, hi) in TENSOR.items():
    leaf = x.clone().requires_grad_()
    y = torch.fake_quantize_per_tensor_affine(leaf, scale, zero, lo, hi)
    y.backward(dy)
    out[f"{name}.y"], out[f"{name}.dx"] = y.detach(), leaf.grad

w = torch.randn(4, 3, 5)
dw = torch.randn(w.shape)
out["w"], out["dw"] = w, dw
for axis in range(3):
    n = w.shape[axis]
    scale = torch.linspace(0.02, 0.4, n)
    zero = torch.arange(n, dtype=torch.int32) - 1
    leaf = w.clone().requires_grad_()
    y = torch.fake_quantize_per_channel_affine(leaf, scale, zero, axis, -8, 7)
    y.backward(dw)
    out[f"axis{axis}.scale"], out[f"axis{axis}.zero"] = scale, zero
    out[f"axis{axis}.y"], out[f"axis{axis}.dw"] = y.detach(), leaf.grad

save_file(out, Path(__file__).with_suffix(".safetensors"))
