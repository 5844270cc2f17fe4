"""The import diagram, drawn from the layers contracts that the linter checks."""

from __future__ import annotations

import html
import tomllib

_WIDTH = 860
_ROW = 46
_BOX = 30
_GAP = 8
_MARGIN = 34


def layers_of(project: str) -> list[list[str]]:
    r"""The layers of a ``pyproject.toml``, highest first, each as the modules that stand in it.

    Where the modules of a layer may import each other (``:``), a contract of their own says in which order.

    >>> contract = '[[tool.importlinter.contracts]]\ntype = "layers"\nlayers = '
    >>> layers_of(f'{contract}["cli", "a | b", "c : d"]\n{contract}["d", "c"]')
    [['cli'], ['a', 'b'], ['d'], ['c']]
    """
    contracts = tomllib.loads(project)["tool"]["importlinter"]["contracts"]
    rooms, *orders = ([_modules(layer) for layer in each["layers"]] for each in contracts if each["type"] == "layers")
    found = []
    for layer in rooms:
        ordered = (order for order in orders if set(layer) == {module for row in order for module in row})
        found += next(ordered, [layer])
    return found


def _modules(layer: str) -> list[str]:
    return [module.strip() for module in layer.replace(":", "|").split("|")]


def import_diagram(project: str) -> str:
    """The contract of a ``pyproject.toml`` as an SVG picture: a row for each layer, which imports only from below."""
    layers = layers_of(project)
    height = _ROW * len(layers) + _GAP
    rows = "".join(_row(layer, top=_GAP + _ROW * place) for place, layer in enumerate(layers))
    arrow = f'<path d="M 14 {_GAP} V {height - 14} m -5 -8 l 5 8 l 5 -8" class="arrow"/>'
    return (
        f'<svg class="imports" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Modules in layers; each imports '
        f'only from layers below its own">{arrow}{rows}</svg>'
    )


def _row(layer: list[str], *, top: int) -> str:
    """The boxes of a layer, as wide as their names need, over the whole width."""
    free = _WIDTH - _MARGIN - _GAP * (len(layer) - 1) - 2
    letters = sum(len(name) + 4 for name in layer)
    left, boxes = float(_MARGIN), []
    for name in layer:
        width = free * (len(name) + 4) / letters
        boxes.append(
            f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BOX}" rx="5"/>'
            f'<text x="{left + width / 2:.1f}" y="{top + _BOX / 2 + 4:.0f}">{html.escape(name)}</text>'
        )
        left += width + _GAP
    return "".join(boxes)
