from torch.utils.data import DataLoader

from . import points

SIZES = {"rings": 3, "stripes": 4}


def make_loader(dataset, batch_size, train):
    return DataLoader(dataset, batch_size=batch_size, shuffle=train, num_workers=0, pin_memory=False)


def get_loaders(args):
    if args.dataset == "rings":
        train, test = points.Rings(192), points.Rings(52, seed=1)
    else:
        train, test = points.Stripes(192), points.Stripes(52, seed=1)
    train_loader = make_loader(train, args.batch_size, True)
    test_loader = make_loader(test, args.batch_size, False)
    return train_loader, test_loader, SIZES[args.dataset]
