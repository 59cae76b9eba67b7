"""Parameters that a step leaves out have gradients of zero, as under DataParallel."""

import torch


def zeros_for_unused(model):
    """The model, in whose steps parameters that no output depends on get gradients of zero, as under DataParallel."""
    model.register_forward_hook(_tie_parameters)
    return model


def _tie_parameters(model, inputs, output):
    if not torch.is_grad_enabled():
        return output
    floats = [tensor for tensor in _tensors(output) if tensor.is_floating_point()]
    tied = [tensor for tensor in floats if tensor.requires_grad] or floats
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    replaced = dict(zip(map(id, tied), TiedOutputs.apply(len(tied), *tied, *parameters))) if tied else {}
    return _with_tensors(output, replaced)


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors(item)


def _with_tensors(value, replaced):
    if isinstance(value, torch.Tensor):
        return replaced.get(id(value), value)
    if isinstance(value, dict):
        return type(value)((key, _with_tensors(item, replaced)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        items = [_with_tensors(item, replaced) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


class TiedOutputs(torch.autograd.Function):
    """Copies of outputs; on the way back every parameter is reached, with nothing to add to its gradient."""

    @staticmethod
    def forward(ctx, count, *tensors):
        ctx.parameters = len(tensors) - count
        return tuple(tensor.clone() for tensor in tensors[:count])

    @staticmethod
    def backward(ctx, *gradients):
        return (None, *gradients, *[None] * ctx.parameters)
