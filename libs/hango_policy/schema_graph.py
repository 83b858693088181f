"""How far a JSON Schema unfolds, found by reading it, before any validator touches it.

A schema is a graph: a subschema leads to others that see the *same* value (`allOf`, `$ref`, …) or
a *member* of it (`properties`, `items`, …). Two such steps to one place double the work, and
thirty doublings are a day. Reading the graph also finds every reference, so that a validator
never meets one that it would have to fetch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote

from hango_policy.errors import SchemaRefused, pointer_to
from hango_policy.strict_json import MAX_DEPTH, JsonValue

MAX_SUBSCHEMAS = 1_000
"""The most subschemas as written."""
MAX_UNFOLDED = 20_000
"""The most subschemas that a schema may have with its references written out."""
MAX_VISITS = 1_000
"""The most subschemas that may see one value of an instance."""
MIN_INSTANCE_DEPTH = 4
"""A schema must manage instances of this depth within `MAX_VISITS`."""
MAX_PATTERNS = 40
"""The most different regular expressions in a schema."""

_SAME_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_SINGLE = ("not", "if", "then", "else")
_SAME_MAPS = ("dependentSchemas", "dependencies")
_DEFINITION_MAPS = ("$defs", "definitions")
_REFUSED = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary")
_REFUSED_INSIDE = ("$id", "$schema")

Edge: TypeAlias = str  # the pointer of the schema it leads to


@dataclass(slots=True)
class _Node:
    """One subschema and where it leads. At most one of each `either` sees a given member."""

    same: list[Edge] = field(default_factory=list)
    either_member: list[Edge] = field(default_factory=list)
    every_member: list[Edge] = field(default_factory=list)
    either_item: list[Edge] = field(default_factory=list)
    every_item: list[Edge] = field(default_factory=list)
    definitions: list[Edge] = field(default_factory=list)

    def edges(self) -> Iterator[Edge]:
        yield from self.same
        yield from self.either_member
        yield from self.every_member
        yield from self.either_item
        yield from self.every_item


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found: the patterns, and how deep (in arrays and objects) an instance may be."""

    patterns: tuple[str, ...]
    deepest_instance: int


def survey(schema: dict[str, JsonValue]) -> Survey:
    """Read a schema of any draft from 6 on.

    Raises SchemaRefused for a reference that is not a JSON pointer to a subschema of this very
    document, for references in a circle, and for a schema that unfolds too far.
    """
    graph = _Graph()
    graph.read(schema, "")
    graph.check_references()
    order = graph.same_value_order()
    graph.check_unfolded()
    return Survey(tuple(graph.patterns), graph.deepest_instance(order))


class _Graph:
    def __init__(self) -> None:
        self.nodes: dict[str, _Node] = {}
        self.references: list[str] = []
        self.patterns: dict[str, None] = {}

    def read(self, schema: JsonValue, at: str) -> None:
        node = self.nodes[at] = _Node()
        if not isinstance(schema, dict):
            return
        _refuse_keywords(schema, at)
        for key, body in schema.items():
            place = pointer_to(at, key)
            if key == "$ref":
                node.same.append(self._target(body))
            elif key in _SAME_LISTS:
                node.same += self._read_list(body, place)
            elif key in _SAME_SINGLE:
                node.same += self._read_one(body, place)
            elif key in _SAME_MAPS:
                node.same += self._read_map(body, place)
            elif key in (*_DEFINITION_MAPS, "contentSchema"):
                single = key == "contentSchema"
                node.definitions += (
                    self._read_one(body, place) if single else self._read_map(body, place)
                )
            else:
                self._read_members(node, key, body, place)
        if schema.keys() & {"unevaluatedProperties", "unevaluatedItems"}:
            # To learn what was evaluated, a validator goes through the same value's schemas again.
            node.same += node.same
        if len(self.nodes) > MAX_SUBSCHEMAS:
            reason = f"has more than {MAX_SUBSCHEMAS} subschemas"
            raise SchemaRefused(reason)
        if len(self.patterns) > MAX_PATTERNS:
            reason = f"has more than {MAX_PATTERNS} patterns"
            raise SchemaRefused(reason)

    def _read_members(self, node: _Node, key: str, body: JsonValue, place: str) -> None:
        match key:
            case "properties":
                node.either_member += self._read_map(body, place)
            case "additionalProperties":
                node.either_member += self._read_one(body, place)
            case "patternProperties":
                node.every_member += self._read_map(body, place)
                self.patterns |= dict.fromkeys(body) if isinstance(body, dict) else {}
            case "pattern" if isinstance(body, str):
                self.patterns[body] = None
            case "propertyNames" | "unevaluatedProperties":
                node.every_member += self._read_one(body, place)
            case "prefixItems":
                node.either_item += self._read_list(body, place)
            case "items" | "additionalItems":
                several = isinstance(body, list)
                node.either_item += (
                    self._read_list(body, place) if several else self._read_one(body, place)
                )
            case "contains" | "unevaluatedItems":
                node.every_item += self._read_one(body, place)
            case _:
                pass

    def _read_one(self, body: JsonValue, at: str) -> list[Edge]:
        if not isinstance(body, dict | bool):
            return []
        self.read(body, at)
        return [at]

    def _read_list(self, body: JsonValue, at: str) -> list[Edge]:
        items = body if isinstance(body, list) else []
        return [e for i, item in enumerate(items) for e in self._read_one(item, pointer_to(at, i))]

    def _read_map(self, body: JsonValue, at: str) -> list[Edge]:
        members = body if isinstance(body, dict) else {}
        return [
            e for key, item in members.items() for e in self._read_one(item, pointer_to(at, key))
        ]

    def _target(self, reference: JsonValue) -> str:
        if not isinstance(reference, str) or not (reference + "/").startswith("#/"):
            reason = "has a $ref that is not a pointer into the schema itself"
            raise SchemaRefused(reason)
        target = unquote(reference[1:])
        self.references.append(target)
        return target

    def check_references(self) -> None:
        if any(target not in self.nodes for target in self.references):
            reason = "has a $ref that leads to no subschema"
            raise SchemaRefused(reason)

    def same_value_order(self) -> list[str]:
        """Every node after those that see the same value for it; a circle is refused."""
        done: dict[str, bool] = {}
        order: list[str] = []
        for start in self.nodes:
            stack = [] if start in done else [(start, iter(self.nodes[start].same))]
            done.setdefault(start, False)
            while stack:
                at, edges = stack[-1]
                target = next(edges, None)
                if target is None:
                    stack.pop()
                    done[at] = True
                    order.append(at)
                elif target not in done:
                    done[target] = False
                    stack.append((target, iter(self.nodes[target].same)))
                elif not done[target]:
                    reason = "has a $ref that leads back to itself"
                    raise SchemaRefused(reason)
        return order

    def check_unfolded(self) -> None:
        """Count subschemas with every reference written out, a recursion being left at once."""
        size: dict[str, int] = {"": 1}
        stack = [("", self.nodes[""].edges())]
        while stack:
            at, edges = stack[-1]
            target = next(edges, None)
            if target is None:
                stack.pop()
                if stack:
                    size[stack[-1][0]] += size[at]
            elif target in size:
                size[at] += size[target]
            else:
                size[target] = 1
                stack.append((target, self.nodes[target].edges()))
            if size[at] > MAX_UNFOLDED:
                reason = f"unfolds to more than {MAX_UNFOLDED} subschemas"
                raise SchemaRefused(reason)

    def deepest_instance(self, order: list[str]) -> int:
        """Count, level by level, how many subschemas may see one value that deep."""
        below = dict.fromkeys(self.nodes, 0)
        for depth in range(MAX_DEPTH + 1):
            visits: dict[str, int] = {}
            for at in order:
                own = 1 if depth == 0 else self._visits_of_a_member(at, below)
                visits[at] = own + sum(visits[target] for target in self.nodes[at].same)
            if visits[""] > MAX_VISITS:
                if depth <= MIN_INSTANCE_DEPTH:
                    reason = f"lets more than {MAX_VISITS} subschemas see one value"
                    raise SchemaRefused(reason)
                return depth - 1
            if visits == below:
                break
            below = visits
        return MAX_DEPTH

    def _visits_of_a_member(self, at: str, below: dict[str, int]) -> int:
        node = self.nodes[at]
        members = max((below[edge] for edge in node.either_member), default=0)
        items = max((below[edge] for edge in node.either_item), default=0)
        return max(
            members + sum(below[edge] for edge in node.every_member),
            items + sum(below[edge] for edge in node.every_item),
        )


def _refuse_keywords(schema: dict[str, JsonValue], at: str) -> None:
    refused = _REFUSED if at == "" else _REFUSED + _REFUSED_INSIDE
    found = next((key for key in refused if key in schema), None)
    if found is not None:
        reason = f"uses {found}, which is not supported here"
        raise SchemaRefused(reason)
