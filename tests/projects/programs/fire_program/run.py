import fire

from pairs.fit import fit

if __name__ == "__main__":
    fire.Fire(fit)
