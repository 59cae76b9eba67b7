"""Synthetic stand-ins for torchvision's data sets: right shapes and classes, no files, no download.

In: the number of training samples.  Out: `torchvision.datasets` names replaced by classes (programs subclass them and read
`.data` and `.targets`) with that many training and a quarter as many test samples.  Images depend on their number only.
"""

from __future__ import annotations

from typing import Any

import torch


def install(count: int) -> None:
    import numpy
    import torchvision.datasets as datasets
    from PIL import Image

    class Synthetic(torch.utils.data.Dataset):  # type: ignore[misc]
        shape: tuple[int, ...] = (32, 32, 3)
        class_count = 10

        def __init__(
            self,
            root: Any = None,
            train: Any = True,
            transform: Any = None,
            target_transform: Any = None,
            download: bool = False,
            split: Any = "train",
            **_: Any,
        ) -> None:
            if isinstance(train, str):
                split, train = train, True  # SVHN and STL10 take the split second
            self.root, self.train, self.split = root, train, split
            self.transform, self.target_transform = transform, target_transform
            size = count if train and split not in ("test", "val") else max(1, count // 4)
            self.classes = [str(i) for i in range(self.class_count)]
            self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
            self.targets = [i * 7919 % self.class_count for i in range(size)]
            self.labels = numpy.array(self.targets)
            self.samples = self.imgs = [(f"{i}.png", t) for i, t in enumerate(self.targets)]
            self.data = numpy.stack([self._pixels(i) for i in range(size)]) if self._holds_data() else None

        def _holds_data(self) -> bool:
            return self.shape[0] <= 96

        def _pixels(self, i: int) -> Any:
            return numpy.random.RandomState(i).randint(0, 256, self.shape).astype("uint8")

        def __len__(self) -> int:
            return len(self.targets)

        def __getitem__(self, i: int) -> Any:
            pixels = self.data[i] if self.data is not None else self._pixels(int(i))
            image, target = Image.fromarray(numpy.asarray(pixels)), self.targets[i]
            image = image if self.transform is None else self.transform(image)
            return image, target if self.target_transform is None else self.target_transform(target)

    def variant(name: str, shape: tuple[int, ...], classes: int) -> Any:
        return type(name, (Synthetic,), {"shape": shape, "class_count": classes})

    class ImageFolder(variant("ImageFolderBase", (256, 256, 3), 1000)):  # type: ignore[misc]
        def __init__(self, root: Any = None, transform: Any = None, target_transform: Any = None, **_: Any) -> None:
            held_out = any(word in str(root).rsplit("/", 1)[-1] for word in ("val", "test"))
            super().__init__(root, not held_out, transform, target_transform)

    for name, shape, classes in (
        ("CIFAR10", (32, 32, 3), 10),
        ("CIFAR100", (32, 32, 3), 100),
        ("MNIST", (28, 28), 10),
        ("FashionMNIST", (28, 28), 10),
        ("KMNIST", (28, 28), 10),
        ("SVHN", (32, 32, 3), 10),
        ("STL10", (96, 96, 3), 10),
        ("LSUN", (64, 64, 3), 10),
        ("CelebA", (218, 178, 3), 40),
    ):
        setattr(datasets, name, variant(name, shape, classes))
    datasets.ImageFolder = ImageFolder
    _scale_splits()


def _scale_splits() -> None:
    """random_split(data, [45000, 5000]) of a shorter data set keeps its proportions."""
    split = torch.utils.data.random_split

    def random_split(dataset: Any, lengths: Any, *arguments: Any, **keywords: Any) -> Any:
        total, size = sum(lengths), len(dataset)
        if all(isinstance(x, int) for x in lengths) and total != size and total > 0:
            lengths = [x * size // total for x in lengths]
            lengths[0] += size - sum(lengths)
        return split(dataset, lengths, *arguments, **keywords)

    torch.utils.data.random_split = random_split
    torch.utils.data.dataset.random_split = random_split
