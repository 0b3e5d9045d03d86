"""Records of one GPU are not mixed with those of another."""

import pytest

from bench.paper import run


def test_another_gpu_is_not_mixed_in(tmp_path):
    header = run.header({"device": "A", "torch": "1"})
    kept = run.Kept(tmp_path / "paper.jsonl", header)
    kept.close(1.0)
    run.Kept(tmp_path / "paper.jsonl", run.header(None))
    with pytest.raises(SystemExit, match="was measured on A"):
        run.Kept(tmp_path / "paper.jsonl", run.header({"device": "B", "torch": "1"}))
