"""`python -m migrator` and the `mgmigrate` script."""

from __future__ import annotations


def main() -> None:
    from migrator.cli import app

    app()


if __name__ == "__main__":
    main()
