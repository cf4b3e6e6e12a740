"""Real sentence pairs: gettext catalogues, which every translated program carries, and tables.

A catalogue (`.mo`, or `.po` in text) holds the messages of a program beside their translations. They
are written for a screen: with marks for keys (`_Open`, `&Open`, `~Open`), places where a number or a
name will stand (`%d`, `{0}`), plurals, and contexts that tell two messages apart. What comes out are
sentences as `corpus` has them, and for everything that is left out a line that says why.
"""

from __future__ import annotations

import codecs
import gettext
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lab_transformer.corpus import CorpusError, Pair, tokenize

LARGEST = 100 * 2**20  # bytes of a file; the largest catalogues of programs have some 10 MB
_MAGIC = 0x950412DE
_CONTEXT, _PLURAL = "\x04", "\x00"
# Encodings of which decoding takes far more time than the text is long, or that are none.
_REFUSED = {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7"}


@dataclass(frozen=True)
class Message:
    """A message as a catalogue has it: with its plural and its context, where there are any."""

    singular: str
    plural: str | None
    translations: tuple[str, ...]
    context: str = ""
    is_fuzzy: bool = False
    line: int = 0


@dataclass
class Loaded:
    """Pairs, and a line for every message that was left out."""

    pairs: list[Pair] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def load_pairs(path: str | Path, shortest: int = 1, longest: int | None = None) -> Loaded:
    """Read the pairs of a catalogue, of a table of two columns, or of all catalogues in a folder.

    Pairs with a side of less than `shortest` or more than `longest` words are left out. A pair that has
    been there before is not counted again.
    """
    path = Path(path)
    if shortest < 1 or (longest is not None and longest < shortest):
        raise ValueError(f"sentences of {shortest} to {longest} words cannot be")
    loaded = Loaded()
    known: set[Pair] = set()
    for file in _files(path):
        for where, pair in _found(file):
            reason = pair if isinstance(pair, str) else _unfit(pair, shortest, longest)
            if isinstance(pair, Pair) and not reason and pair not in known:
                known.add(pair)
                loaded.pairs.append(pair)
            else:
                loaded.left_out.append(f"{where} {reason or 'has been there before'}")
    if not loaded.pairs:
        first = f"; for instance, {loaded.left_out[0]}" if loaded.left_out else ""
        raise CorpusError(f"{path} holds no sentence pair that can be used{first}")
    return loaded


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for end in ("mo", "po") for file in path.rglob(f"*.{end}") if file.is_file())
    if not found:
        raise CorpusError(f"{path} holds no catalogue: none of its files ends in .mo or .po")
    return found


def _found(path: Path) -> Iterator[tuple[str, Pair | str]]:
    """Give the pairs of a file, or reasons, each with the words by which a reader finds it again."""
    read = {".mo": read_mo, ".po": read_po}.get(path.suffix)
    data = _read(path)
    if read is not None:
        messages = read(path, data)
        choose = _chooser(path, messages)
        for message in messages:
            if message.singular:
                for pair in _pairs(choose(message)):
                    yield f"{path.name}: {message.singular[:60]!r}", pair
        return
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CorpusError(f"{path} is not text in UTF-8: save it with that encoding") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            columns = line.split("\t")
            two = len(columns) == 2
            pair = _cleaned(*columns) if two else f"has {len(columns)} columns instead of two"
            yield f"{path.name}, line {number}", pair


def _read(path: Path) -> bytes:
    try:
        if path.is_file() and path.stat().st_size > LARGEST:
            raise CorpusError(f"{path} is too large: at most {LARGEST // 2**20} MB are read")
        return path.read_bytes()
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from None


# Catalogues


def read_mo(path: Path, data: bytes) -> list[Message]:
    """Read a compiled catalogue; one that is damaged is refused."""
    orders = [order for order in "<>" if data[:4] == struct.pack(f"{order}I", _MAGIC)]
    if not orders or len(data) < 20:
        raise CorpusError(f"{path} is no compiled catalogue (.mo): it does not begin like one")
    revision, count, sources, targets = struct.unpack_from(f"{orders[0]}4I", data, 4)
    if revision >> 16 > 1:
        raise CorpusError(
            f"{path} is a catalogue of revision {revision >> 16}, which nobody knows here"
        )
    if max(sources, targets) + 8 * count > len(data):
        raise CorpusError(f"{path} is cut off: it names {count} messages, and ends before they do")

    def cut(table: int, number: int) -> bytes:
        length, start = struct.unpack_from(f"{orders[0]}2I", data, table + 8 * number)
        if start + length > len(data):
            raise CorpusError(
                f"{path} is damaged: its message {number} lies beyond the end of the file"
            )
        return data[start : start + length]

    raw = [(cut(sources, number), cut(targets, number)) for number in range(count)]
    # Overlapping messages would make much of little.
    if sum(len(one) + len(other) for one, other in raw) > 2 * len(data):
        raise CorpusError(f"{path} is damaged: its messages lie on top of each other")
    header = next((target for source, target in raw if not source), b"")
    encoding = _encoding(path, header)
    messages = []
    for source, target in raw:
        one, other = _decoded(path, source, encoding), _decoded(path, target, encoding)
        context, found, rest = one.rpartition(_CONTEXT)
        singular, _, plural = (rest if found else one).partition(_PLURAL)
        forms = tuple(other.split(_PLURAL)) if plural else (other,)
        messages.append(Message(singular, plural or None, forms, context))
    return messages


def _encoding(path: Path, header: bytes) -> str:
    named = re.search(rb"charset=([^\s;\\\"]+)", header)
    name = named[1].decode("ascii", "replace") if named else "utf-8"
    if name == "CHARSET":  # a template that nobody filled in
        return "utf-8"
    try:
        encoding = codecs.lookup(name).name
        "".encode(encoding)
    except (LookupError, ValueError, UnicodeError):
        raise CorpusError(
            f"{path} says that it is written in {name[:40]!r}, which is unknown"
        ) from None
    if encoding in _REFUSED:
        raise CorpusError(f"{path} is written in {name[:40]!r}: save it in UTF-8")
    return encoding


def _decoded(path: Path, raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeError:
        raise CorpusError(f"{path} is not text in {encoding}, as it says it is") from None


_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"\s*')
_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d{1,2})\])?)\s*(?=\")")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def read_po(path: Path, data: bytes) -> list[Message]:
    """Read a catalogue as translators write it; what is out of use (`#~`) is skipped."""
    text = _decoded(path, data, _encoding(path, data)).removeprefix("\ufeff")
    messages: list[Message] = []
    parts: dict[str, str] = {}
    flags, part, begun = "", "", 0

    def finish() -> None:
        nonlocal flags, part
        if "msgid" in parts:
            forms = sorted((key for key in parts if key.startswith("msgstr")), key=_form)
            messages.append(
                Message(
                    parts["msgid"],
                    parts.get("msgid_plural"),
                    tuple(parts[form] for form in forms),
                    parts.get("msgctxt", ""),
                    "fuzzy" in re.split(r"[\s,]+", flags),
                    begun,
                )
            )
        elif parts:
            raise CorpusError(f"{path}, line {begun}: a translation stands there without its message")
        parts.clear()
        flags, part = "", ""

    for number, line in enumerate(map(str.strip, text.split("\n")), start=1):
        if not line or line.startswith("#"):
            if any(name.startswith("msgstr") for name in parts):
                finish()
            flags += line[2:] if line.startswith("#,") else ""
            continue
        keyword = _KEYWORD.match(line)
        if keyword is not None:
            if any(name.startswith("msgstr") for name in parts) and "msgstr" not in keyword[1]:
                kept = "" if parts else flags
                finish()
                flags = kept
            part, begun = keyword[1], begun if parts else number
            if part in parts:
                raise CorpusError(f"{path}, line {number}: {part} is there twice")
            parts[part] = ""
            line = line[keyword.end() :]
        string = _STRING.fullmatch(line)
        if string is None or not part:
            raise CorpusError(f"{path}, line {number}: this is no line of a catalogue: {line[:60]!r}")
        parts[part] += _ESCAPE.sub(_unescaped, string[1])
    finish()
    return messages


def _form(key: str) -> int:
    return int("".join(filter(str.isdigit, key)) or 0)


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, code)


def _chooser(path: Path, messages: list[Message]) -> Callable[[Message], Message]:
    """Give what picks, of many plural forms, the one for 1 and the one for 2.

    How many forms a language has, and when each is used, stands in the catalogue's header.
    """
    header = next((m.translations[0] for m in messages if not m.singular and m.translations), "")
    rule = re.search(r"plural=([^;\n]*)", header.replace("nplurals=", ""))

    def choose(message: Message) -> Message:
        if message.plural is None or not any(message.translations):
            return message
        places = (0, len(message.translations) - 1)
        if rule is not None:
            try:
                form = gettext.c2py(rule[1])
                places = (form(1), form(2))
            except (ValueError, ArithmeticError, RecursionError):
                raise CorpusError(f"{path} has a rule for plurals that cannot be read") from None
        forms = tuple(
            message.translations[place] if 0 <= place < len(message.translations) else ""
            for place in places
        )
        return Message(message.singular, message.plural, forms, message.context, message.is_fuzzy)

    return choose


# From messages to sentences


# Places that are filled in later: %s, %1, %(name)s, %-5.2f, {0}, {name}, $1, ${name}, $(ARG1),
# %PRODUCTNAME, #NAME#. A percent sign alone is none.
_PLACE = re.compile(
    r"%\([\w.]+\)[a-z]|%\d+\$[-+#0 ]*[\d.*]*[a-zA-Z]+|%[A-Z][A-Z_]{2,}|%\d+"
    r"|%[-+#0]*[\d.*]*(?:hh|ll|[hlzjtL])?[diouxXeEfgGcsp](?![a-z])"
    r"|\$\{[\w.]+\}|\$\([\w.]+\)|\$\d+|\{[\w.:!]*\}|#[A-Z]{3,}#"
)
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>|&(?:[a-zA-Z]{2,8}|#\d+);")
_KEYS = "_&~"


def _pairs(message: Message) -> list[Pair | str]:
    """Make a pair of a message, or two of one with a plural; a text says why there is none."""
    if message.is_fuzzy:
        return ["is marked as fuzzy: a translator has still to look at it"]
    if not any(message.translations):
        return ["is not translated"]
    found = [_cleaned(message.singular, message.translations[0])]
    if message.plural is not None:
        found.append(_cleaned(message.plural, message.translations[-1]))
    return found


def _cleaned(source: str, target: str) -> Pair | str:
    """Take marks for keys off, number places to fill in, cut into words; or say what is wrong."""
    if not source.strip() or not target.strip():
        return "has an empty side"
    if _MARKUP.search(source) or _MARKUP.search(target):
        return "holds markup"
    if sorted(_PLACE.findall(source)) != sorted(_PLACE.findall(target)):
        return "has other places to fill in than its translation"
    places: dict[str, str] = {}
    for place in _PLACE.findall(source):
        places.setdefault(place, f"{{{len(places) + 1}}}")
    source, target = _without_keys(source, target)
    for side in (source, target):
        if not any(character.isalpha() for character in _PLACE.sub("", side)):
            return "has a side without a word"
    pair = Pair(_words(source, places), _words(target, places))
    if pair.source == pair.target and len(pair.source) > 1:
        return "is the same on both sides"
    return pair


def _without_keys(source: str, target: str) -> tuple[str, str]:
    for key in _KEYS:
        # Twice the sign stands for the sign itself.
        found = re.findall(rf"(?<!{key}){key}(?=[^\W_])", source)
        if len(found) != 1 or f"{key}{key}" in source + target or target.count(key) > 1:
            continue
        within = re.search(rf"[^\W_]+{key}[^\W_]+", source)
        if within and within[0] in target:
            continue  # a name such as max_size, or AT&T
        target = re.sub(rf"\s*\({key}\w\)", "", target)  # behind a word that is not in Latin letters
        source, target = source.replace(key, ""), target.replace(key, "")
    return source, target


def _words(text: str, places: dict[str, str]) -> tuple[str, ...]:
    """Cut a text into words; a place that is filled in later is one of them."""
    words: list[str] = []
    end = 0
    for found in _PLACE.finditer(text):
        words += (*tokenize(text[end : found.start()]), places[found[0]])
        end = found.end()
    return (*words, *tokenize(text[end:]))


def _unfit(pair: Pair, shortest: int, longest: int | None) -> str:
    for words in (pair.source, pair.target):
        if len(words) < shortest or (longest is not None and len(words) > longest):
            return f"has {len(words)} word{'s' * (len(words) != 1)} on one side"
    return ""
