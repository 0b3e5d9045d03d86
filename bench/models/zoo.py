"""Twelve models of `transformers`, each trained and asked for results: the cases.

Widths, heads and vocabularies are those of the model that is named; there are two to four layers, for all
layers of a model have the same kernels. Weights are random, made from a configuration, so nothing is fetched.
`tiny` makes all sizes small, for a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

TRAIN, INFER = "train", "infer"
MODES = (TRAIN, INFER)

Inputs = Callable[[Any, Any, int, int], dict[str, Any]]
Sizes = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """A model of `transformers`.

    head: the class of `transformers` that makes it from a configuration of the class `config`.
    sizes: arguments of that configuration. tiny: those of them that are others on a CPU.
    inputs: what the model gets, from (torch, configuration, batch, length).
    train, infer: batch and length.
    autocast: trained with weights in float32 and autocast to bfloat16, as `Trainer(bf16=True)` does; otherwise
    weights are bfloat16 too.
    """

    name: str
    after: str
    head: str
    config: str
    sizes: Sizes
    tiny: Sizes
    inputs: Inputs
    train: tuple[int, int]
    infer: tuple[int, int]
    attention: str = "sdpa"
    autocast: bool = False
    options: Sizes = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A model that is trained or asked for results."""

    model: Model
    mode: str

    @property
    def name(self) -> str:
        return f"{self.model.name}/{self.mode}"

    @property
    def trains(self) -> bool:
        return self.mode == TRAIN

    @property
    def shape(self) -> tuple[int, int]:
        """Batch and length."""
        return self.model.train if self.trains else self.model.infer


# What models get


def _words(torch: Any, config: Any, batch: int, length: int) -> Any:
    return torch.randint(0, config.vocab_size, (batch, length))


def _masked(torch: Any, config: Any, batch: int, length: int) -> dict[str, Any]:
    """Texts of different lengths, padded; a word in seven is to be guessed."""
    words = _words(torch, config, batch, length)
    ends = torch.randint(length // 2, length + 1, (batch, 1))
    there = torch.arange(length)[None, :] < ends
    asked = (torch.rand(batch, length) < 0.15) & there
    return {
        "input_ids": words,
        "attention_mask": there.long(),
        "labels": torch.where(asked, words, torch.full_like(words, -100)),
    }


def _causal(torch: Any, config: Any, batch: int, length: int) -> dict[str, Any]:
    words = _words(torch, config, batch, length)
    return {"input_ids": words, "labels": words, "use_cache": False}


def _translated(torch: Any, config: Any, batch: int, length: int) -> dict[str, Any]:
    """Texts of different lengths, padded, and texts a quarter as long that they are to become."""
    given = _masked(torch, config, batch, length)
    return given | {"labels": _words(torch, config, batch, max(1, length // 4)), "use_cache": False}


def _pictures(torch: Any, config: Any, batch: int, length: int) -> dict[str, Any]:
    """`length` is of a side, in pixels."""
    return {
        "pixel_values": torch.randn(batch, 3, length, length),
        "labels": torch.randint(0, config.num_labels, (batch,)),
    }


def _speech(torch: Any, config: Any, batch: int, length: int) -> dict[str, Any]:
    """`length` is of the text; the sound is as long as the model takes."""
    return {
        "input_features": torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions),
        "labels": _words(torch, config, batch, length),
        "use_cache": False,
    }


# The models

_TINY_LLAMA = {
    "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "vocab_size": 512,
}  # fmt: skip

MODELS = (
    Model(
        "bert", "BERT-large", "AutoModelForMaskedLM", "BertConfig",
        {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 16},
        {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "vocab_size": 512},
        _masked, (16, 512), (32, 384), autocast=True,
    ),
    Model(
        "gpt2", "GPT-2 medium, eager attention", "AutoModelForCausalLM", "GPT2Config",
        {"n_embd": 1024, "n_head": 16, "n_layer": 3},
        {"n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 512},
        _causal, (8, 1024), (8, 1024), attention="eager", autocast=True,
    ),
    Model(
        "deberta", "DeBERTa-v3-large", "AutoModelForMaskedLM", "DebertaV2Config",
        {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 3, "num_attention_heads": 16,
         "vocab_size": 128100, "relative_attention": True, "position_buckets": 256,
         "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": "p2c|c2p",
         "position_biased_input": False, "type_vocab_size": 0, "max_relative_positions": -1},
        {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "vocab_size": 512, "position_buckets": 8},
        _masked, (8, 512), (16, 512), attention="eager", autocast=True,
    ),
    Model(
        "t5", "Flan-T5-large", "AutoModelForSeq2SeqLM", "T5Config",
        {"d_model": 1024, "d_kv": 64, "d_ff": 2816, "num_layers": 2, "num_heads": 16,
         "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "decoder_start_token_id": 0},
        {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_heads": 4, "vocab_size": 512},
        _translated, (16, 512), (32, 512), attention="eager", autocast=True,
    ),
    Model(
        "vit", "ViT-large", "AutoModelForImageClassification", "ViTConfig",
        {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 16,
         "num_labels": 1000},
        {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "image_size": 32, "num_labels": 10},
        _pictures, (64, 224), (128, 224), autocast=True,
    ),
    Model(
        "convnext", "ConvNeXt-base, two blocks a stage", "AutoModelForImageClassification", "ConvNextConfig",
        {"hidden_sizes": [128, 256, 512, 1024], "depths": [2, 2, 2, 2], "num_labels": 1000},
        {"hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 1, 1], "num_labels": 10},
        _pictures, (64, 224), (128, 224), attention="", autocast=True,
    ),
    Model(
        "whisper", "Whisper-large", "AutoModelForSpeechSeq2Seq", "WhisperConfig",
        {"d_model": 1280, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 20,
         "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "num_mel_bins": 128,
         "vocab_size": 51866, "dropout": 0.1},
        {"d_model": 64, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "num_mel_bins": 16,
         "max_source_positions": 32, "max_target_positions": 32, "vocab_size": 512,
         "pad_token_id": 1, "bos_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 1},
        _speech, (8, 256), (16, 128), autocast=True,
    ),
    Model(
        "llama", "Llama 3.2 1B", "AutoModelForCausalLM", "LlamaConfig",
        {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 3, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": True,
         "max_position_embeddings": 8192},
        _TINY_LLAMA,
        _causal, (2, 2048), (4, 2048),
    ),
    Model(
        "gemma2", "Gemma 2 2B", "AutoModelForCausalLM", "Gemma2Config",
        {"hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 2, "num_attention_heads": 8,
         "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 256000, "sliding_window": 1024},
        {**_TINY_LLAMA, "sliding_window": 8},
        _causal, (1, 2048), (2, 2048), attention="eager",
    ),
    Model(
        "qwen3", "Qwen3 1.7B", "AutoModelForCausalLM", "Qwen3Config",
        {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 3, "num_attention_heads": 16,
         "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True},
        _TINY_LLAMA,
        _causal, (2, 2048), (4, 2048),
    ),
    Model(
        "qwen3_moe", "Qwen3 30B-A3B", "AutoModelForCausalLM", "Qwen3MoeConfig",
        {"hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 2,
         "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
         "num_experts_per_tok": 8, "norm_topk_prob": True, "vocab_size": 151936, "tie_word_embeddings": True},
        {**_TINY_LLAMA, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2},
        _causal, (1, 2048), (2, 2048), options={"experts_implementation": "grouped_mm"},
    ),
    Model(
        "mamba2", "Mamba2 780M", "AutoModelForCausalLM", "Mamba2Config",
        {"hidden_size": 1536, "state_size": 128, "num_heads": 48, "head_dim": 64, "expand": 2, "n_groups": 1,
         "chunk_size": 256, "num_hidden_layers": 2, "vocab_size": 50288, "tie_word_embeddings": True},
        {"hidden_size": 32, "state_size": 16, "num_heads": 4, "head_dim": 16, "chunk_size": 16,
         "vocab_size": 512},
        _causal, (1, 1024), (2, 1024), attention="",
    ),
)  # fmt: skip

TINY_SHAPE = (2, 32)


def cases() -> Iterator[Case]:
    """Every model in every mode, those whose preparation takes longest first."""
    return (Case(model, mode) for mode in MODES for model in MODELS)


def configuration(model: Model, tiny: bool = False) -> Any:
    """The configuration of `transformers`."""
    import transformers

    known: Any = getattr(transformers, model.config)
    return known(**model.sizes | (model.tiny if tiny else {}))


def build(case: Case, device: str, tiny: bool = False) -> tuple[Any, dict[str, Any]]:
    """The model with its weights, and what it gets; the same at each call."""
    import torch
    import transformers

    model = case.model
    config = configuration(model, tiny)
    dtype = torch.float32 if tiny or (case.trains and model.autocast) else torch.bfloat16
    how = dict(model.options)
    if model.attention:
        how["attn_implementation"] = model.attention
    torch.manual_seed(7)
    with torch.device(device):
        made = getattr(transformers, model.head).from_config(config, dtype=dtype, **how)
        inputs = model.inputs(torch, config, *(TINY_SHAPE if tiny else case.shape))
    if getattr(made, "loss_type", "") is None:
        made.loss_type = "ForCausalLM"  # What it would become at the first step, with a warning and two graphs.
    inputs = {
        name: value.to(dtype) if torch.is_tensor(value) and value.is_floating_point() else value
        for name, value in inputs.items()
    }
    if not case.trains:
        asked = inputs.pop("labels")
        if model.inputs in (_translated, _speech):
            inputs["decoder_input_ids"] = asked
        elif model.inputs is _causal:
            inputs["logits_to_keep"] = 1  # As for the first word of an answer.
    return made.train(case.trains), inputs
