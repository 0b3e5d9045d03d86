"""Changes of source code that name what they change by its syntax: a function, and an expression or statements.

    replaced(text, "of_addresses", "1 << run", "2 << run")

`old` is found where the code of the function, without that of functions and classes inside it, is the same once
both are laid out alike: comments, line breaks, quotes and the place in the file do not matter. It must be there
once. Functions have their qualified name (`Layout.compose`); the code outside all functions and classes has "".

`old` and `new` are both expressions, or both one or more statements; `pass` takes a statement out. Of two kinds
of code a part can be named alone:

    "if index: ..."    a compound statement with any body, which is kept
    'f"{b}, {a} :"'    written as an f-string, a piece of a string of either kind
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

_Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


class AnchorError(ValueError):
    """What is to be changed is not in the code, or more than once."""


def replaced(text: str, function: str, old: str, new: str) -> str:
    """The source with `new` in the place of `old`, laid out anew.

    Requires that the code of `function` has `old` once; raises AnchorError where it has not.
    """
    tree = ast.parse(text)
    scopes = list(_scopes(tree, function))
    if not scopes:
        raise AnchorError(f"there is no function '{function}'")
    nodes = [node for scope in scopes for node in _nodes(scope)]
    wanted, change = ast.parse(old).body, ast.parse(new).body
    match [*wanted, *change]:
        case [ast.Expr(value=ast.JoinedStr() as before), ast.Expr(value=ast.JoinedStr() as after)]:
            found = _replace_piece(nodes, _pieces(before), _pieces(after))
        case [ast.Expr(value=before), ast.Expr(value=after)]:
            found = _replace_expression(nodes, before, after)
        case _:
            found = _replace_statements(nodes, wanted, change)
    if found != 1:
        where = f"'{function}' has" if function else "the code outside all functions has"
        raise AnchorError(f"{where} this {found} times instead of once: {old}")
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _scopes(tree: ast.Module, function: str) -> Iterator[_Scope]:
    """The definitions with that qualified name; several where one stands in each branch of an `if`."""

    def inside(node: ast.AST, prefix: str) -> Iterator[_Scope]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _SCOPES):
                if prefix + child.name == function:
                    yield child
                yield from inside(child, f"{prefix}{child.name}.")
            else:
                yield from inside(child, prefix)

    if function:
        yield from inside(tree, "")
    else:
        yield tree


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it that are not inside another function or class."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _SCOPES):
            yield from _nodes(child)


def _children(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Each node with its parent, the field of it that it is in, and its place there if that is a list."""
    for parent in nodes:
        for field, value in ast.iter_fields(parent):
            if isinstance(value, list):
                yield from ((parent, field, place, child) for place, child in enumerate(value))
            elif isinstance(value, ast.AST):
                yield parent, field, None, value


def _put(parent: ast.AST, field: str, place: int | None, new: ast.AST) -> None:
    if place is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[place] = new


def _replace_expression(nodes: Sequence[ast.AST], old: ast.expr, new: ast.expr) -> int:
    wanted = ast.unparse(old)
    found = [
        (parent, field, place)
        for parent, field, place, child in _children(nodes)
        if type(child) is type(old) and ast.unparse(child) == wanted
    ]
    for parent, field, place in found:
        _put(parent, field, place, new)
    return len(found)


def _replace_statements(nodes: Sequence[ast.AST], old: list[ast.stmt], new: list[ast.stmt]) -> int:
    count = 0
    for body in [getattr(node, name, None) for node in nodes for name in _BODIES]:
        for place in range(len(body) - len(old) + 1) if isinstance(body, list) else ():
            there = body[place : place + len(old)]
            if all(_alike(one, each) for one, each in zip(old, there, strict=True)):
                count += 1
                _keep_bodies(new, there)
                body[place : place + len(old)] = new
    return count


def _is_open(statement: ast.stmt) -> bool:
    """Whether its body is `...`, which stands for any."""
    body = getattr(statement, "body", None)
    return isinstance(body, list) and [ast.unparse(one) for one in body] == ["..."]


def _head(statement: ast.stmt) -> str:
    """A compound statement without what is in it."""
    own = {field: value for field, value in ast.iter_fields(statement) if field not in _BODIES}
    inside: dict[str, Any] = {field: [] for field in statement._fields if field in _BODIES}
    bare = type(statement)(**own, **inside | {"body": [ast.Pass()]})
    return ast.unparse(ast.fix_missing_locations(bare))


def _alike(pattern: ast.stmt, there: ast.stmt) -> bool:
    if type(pattern) is not type(there):
        return False
    write = _head if _is_open(pattern) else ast.unparse
    return write(pattern) == write(there)


def _keep_bodies(new: Sequence[ast.stmt], there: Sequence[ast.stmt]) -> None:
    """Statements whose body is `...` get, in order, what the compound statements had that they replace."""
    had = [one for one in there if isinstance(getattr(one, "body", None), list)]
    for statement, own in zip([one for one in new if _is_open(one)], had, strict=False):
        for field in set(_BODIES) & {*statement._fields} & {*own._fields}:
            setattr(statement, field, getattr(own, field))


_Piece = str | tuple[str, ast.AST]
"""A character of a string, or an expression in it: what it looks like, and its syntax."""


def _pieces(string: ast.JoinedStr | ast.Constant) -> list[_Piece]:
    values = string.values if isinstance(string, ast.JoinedStr) else [string]
    found: list[_Piece] = []
    for value in values:
        found += (
            value.value if isinstance(value, ast.Constant) else [(ast.unparse(ast.JoinedStr([value])), value)]
        )
    return found


def _string(pieces: Sequence[_Piece]) -> ast.JoinedStr:
    values: list[ast.expr] = []
    for piece in pieces:
        if not isinstance(piece, str):
            values.append(piece[1])
        elif values and isinstance(values[-1], ast.Constant):
            values[-1] = ast.Constant(values[-1].value + piece)
        else:
            values.append(ast.Constant(piece))
    return ast.JoinedStr(values)


def _replace_piece(nodes: Sequence[ast.AST], old: Sequence[_Piece], new: Sequence[_Piece]) -> int:
    wanted = _shown(old)
    count = 0
    for parent, field, place, child in list(_children(nodes)):
        match child:
            case ast.JoinedStr():
                pieces = _pieces(child)
            case ast.Constant(value=str()) if not isinstance(parent, ast.JoinedStr):
                pieces = _pieces(child)
            case _:
                continue
        there = _shown(pieces)
        starts = [at for at in range(len(there)) if there[at : at + len(wanted)] == wanted]
        count += len(starts)
        for at in starts[:1]:
            _put(parent, field, place, _string([*pieces[:at], *new, *pieces[at + len(wanted) :]]))
    return count


def _shown(pieces: Sequence[_Piece]) -> list[tuple[bool, str]]:
    return [(True, piece) if isinstance(piece, str) else (False, piece[0]) for piece in pieces]
