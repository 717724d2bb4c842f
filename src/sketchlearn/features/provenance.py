"""Provenance: whether an operator's numbers are public, or depend on the rows that it sketches."""

from __future__ import annotations

from enum import Enum
from functools import cached_property, reduce
from typing import Any, ClassVar, Self

from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.values import Value, shortened, truth
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.sketch.ledger import ASSUMED, DECLARED


class Origin(Enum):
    """The provenance of an operator's numbers; the later ones are the worse ones."""

    DECLARED = "declared"  # public: chosen from public knowledge, such as bounds
    SAMPLE = "sample"  # data-dependent: chosen from some of the rows
    UNKNOWN = "unknown"  # not stated: counts as data-dependent

    @classmethod
    def of(cls, given: Any) -> Origin:
        """The origin itself, or the one with this name."""
        if isinstance(given, Origin):
            return given
        names = [origin.value for origin in cls]
        if not isinstance(given, str) or given not in names:
            raise ValueError(f"origin must be one of {', '.join(names)}, not {shortened(given)}")
        return cls(given)

    def worse(self, other: Origin) -> Origin:
        """The worse of two.

        >>> Origin.DECLARED.worse(Origin.SAMPLE).value
        'sample'
        """
        return max(self, other, key=list(Origin).index)


class WithOrigin(Value):
    """A value that knows the provenance of its numbers: the worst of all that it is made of.

    These are its own numbers, what was read off rows (a proposed schema, the outline of a sample), and the operators
    among its fields. Only a new statement, about all numbers, makes it better.
    """

    #: whether it has numbers of its own, besides those of the values that it is made of
    _has_numbers: ClassVar[bool] = True
    #: fields that describe a sample of rows, unless they are left out
    _describe_sample: ClassVar[tuple[str, ...]] = ()
    columns: tuple[str, ...] | None

    @cached_property
    def origin(self) -> Origin:
        """The provenance; unknown until `with_origin` states it, and again after `dataclasses.replace`."""
        own = self.__dict__.get("_origin", Origin.UNKNOWN if self._has_numbers else Origin.DECLARED)
        parts = (part.origin for parts in self.made_of().values() for part in parts)
        return reduce(Origin.worse, parts, self._read_off_rows.worse(own))

    def with_origin(self, origin: Origin | str) -> Self:
        """The same, with a statement of its provenance: "declared" (public), "sample" (data-dependent) or "unknown".

        Private releases need "declared": no number (bounds, center, scale, edges) was taken from the rows. What is
        known to be read off rows stays so.
        """
        said = Origin.of(origin)
        told: dict[str, Any] = {"_origin": said} if self._has_numbers else {}
        for name, parts in self.made_of().items():
            own = tuple(part.with_origin(said.worse(self._read_off_rows)) for part in parts)
            told[name] = own if isinstance(getattr(self, name), tuple) else own[0]
        return self._twin(**told)

    def with_worse_origin(self, other: WithOrigin) -> Self:
        """The same, with the worse provenance of both: that of a sum of two operators' sketches."""
        worse = self.origin.worse(other.origin)
        return self if worse is self.origin else self.with_origin(worse)

    @property
    def _read_off_rows(self) -> Origin:
        """`Origin.SAMPLE` if a field says itself that it was made of rows."""
        proposed = isinstance(self.columns, SchemaColumns) and self.columns.schema.proposed
        described = any(getattr(self, name) != self._omitted[name] for name in self._describe_sample)
        return Origin.SAMPLE if proposed or described else Origin.DECLARED

    def made_of(self) -> dict[str, tuple[Any, ...]]:
        """The values of this kind that it is made of, by the field that holds one or several of them."""
        found = {}
        for name in self.__dataclass_fields__:  # type: ignore[attr-defined]
            value = getattr(self, name)
            parts = value if isinstance(value, tuple) else (value,)
            if parts and isinstance(parts[0], WithOrigin):
                found[name] = parts
        return found

    def _twin(self, **fields: Any) -> Self:
        """A copy with other fields, in which all that was drawn stays drawn."""
        twin = object.__new__(type(self))
        twin.__dict__.update({name: own for name, own in self.__dict__.items() if name not in ("origin", "identity")})
        twin._set(**fields)
        return twin

    def to_json(self) -> dict[str, Any]:
        own = self.__dict__.get("_origin", Origin.UNKNOWN)
        return {**super().to_json(), **({} if own is Origin.UNKNOWN else {"origin": own.value})}

    @classmethod
    def _build(cls, fields: dict[str, Any]) -> Self:
        own = {name: value for name, value in fields.items() if name not in ("origin", "declared")}
        if not cls._has_numbers and len(own) < len(fields):
            raise ValueError(f"{cls.__name__}: its parts have origins, and it has none of its own")
        made = super()._build(own)
        # as files said it before there were origins
        before = Origin.DECLARED if truth("declared", fields.get("declared", False)) else Origin.UNKNOWN
        origin = Origin.of(fields.get("origin", before))
        return made if origin is Origin.UNKNOWN else made._twin(_origin=origin)  # its parts say their own


def public_design(operator: Any, assumed: bool) -> str:
    """What a ledger says of the operator's provenance.

    An operator with data-dependent numbers tells about rows: it is refused unless the caller says that they are public.
    """
    if operator.origin is Origin.DECLARED:
        return DECLARED
    if assumed:
        return ASSUMED
    if operator.origin is Origin.SAMPLE:
        raise InvalidValueError(
            "the operator was designed on a sample of rows, which it tells about",
            f"design it on bounds alone or, if the sample is public, give {Parameter('assume_public_design', True)}",
        )
    raise InvalidValueError(
        f"nobody has said whether the numbers of this {type(operator).__name__} were taken from the rows, which it "
        "would tell about",
        either(
            "make it with design(bounds=...); or, if none was, say so with operator.with_origin('declared') before "
            "sketching, or with assume_public_design=True",
            "use a sketch of sketchlearn design --bounds or, if none was, give --assume-public-design",
        ),
    )
