"""What a configuration file may hold, as data: small values that `check` holds a document against.

Knows neither YAML nor the keys of `tenter.yaml` (they are in `keys`).
"""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import UNSET

from tenter.config.problem import KeyPath
from tenter.kernel import FrozenDict


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """Text that `pattern` matches from end to end. Never holds NUL, which no program could be given.

    `private` text is not shown in errors. `refers_to` says of what kind the thing is that must go by this name: one
    that a `MapOf` or `ListOf` of the file `defines`, or one that `check` was told is known.
    """

    what: str = "text"
    pattern: str = r"(?s:.+)"
    hint: str = ""
    private: bool = False
    refers_to: str = ""


class Slug(msgspec.Struct, frozen=True, kw_only=True):
    """A name of D§5, which can stand in a path, a key or a terminal without harm."""

    what: str = "a name (lower-case letters, digits, '_' and '-', not '-' first, at most 64, no device such as 'con')"


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """A whole number from `least` to `most`."""

    least: int
    most: int

    @property
    def what(self) -> str:
        return str(self.least) if self.least == self.most else f"a whole number from {self.least} to {self.most}"


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """A number of seconds, whole or not, above 0 and at most `most`; read as a float."""

    most: int

    @property
    def what(self) -> str:
        return f"a number of seconds above 0 and at most {self.most}"


class Dollars(msgspec.Struct, frozen=True, kw_only=True):
    """An amount of US dollars, whole or not, at most `most` and above 0, or 0 as well if `free`; read as a float."""

    most: int
    free: bool = False

    @property
    def what(self) -> str:
        return f"a number of US dollars {'from 0 to' if self.free else 'above 0 and at most'} {self.most}"


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """`true` or `false`."""

    what: str = "true or false"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One of a closed set of words; `here` says which of them the place takes, where not every place takes all."""

    words: tuple[str, ...]
    here: Callable[[KeyPath], tuple[str, ...]] | None = None

    @property
    def what(self) -> str:
        return " or ".join(map(repr, self.words))


class ListOf(msgspec.Struct, frozen=True, kw_only=True):
    """A list of at least `least` items that are all `item`, `distinct` where that is asked; read as a tuple.

    Each item `defines` a thing of that kind, which a `Text` may refer to.
    """

    item: "Schema"
    what: str = "a list"
    least: int = 0
    distinct: bool = False
    defines: str = ""


class MapOf(msgspec.Struct, frozen=True, kw_only=True):
    """A mapping from names that the file chooses to `value`, or to `named[name]` where that is given.

    It has at least `least` keys, and each `defines` a thing of that kind, which a `Text` may refer to.
    """

    key: Text | Slug
    value: "Schema"
    named: "Mapping[str, Schema]" = FrozenDict()
    what: str = "a mapping"
    least: int = 0
    defines: str = ""


class Either(msgspec.Struct, frozen=True, kw_only=True):
    """One of three shapes, told apart by what stands there: a single value, a list or a mapping."""

    single: "Schema"
    items: "Schema"
    mapping: "Schema"
    what: str


class Refused(msgspec.Struct, frozen=True):
    """A key that is known and cannot be used here; `message` goes on after the key's name, `hint` says what to do."""

    message: str
    hint: str


class Needs(msgspec.Struct, frozen=True):
    """A rule of a table: where one of `keys` stands, and is not `unless`, one of `others` must stand too.

    The hint may depend on where that is.
    """

    keys: tuple[str, ...]
    others: tuple[str, ...]
    hint: str | Callable[[KeyPath], str] = ""
    unless: object = UNSET


class Clash(msgspec.Struct, frozen=True):
    """A rule of a table: `key`, where it is not `unless`, must not stand where `other` is `value`."""

    key: str
    other: str
    value: str | bool
    hint: str = ""
    unless: object = UNSET


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A mapping with these keys and no others. Of `one_of`, exactly one stands.

    With `positioned`, the value that is read has its `Position` under the key `where` and its `KeyPath` under `path`.
    With `kind_key`, it has under that key which of `one_of` stands.
    `not_for` are names for which the file would use another table: where a required key is missing and the table's own
    name is near to one of them, that is said.
    """

    keys: "Mapping[str, Schema]"
    what: str = "a mapping"
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    rules: tuple[Needs | Clash, ...] = ()
    positioned: bool = False
    kind_key: str = ""
    not_for: tuple[str, ...] = ()


Schema = Text | Slug | Whole | Seconds | Dollars | Flag | Choice | ListOf | MapOf | Either | Refused | Table
