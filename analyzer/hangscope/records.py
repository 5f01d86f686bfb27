"""Dataclasses that load quickly: a run makes some two hundred of them before it reads a byte.

`dataclasses` writes and compiles seven methods for each; of these a frozen class here gets three, and shares those that
compare, hash and show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - so that type checkers see what it stands for
else:
    import dataclasses
    import operator

    def dataclass(cls=None, /, *, repr=True, eq=True, order=False, frozen=False, **options):  # noqa: A002, ANN001, ANN003, ANN201
        """As `dataclasses.dataclass`, with all its options and all that it gives."""

        def make(cls: type) -> type:
            own = set(vars(cls))
            cls.__doc__ = cls.__doc__ or cls.__name__  # else it is written out of the signature, which takes long
            made = dataclasses.dataclass(cls, repr=False, eq=order, order=order, frozen=frozen, **options)
            if repr and "__repr__" not in own:
                made.__repr__ = _shown
            if eq and not order:
                names = [field.name for field in dataclasses.fields(made) if field.compare]
                made._compared = operator.attrgetter(*names) if names else staticmethod(_nothing)  # noqa: SLF001 - ours
                if "__eq__" not in own:
                    made.__eq__ = _equal
                # that of a class with an __eq__ of its own is None
                if vars(made).get("__hash__") is None:
                    made.__hash__ = _hash if frozen else None
            return made

        return make if cls is None else make(cls)

    def _shown(self) -> str:  # noqa: ANN001
        fields = (field.name for field in dataclasses.fields(self) if field.repr)
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"

    def _equal(self, other: object) -> bool:  # noqa: ANN001
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._compared(self) == self._compared(other)

    def _hash(self) -> int:  # noqa: ANN001
        return hash(self._compared(self))

    def _nothing(_: object) -> tuple[()]:
        return ()
