import os

import torch


class Runner:
    def __init__(self, model, optimizer, loader, cfg, work_dir="work"):
        self.model, self.optimizer, self.loader, self.cfg = model, optimizer, loader, cfg
        self.work_dir = work_dir
        if not os.path.exists(work_dir):
            os.makedirs(work_dir)

    def run(self):
        for epoch in range(self.cfg.train.epochs):
            self.model.train()
            for batch in self.loader:
                loss = self.model(batch["x"].cuda(), batch["y"].cuda()).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            print(f"epoch {epoch}: {loss.item():.4f}")
            torch.save(self.model.module.state_dict(), os.path.join(self.work_dir, "latest.pth"))
