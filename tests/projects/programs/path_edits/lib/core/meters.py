class Mean:
    def __init__(self):
        self.total, self.weight = 0.0, 0

    def add(self, value, weight):
        self.total += value * weight
        self.weight += weight

    @property
    def value(self):
        return self.total / self.weight
