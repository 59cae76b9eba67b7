import os
from abc import abstractmethod

import torch


class Trainer:
    """Epochs, the best model and early stopping; what an epoch is, is said below."""

    def __init__(self, model, criterion, optimizer, config):
        self.device, ids = self.choose_devices(config["n_gpu"])
        self.model = model.to(self.device)
        if len(ids) > 1:
            self.model = torch.nn.DataParallel(model, device_ids=ids)
        self.criterion, self.optimizer, self.config = criterion, optimizer, config
        self.best = float("inf")

    def choose_devices(self, wanted):
        found = torch.cuda.device_count()
        if wanted > found:
            print(f"Warning: {wanted} GPUs are configured, {found} are here")
            wanted = found
        return torch.device("cuda:0" if wanted > 0 else "cpu"), list(range(wanted))

    @abstractmethod
    def run_epoch(self, epoch):
        raise NotImplementedError

    def train(self):
        waited = 0
        for epoch in range(1, self.config["epochs"] + 1):
            result = self.run_epoch(epoch)
            for name, value in result.items():
                print(f"    {name:15s}: {value}")
            if result["val_loss"] < self.best:
                self.best, waited = result["val_loss"], 0
                self.save(epoch)
            else:
                waited += 1
            if waited > self.config["patience"]:
                print("no better since", waited, "epochs")
                break

    def save(self, epoch):
        os.makedirs(self.config["save_dir"], exist_ok=True)
        state = {"epoch": epoch, "state_dict": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state, os.path.join(self.config["save_dir"], "best.pth"))
