import torch

from .mlp import ScoreMLP

_MODELS = {"mlp": ScoreMLP}


def create_model(name, **options):
    score_model = _MODELS[name](**options)
    score_model = score_model.cuda()
    return torch.nn.DataParallel(score_model)
