import torch

from criterion import masked_error


class Solver(object):
    def __init__(self, loaders, model, optimizer, args):
        self.train_loader, self.check_loader = loaders["train"], loaders["check"]
        self.model, self.optimizer = model, optimizer
        self.epochs, self.use_cuda = args.epochs, args.use_cuda
        self.previous = float("inf")

    def train(self):
        for epoch in range(self.epochs):
            self.model.train()
            self._run(epoch)
            self.model.eval()
            with torch.no_grad():
                error = self._run(epoch, check=True)
            if error >= self.previous:
                for group in self.optimizer.param_groups:
                    group["lr"] = group["lr"] / 2.0
                    print("learning rate is now", group["lr"])
            self.previous = error
            torch.save(self.model.module.state_dict(), f"epoch{epoch}.pth")

    def _run(self, epoch, check=False):
        total = 0.0
        loader = self.check_loader if check else self.train_loader
        for i, (mixture, lengths, sources) in enumerate(loader):
            if self.use_cuda:
                mixture, lengths, sources = mixture.cuda(), lengths.cuda(), sources.cuda()
            loss = masked_error(self.model(mixture), sources, lengths)
            if not check:
                self.optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
                self.optimizer.step()
            total += loss.item()
        return total / (i + 1)
