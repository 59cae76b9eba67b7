import json


class Config(dict):
    __getattr__ = dict.__getitem__

    @classmethod
    def from_file(cls, path):
        with open(path) as file:
            return json.load(file, object_hook=cls)
