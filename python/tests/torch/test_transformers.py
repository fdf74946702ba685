"""Models of Hugging Face's transformers, as their users call them."""

from __future__ import annotations

import pytest
import torch
from compare import gradients, without_draws

transformers = pytest.importorskip("transformers")

from hf_models import HF  # noqa: E402

import arenagrad as ag  # noqa: E402
import arenagrad.torch as agt  # noqa: E402

# What is computed in f32 also in f64.
ROUGH = {"llama": 1e-6, "mamba": 1e-6, "t5": 1e-6}


@pytest.mark.parametrize("name", ["bert", "llama", "mamba", "swinv2", "t5"])
def test_gradients_are_torchs(name: str) -> None:
    torch.manual_seed(0)
    module, args = HF[name]()
    assert gradients(without_draws(module), args) <= ROUGH.get(name, 1e-9)


def test_arguments_go_by_name_and_outputs_are_transformers() -> None:
    torch.manual_seed(0)
    made, (ids, mask, labels) = HF["bert"]()
    net = made.net
    given = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    before = net(**given)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    step = agt.compile_step(net, lambda out: out.loss, optimizer, (), example_kwargs=given)
    evaluated = step.eval(**given)
    assert type(evaluated) is type(before)
    torch.testing.assert_close(evaluated.logits, before.logits)
    losses = [step(**given) for _ in range(3)]
    assert losses[0] == pytest.approx(before.loss.item(), rel=1e-6)
    step.sync()
    torch.testing.assert_close(net(**given).logits, step.eval(**given).logits)
    assert losses[2] < losses[0]


def test_a_cache_among_the_outputs_is_named() -> None:
    config = transformers.GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=8)
    net, ids = transformers.GPT2LMHeadModel(config), torch.randint(3, 20, (2, 5))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    step = agt.compile_step(net, lambda out: out.loss, optimizer, (), example_kwargs={"input_ids": ids, "labels": ids})
    with pytest.raises(ag.UsageError, match="use_cache=False"):
        step.eval(input_ids=ids)
    net.eval()
    torch.testing.assert_close(step.eval(input_ids=ids, use_cache=False).logits, net(input_ids=ids).logits)
