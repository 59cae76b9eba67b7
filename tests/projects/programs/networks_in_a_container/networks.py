from torch import nn


class Bag(dict):
    """A dictionary whose entries are attributes too."""

    __getattr__ = dict.__getitem__


class Painter(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(latent, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, noise):
        return self.body(noise)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, points):
        return self.body(points).squeeze(1)


def build_networks(options):
    networks = Bag(painter=Painter(options.latent), critic=Critic())
    averages = Bag(painter=Painter(options.latent))
    averages.painter.load_state_dict(networks.painter.state_dict())
    for name in networks:
        networks[name] = nn.DataParallel(networks[name].cuda())
    averages.painter.cuda()
    return networks, averages
