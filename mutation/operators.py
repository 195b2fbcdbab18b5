"""What can be changed in a piece of syntax. Every operator gives other nodes to put in the place of one node."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,), ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
}  # fmt: skip
PAIRS = (
    ("min", "max"), ("argmin", "argmax"), ("minimum", "maximum"), ("amin", "amax"), ("any", "all"), ("sum", "mean"),
    ("zeros", "ones"), ("zeros_like", "ones_like"), ("floor", "ceil"), ("log", "exp"), ("logical_and", "logical_or"),
    ("cumsum", "cumprod"), ("sin", "cos"), ("nansum", "nanmean"), ("softmax", "log_softmax"), ("append", "appendleft"),
)  # fmt: skip
FUNCTIONS = {
    **dict(PAIRS),
    **{second: first for first, second in PAIRS},
    "std": "var",
    "sigmoid": "tanh",
    "tanh": "sigmoid",
}
FUNCTIONS |= {"logsumexp": "sum", "median": "mean", "cross_entropy": "mse_loss", "appendleft": "append"}
BUILTINS = ("min", "max", "any", "all")  # plain names that are swapped; the others only after a dot, as in np.sum
DROPPED_CALLS = ("abs", "sorted", "reversed")  # f(x) -> x
DROPPED_METHODS = ("detach", "clip", "clamp", "clamp_min", "clamp_max", "flip", "exp", "log")  # x.f(...) -> x
# Their first two arguments can be swapped without a difference, or with nothing but a TypeError.
NOT_SWAPPED = {
    "min", "max", "maximum", "minimum", "isclose", "allclose", "array_equal", "isinstance", "issubclass", "getattr", "hasattr",
    "setattr", "cast", "Field", "mse_loss", "logical_and", "logical_or", "equal", "gcd", "add", "multiply", "union", "TypeVar",
}  # fmt: skip
Change = tuple[str, ast.AST]


def changes(node: ast.AST) -> list[Change]:
    """All changes of one node, each with the name of its operator."""
    found: list[Change] = []
    for kind, operator in OPERATORS:
        if isinstance(node, kind):
            found += operator(node)
    return found


def _like(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of a node with other fields."""
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _arithmetic(node: ast.BinOp | ast.AugAssign) -> Iterator[Change]:
    swapped = ARITHMETIC.get(type(node.op))
    parts = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    if swapped and not any(_is_text(part) for part in parts):
        yield "arithmetic", _like(node, op=swapped())


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _comparison(node: ast.Compare) -> Iterator[Change]:
    for i, operator in enumerate(node.ops):
        for swapped in COMPARISONS[type(operator)]:
            yield "comparison", _like(node, ops=[*node.ops[:i], swapped(), *node.ops[i + 1 :]])


def _and_or(node: ast.BoolOp) -> Iterator[Change]:
    yield "and/or", _like(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())


def _unary(node: ast.UnaryOp) -> Iterator[Change]:
    if not isinstance(node.op, ast.UAdd):
        yield "sign or not", node.operand


def _constant(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield "boolean", ast.Constant(not value)
    elif isinstance(value, int | float):
        for other in dict.fromkeys([value + 1, value - 1, -value]):
            if other != value:
                yield "number", ast.Constant(other)


def _call(node: ast.Call) -> Iterator[Change]:
    name = called(node)
    straight = len(node.args) >= 2 and not any(isinstance(part, ast.Starred) for part in node.args[:2])
    if straight and name not in NOT_SWAPPED and ast.dump(node.args[0]) != ast.dump(node.args[1]):
        yield "arguments", _like(node, args=[node.args[1], node.args[0], *node.args[2:]])
    if isinstance(node.func, ast.Name) and name in DROPPED_CALLS and node.args:
        yield "dropped call", node.args[0]
    if isinstance(node.func, ast.Attribute) and name in DROPPED_METHODS:
        module = isinstance(node.func.value, ast.Name) and node.func.value.id in ("np", "torch", "math", "functional")
        if not module:
            yield "dropped call", node.func.value
        elif node.args:
            yield "dropped call", node.args[0]


def _function(node: ast.Call) -> Iterator[Change]:
    name, function = called(node), node.func
    if isinstance(function, ast.Name) and name in BUILTINS:
        yield "function", _like(node, func=ast.Name(FUNCTIONS[name]))
    if isinstance(function, ast.Attribute) and name in FUNCTIONS:
        yield "function", _like(node, func=_like(function, attr=FUNCTIONS[name]))


def called(node: ast.Call) -> str:
    """The last part of the name that is called."""
    function = node.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _slice(node: ast.Slice) -> Iterator[Change]:
    one = ast.Constant(1)
    if node.lower is not None:
        yield "slice", _like(node, lower=None)
        if not isinstance(node.lower, ast.Constant):
            yield "slice", _like(node, lower=ast.BinOp(node.lower, ast.Add(), one))
    if node.upper is not None:
        yield "slice", _like(node, upper=None)
        if not isinstance(node.upper, ast.Constant):
            yield "slice", _like(node, upper=ast.BinOp(node.upper, ast.Sub(), one))


def _return(node: ast.Return) -> Iterator[Change]:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        yield "return", ast.Return(ast.Constant(None))


def _deletion(node: ast.Expr | ast.AugAssign) -> Iterator[Change]:
    if isinstance(node, ast.AugAssign) or isinstance(node.value, ast.Call):
        yield "deleted statement", ast.Pass()


def _branch(node: ast.IfExp) -> Iterator[Change]:
    yield "branch", _like(node, body=node.orelse, orelse=node.body)


def _condition(node: ast.If | ast.While) -> Iterator[Change]:
    """A bare condition is negated; comparisons, ``and``, ``or`` and ``not`` have operators of their own."""
    if isinstance(node.test, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        yield "condition", ast.UnaryOp(ast.Not(), node.test)


OPERATORS: tuple[tuple[type[ast.AST] | tuple[type[ast.AST], ...], Callable[..., Iterator[Change]]], ...] = (
    ((ast.BinOp, ast.AugAssign), _arithmetic),
    (ast.Compare, _comparison),
    (ast.BoolOp, _and_or),
    (ast.UnaryOp, _unary),
    (ast.Constant, _constant),
    (ast.Call, _call),
    (ast.Call, _function),
    (ast.Slice, _slice),
    (ast.Return, _return),
    ((ast.Expr, ast.AugAssign), _deletion),
    (ast.IfExp, _branch),
    ((ast.If, ast.While), _condition),
)
