import argparse


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--latent", type=int, default=6)
    parser.add_argument("--penalty", type=float, default=0.1)
    return parser.parse_args()
