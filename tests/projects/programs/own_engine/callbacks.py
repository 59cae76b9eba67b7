import os

import torch


class Callback:
    def on_batch(self, engine):
        pass

    def on_epoch(self, engine):
        pass


class StepSchedule(Callback):
    def __init__(self, schedule):
        self.schedule = schedule

    def on_epoch(self, engine):
        self.schedule.step()


class History(Callback):
    def __init__(self, path):
        self.file = open(path, "w")

    def on_batch(self, engine):
        self.file.write(f"{engine.state.iteration},{engine.state.output}\n")

    def on_epoch(self, engine):
        self.file.flush()


class SaveEachEpoch(Callback):
    def __init__(self, model, folder):
        self.model, self.folder = model, folder
        if not os.path.isdir(folder):
            os.mkdir(folder)

    def on_epoch(self, engine):
        torch.save(self.model.state_dict(), os.path.join(self.folder, f"{engine.state.epoch:03d}.pt"))
