class MovingAverage:
    def __init__(self, parameters, decay):
        self.decay, self.shadow = decay, [p.clone().detach() for p in parameters if p.requires_grad]

    def update(self, parameters):
        for shadow, parameter in zip(self.shadow, (p for p in parameters if p.requires_grad)):
            shadow.sub_((1 - self.decay) * (shadow - parameter.detach()))
