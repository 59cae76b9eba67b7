import click


@click.group()
def cli():
    pass


@cli.command()
@click.option("--epochs", default=2)
@click.option("--batch", default=12)
def train(epochs, batch):
    from steps.fit import fit

    fit(epochs, batch)


@cli.command()
@click.argument("path")
def show(path):
    import torch

    for name, value in torch.load(path).items():
        click.echo(f"{name}: {tuple(value.shape)}")


if __name__ == "__main__":
    cli()
