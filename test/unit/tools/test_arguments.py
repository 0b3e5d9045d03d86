"""The command lines: what is taken, and the answer to a wrong word."""

from __future__ import annotations

import pytest

from triton_linear.tools import cli


def test_arguments_are_parsed() -> None:
    parsed = cli.parser().parse_args(["explain", "k.ttgir", "--fail-on", "wrong"])
    assert (parsed.what, parsed.fail_on, parsed.run) == (
        "k.ttgir",
        ["wrong"],
        "triton_linear.tools.explain.command",
    )
    assert cli.parser().parse_args(["tune", "--variants=lower", "s.py", "--x"]).arguments == ["--x"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("explian k.ttgir", "COMMAND: no 'explian'; did you mean 'explain'?"),
        ("explain k.ttgir --stok", "no option '--stok'; did you mean '--stock'?"),
        ("verify k.ttgir --frob", "no option '--frob'; --help lists them"),
        ("view x --view tensr", "--view: no 'tensr'; did you mean 'tensor'?"),
        ("view x --view page", "--view: no 'page'; there are tensor, hardware, memory, matrix"),
        ("tune --variants lowr s.py", "argument --variants: no 'lowr'; did you mean 'lower'?"),
        ("status a b", "there is no place for 'b'"),
        ("diff", "the following arguments are required: WHAT"),
    ],
)
def test_a_wrong_word_is_one_line_with_the_nearest_right_one(
    words: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(words.split())
    assert capsys.readouterr().err.endswith(f": error: {answer}\n")
