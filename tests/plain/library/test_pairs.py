"""Pairs from catalogues and tables: small files are written here and read, whole and broken."""

import gettext
import io
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab_transformer.corpus import CorpusError
from lab_transformer.pairs import load_pairs

HEADER = "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"


def compiled(messages, header=HEADER, order="<", encoding="utf-8"):
    """Compile a catalogue as msgfmt does."""
    pairs = sorted([("", header), *messages])
    raw = [(one.encode(encoding), other.encode(encoding)) for one, other in pairs]
    tables, text = [b"", b""], b""
    start = 28 + 16 * len(raw)
    for side in (0, 1):
        for pair in raw:
            tables[side] += struct.pack(f"{order}2I", len(pair[side]), start + len(text))
            text += pair[side] + b"\0"
    head = struct.pack(f"{order}7I", 0x950412DE, 0, len(raw), 28, 28 + 8 * len(raw), 0, 0)
    return head + tables[0] + tables[1] + text


def sides(loaded):
    return [(" ".join(pair.source), " ".join(pair.target)) for pair in loaded.pairs]


def read(tmp_path, content, name="some.mo", **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_pairs(path, **options)


MESSAGES = [
    ("Open the window", "Apri la finestra"),
    ("menu\x04Save _as", "_Salva con nome"),
    ("%d file was found\0%d files were found", "%d file trovato\0%d file trovati"),
]


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_compiled_catalogue_is_read_as_gettext_reads_it(order, tmp_path):
    data = compiled(MESSAGES, order=order)
    known = gettext.GNUTranslations(io.BytesIO(data))
    assert known.pgettext("menu", "Save _as") == "_Salva con nome"
    loaded = read(tmp_path, data)
    assert sorted(sides(loaded)) == [
        ("open the window", "apri la finestra"),
        ("save as", "salva con nome"),
        ("{1} file was found", "{1} file trovato"),
        ("{1} files were found", "{1} file trovati"),
    ]
    assert loaded.left_out == []


PO = """
# A comment; the header comes first.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);\\n"

#: main.c:12
msgctxt "menu"
msgid "Save _as"
msgstr ""
"_Salva "
"con nome"

#, c-format
msgid "%d house"
msgid_plural "%d houses"
msgstr[0] "%d casa"
msgstr[1] "%d case, poche"
msgstr[2] "%d case, molte"

#, fuzzy, c-format
#| msgid "something else"
msgid "Look at this"
msgstr "Guarda quello"

msgid "Not yet"
msgstr ""
msgid "He said \\"yes\\"\\tand left\\n"
msgstr "Disse \\"sì\\"\\te partì\\n"

#~ msgid "out of use"
#~ msgstr "fuori uso"
"""


def test_a_catalogue_in_text_is_read_with_context_plurals_and_flags(tmp_path):
    loaded = read(tmp_path, PO, "some.po")
    assert sides(loaded) == [
        ("save as", "salva con nome"),
        ("{1} house", "{1} casa"),
        ("{1} houses", "{1} case , poche"),  # the form that the language has for two
        ('he said " yes " and left', 'disse " sì " e partì'),
    ]
    assert loaded.left_out == [
        "some.po: 'Look at this' is marked as fuzzy: a translator has still to look at it",
        "some.po: 'Not yet' is not translated",
    ]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("_Open file", "_Apri file", ("open file", "apri file")),
        ("Open f_ile", "Apri fi_le", ("open file", "apri file")),
        ("&Edit text", "Modifica testo", ("edit text", "modifica testo")),
        ("~Print now", "Stampa ~ora", ("print now", "stampa ora")),
        ("_Open file", "ファイルを開く(_O)", ("open file", "ファイルを開く")),
        (
            "set max_size here",
            "imposta max_size qui",
            ("set max _ size here", "imposta max _ size qui"),
        ),
        ("cats & dogs", "cani & gatti", ("cats & dogs", "cani & gatti")),
        ("cats && _dogs", "cani && _gatti", ("cats & & dogs", "cani & & gatti")),
        ("%s of %s", "%s di %s", ("{1} of {1}", "{1} di {1}")),
        ("%1$s of %2$d", "%2$d per %1$s", ("{1} of {2}", "{2} per {1}")),
        ("{name} has {0}", "{0}: di {name}", ("{1} has {2}", "{2} : di {1}")),
        ("About %PRODUCTNAME", "Su %PRODUCTNAME", ("about {1}", "su {1}")),
        ("Use $(ARG1) here", "Usa $(ARG1) qui", ("use {1} here", "usa {1} qui")),
        ("50 % of all", "50 % di tutto", ("50 % of all", "50 % di tutto")),
        ("Two\nlines", "Due\nrighe", ("two lines", "due righe")),
    ],
)
def test_marks_of_a_screen_are_understood(source, target, expected, tmp_path):
    assert sides(read(tmp_path, compiled([(source, target)]))) == [expected]


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("Not yet", "", "is not translated"),
        ("Not yet", "  ", "has an empty side"),
        ("%d files", "file", "has other places to fill in than its translation"),
        ("a <b>bold</b> word", "una parola <b>grassa</b>", "holds markup"),
        ("a &lt; b", "a &lt; b", "holds markup"),
        ("%d / %d", "%d / %d", "has a side without a word"),
        ("PNG image", "PNG image", "is the same on both sides"),
        ("Good day", "Buongiorno", "has 1 word on one side"),
        ("one two three four five", "uno due tre quattro cinque", "has 5 words on one side"),
        ("OPEN THE FILE", "apri il file", "has been there before"),
    ],
)
def test_what_is_left_out_has_a_reason(source, target, reason, tmp_path):
    messages = [("Open the file", "Apri il file"), (source, target)]
    messages.sort(key=lambda pair: pair[0] == source)
    table = "\n".join(f"{one}\t{other}" for one, other in messages)
    expected = [("open the file", "apri il file")]
    if target:
        loaded = read(tmp_path, table, "some.tsv", shortest=2, longest=4)
        assert sides(loaded) == expected
        assert loaded.left_out == [f"some.tsv, line 2 {reason}"]
    if source.islower() or "before" not in reason:
        loaded = read(tmp_path, compiled(messages), shortest=2, longest=4)
        assert sides(loaded) == expected
        assert loaded.left_out == [f"some.mo: {source!r} {reason}"]


def test_a_table_may_have_odd_lines(tmp_path):
    table = "\ufeffThe cat sleeps.\tIl gatto dorme.\r\n\nonly one\na\tb\tc\n"
    loaded = read(tmp_path, table, "mine.txt")
    assert sides(loaded) == [("the cat sleeps .", "il gatto dorme .")]
    assert loaded.left_out == [
        "mine.txt, line 3 has 1 columns instead of two",
        "mine.txt, line 4 has 3 columns instead of two",
    ]


def test_all_catalogues_of_a_folder_are_read(tmp_path):
    (tmp_path / "it" / "LC_MESSAGES").mkdir(parents=True)
    (tmp_path / "it" / "LC_MESSAGES" / "a.mo").write_bytes(compiled([("one cat", "un gatto")]))
    (tmp_path / "b.po").write_text('msgid "one dog"\nmsgstr "un cane"\n')
    (tmp_path / "notes.txt").write_text("no catalogue")
    assert sorted(sides(load_pairs(tmp_path))) == [("one cat", "un gatto"), ("one dog", "un cane")]


def test_other_encodings_are_read(tmp_path):
    header = HEADER.replace("UTF-8", "ISO-8859-1")
    data = compiled([("the city", "la città")], header, encoding="iso-8859-1")
    assert sides(read(tmp_path, data)) == [("the city", "la città")]


GOOD = compiled(MESSAGES)


def patched(place, number):
    return GOOD[:place] + struct.pack("<I", number) + GOOD[place + 4 :]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "does not begin like one"),
        (b"PK\3\4" + bytes(30), "does not begin like one"),
        (GOOD[:15], "does not begin like one"),
        (GOOD[:40], "is cut off"),
        (GOOD[:-30], "beyond the end"),
        (patched(4, 7 << 16), "revision 7"),
        (patched(8, 2**32 - 1), "is cut off"),
        (patched(12, 2**32 - 5), "is cut off"),
        (patched(36, 2**32 - 1), "beyond the end"),
        (compiled(MESSAGES, HEADER.replace("UTF-8", "klingon")), "unknown"),
        (compiled(MESSAGES, HEADER.replace("UTF-8", "zlib")), "unknown"),
        (compiled(MESSAGES, HEADER.replace("UTF-8", "punycode")), "save it in UTF-8"),
        (compiled([("a b", "ü")], encoding="latin-1"), "not text in utf-8"),
        (compiled(MESSAGES, HEADER.replace("(n != 1)", "(n ! 1")), "rule for plurals"),
        (compiled(MESSAGES, HEADER.replace("(n != 1)", "(1 / (n - 1))")), "rule for plurals"),
        (
            compiled(MESSAGES, HEADER.replace("(n != 1)", "(" * 900 + "n" + ")" * 900)),
            "rule for plurals",
        ),
        (compiled([]), "no sentence pair"),
    ],
)
def test_a_damaged_catalogue_is_refused_in_a_sentence(content, words, tmp_path):
    with pytest.raises(CorpusError, match=words) as raised:
        read(tmp_path, content)
    assert "\n" not in str(raised.value)
    assert "some.mo" in str(raised.value)


def test_messages_on_top_of_each_other_are_refused(tmp_path):
    long = "word " * 400
    data = compiled([(f"{i}{long}", long) for i in range(9)])
    count = 10
    first = struct.unpack_from("<2I", data, 28 + 8)
    table = b"".join(struct.pack("<2I", *first) for _ in range(2 * count))
    with pytest.raises(CorpusError, match="on top of each other"):
        read(tmp_path, data[:28] + table + data[28 + 16 * count :][: len(long) * 3])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('msgid "a b"\nmsgid "c"\n', "line 2: msgid is there twice"),
        ('msgid "a b"\nmsgstr "c"\nnonsense\n', "line 3: this is no line of a catalogue"),
        ('msgid "a b\nmsgstr "c"\n', "line 1: this is no line of a catalogue"),
        ('"a b"\n', "line 1: this is no line of a catalogue"),
        ('msgstr "a b"\n', "line 1: a translation stands there without its message"),
        ('msgctxt "menu"\nmsgstr "a b"\n', "line 1: a translation stands there"),
    ],
)
def test_a_catalogue_in_text_with_a_mistake_is_refused_with_its_line(content, words, tmp_path):
    with pytest.raises(CorpusError, match=words):
        read(tmp_path, content, "some.po")


def test_files_that_are_not_there_are_refused_in_a_sentence(tmp_path):
    with pytest.raises(CorpusError, match="cannot be read: No such file"):
        load_pairs(tmp_path / "nothing.mo")
    with pytest.raises(CorpusError, match="holds no catalogue"):
        load_pairs(tmp_path)
    with pytest.raises(CorpusError, match="UTF-8"):
        read(tmp_path, b"\xff\xfe\t\x00", "some.tsv")
    with pytest.raises(CorpusError, match=r"can be used; for instance, some.tsv, line 1 has 1 col"):
        read(tmp_path, "only one side", "some.tsv")
    with pytest.raises(ValueError, match="5 to 3 words"):
        load_pairs(tmp_path, shortest=5, longest=3)


def test_a_file_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("lab_transformer.pairs.LARGEST", 1000)
    with pytest.raises(CorpusError, match="too large"):
        read(tmp_path, bytes(1001))


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_whatever_is_broken_ends_in_pairs_or_a_sentence(data, tmp_path_factory):
    name, good = data.draw(
        st.sampled_from([("a.mo", GOOD), ("a.po", PO.encode()), ("a.tsv", b"a\tb\n")])
    )
    content = bytearray(good)
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(content)))
        bytes_put = data.draw(st.binary(max_size=4))
        content[place : place + data.draw(st.integers(0, 4))] = bytes_put
    path = tmp_path_factory.mktemp("broken") / name
    path.write_bytes(content)
    try:
        loaded = load_pairs(path)
    except CorpusError as error:
        said = str(error)
    else:
        said = ""
        assert all(pair.source and pair.target for pair in loaded.pairs)
    assert len(said) < 1000
