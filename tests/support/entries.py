"""Hostile and broken entries of a class: how each is made, and what is said of it.

`says` is part of the reason for which it is refused. An entry that is not refused says nothing that
could cost another: what can be read of it is graded.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import socket
import struct
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

from small_class import RIGHT

READ = ""
# Newer Pythons read archives more strictly: there these are damaged.
STRICT = {
    "a_zip_whose_packed_size_is_a_lie",
    "a_zip_whose_members_are_one_and_the_same",
    "a_pax_record_longer_than_its_header",
    "a_pax_header_of_digits",
    "a_pax_name_of_half_characters",
}
MODULE = "lab_transformer/masking.py"
Maker = Callable[[Path], object]
ENTRIES: dict[str, tuple[str, Maker, str]] = {}
MIB = 1 << 20


def entry(name: str, says: str) -> Callable[[Maker], Maker]:
    def keep(make: Maker) -> Maker:
        ENTRIES[make.__name__] = (name, make, says)
        return make

    return keep


def bytes_entry(what: str, name: str, says: str, content: bytes) -> None:
    def make(path: Path) -> None:
        path.write_bytes(content)

    make.__name__ = what
    entry(name, says)(make)


# -- zip ---------------------------------------------------------------------------------------------


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytearray:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return bytearray(out.getvalue())


def changed(content: bytearray, after: bytes, offset: int, value: bytes) -> bytes:
    """Change some bytes of the first record that begins with a signature."""
    start = content.index(after) + offset
    content[start : start + len(value)] = value
    return bytes(content)


LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
right = zipped({MODULE: RIGHT.encode()})
bytes_entry(
    "a_zip_that_claims_four_gigabytes", "a01.zip", READ,
    changed(right[:], CENTRAL, 24, struct.pack("<L", 0xFFFFFFF0)),
)  # fmt: skip
bytes_entry(
    "a_zip_whose_packed_size_is_a_lie", "a02.zip", READ,
    changed(right[:], CENTRAL, 20, struct.pack("<L", 0x7FFFFFFF)),
)  # fmt: skip
bytes_entry(
    "a_zip_with_a_wrong_sum", "a03.zip", "damaged",
    changed(right[:], CENTRAL, 16, b"\0\0\0\0"),
)  # fmt: skip
bytes_entry(
    "a_zip_of_a_method_that_there_is_not", "a04.zip", "cannot be opened",
    changed(right[:], CENTRAL, 10, struct.pack("<H", 97)),
)  # fmt: skip
bytes_entry(
    "a_zip_with_a_directory_before_its_beginning", "a05.zip", "damaged",
    changed(right[:], END, 16, struct.pack("<L", 0x7FFFFFFF)),
)  # fmt: skip
bytes_entry(
    "a_zip_that_claims_more_directory_than_there_is", "a06.zip", "damaged",
    changed(right[:], END, 12, struct.pack("<L", 0x7FFFFFFF)),
)  # fmt: skip
bytes_entry("a_zip_cut_in_half", "a07.zip", "damaged", bytes(right[: len(right) // 2]))
bytes_entry(
    "a_zip_in_a_month_that_there_is_not", "a08.zip", READ,
    changed(right[:], CENTRAL, 14, b"\0\0"),
)  # fmt: skip
bytes_entry(
    "a_name_of_sixty_thousand_characters", "a09.zip", "a name of more than",
    bytes(zipped({"x" * 60_000: b"", MODULE: RIGHT.encode()})),
)  # fmt: skip
bytes_entry(
    "a_zip_packed_with_bzip2_that_grows", "a10.zip", "larger than 1 MiB",
    bytes(zipped({MODULE: bytes(64 * MIB)}, zipfile.ZIP_BZIP2)),
)  # fmt: skip
bytes_entry(
    "a_zip_packed_with_lzma_that_grows", "a11.zip", "larger than 1 MiB",
    bytes(zipped({MODULE: bytes(64 * MIB)}, zipfile.ZIP_LZMA)),
)  # fmt: skip
bytes_entry(
    "a_zip_of_names_that_are_no_modules", "a12.zip", READ,
    bytes(zipped({MODULE: RIGHT.encode(), "lab_transformer/\x1b[2J\u202e.py": b""})),
)  # fmt: skip


@entry("a13.zip", "unpacks to more than")
def a_zip_whose_members_are_one_and_the_same(path: Path) -> None:
    one = zipped({MODULE: bytes(2 * MIB)})
    start, end = one.index(CENTRAL), one.index(END)
    body, record = one[:start], one[start:end]
    many = 1000
    tail = struct.pack("<4s4H2LH", END, 0, 0, many, many, many * len(record), start, 0)
    path.write_bytes(bytes(body + record * many + tail))


@entry("a14.zip", "link")
def a_zip_with_a_link(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        member = zipfile.ZipInfo(MODULE)
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")


@entry("a15.zip", "damaged")
def a_zip_that_claims_an_exabyte_in_its_longer_header(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        member = zipfile.ZipInfo(MODULE)
        member.extra = struct.pack("<HHQQ", 1, 16, 1 << 60, 1 << 60)
        archive.writestr(member, RIGHT)
    content = bytearray(path.read_bytes())
    path.write_bytes(changed(content, CENTRAL, 20, b"\xff" * 8))


bytes_entry(
    "a_zip_that_needs_a_word", "a16.zip", "is encrypted",
    changed(bytearray(changed(right[:], CENTRAL, 8, b"\1\0")), LOCAL, 6, b"\1\0"),
)  # fmt: skip
bytes_entry("a_zip_after_a_program", "a17.zip", READ, b"MZ" + bytes(5000) + bytes(right))
bytes_entry(
    "a_zip_with_as_much_comment_as_can_be", "a18.zip", "damaged",
    bytes(right[:-2]) + b"\xff\xff" + b"PK\x05\x06" * (65_535 // 4) + b"PKx",
)  # fmt: skip
for number, name in enumerate(
    ["/etc/x.py", "../x.py", "a/../../x.py", "C:\\x.py", "\\\\host\\x.py"], 19
):
    bytes_entry(
        f"a_path_that_leads_outside_{number}", f"a{number}.zip", "leads outside",
        bytes(zipped({MODULE: RIGHT.encode(), name: b""})),
    )  # fmt: skip
bytes_entry(
    "a_zip_within_a_zip_within_a_zip", "a27.zip", "was not opened",
    bytes(zipped({"work.zip": bytes(zipped({"work.zip": bytes(right)}))})),
)  # fmt: skip
bytes_entry("an_archive_of_seven", "a28.zip", "damaged", b"7z\xbc\xaf\x27\x1c" + bytes(100))
bytes_entry("a_rar_by_another_name", "a29.zip", "damaged", b"Rar!\x1a\x07\x01\0" + bytes(100))
bytes_entry(
    "modules_twice_in_two_ways_of_writing", "a30.zip", READ,
    bytes(zipped({"lab_transformer\\masking.PY": b"x = 1", MODULE: RIGHT.encode()})),
)  # fmt: skip


@entry("a24.zip", "nothing to grade")
def nothing_but_archives_of_long_names(path: Path) -> None:
    name = "\N{GRINNING FACE}" * 450
    path.write_bytes(zipped({f"{number}{name}.zip": b"" for number in range(9_000)}))


@entry("a25.zip", "more than 200 modules")
def thousands_of_modules_with_long_names(path: Path) -> None:
    name = "lab_transformer/" + "\N{DESERET SMALL LETTER LONG I}" * 50
    path.write_bytes(zipped({f"{name}{number}.py": b"" for number in range(9_000)}))


@entry("a26.zip", "larger than 4 MiB")
def a_package_of_many_megabytes(path: Path) -> None:
    path.write_bytes(zipped({f"lab_transformer/m{number}.py": bytes(MIB) for number in range(9)}))


@entry("a31.zip", READ)
def a_zip_with_sizes_after_its_members_and_long_ones(path: Path) -> None:
    class Stream(io.RawIOBase):
        out = path.open("wb")

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            return self.out.write(data)

    with zipfile.ZipFile(Stream(), "w") as archive, archive.open(MODULE, "w", force_zip64=True) as file:
        file.write(RIGHT.encode())
    Stream.out.close()


@entry("a32.zip", READ)
def a_zip_with_the_same_member_many_times(path: Path) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")
        for content in ["x = 1"] * 50 + [RIGHT]:
            archive.writestr(MODULE, content)


# -- tar ---------------------------------------------------------------------------------------------


def header(
    name: str, size: int, kind: bytes = tarfile.REGTYPE, form: int = tarfile.GNU_FORMAT
) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(form)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


GOOD = header(MODULE, len(RIGHT.encode())) + padded(RIGHT.encode())
bytes_entry(
    "a_tar_that_claims_eight_gigabytes", "b01.tar", "damaged", header("data.bin", 8 << 30) + GOOD
)
bytes_entry(
    "a_long_name_that_claims_eight_gigabytes", "b02.tar", "claims more than",
    header("././@LongLink", 8 << 30, tarfile.GNUTYPE_LONGNAME) + GOOD,
)  # fmt: skip
bytes_entry(
    "a_long_name_of_half_a_megabyte", "b03.tar", "a name of more than",
    header("././@LongLink", 1 << 19, tarfile.GNUTYPE_LONGNAME) + b"x" * (1 << 19) + GOOD,
)  # fmt: skip
bytes_entry(
    "a_pax_header_that_claims_eight_gigabytes", "b04.tar.gz", "claims more than",
    gzip.compress(header("x", 8 << 30, tarfile.XHDTYPE) + GOOD),
)  # fmt: skip
bytes_entry(
    "a_pax_record_longer_than_its_header", "b05.tar", "nothing to grade",
    header("x", 512, tarfile.XHDTYPE) + padded(b"99999999999 path=x\n") + GOOD,
)  # fmt: skip
bytes_entry(
    "a_pax_header_of_digits", "b06.tar", "takes too long",
    header("x", 1 << 19, tarfile.XHDTYPE) + b"1" * (1 << 19) + GOOD,
)  # fmt: skip
bytes_entry(
    "a_pax_size_that_is_negative", "b07.tar", "damaged",
    header("x", 512, tarfile.XHDTYPE) + padded(b"15 size=-5120\n") + GOOD,
)  # fmt: skip
bytes_entry("a_size_that_is_negative", "b08.tar", "nothing to grade", header("x", -512) + GOOD)
for number, (suffix, pack) in enumerate(
    [("tar.gz", gzip.compress), ("tar.bz2", bz2.compress), ("tar.xz", lzma.compress)], 9
):
    # One after another, packed streams are one: gigabytes that cost nothing to write.
    bytes_entry(
        f"gigabytes_that_nobody_wants_in_{suffix}", f"b{number:02}.{suffix}", "unpacks to more than",
        pack(header("data.bin", 4 << 30)) + pack(bytes(16 * MIB)) * 256,
    )  # fmt: skip
bytes_entry("a_module_of_gigabytes", "b12.tar.gz", "unpacks to more than",
            gzip.compress(header(MODULE, 4 << 30)) + gzip.compress(bytes(16 * MIB)) * 256)  # fmt: skip
bytes_entry("a_sum_that_is_wrong_in_gz", "b13.tar.gz", READ,
            gzip.compress(GOOD + bytes(1024))[:-8] + bytes(8))  # fmt: skip
bytes_entry("noise_in_gz", "b14.tar.gz", "damaged", b"\x1f\x8b" + bytes(range(256)) * 4)
bytes_entry("noise_in_xz", "b15.tar.xz", "damaged", b"\xfd7zXZ\0" + bytes(range(256)) * 4)
bytes_entry("noise_in_bz2", "b16.tar.bz2", "damaged", b"BZh9" + bytes(range(256)) * 4)
bytes_entry("nothing_in_gz", "b17.tgz", "damaged", gzip.compress(b"") * 50_000)
for number, kind in enumerate(
    [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE], 18
):
    bytes_entry(
        f"no_file_in_a_tar_{number}", f"b{number}.tar", "no regular file",
        header(MODULE, 0, kind) + bytes(1024),
    )  # fmt: skip


bytes_entry(
    "a_block_device",
    "b22.tar",
    "no regular file",
    header(MODULE, 0, tarfile.BLKTYPE) + GOOD[:0] + bytes(1024),
)
bytes_entry("a_gz_cut_in_half", "b23.tar.gz", "damaged", gzip.compress(GOOD)[:100])
bytes_entry("a_tar_of_another_packer", "b24.tar.gz", "damaged", b"\x28\xb5\x2f\xfd" + bytes(2000))
bytes_entry("a_tar_with_an_absolute_name", "b25.tar", "leads outside", header("/x.py", 0) + GOOD)
bytes_entry(
    "a_pax_name_of_half_characters", "b26.tar", READ,
    header("x", 512, tarfile.XHDTYPE) + padded(b"21 path=\xff\xfe\xed\xa0\x80.ipy\n")
    + header("y", 0) + GOOD,
)  # fmt: skip
bytes_entry(
    "a_sparse_map_that_is_endless", "b27.tar", "damaged",
    header("x", 512, tarfile.XHDTYPE) + padded(b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n")
    + header("a.py", 1024) + b"9" * 400 + b"\n" + bytes(623) + GOOD,
)  # fmt: skip
bytes_entry("a_gz_in_a_gz", "b28.tar.gz", "damaged", gzip.compress(gzip.compress(GOOD)))
bytes_entry("a_tar_in_a_zip_by_name", "b29.zip", "damaged", GOOD)


@entry("b30.tar", "larger than 1 MiB")
def a_sparse_module_of_eight_gigabytes(path: Path) -> None:
    buffer = bytearray(header(MODULE, 512, tarfile.GNUTYPE_SPARSE))
    buffer[386:410] = b"%011o\0%011o\0" % (0, 512)
    buffer[483:495] = b"%011o\0" % ((8 << 30) - 1)
    buffer[148:156] = b" " * 8
    buffer[148:156] = b"%06o\0 " % sum(buffer)
    path.write_bytes(bytes(buffer) + bytes(512) + bytes(1024))


# -- notebooks and Python ----------------------------------------------------------------------------


def notebook(*sources: object) -> bytes:
    cells = [{"cell_type": "code", "source": source} for source in sources]
    return json.dumps({"cells": cells}).encode()


CELL = f"%%exercise 6.1\n{RIGHT}"
bytes_entry("brackets_without_end", "c01.ipynb", "no notebook", b"[" * 500_000)
bytes_entry("cells_within_cells", "c02.ipynb", "no notebook",
            b'{"cells":' * 100_000 + b"1" + b"}" * 100_000)  # fmt: skip
bytes_entry("half_a_character_in_a_cell", "c03.ipynb", READ, notebook(CELL + "# \ud800"))
bytes_entry("a_source_that_is_a_number", "c04.ipynb", "no notebook", notebook(3, CELL))
bytes_entry("cells_that_are_a_text", "c05.ipynb", "no notebook", b'{"cells": "code"}')
bytes_entry("a_number_of_a_hundred_thousand_digits", "c06.ipynb", "no notebook",
            b'{"cells": ' + b"1" * 100_000 + b"}")  # fmt: skip
bytes_entry(
    "a_notebook_in_another_encoding", "c07.ipynb", "not UTF-8", notebook(CELL).decode().encode("utf-16")
)
bytes_entry(
    "an_exercise_in_other_digits", "c08.ipynb", "nothing to grade", notebook(f"%%exercise ٦.١\n{RIGHT}")
)
bytes_entry(
    "a_cell_of_nothing", "c09.ipynb", "nothing to grade", notebook("", "%%exercise 6.1", "%%exercise")
)
bytes_entry("cells_that_are_numbers", "c22.ipynb", "no notebook", b'{"cells": [1, 2.5, null, NaN]}')
bytes_entry("a_notebook_that_is_no_number", "c25.ipynb", "no notebook", b"NaN")
bytes_entry(
    "a_notebook_full_of_nothing_that_can_be", "c26.ipynb", READ,
    b'{"metadata": {"x": NaN, "y": -Infinity, "y": 1e999}, "cells": [{"cell_type": "code", "outputs": "'
    + b"x" * 7 * MIB + b'", "source": ' + json.dumps(CELL).encode() + b"}]}",
)  # fmt: skip
bytes_entry("a_source_within_lists", "c27.ipynb", "no notebook", notebook([[CELL]]))
bytes_entry(
    "an_exercise_said_a_hundred_times", "c28.ipynb", READ,
    notebook(*["%%exercise 6.1\nx = 1"] * 100, CELL),
)  # fmt: skip
bytes_entry("an_ending_in_capitals", "c29.PY", READ, RIGHT.encode())
bytes_entry("a_notebook_in_capitals", "c30.IPYNB", READ, notebook(CELL))
bytes_entry(
    "a_function_of_a_million_things", "c31.py", "takes too long",
    RIGHT.encode() + b"\ndef padding_mask():\n    " + b"0;" * (MIB // 2 - 200),
)  # fmt: skip
DEEP = {
    "minus": "-" * 50_000 + "1",
    "not": "not " * 50_000 + "1",
    "brackets": "[" * 5_000 + "]" * 5_000,
    "attributes": "x" + ".y" * 100_000,
    "calls": "x" + "()" * 50_000,
    "sums": "1" + "+1" * 100_000,
    "lambdas": "lambda: " * 20_000 + "1",
    "texts": 'f"{' * 200 + "1" + '}"' * 200,
}
for number, (what, text) in enumerate(DEEP.items(), 10):
    code = f"{RIGHT}\n\ndef padding_mask(tokens, pad_id):\n    return {text}\n"
    bytes_entry(f"{what}_too_deep_for_the_parser", f"c{number}.py", READ, code.encode())
bytes_entry("ifs_too_deep", "c20.py", READ,
            (RIGHT + "\n".join(" " * n + "if 1:" for n in range(500))).encode())  # fmt: skip
bytes_entry("a_null_byte", "c21.py", READ, RIGHT.encode() + b"\nx = '\0'\n")
bytes_entry("bytes_that_are_no_text", "c23.py", "not UTF-8", RIGHT.encode() + b"# \xff\xfe\n")
bytes_entry("a_file_of_bytes_marks", "c24.py", READ, b"\xef\xbb\xbf" * 3 + RIGHT.encode())


# -- folders and links -------------------------------------------------------------------------------


@entry("d01", "nothing to grade")
def folders_in_folders(path: Path) -> None:
    (path / "/".join("d" * 100)).mkdir(parents=True)
    (path / "/".join("d" * 100) / "masking.py").write_text(RIGHT)


@entry("d02", "it is a link")
def a_link_to_the_neighbours_folder(path: Path) -> None:
    path.symlink_to(path.parent / "honest-01")


@entry("d03", "was left out: it is a link")
def a_link_to_the_neighbours_package(path: Path) -> None:
    path.mkdir()
    (path / "lab_transformer").symlink_to(path.parent / "honest-01" / "lab_transformer")


@entry("d04", "it is a link")
def a_link_to_the_neighbours_archive(path: Path) -> None:
    path.mkdir()
    (path / "work.zip").symlink_to(path.parent / "honest-02.zip")


@entry("d05.zip", "it is a link")
def an_archive_that_is_a_link(path: Path) -> None:
    path.symlink_to(path.parent / "honest-02.zip")


@entry("d06", "hard link")
def a_hard_link_to_an_archive(path: Path) -> None:
    path.mkdir()
    outside = path.parent.parent / "secret.zip"
    outside.write_bytes(right)
    os.link(outside, path / "work.zip")


@entry("d07.py", "hard link")
def a_file_that_is_a_hard_link(path: Path) -> None:
    outside = path.parent.parent / "secret.py"
    outside.write_text(RIGHT)
    os.link(outside, path)


@entry("d08", "hard link")
def a_hard_link_deep_inside(path: Path) -> None:
    (path / "a" / "lab_transformer").mkdir(parents=True)
    outside = path.parent.parent / "another.py"
    outside.write_text(RIGHT)
    os.link(outside, path / "a" / MODULE)


@entry("d09", "a link")
def a_link_that_leads_to_itself(path: Path) -> None:
    path.symlink_to(path)


@entry("d10.py", "neither a folder nor a file")
def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # its address must be short
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.bind(path.name)
    finally:
        os.chdir(here)


@entry("d11", "nothing to grade")
def a_pipe_for_a_module(path: Path) -> None:
    path.mkdir()
    os.mkfifo(path / "masking.py")


@entry("d12", "nothing to grade")
def a_folder_that_is_called_like_a_module(path: Path) -> None:
    (path / "masking.py").mkdir(parents=True)
    (path / "work.zip").mkdir()


@entry("d13", "nothing to grade")
def only_what_a_system_leaves(path: Path) -> None:
    (path / ".git").mkdir(parents=True)
    (path / ".git" / "masking.py").write_text(RIGHT)


@entry("d14.py", READ)
def a_time_that_no_calendar_knows(path: Path) -> None:
    path.write_text(RIGHT)
    os.utime(path, (1 << 33, 1 << 33))


# -- names -------------------------------------------------------------------------------------------

NAMES = {
    "an_escape_in_the_name": "e01\x1b]0;taken\x07.py",
    "a_direction_mark_in_the_name": "e02\u202eyp.py",
    "a_new_line_in_the_name": "e04\nnot understood: honest-01.py",
    "a_name_of_one_letter": "e.py",
    "a_name_as_long_as_can_be": "e" * 252 + ".py",
    "a_name_with_a_half_of_nothing": "e05\u200b.py",
    "a_name_like_the_neighbours_but_for_a_space": "honest-03 .py",
    "a_name_like_the_neighbours_but_for_nothing_visible": "honest-03\u2060.py",
    "a_name_like_a_number_of_the_lms": "doejane #8123.py",
    "a_namesake_in_the_lms": "doejane_8124_1_masking.py",
    "a_file_that_speaks_of_another_number": "evil_8125_1_x_8123_assignsubmission_file_.py",
    "a_name_that_is_an_exercise": "3.2.py",
    "a_formula": "=cmd|' 'x.py",
    "a_path_in_windows": "x\\..\\..\\honest-03.py",
    "the_number_of_another": "#8123.py",
    "a_number_in_a_name_in_moodle": "Zed_8123_assignsubmission_file__77_assignsubmission_file_.py",
    "a_name_in_moodle_that_looks_like_canvas": "zed_8123_6_x_77_assignsubmission_file_.py",
    "a_name_that_systems_hide": ".hidden.py",
    "a_name_of_an_ending": ".py",
    "a_filler_that_nobody_sees": "\u3164.py",
    "a_name_like_the_neighbours_but_for_a_joiner": "honest-03\u034f.py",
    "a_name_like_the_neighbours_but_for_a_form": "honest-03\ufe0f.py",
    "a_name_like_the_neighbours_but_for_a_dot": "honest-03..py",
    "an_accent_in_one_way": "Jos\u00e9.py",
    "wide_letters": "\uff48onest-03.py",
    "the_page_of_the_class": "index.py",
    "a_device_of_windows": "con.py",
    "a_device_of_windows_with_a_dot": "NUL.txt.py",
    "the_file_of_errors": "errors.log.py",
    "what_python_leaves": "__pycache__.py",
    "a_name_that_leads_nowhere": "...py",
}
if sys.platform == "linux":  # the disks of macOS can hold neither beside its neighbours
    NAMES["a_name_that_is_no_text"] = "e03\udcff\udcfe.py"
    NAMES["a_name_like_the_neighbours_but_for_case"] = "Honest-03.py"
    NAMES["an_accent_in_another_way"] = "Jose\u0301.py"
for what, name in NAMES.items():
    bytes_entry(what, name, READ, RIGHT.encode())
