"""Writes docs/torch-coverage.md: which models the bridge to torch maps, and how far their numbers are from torch's.

`torch_coverage.py [--rows FILE] [NAME...]`. Rows are kept in FILE (JSON, one a line), so that a run can go on; only models
without a row, or those that are named, are run. Models are the tests' own, torchvision's, small ones of transformers, and
timm's if it is installed.
All run in f64, so that the differences are not those of rounding.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any, Callable

import torch
from torch import nn

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "tests" / "torch"))
from compare import trained, wide, without_draws  # noqa: E402
from hf_models import HF  # noqa: E402
from models import classes  # noqa: E402
from outside_models import MODELS, RANDOM  # noqa: E402

import arenagrad.torch as agt  # noqa: E402

VISION = (
    "alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet mnasnet0_5 mobilenet_v2 "
    "mobilenet_v3_small mobilenet_v3_large regnet_x_400mf regnet_y_400mf resnet18 resnet34 resnet50 resnext50_32x4d "
    "shufflenet_v2_x0_5 shufflenet_v2_x1_0 squeezenet1_0 squeezenet1_1 swin_t swin_v2_t vgg11_bn wide_resnet50_2"
).split()
TIMM = (
    "resnet10t mobilenetv4_conv_small efficientnet_lite0 ghostnet_100 hardcorenas_a lcnet_050 tinynet_e rexnet_100 "
    "vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s32_224 convnext_atto edgenext_xx_small repvgg_a0 levit_128s "
    "mobilevit_xxs pit_ti_224 crossvit_tiny_240 fastvit_t8"
).split()
# Images of these are not 64 wide.
SIZES = {"levit_128s": 224, "pit_ti_224": 224, "crossvit_tiny_240": 240, "mixer_s32_224": 224,
         "vit_tiny_patch16_224": 224, "deit_tiny_patch16_224": 224}  # fmt: skip


def vision(name: str) -> Callable[[], Any]:
    """A classifier of torchvision."""

    def make() -> Any:
        import torchvision

        how: dict[str, Any] = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
        size = SIZES.get(name, 64)
        return classes(getattr(torchvision.models, name)(num_classes=10, **how), torch.randn(4, 3, size, size))

    return make


def timm_model(name: str) -> Callable[[], Any]:
    """A classifier of timm."""

    def make() -> Any:
        import timm

        size = SIZES.get(name, 64)
        return classes(timm.create_model(name, pretrained=False, num_classes=10), torch.randn(8, 3, size, size))

    return make


def cases() -> dict[str, tuple[str, Callable[[], Any]]]:
    """All models: name, where they are from, and what makes them."""
    found: dict[str, tuple[str, Callable[[], Any]]] = {name: ("tests", f) for name, f in MODELS.items()}
    found |= {name: ("torchvision", vision(name)) for name in VISION}
    found |= {f"hf {name}": ("transformers", make) for name, make in HF.items()}
    try:
        import timm  # noqa: F401

        found |= {f"timm {name}": ("timm", timm_model(name)) for name in TIMM}
    except ImportError:
        pass
    return found


def beside(module: nn.Module, args: tuple[Any, ...], row: dict[str, Any]) -> None:
    """Differences of gradients, of the losses of ten steps, of statistics and of an evaluation, into `row`."""
    start = copy.deepcopy(module)
    optimizer = torch.optim.SGD(trained(module), lr=1.0)
    began = time.perf_counter()
    step = agt.compile_step(module, None, optimizer, args)
    row["seconds"] = time.perf_counter() - began
    row["kinds"] = len(step.report.kinds)
    own = copy.deepcopy(start)
    step(*args)
    step.sync()
    own(*args).backward()
    pairs = [(p, q) for p, q in zip(module.parameters(), own.parameters()) if q.requires_grad]
    largest = max(float(q.grad.abs().max()) for _, q in pairs)
    row["gradient"] = max(
        float((q.detach() - p.detach() - q.grad).abs().max()) / max(float(q.grad.abs().max()), 1e-4 * largest)
        for p, q in pairs
    )
    row["statistics"] = max(
        (float((x.double() - y.double()).abs().max()) for x, y in zip(module.buffers(), own.buffers())), default=0.0
    )
    own = copy.deepcopy(start)
    module.load_state_dict(start.state_dict())
    rate = 1e-4 / max(1.0, largest)
    theirs = torch.optim.SGD(trained(own), lr=rate)
    optimizer.param_groups[0]["lr"] = rate
    step.sync_from()
    ours, expected = [], []
    for _ in range(10):
        ours.append(step(*args))
        theirs.zero_grad()
        loss = own(*args)
        loss.backward()
        theirs.step()
        expected.append(loss.item())
    row["losses"] = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(ours, expected))
    row["trains"] = ours[-1] < ours[0]
    step.sync()
    module.eval()
    want = module(*args).detach()
    module.train()
    row["evaluation"] = float((step.eval(*args) - want).abs().max()) / max(float(want.abs().max()), 1e-3)


def run(name: str, source: str, make: Callable[[], Any]) -> dict[str, Any]:
    """The row of a model."""
    torch.manual_seed(0)
    row: dict[str, Any] = {"name": name, "source": source, "draws": name in RANDOM}
    try:
        module, args = make()
        module = without_draws(module).double()
        beside(module, tuple(map(wide, args)), row)
    except agt.UnmappedError as e:
        row["refused"] = "; ".join(f"{r.kind}: {r.why}" for r in e.refusals)
    except Exception as e:  # what torch itself refuses to build or to export
        row["refused"] = f"{type(e).__name__}: {str(e).splitlines()[0][:200]}"
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The page."""
    mapped = [r for r in rows if "refused" not in r]
    learn = [r for r in mapped if r["trains"]]
    lines = [
        "# Models of torch",
        "",
        "Made by `python/tools/torch_coverage.py`; do not edit it. Each model is captured with its loss, compiled, and run",
        f"beside torch in f64: {len(rows)} models, {len(mapped)} are mapped, {len(learn)} train.",
        "",
        "Differences are relative: of the gradients of the first step (to each gradient's largest element), of the losses of",
        "ten steps of gradient descent, and of an evaluation afterwards; those of batch norm's statistics are absolute.",
        "Dropout and stochastic depth are off; models that draw numbers otherwise (`draws`) are not comparable. The derivative of",
        "hardsigmoid is rough in torch, whose 1/6 has 24 bits also in f64: its models differ by some 1e-8. Models of transformers",
        "are small, with random weights; many compute their loss, norms or rotations in f32 also in f64, and differ by its rounding.",
        "",
        "| model | from | kinds | trains | gradients | losses | statistics | evaluation |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in sorted(rows, key=lambda r: (["tests", "torchvision", "timm", "transformers"].index(r["source"]), r["name"])):
        name = r["name"].removeprefix("timm ").removeprefix("hf ")
        if "refused" in r:
            why = r["refused"].replace("|", "\\|")
            lines.append(f"| {name} | {r['source']} | refused: {why} | | | | | |")
            continue
        numbers = " | ".join(f"{r[k]:.0e}" for k in ("gradient", "losses", "statistics", "evaluation"))
        numbers = "draws | draws | draws | draws" if r["draws"] else numbers
        lines.append(f"| {name} | {r['source']} | {r['kinds']} | {'yes' if r['trains'] else 'no'} | {numbers} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs what has no row, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rows", type=Path, default=Path("torch-coverage.tmp"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable()
    rows = {}
    if args.rows.exists():
        rows = {r["name"]: r for r in map(json.loads, args.rows.read_text().splitlines())}
    for name, (source, make) in cases().items():
        if name in args.names or (name not in rows and not args.names):
            rows[name] = run(name, source, make)
            gc.collect()
            with args.rows.open("a") as file:
                file.write(json.dumps(rows[name]) + "\n")
            print(rows[name], flush=True)
    (HERE.parent / "docs" / "torch-coverage.md").write_text(table(list(rows.values())))


main()
