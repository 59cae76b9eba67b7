import json
import os
import time


class Track:
    def __init__(self, folder, name):
        if not os.path.exists(folder):
            os.makedirs(folder)  # reported: MG502
        self.file = open(os.path.join(folder, f"{name}.jsonl"), "a")  # reported: MG503
        self.started = time.time()

    def log(self, **values):
        self.file.write(json.dumps(values) + "\n")

    def close(self):
        self.file.close()
