import torch


def loss_fn(model, batch):
    time = torch.rand(batch.shape[0], device=batch.device) * 0.9 + 0.1
    noise = torch.randn_like(batch)
    score = model(batch + time[:, None] * noise, time)
    return (score * time[:, None] + noise).pow(2).sum(1).mean()


def get_step_fn(train):
    def step_fn(state, batch):
        model = state["model"]
        if train:
            optimizer = state["optimizer"]
            optimizer.zero_grad()
            loss = loss_fn(model, batch)
            loss.backward()
            optimizer.step()
            state["step"] += 1
            state["average"].update(model.parameters())
        else:
            with torch.no_grad():
                loss = loss_fn(model, batch)
        return loss

    return step_fn
