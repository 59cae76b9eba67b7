from data import make_loader
from options import read_options
from solver import Solver

if __name__ == "__main__":
    options = read_options()
    solver = Solver(options)
    solver.fit(make_loader(options))
