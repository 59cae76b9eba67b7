# %% changed
from torch.autograd import Variable

model.eval()
for inputs, targets in loader:
    output = model(Variable(inputs, volatile=True))
    print((output.argmax(1) == targets).sum().item())

# %% left alone
with torch.no_grad():
    print(model(inputs).mean())
