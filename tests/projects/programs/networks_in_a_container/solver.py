import torch
import torch.nn.functional as F

from networks import Bag, build_networks


class Solver:
    def __init__(self, options):
        self.options = options
        self.nets, self.averages = build_networks(options)
        self.optimizers = Bag()
        for name in self.nets:
            self.optimizers[name] = torch.optim.Adam(self.nets[name].parameters(), lr=2e-3, betas=(0.0, 0.99))

    def zero_all(self):
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()

    def fit(self, loader):
        for epoch in range(self.options.epochs):
            for i, (real,) in enumerate(loader):
                noise = torch.randn(real.size(0), self.options.latent).cuda()
                self.critic_step(real.cuda(), noise)
                painted = self.painter_step(noise)
                self.follow()
                if i % 2 == 0:
                    print(f"epoch {epoch} batch {i} painter {painted:.4f}")
            torch.save({name: net.module.state_dict() for name, net in self.nets.items()}, f"nets_{epoch}.pt")

    def critic_step(self, real, noise):
        with torch.no_grad():
            fake = self.nets.painter(noise)
        loss = F.softplus(-self.nets.critic(real)).mean() + F.softplus(self.nets.critic(fake)).mean()
        self.zero_all()
        loss.backward()
        self.optimizers.critic.step()

    def painter_step(self, noise):
        fake = self.nets.painter(noise)
        loss = F.softplus(-self.nets.critic(fake)).mean() + self.options.penalty * fake.pow(2).mean()
        self.zero_all()
        loss.backward()
        self.optimizers.painter.step()
        return loss.item()

    def follow(self):
        with torch.no_grad():
            for slow, fast in zip(self.averages.painter.parameters(), self.nets.painter.parameters()):
                slow.lerp_(fast, 0.1)
