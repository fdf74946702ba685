"""Models of Hugging Face's transformers, small and with random weights: `HF` by name, each with its own loss.

Nothing is downloaded. Many compute their loss, their norms or their rotations in f32 even if the model is in f64.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.cuda.graphs
import transformers
from torch import nn

Case = tuple[nn.Module, tuple[Any, ...]]

# transformers asks it at each step; a torch for CUDA whose libraries are missing dies of the answer.
torch.cuda.is_current_stream_capturing = torch.cuda.graphs.is_current_stream_capturing = lambda: False

WORDS, LENGTH, BATCH = 61, 12, 2
ENDS: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "use_cache": False}
# The sizes, by the names that configurations have for them: each takes those that it knows.
LAYERS: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
TEXT: dict[str, Any] = {**LAYERS, "vocab_size": WORDS, "max_position_embeddings": 40, "pad_token_id": 0, "use_cache": False}
GPT2: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}
PAIR: dict[str, Any] = {"d_model": 32, "max_position_embeddings": 32, "vocab_size": WORDS, **ENDS} | {
    f"{side}_{what}": n
    for side in ("encoder", "decoder")
    for what, n in {"layers": 2, "attention_heads": 4, "ffn_dim": 48}.items()
}
PATCHES: dict[str, Any] = {**LAYERS, "image_size": 32, "patch_size": 8}
STAGES: dict[str, Any] = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}
ATTENTION: dict[str, Any] = {**STAGES, "num_attention_heads": [1, 1, 2, 2]}
WINDOWS: dict[str, Any] = {"patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
SPEECH: dict[str, Any] = {**LAYERS, "vocab_size": 20, "conv_dim": [16, 16], "conv_kernel": [10, 3], "conv_stride": [5, 2]} | {
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
    "layerdrop": 0.0,
}
PAST: dict[str, Any] = {"num_input_channels": 2, "context_length": 32, "prediction_length": 4}
SERIES: dict[str, Any] = {**PAST, "patch_length": 8, "patch_stride": 8}
FEW: dict[str, Any] = {"num_key_value_heads": 2}


class Loss(nn.Module):
    """The loss that a model computes of arguments by name."""

    def __init__(self, net: nn.Module, names: str) -> None:
        super().__init__()
        self.net, self.names = net, names.split()

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.net(**dict(zip(self.names, args))).loss


def made(kind: str, config: dict[str, Any]) -> nn.Module:
    """A model of a class, by its configuration, that drops nothing."""
    of = getattr(transformers, kind).config_class(**config)
    for name, value in vars(of).items():
        if "drop" in name and isinstance(value, float):
            setattr(of, name, 0.0)
    return getattr(transformers, kind)(of)


def tokens(n: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, WORDS, (BATCH, n))


def sentences(kind: str, **config: Any) -> Case:
    """A classifier of sentences, the second of which is shorter."""
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[1, 8:] = 0
    net = made(f"{kind}ForSequenceClassification", {**TEXT, "num_labels": 3, **config})
    return Loss(net, "input_ids attention_mask labels"), (tokens(), mask, torch.tensor([0, 2]))


def words(kind: str, **config: Any) -> Case:
    """A model that tells the next word."""
    x = tokens()
    return Loss(made(kind, {**TEXT, **config}), "input_ids labels"), (x, x.clone())


def pairs(kind: str, **config: Any) -> Case:
    """A model that turns one sentence into another."""
    return Loss(made(kind, {**PAIR, **config}), "input_ids labels"), (tokens(), tokens(7))


def images(kind: str, size: int = 32, **config: Any) -> Case:
    """A classifier of images."""
    net = made(f"{kind}ForImageClassification", {"num_labels": 5, "image_size": size, **config})
    return Loss(net, "pixel_values labels"), (torch.randn(BATCH, 3, size, size), torch.tensor([1, 4]))


def videos(kind: str) -> Case:
    """A classifier of videos."""
    net = made(f"{kind}ForVideoClassification", {**PATCHES, "num_labels": 3, "num_frames": 4, "tubelet_size": 2})
    return Loss(net, "pixel_values labels"), (torch.randn(BATCH, 4, 3, 32, 32), torch.tensor([0, 2]))


def sounds(kind: str) -> Case:
    """A classifier of sounds."""
    net = made(f"{kind}ForSequenceClassification", {**SPEECH, "num_labels": 3})
    return Loss(net, "input_values labels"), (torch.randn(BATCH, 400), torch.tensor([0, 2]))


def series(kind: str, **config: Any) -> Case:
    """A model that tells how series go on."""
    net = made(f"{kind}ForPrediction", {**SERIES, "d_model": 16, **config})
    return Loss(net, "past_values future_values"), (torch.randn(BATCH, 32, 2), torch.randn(BATCH, 4, 2))


def segments() -> Case:
    """A class for each pixel."""
    net = made("SegformerForSemanticSegmentation", {**ATTENTION, "num_labels": 4, "decoder_hidden_size": 16})
    return Loss(net, "pixel_values labels"), (torch.randn(BATCH, 3, 32, 32), torch.randint(0, 4, (BATCH, 32, 32)))


def whisper() -> Case:
    """Spectra become words."""
    sizes = {"num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16, "decoder_start_token_id": 1}
    net = made("WhisperForConditionalGeneration", {**PAIR, **sizes})
    return Loss(net, "input_features labels"), (torch.randn(BATCH, 8, 32), tokens(7))


def spectra() -> Case:
    """A classifier of spectra."""
    sizes = {"max_length": 32, "num_mel_bins": 16, "patch_size": 8, "frequency_stride": 4, "time_stride": 4}
    net = made("ASTForAudioClassification", {**LAYERS, **sizes, "num_labels": 3})
    return Loss(net, "input_values labels"), (torch.randn(BATCH, 32, 16), torch.tensor([0, 2]))


T5: dict[str, Any] = {"d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}

HF: dict[str, Callable[[], Case]] = {
    "albert": lambda: sentences("Albert", embedding_size=16),
    "bert": lambda: sentences("Bert"),
    "convbert": lambda: sentences("ConvBert", embedding_size=32, head_ratio=2, conv_kernel_size=3),
    "distilbert": lambda: sentences("DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=48),
    "electra": lambda: sentences("Electra", embedding_size=16),
    "mobilebert": lambda: sentences("MobileBert", embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
    "modernbert": lambda: sentences("ModernBert", cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2),
    "mpnet": lambda: sentences("MPNet"),
    "roberta": lambda: sentences("Roberta"),
    "squeezebert": lambda: sentences("SqueezeBert", embedding_size=32),
    "codegen": lambda: words("CodeGenForCausalLM", **GPT2, rotary_dim=4),
    "cohere": lambda: words("CohereForCausalLM", **FEW),
    "falcon": lambda: words("FalconForCausalLM"),
    "gemma": lambda: words("GemmaForCausalLM", **FEW, head_dim=8),
    "gemma2": lambda: words("Gemma2ForCausalLM", **FEW, head_dim=8, sliding_window=4),
    "gemma3": lambda: words("Gemma3ForCausalLM", **FEW, head_dim=8, sliding_window=4),
    "glm": lambda: words("GlmForCausalLM", **FEW, head_dim=8),
    "gpt2": lambda: words("GPT2LMHeadModel", **GPT2),
    "gpt_bigcode": lambda: words("GPTBigCodeForCausalLM", **GPT2),
    "gpt_neo": lambda: words(
        "GPTNeoForCausalLM", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=4
    ),
    "gpt_neox": lambda: words("GPTNeoXForCausalLM"),
    "gptj": lambda: words("GPTJForCausalLM", **GPT2, rotary_dim=4),
    "granite": lambda: words("GraniteForCausalLM", **FEW),
    "llama": lambda: words("LlamaForCausalLM", **FEW),
    "mamba": lambda: words("MambaForCausalLM", state_size=4),
    "mamba2": lambda: words("Mamba2ForCausalLM", state_size=4, num_heads=8, head_dim=8, n_groups=2, chunk_size=4),
    "mistral": lambda: words("MistralForCausalLM", **FEW, sliding_window=4),
    "olmo2": lambda: words("Olmo2ForCausalLM"),
    "opt": lambda: words("OPTForCausalLM", ffn_dim=48, word_embed_proj_dim=32),
    "phi": lambda: words("PhiForCausalLM"),
    "phi3": lambda: words("Phi3ForCausalLM", **FEW),
    "qwen2": lambda: words("Qwen2ForCausalLM", **FEW),
    "qwen3": lambda: words("Qwen3ForCausalLM", **FEW, head_dim=8),
    "rwkv": lambda: words("RwkvForCausalLM", attention_hidden_size=32),
    "smollm3": lambda: words("SmolLM3ForCausalLM", **FEW),
    "stablelm": lambda: words("StableLmForCausalLM", **FEW),
    "starcoder2": lambda: words("Starcoder2ForCausalLM", **FEW),
    "bart": lambda: pairs("BartForConditionalGeneration"),
    "marian": lambda: pairs("MarianMTModel"),
    "pegasus": lambda: pairs("PegasusForConditionalGeneration"),
    "t5": lambda: pairs("T5ForConditionalGeneration", **T5),
    "whisper": whisper,
    "beit": lambda: images("Beit", **PATCHES, use_relative_position_bias=True),
    "convnextv2": lambda: images("ConvNextV2", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    "deit": lambda: images("DeiT", **PATCHES),
    "focalnet": lambda: images("FocalNet", embed_dim=8, depths=[1, 1, 1, 1]),
    "levit": lambda: images(
        "Levit", 64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8]
    ),
    "mobilevit": lambda: images("MobileViT", 64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 32]),
    "poolformer": lambda: images("PoolFormer", hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1]),
    "pvt_v2": lambda: images("PvtV2", 64, **ATTENTION),
    "regnet": lambda: images("RegNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=8),
    "resnet": lambda: images("ResNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]),
    "segformer": segments,
    "swin": lambda: images("Swin", **WINDOWS),
    "swinv2": lambda: images("Swinv2", **WINDOWS),
    "vit": lambda: images("ViT", **PATCHES),
    "timesformer": lambda: videos("Timesformer"),
    "videomae": lambda: videos("VideoMAE"),
    "ast": spectra,
    "hubert": lambda: sounds("Hubert"),
    "wav2vec2": lambda: sounds("Wav2Vec2"),
    "patchtsmixer": lambda: series("PatchTSMixer", num_layers=2),
    "patchtst": lambda: series("PatchTST", num_hidden_layers=2, num_attention_heads=4, ffn_dim=32),
}
