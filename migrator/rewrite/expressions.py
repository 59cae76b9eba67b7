"""Changes of single expressions: a call's arguments, filled templates, parentheses where they are needed.

In: libcst nodes and text.  Out: new nodes; nothing is mutated.  What was written around the changed part (commas, line breaks,
comments) is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import libcst as cst

_HOLE = re.compile(r"\$(\d+)")
_PLACEHOLDER = "__mgmigrate_hole_{}__"
_SPACE = cst.SimpleWhitespace(" ")
# Expressions that bind so tightly that they can stand anywhere.
_ATOMS = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.BaseNumber,
    cst.SimpleString,
    cst.FormattedString,
    cst.Ellipsis,
    cst.List,
    cst.Set,
    cst.Dict,
    cst.ListComp,
    cst.SetComp,
    cst.DictComp,
)
# Parents that take any expression as it is.
_ROOMY = (
    cst.Arg,
    cst.Assign,
    cst.AugAssign,
    cst.Return,
    cst.Expr,
    cst.Index,
    cst.Element,
    cst.DictElement,
    cst.If,
    cst.While,
    cst.For,
    cst.Assert,
)


def fill(text: str, holes: Mapping[int, cst.BaseExpression], config: cst.PartialParserConfig) -> cst.BaseExpression:
    """Parse a template and put expressions into its `$0`, `$1`, …"""
    tree = cst.parse_expression(with_placeholders(text), config=config)
    filled = with_holes(tree, holes)
    return cst.ensure_type(filled, cst.BaseExpression)  # type: ignore[type-abstract]


def with_placeholders(text: str) -> str:
    """A template that can be parsed: names stand for its `$0`, `$1`, …"""
    return _HOLE.sub(lambda m: _PLACEHOLDER.format(m[1]), text)


def with_holes(tree: cst.CSTNode, holes: Mapping[int, cst.BaseExpression]) -> Any:
    """A tree that was parsed with placeholders, with expressions in their place."""
    nodes = {_PLACEHOLDER.format(index): node for index, node in holes.items()}
    return tree.visit(_Fill(nodes)) if nodes else tree


class _Fill(cst.CSTTransformer):
    def __init__(self, nodes: Mapping[str, cst.BaseExpression]):
        super().__init__()
        self.nodes = nodes
        self.parents: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.parents.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        self.parents.pop()
        if isinstance(original_node, cst.Name) and original_node.value in self.nodes:
            filled = self.nodes[original_node.value]
            return fitted(filled, self.parents[-1]) if self.parents else filled
        return updated_node


def fitted(node: cst.BaseExpression, parent: cst.CSTNode | None, code: str = "") -> cst.BaseExpression:
    """The expression with parentheses when `parent` would otherwise bind more tightly, or when it spans lines bare."""
    if node.lpar:
        return node
    tight = not isinstance(node, _ATOMS) and not isinstance(parent, _ROOMY)
    starred = isinstance(parent, cst.Arg) and parent.star != "" and not isinstance(node, _ATOMS)
    bare_generator = isinstance(node, cst.GeneratorExp | cst.Yield | cst.NamedExpr)
    if tight or starred or bare_generator or (code and _breaks_lines(code)):
        return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return node


def _breaks_lines(code: str) -> bool:
    """True when the expression is spread over lines without brackets of its own."""
    if "\n" not in code and "\r" not in code:
        return False
    try:
        cst.parse_expression(code)
    except cst.ParserSyntaxError:
        return True
    return False


def argument_index(call: cst.Call, name: str, position: int | None) -> int | None:
    """Where a call gives an argument, by keyword or by position."""
    for index, arg in enumerate(call.args):
        if arg.keyword is not None and arg.keyword.value == name:
            return index
    if position is None or position >= len(call.args):
        return None
    return position if all(not a.star and a.keyword is None for a in call.args[: position + 1]) else None


def set_argument(
    call: cst.Call, name: str, position: int | None, value: cst.BaseExpression, rename: str = ""
) -> cst.Call:
    """Give an argument a new value (and keyword) in place, or append it as a keyword, in the layout of the call."""
    index = argument_index(call, name, position)
    args = list(call.args)
    if index is not None:
        args[index] = args[index].with_changes(value=value)
        keyword = args[index].keyword
        if rename and keyword is not None:
            args[index] = args[index].with_changes(keyword=keyword.with_changes(value=rename))
        return call.with_changes(args=args)
    new = cst.ensure_type(cst.parse_expression(f"f({name}=x)"), cst.Call).args[0].with_changes(value=value)
    args = [_standing_beside_others(arg) for arg in args]
    place = next((i for i, arg in enumerate(args) if arg.star == "**"), len(args))
    if place < len(args):
        args.insert(place, new.with_changes(comma=_separator(call)))
    elif args:
        args[-1:] = _append(args[-1], new, _separator(call))
    else:
        args.append(new)
    return call.with_changes(args=args)


def _append(last: cst.Arg, new: cst.Arg, separator: cst.Comma) -> tuple[cst.Arg, cst.Arg]:
    """The last argument and the new one behind it; a comment, a line end and a trailing comma stay where they were."""
    if isinstance(last.comma, cst.Comma):
        between = separator.with_changes(
            whitespace_after=_with_comment_of(separator.whitespace_after, last.comma.whitespace_after)
        )
        end = last.comma.with_changes(whitespace_after=_without_comment(last.comma.whitespace_after))
        return last.with_changes(comma=between), new.with_changes(comma=end)
    between = separator.with_changes(
        whitespace_after=_with_comment_of(separator.whitespace_after, last.whitespace_after_arg)
    )
    if isinstance(between.whitespace_after, cst.ParenthesizedWhitespace):
        new = new.with_changes(whitespace_after_arg=_without_comment(last.whitespace_after_arg))
    else:
        new = new.with_changes(whitespace_after_arg=last.whitespace_after_arg)
    return last.with_changes(comma=between, whitespace_after_arg=cst.SimpleWhitespace("")), new


def _separator(call: cst.Call) -> cst.Comma:
    """How a call separates its arguments, without the comments that stand there."""
    found = next((arg.comma for arg in call.args[:-1] if isinstance(arg.comma, cst.Comma)), None)
    if found is not None:
        return found.with_changes(whitespace_after=_without_comment(found.whitespace_after))
    first = call.whitespace_before_args
    return cst.Comma(whitespace_after=_SPACE if first.empty else _without_comment(first))


def _standing_beside_others(arg: cst.Arg) -> cst.Arg:
    """A bare generator is only allowed alone."""
    if isinstance(arg.value, cst.GeneratorExp) and not arg.value.lpar:
        return arg.with_changes(value=fitted(arg.value, None))
    return arg


def _without_comment(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    line = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    return space.with_changes(first_line=line, empty_lines=[])


def _with_comment_of(
    space: cst.BaseParenthesizableWhitespace, other: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """The space with the comment that stands in the other one (which must end its line)."""
    if not isinstance(other, cst.ParenthesizedWhitespace) or other.first_line.comment is None:
        return space
    if isinstance(space, cst.ParenthesizedWhitespace):
        return space.with_changes(first_line=other.first_line, empty_lines=other.empty_lines)
    return other


def drop_argument(call: cst.Call, name: str, position: int | None) -> cst.Call:
    """Leave an argument out; the call keeps its layout."""
    index = argument_index(call, name, position)
    if index is None:
        return call
    args = list(call.args)
    dropped = args.pop(index)
    if not args:
        return call.with_changes(args=[], whitespace_before_args=cst.SimpleWhitespace(""))
    if index == len(args):
        args[-1] = args[-1].with_changes(comma=dropped.comma, whitespace_after_arg=dropped.whitespace_after_arg)
    elif index > 0 and _ends_line(dropped) and not _ends_line(args[index - 1]):
        args[index - 1] = args[index - 1].with_changes(comma=dropped.comma)
    return call.with_changes(args=args)


def _ends_line(argument: cst.Arg) -> bool:
    """True when a line ends behind the argument's comma."""
    comma = argument.comma
    return isinstance(comma, cst.Comma) and isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace)


def add_parameter(function: cst.FunctionDef, name: str) -> cst.FunctionDef:
    """The function with one more parameter at the end; one that must be named where a plain one cannot stand there."""
    params = function.params
    named = (
        params.kwonly_params
        or isinstance(params.star_arg, cst.Param)
        or any(p.default is not None for p in (*params.posonly_params, *params.params))
    )
    field = "kwonly_params" if named else "params"
    group = list(getattr(params, field))
    new = cst.Param(cst.Name(name))
    if group and isinstance(group[-1].comma, cst.Comma) and isinstance(params.star_kwarg, cst.Param | None):
        if params.star_kwarg is None:  # a comma at the end, with the line break behind it
            before = group[-2].comma if len(group) > 1 else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            new = new.with_changes(comma=group[-1].comma)
            group[-1] = group[-1].with_changes(comma=before)
    return function.with_changes(params=params.with_changes(**{field: [*group, new]}))
