import torch

from base import Trainer


class DigitsTrainer(Trainer):
    def __init__(self, model, criterion, optimizer, config, loader, held_out, schedule):
        super().__init__(model, criterion, optimizer, config)
        self.loader, self.held_out, self.schedule = loader, held_out, schedule

    def run_epoch(self, epoch):
        self.model.train()
        total = 0.0
        for image, label in self.loader:
            image, label = image.to(self.device), label.to(self.device)
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(image), label)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.schedule.step()
        return {"loss": total / len(self.loader), "val_loss": self.validate()}

    def validate(self):
        self.model.eval()
        total = 0.0
        with torch.no_grad():
            for image, label in self.held_out:
                output = self.model(image.to(self.device))
                total += self.criterion(output, label.to(self.device)).item()
        return total / len(self.held_out)
