# %% changed in file
from torch.utils.checkpoint import checkpoint


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)

    def forward(self, inputs):
        return checkpoint(self.body, inputs)

# %% left alone in file
from torch.utils.checkpoint import checkpoint


def again(body, inputs):
    return checkpoint(body, inputs, use_reentrant=True)
