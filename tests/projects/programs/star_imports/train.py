from network import *
from text import make_batches, vocabulary


def adjust(optimizer, step, warm=4):
    for group in optimizer.param_groups:
        group["lr"] = 0.02 * min((step + 1) / warm, 1.0)


def main():
    torch.manual_seed(12)
    m = nn.DataParallel(Reader(len(vocabulary), 12).cuda())
    m.train()
    optimizer = optim.Adam(m.parameters(), lr=0.02)
    step = 0
    for epoch in range(2):
        loader = make_batches(16, epoch)
        for words, following in loader:
            adjust(optimizer, step)
            scores = m.forward(words.cuda())
            loss = F.cross_entropy(scores.flatten(0, 1), following.cuda().flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            optimizer.step()
            step += 1
        torch.save({"model": m.state_dict(), "optimizer": optimizer.state_dict()}, f"reader_{epoch}.pth.tar")


if __name__ == "__main__":
    main()
