class Registry:
    def __init__(self, name):
        self.name, self.table = name, {}

    def register(self, cls):
        self.table[cls.__name__] = cls
        return cls

    def build(self, section, *inputs):
        options = dict(section)
        kind = options.pop("type")
        if kind not in self.table:
            raise KeyError(f"{kind} is no {self.name}")
        return self.table[kind](*inputs, **options)


DATASETS = Registry("dataset")
MODELS = Registry("model")
OPTIMIZERS = Registry("optimizer")
