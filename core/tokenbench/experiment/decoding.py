"""Plain data (of TOML or JSON) into typed structs, with errors that name the key and what would be right."""

import difflib
import math
from collections.abc import Iterable
from decimal import Decimal
from types import NoneType, UnionType
from typing import Final, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import fields

from tokenbench.text import one_line

Path = tuple[str | int, ...]
"""Where a value stands: keys and list positions from the top."""
S = TypeVar("S", bound=msgspec.Struct)

_LISTED: Final = 14
"""Names that an error lists before it stops."""


class WrongDataError(Exception):
    """A value is not what it must be; the reader adds the file and the line.

    Attributes:
        path: Where the value stands.
        what: What is wrong, with the key in it.
        remedy: What would be right.
    """

    def __init__(self, path: Path, what: str, remedy: str) -> None:
        super().__init__(what)
        self.path = path
        self.what = what
        self.remedy = remedy


def key_path(path: Path) -> str:
    """`must[0].number`, cleaned for a terminal."""
    shown = ""
    for part in path:
        shown += f"[{part}]" if isinstance(part, int) else f"{'.' if shown else ''}{one_line(part, 60)}"
    return shown


def named(names: Iterable[str]) -> str:
    """A list of names for a sentence, cleaned and cut."""
    cleaned = [one_line(name, 60) for name in names]
    more = f" and {len(cleaned) - _LISTED} more" if len(cleaned) > _LISTED else ""
    return ", ".join(cleaned[:_LISTED]) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The remedy for a name that is not known: the nearest one first, then all."""
    names = list(known)
    near = difflib.get_close_matches(name.lower()[:100], names, n=1, cutoff=0.6)
    return (f"Did you mean `{one_line(near[0], 60)}`? " if near else "") + f"Known are: {named(names) or 'none'}"


def decode(kind: type[S], value: object, path: Path = ()) -> S:
    """This value as that struct.

    Args:
        kind: The struct; its fields may hold structs, tuples, dicts, literals, numbers and text.
        value: What a TOML or JSON parser gave.
        path: Where the value stands in its file.

    Raises:
        WrongDataError: An unknown or missing key, or a value of another type, at any depth.
    """
    if not isinstance(value, dict):
        raise _mistyped(path, kind, value)
    table = cast("dict[str, object]", value)
    known = {field.encode_name: field for field in fields(kind)}
    for key in table:
        if key not in known:
            where = (*path, key)
            raise WrongDataError(
                where, f"`{key_path(where)}` is not a key that is known here", did_you_mean(key, known)
            )
    for name, field in known.items():
        if field.required and name not in table:
            where = (*path, name)
            raise WrongDataError(
                where,
                f"`{key_path(where)}` is missing",
                f"Add it: `{name}` must be {_phrase(cast('object', field.type))}",
            )
    values = {
        field.name: _decode(cast("object", field.type), table[name], (*path, name))
        for name, field in known.items()
        if name in table
    }
    return kind(**values)


def _decode(kind: object, value: object, path: Path) -> object:
    options = [option for option in _options(kind) if option is not NoneType]
    if value is None and len(options) < len(_options(kind)):
        return None
    for option in options:
        origin = get_origin(option)
        if (scalar := _scalar(option, value, path)) is not None:
            return scalar
        if isinstance(option, type) and issubclass(option, msgspec.Struct) and isinstance(value, dict):
            return decode(option, cast("object", value), path)
        if origin is tuple and isinstance(value, list):
            inner = cast("object", get_args(option)[0])
            return tuple(_decode(inner, item, (*path, i)) for i, item in enumerate(cast("list[object]", value)))
        if origin is dict and isinstance(value, dict):
            names, inner = cast("tuple[object, object]", get_args(option))
            pairs = cast("dict[str, object]", value).items()
            return {_decode(names, name, (*path, name)): _decode(inner, item, (*path, name)) for name, item in pairs}
        if origin is Literal and isinstance(value, str):
            known = cast("tuple[str, ...]", get_args(option))
            if value in known:
                return value
            raise WrongDataError(path, f"`{key_path(path)}` is `{one_line(value, 60)}`", did_you_mean(value, known))
    raise _mistyped(path, kind, value)


def _scalar(kind: object, value: object, path: Path) -> object | None:
    """The value, if it is a scalar of that kind; numbers are finite, true is no number."""
    if kind is bool or isinstance(value, bool):
        return value if kind is bool and isinstance(value, bool) else None
    if kind is str and isinstance(value, str):
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise WrongDataError(
                    path, f"`{key_path(path)}` holds half a surrogate pair", "Write the character itself, in UTF-8"
                ) from None
        return value
    if kind is int and isinstance(value, int):
        return value
    if (kind is float or kind is Decimal) and isinstance(value, int | float):
        if not _finite(value):
            raise WrongDataError(
                path, f"`{key_path(path)}` is no finite number", "Write a number, or leave the key out"
            )
        return Decimal(str(value)) if kind is Decimal else float(value)
    return None


def _finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _options(kind: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", get_args(kind)) if get_origin(kind) in (UnionType, Union) else (kind,)


def _phrase(kind: object) -> str:
    """What a value of this type is called in a sentence."""
    phrases: list[str] = []
    for option in _options(kind):
        origin = get_origin(option)
        arguments = cast("tuple[object, ...]", get_args(option))
        if origin is tuple:
            phrases.append(f"a list ({_phrase(arguments[0])} each)")
        elif origin is Literal:
            phrases.append("one of " + ", ".join(f'"{name}"' for name in arguments))
        elif origin is dict or (isinstance(option, type) and issubclass(option, msgspec.Struct)):
            phrases.append("a table of keys and values")
        elif option in _SCALARS:
            phrases.append(_SCALARS[option])
    return " or ".join(dict.fromkeys(phrases))


_SCALARS: Final[dict[object, str]] = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    Decimal: "a number",
    bool: "true or false",
}


def _mistyped(path: Path, kind: object, value: object) -> WrongDataError:
    match value:
        case None:
            shown = "null"
        case bool():
            shown = "true" if value else "false"
        case str():
            shown = f"the text `{one_line(value, 60)}`"
        case int() | float():
            shown = f"the number {one_line(repr(value), 60)}" if _finite(value) else "a number beyond all bounds"
        case dict():
            shown = "a table"
        case list():
            shown = "a list"
        case _:
            shown = f"a {type(value).__name__}"
    return WrongDataError(
        path, f"`{key_path(path)}` is {shown}" if path else f"is {shown}", f"It must be {_phrase(kind)}"
    )
