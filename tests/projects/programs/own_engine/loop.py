class State:
    def __init__(self):
        self.epoch = self.iteration = 0
        self.output = None


class Engine:
    """Runs a function on every batch and tells the callbacks what happened."""

    def __init__(self, process, callbacks):
        self.process, self.callbacks, self.state = process, callbacks, State()

    def tell(self, event):
        for callback in self.callbacks:
            getattr(callback, event)(self)

    def run(self, loader, epochs):
        for self.state.epoch in range(epochs):
            for batch in loader:
                self.state.output = self.process(self, batch)
                self.state.iteration += 1
                self.tell("on_batch")
            self.tell("on_epoch")
