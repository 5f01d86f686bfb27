"""Reads the table of work completion statuses, and of what adapters of one vendor add to them."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

from hangscope.records import dataclass

_TABLE = Path(__file__).with_name("verbs.toml")
_OTHER_SYNDROME = 21


@dataclass(frozen=True, slots=True)
class Status:
    """A work completion status.

    Attributes:
        name: as libibverbs spells it, without ``IBV_WC_``; "" when it is unknown.
        meaning: one phrase.
        accuses: ``own``, ``peer``, ``path`` or ``nobody``.
        usual: what usually stands behind it.
        check: what to look at first.
    """

    name: str
    meaning: str
    accuses: str
    usual: str
    check: str


_UNKNOWN = Status("", "a status that libibverbs does not name", "path", "unknown", "read the adapter's manual")


def status_of(number: int) -> Status:
    """What a status means; one without a name for a number that libibverbs does not have."""
    return _tables().statuses.get(number, _UNKNOWN)


def vendor_words(code: int, status: int, device: str) -> str:
    """What the vendor's number adds, as a sentence; "" when nobody says.

    Args:
        code: the number printed as ``vendor err``.
        status: the status that it came with.
        device: the adapter's name (``mlx5_3``); "" when the line has none. Then only a pair of number and status that
            is known of mlx5 adapters is put into words, and as no more than that.
    """
    for vendor in _tables().vendors:
        expected, words = vendor.pairs.get(str(code), (None, ""))
        if expected is None:
            continue
        if device.startswith(vendor.prefixes):
            strange = "" if expected == status else f"; it should come with status {expected}, though"
            return f"Vendor error {code} of {vendor.family} adapters means: {words}{strange}."
        if not device and vendor.family == "mlx5" and expected == status:
            return f"If this is an mlx5 adapter, vendor error {code} means: {words}."
    return ""


def mlx5_status(syndrome: int) -> int:
    """The status that a syndrome of mlx5's own dump stands for."""
    return _tables().mlx5_syndromes.get(f"0x{syndrome:02x}", _OTHER_SYNDROME)


@dataclass(frozen=True, slots=True)
class _Vendor:
    """A family of adapters: how their names begin, and by the vendor's number the status it comes with and words."""

    family: str
    prefixes: tuple[str, ...]
    pairs: Mapping[str, tuple[int, str]]


@dataclass(frozen=True, slots=True)
class _Tables:
    """Statuses by number, vendors, and the statuses of mlx5's syndromes (``0x01``)."""

    statuses: Mapping[int, Status]
    vendors: tuple[_Vendor, ...]
    mlx5_syndromes: Mapping[str, int]


@functools.cache
def _tables() -> _Tables:
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    statuses = {
        row["number"]: Status(row["name"], row["meaning"], row["accuses"], row["usual"], row["check"])
        for row in table["status"]
    }
    vendors = tuple(_Vendor(row["family"], tuple(row["prefixes"]), row["pairs"]) for row in table["vendor"])
    return _Tables(statuses, vendors, table["mlx5_syndromes"])
