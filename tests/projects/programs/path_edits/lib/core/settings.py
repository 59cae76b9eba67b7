settings = {"SEED": 6, "GPUS": [0, 1], "BATCH_PER_GPU": 10, "LR": 0.005, "EPOCHS": 2, "WIDTH": 16}


def update_settings(args):
    if args.width:
        settings["WIDTH"] = args.width
    if args.gpus:
        settings["GPUS"] = args.gpus
