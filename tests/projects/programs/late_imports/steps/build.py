def build_model(cuda):
    from torch import optim
    from torch.nn import DataParallel, Linear

    model = DataParallel(Linear(3, 2))
    if cuda:
        model.cuda()
    return model, optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
