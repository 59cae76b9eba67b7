import logging
import os

import torch

from . import data
from .losses import get_step_fn
from .models import create_model
from .models.average import MovingAverage


def train(iterations, workdir):
    torch.manual_seed(40)
    os.makedirs(workdir, exist_ok=True)
    model = create_model("mlp", hidden=16)
    average = MovingAverage(model.parameters(), 0.9)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.999))
    state = dict(optimizer=optimizer, model=model, average=average, step=0)
    train_iter = iter(data.get_dataset(batch_size=16))
    train_step_fn = get_step_fn(train=True)
    for step in range(iterations):
        try:
            batch = next(train_iter)
        except StopIteration:
            train_iter = iter(data.get_dataset(batch_size=16))
            batch = next(train_iter)
        loss = train_step_fn(state, batch[0].cuda())
        if step % 2 == 0:
            logging.info("step: %d, training_loss: %.5e", step, loss.item())
    torch.save({"model": model.state_dict(), "step": state["step"]}, os.path.join(workdir, "checkpoint.pth"))


def sample(workdir):
    model = create_model("mlp", hidden=16)
    model.load_state_dict(torch.load(os.path.join(workdir, "checkpoint.pth"))["model"])
    print(model(torch.randn(4, 2).cuda(), torch.ones(4).cuda()))
