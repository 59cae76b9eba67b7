"""Read a page as a browser does: elements, attributes and texts."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list["Element | str"] = field(default_factory=list)

    def all(self, *tags: str, **attributes: str) -> list["Element"]:
        """Elements below this one, by tag and by attributes (`class_` and `_` for dashes; a class among others)."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if (not tags or child.tag in tags) and all(
                    child.has(name, value) for name, value in attributes.items()
                ):
                    found.append(child)
                found += child.all(*tags, **attributes)
        return found

    def has(self, name: str, value: str) -> bool:
        own = self.attributes.get(name.rstrip("_").replace("_", "-"))
        return own is not None and (value in own.split() if name == "class_" else own == value)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(page: str) -> Element:
    """The document; every element must be closed where it was opened."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader.open) == 1, f"<{reader.open[-1].tag}> is never closed"
    return reader.open[0]
