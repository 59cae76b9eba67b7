"""Random numbers that a training loop draws for a whole batch: noise, masks, labels.

In: the session, on the converted side.  Out: a draw whose first dimension is this rank's batch size is made for all ranks and
rank r keeps its chunk, so that its rows are the original's.  Not where the program itself holds the whole batch (a class
that splits at the call), not inside the model, not with a generator of the program's own.  Draws are counted: a program
whose ranks would have drawn the same numbers is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .session import Session


def install(session: Session) -> None:
    if not session.after or session.settings.world == 1:
        return
    for name in ("rand", "randn", "randint", "bernoulli", "normal"):
        setattr(torch, name, _sized(session, getattr(torch, name), name))
    for name in ("rand_like", "randn_like", "randint_like"):
        setattr(torch, name, _like(session, getattr(torch, name)))
    for name in ("normal_", "uniform_", "bernoulli_", "random_", "exponential_"):
        setattr(torch.Tensor, name, _in_place(session, getattr(torch.Tensor, name)))
    torch.randperm = _permutation(session, torch.randperm)
    _patch_numpy(session)


def applies(session: Session, size: Any, keywords: Any) -> bool:
    """Whether a draw of this size is one batch's."""
    return (
        not session.foreign
        and session.depth == 0
        and not session.splitting
        and not session.fetching
        and session.latest_rows is not None
        and len(size) > 0
        and size[0] == session.latest_rows
        and keywords.get("generator") is None
    )


def _mine(session: Session, whole: Any, rows: int) -> Any:
    rank = session.settings.rank
    return whole[rank * rows : (rank + 1) * rows]


def _size_of(arguments: Any) -> tuple[Any, int, int]:
    """(size, position of the first size argument, number of size arguments) of rand(2, 3), rand((2, 3)), randint(0, 5, (2, 3))."""
    for i, value in enumerate(arguments):
        if isinstance(value, (tuple, list, torch.Size)):
            return tuple(value), i, 1
    numbers = [x for x in arguments if isinstance(x, int) and not isinstance(x, bool)]
    return (tuple(numbers), 0, len(numbers)) if len(numbers) == len(arguments) else ((), 0, 0)


def _sized(session: Session, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def drawn(*arguments: Any, **keywords: Any) -> Any:
        if arguments and isinstance(arguments[0], torch.Tensor):
            return function(
                *arguments, **keywords
            )  # bernoulli(p), normal(mean): row-wise parameters are already the rank's
        if "size" in keywords:
            size, place, count = tuple(keywords["size"]), -1, 0
        elif name in ("randint", "normal") and not any(isinstance(x, (tuple, list)) for x in arguments):
            return function(*arguments, **keywords)
        else:
            size, place, count = _size_of(arguments)
        if not applies(session, size, keywords):
            return function(*arguments, **keywords)
        session.drawn["torch"] += 1
        whole = (size[0] * session.settings.world, *size[1:])
        needs_grad = keywords.pop("requires_grad", False)
        if place < 0:
            made = function(*arguments, **{**keywords, "size": whole})
        else:
            made = function(*arguments[:place], whole, *arguments[place + count :], **keywords)
        return _mine(session, made, size[0]).clone().requires_grad_(needs_grad)

    return drawn


def _like(session: Session, function: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(tensor: Any, *arguments: Any, **keywords: Any) -> Any:
        size = tuple(tensor.shape)
        if not applies(session, size, keywords):
            return function(tensor, *arguments, **keywords)
        session.drawn["torch"] += 1
        whole = tensor.detach().new_empty((size[0] * session.settings.world, *size[1:]))
        needs_grad = keywords.pop("requires_grad", False)
        return _mine(session, function(whole, *arguments, **keywords), size[0]).clone().requires_grad_(needs_grad)

    return drawn


def _in_place(session: Session, function: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(self: Any, *arguments: Any, **keywords: Any) -> Any:
        size = tuple(self.shape)
        tensors = any(isinstance(x, torch.Tensor) for x in arguments)
        # A parameter's initialisation is no batch, whatever its first dimension is.
        if tensors or isinstance(self, torch.nn.Parameter) or not applies(session, size, keywords):
            return function(self, *arguments, **keywords)
        session.drawn["torch"] += 1
        whole = self.detach().new_empty((size[0] * session.settings.world, *size[1:]))
        function(whole, *arguments, **keywords)
        return self.copy_(_mine(session, whole, size[0]))

    return drawn


def _permutation(session: Session, function: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(count: Any, *arguments: Any, **keywords: Any) -> Any:
        if isinstance(count, int) and applies(session, (count,), keywords):
            session.drawn["permutation"] += 1  # permutes inside the rank: cannot be the original's, and is named
        return function(count, *arguments, **keywords)

    return drawn


def _patch_numpy(session: Session) -> None:
    import numpy

    def by_keyword(function: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(*arguments: Any, **keywords: Any) -> Any:
            size = keywords.get("size")
            size = (size,) if isinstance(size, int) else tuple(size or ())
            if not applies(session, size, {}):
                return function(*arguments, **keywords)
            session.drawn["numpy"] += 1
            whole = (size[0] * session.settings.world, *size[1:])
            return _mine(session, function(*arguments, **{**keywords, "size": whole}), size[0])

        return drawn

    def by_position(function: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(*size: Any) -> Any:
            if not applies(session, size, {}):
                return function(*size)
            session.drawn["numpy"] += 1
            return _mine(session, function(size[0] * session.settings.world, *size[1:]), size[0])

        return drawn

    for name in ("normal", "uniform", "standard_normal", "randint", "binomial", "choice"):
        setattr(numpy.random, name, by_keyword(getattr(numpy.random, name)))
    for name in ("rand", "randn"):
        setattr(numpy.random, name, by_position(getattr(numpy.random, name)))
