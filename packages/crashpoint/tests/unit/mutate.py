"""Break one rule of a module at a time, to show that its checks notice every break.

A test lists the `mutants` of a module's source, runs its checks on each one it `load`s, and
fails if any survives. A mutant that means the same as the original points at a redundancy:
restructure the source instead of excusing it.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from types import ModuleType

__all__ = ["OUTCOMES", "load", "mutants"]

OUTCOMES: Mapping[str, Sequence[str]] = {
    "Outcome": ("EXACTLY_ONCE", "DUPLICATED", "DIVERGED", "LOST", "VOID"),
}
"""Enum's name -> its members; the enum constants that are mutated unless told otherwise."""

Change = tuple[str, Callable[[], None]]
"""What is changed, in words, and the function that changes the tree in place."""


def mutants(
    source: str, *, members: Mapping[str, Sequence[str]] = OUTCOMES
) -> list[tuple[str, str]]:
    """Return (description with line number, mutated source) for each single change.

    Changed are: an enum constant of `members` to each other member of its enum; a comparison to
    its opposite; `and` and `or` to each other; `not` away; True and False to each other; an
    if-branch, an else-branch or a case dropped. Decorators stay: they shape a class, and decide
    nothing. Raises SyntaxError if `source` does not parse.
    """
    found = []
    for number in range(len(list(_changes(ast.parse(source), members)))):
        # A fresh tree for each mutant: changes are made in place and never undone.
        tree = ast.parse(source)
        description, apply = list(_changes(tree, members))[number]
        apply()
        found.append((description, ast.unparse(ast.fix_missing_locations(tree))))
    return found


def load(source: str, *, name: str = "mutant") -> ModuleType:
    """Return a new module made by running `source`; it is not put into `sys.modules`."""
    module = ModuleType(name)
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    return module


def _changes(tree: ast.AST, members: Mapping[str, Sequence[str]]) -> Iterator[Change]:
    for node in _without_decorators(tree):
        for description, apply in chain(_other_values(node, members), _dropped_branches(node)):
            yield f"line {_line(node)}: {description}", apply


def _without_decorators(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    decorators = getattr(node, "decorator_list", [])
    for child in ast.iter_child_nodes(node):
        if child not in decorators:
            yield from _without_decorators(child)


def _line(node: ast.AST) -> int:
    # A case has no line of its own.
    return node.pattern.lineno if isinstance(node, ast.match_case) else getattr(node, "lineno", 0)


def _other_values(node: ast.AST, members: Mapping[str, Sequence[str]]) -> Iterator[Change]:
    match node:
        case ast.Attribute(value=ast.Name(id=enum), attr=member) if member in members.get(enum, ()):
            for other in members[enum]:
                if other != member:
                    yield f"{enum}.{member} -> {other}", _setter(node, "attr", other)
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                opposite = _OPPOSITE[type(op)]
                changed = [*ops[:place], opposite(), *ops[place + 1 :]]
                words = f"{type(op).__name__} -> {opposite.__name__}"
                yield f"{words} in {ast.unparse(node)}", _setter(node, "ops", changed)
        case ast.BoolOp(op=op):
            other_op = ast.Or() if isinstance(op, ast.And) else ast.And()
            words = f"{type(op).__name__} -> {type(other_op).__name__}"
            yield f"{words} in {ast.unparse(node)}", _setter(node, "op", other_op)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            twice = ast.UnaryOp(op=ast.Not(), operand=operand)
            yield f"dropped not in {ast.unparse(node)}", _setter(node, "operand", twice)
        case ast.Constant(value=bool(value)):
            yield f"{value} -> {not value}", _setter(node, "value", not value)


def _dropped_branches(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.If(test=test, orelse=orelse) | ast.IfExp(test=test, orelse=orelse):
            yield f"dropped: if {ast.unparse(test)}", _setter(node, "test", ast.Constant(False))
            if orelse:
                words = f"dropped: else of if {ast.unparse(test)}"
                yield words, _setter(node, "test", ast.Constant(True))
        case ast.match_case(pattern=pattern):
            words = f"dropped: case {ast.unparse(pattern)}"
            yield words, _setter(node, "guard", ast.Constant(False))


def _setter(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


_OPPOSITE: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
