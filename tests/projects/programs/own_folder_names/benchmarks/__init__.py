import time


class Stopwatch:
    def __init__(self):
        self.last = time.time()

    def lap(self):
        self.last, before = time.time(), self.last
        return self.last - before
