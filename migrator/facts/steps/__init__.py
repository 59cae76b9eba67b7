"""One step of a training loop: what becomes of a batch, its loss and its gradients."""
