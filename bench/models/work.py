"""One step of a case: forward and loss and backward, or forward alone."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from . import zoo
from .zoo import Case

SEED = 11
TOLERANCE = 0.05
"""How far results may be apart, as a part of their norm: bfloat16 through some layers and back."""
SAMPLE = 1 << 18
"""So many elements of a tensor are compared."""
FLOOR = 1e-3
"""Gradients that are smaller than that part of their average are noise: some are zero but for rounding."""

NOISE = re.compile(r"attention\.(self\.key|k_proj)\.bias$")
"""Gradients of BERT and ViT that are zero but for rounding, which are not compared: what is added to all keys
adds the same to all scores of a query, and softmax does not show that."""

Results = dict[str, dict[str, Any]]
"""Of each tensor, by name, what `sampled` gives."""


class Work:
    """A case that is built, and called through `compiler`, which gives a model that computes the same."""

    def __init__(
        self, case: Case, device: str, compiler: Callable[[Any], Any] = lambda model: model, tiny: bool = False
    ) -> None:
        import torch

        self.case, self.device = case, device
        self.model, self.inputs = zoo.build(case, device, tiny)
        self._call = compiler(self.model)
        autocast = case.trains and case.model.autocast and not tiny
        self._context: Callable[[], Any] = (
            (lambda: torch.autocast(device, dtype=torch.bfloat16)) if autocast else contextlib.nullcontext
        )

    def step(self) -> Any:
        """What the model answers, after one step; all steps draw the same random numbers."""
        import torch

        torch.manual_seed(SEED)
        if not self.case.trains:
            with torch.no_grad():
                return self._call(**self.inputs)
        self.model.zero_grad(set_to_none=True)
        with self._context():
            answer = self._call(**self.inputs)
        answer.loss.backward()
        return answer

    def results(self) -> Results:
        """The loss and all gradients of a step, or the tensors of the answer; on the CPU."""
        answer = self.step()
        if self.case.trains:
            found = {"loss": answer.loss}
            compared = [pair for pair in self.model.named_parameters() if not NOISE.search(pair[0])]
            found |= {name: each.grad for name, each in compared if each.grad is not None}
        else:
            found = dict(_tensors(answer))
        return {name: sampled(value.detach()) for name, value in found.items()}


def sampled(value: Any) -> Any:
    """Some SAMPLE elements of a tensor, from all over it, and the sum of its bits as integers; on the CPU."""
    import torch

    flat = value.reshape(-1)
    stride = -(-flat.numel() // SAMPLE) | 1  # Odd, so that it meets all columns of a matrix.
    bits = {2: torch.int16, 4: torch.int32}.get(flat.element_size())
    total = flat.view(bits).sum(dtype=torch.int64) if bits is not None else flat.sum()
    return {"sample": flat[::stride].cpu(), "bits": total.cpu()}


def _tensors(answer: Any) -> list[tuple[str, Any]]:
    import torch

    return [(name, value) for name, value in answer.items() if torch.is_tensor(value)]


def apart(stock: Results, other: Results, trains: bool) -> dict[str, Any]:
    """How far results are from stock's: how many tensors are not the same bits, and the largest norm of a
    difference over the norm of the tensor, with the tensor's name. Of large tensors it is that of a sample."""
    import torch

    if stock.keys() != other.keys():
        return {
            "tensors": len(stock),
            "different": len(stock.keys() ^ other.keys()),
            "apart": math.inf,
            "where": "",
        }
    gradients = [value["sample"].double() for name, value in stock.items() if trains and name != "loss"]
    count = sum(value.numel() for value in gradients)
    usual = math.sqrt(sum(float(value.square().sum()) for value in gradients) / max(count, 1))
    not_finite = sum(not bool(value["sample"].isfinite().all()) for value in stock.values())
    found: dict[str, Any] = {"tensors": len(stock), "not_finite": not_finite}
    found |= {"different": 0, "apart": 0.0, "where": ""}
    for name, value in stock.items():
        if torch.equal(value["bits"], other[name]["bits"]) and _same(value["sample"], other[name]["sample"]):
            continue
        found["different"] += 1
        a, b = value["sample"].double(), other[name]["sample"].double()
        least = FLOOR * usual * math.sqrt(a.numel()) if trains and name != "loss" else 0.0
        far = float((a - b).norm()) / max(float(a.norm()), least, 1e-30)
        if math.isnan(far):
            far = 0.0 if torch.equal(a.isnan(), b.isnan()) else math.inf
        if far >= found["apart"]:
            found |= {"apart": far, "where": name}
    return found


def _same(a: Any, b: Any) -> bool:
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def verdict(found: Mapping[str, Any], noise: Mapping[str, Any]) -> str:
    """In a word, what `apart` says of the plugin and of stock Triton's own second run.

    >>> verdict({"different": 2, "apart": 0.01}, {"different": 0, "apart": 0.0})
    'within tolerance'
    """
    if not found["different"]:
        return "identical"
    if noise["different"] and found["apart"] <= 4 * noise["apart"]:
        return "varies"
    return "within tolerance" if found["apart"] <= TOLERANCE else "WRONG"
