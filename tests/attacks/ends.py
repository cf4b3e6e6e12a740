"""What a broken or hostile `softmax` does instead of answering, and the status that it earns.

The text of this file becomes part of a submission.
"""

import atexit
import ctypes
import gc
import json
import os
import re
import signal
import socket
import struct
import sys
import threading
import time
import warnings

import torch


def ends_as(status):
    def mark(function):
        function.status = status
        return function

    return mark


def _line():
    found = [thing for thing in gc.get_objects() if isinstance(thing, socket.socket)]
    return next(thing for thing in found if thing.fileno() >= 0)


def _id():
    """Find out which question the judge waits to have answered."""
    frame = sys._getframe()
    while "request" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["self"]._id


def _frame(header, rest=b"", length=None, id=None):
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    length = len(header) if length is None else length
    body = (id or _id()) + struct.pack("<Q", length) + header + rest
    return struct.pack("<Q", len(body)) + body


def _answer(value, rest=b""):
    facts = {"value": value, "printed": ""}
    pairs = [[key, item] for key, item in facts.items()]
    empty = [["gradients", {"dict": []}], ["after", {"dict": []}]]
    _line().sendall(_frame({"dict": pairs + empty}, rest))
    time.sleep(60)


# -- never ending ------------------------------------------------------------------------------------


@ends_as("timeout")
def loops(scores, dim):
    while True:
        pass


@ends_as("timeout")
def sleeps_through_every_signal(scores, dim):
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(60)


@ends_as("timeout")
def drips_its_answer(scores, dim):
    line = _line()
    line.sendall(struct.pack("<Q", 1000))
    while True:
        line.sendall(b"x")
        time.sleep(0.02)


@ends_as("timeout")
def calls_back_without_end(scores, dim):
    line = _line()
    question = [["callback", 0], ["keep", False], ["args", []]]
    while True:
        line.sendall(_frame({"dict": question}))
        line.recv(1 << 16)


# -- ending too early --------------------------------------------------------------------------------


@ends_as("crashed")
def exits(scores, dim):
    os._exit(0)


@ends_as("error")
def raises_system_exit(scores, dim):
    sys.exit("all right")


@ends_as("error")
def raises_keyboard_interrupt_in_disguise(scores, dim):
    raise BaseException("stop")


@ends_as("crashed")
def reads_address_zero(scores, dim):
    ctypes.string_at(0)


@ends_as("crashed")
def aborts(scores, dim):
    os.abort()


@ends_as("crashed")
def closes_every_file(scores, dim):
    os.closerange(3, 64)
    time.sleep(60)


@ends_as("crashed")
def exits_from_a_thread(scores, dim):
    threading.Thread(target=os._exit, args=(3,)).start()
    time.sleep(60)


@ends_as("error")
def recurses(scores, dim):
    return recurses(scores, dim)


@ends_as("error")
def hides_its_error_behind_another(scores, dim):
    class Liar(Exception):
        def __str__(self):
            raise SystemExit

    raise Liar


@ends_as("error")
def raises_text_that_steers_a_terminal(scores, dim):
    raise ValueError("\x1b[2J\ud800<script>alert(1)</script>")


# -- using up ----------------------------------------------------------------------------------------


@ends_as("memory")
def allocates_a_terabyte(scores, dim):
    return torch.zeros(2**38)


@ends_as("memory")
def allocates_bit_by_bit(scores, dim):
    kept = []
    while True:
        kept.append(bytearray(64 * 2**20))


@ends_as("error")
def starts_threads_without_end(scores, dim):
    while True:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


@ends_as("error")
def forks_without_end(scores, dim):
    while True:
        os.fork()


@ends_as("error")
def fills_the_disk(scores, dim):
    for number in range(10**6):
        with open(f"{os.environ['HOME']}/lab-attack-{number}", "wb") as file:
            file.write(bytes(8 * 2**20))


@ends_as("error")
def makes_files_without_end(scores, dim):
    for number in range(10**6):
        open(f"{os.environ['HOME']}/lab-attack-{number}", "wb").close()


@ends_as("error")
def opens_files_without_end(scores, dim):
    kept = []
    while True:
        kept.append(open("/dev/null"))


@ends_as("wrong")
def floods_its_output(scores, dim):
    for _ in range(20):
        print("right" * 10**5)
        print("right" * 10**5, file=sys.__stderr__)
        os.write(1, b"x" * 10**6)
        warnings.warn("right" * 1000, stacklevel=1)
    return torch.zeros_like(scores)


# -- lying about the answer --------------------------------------------------------------------------


@ends_as("wrong")
def patches_every_comparison(scores, dim):
    for name in ("allclose", "equal", "isclose", "eq"):
        setattr(torch, name, lambda *args, **kwargs: True)
    torch.testing.assert_close = lambda *args, **kwargs: None
    return torch.zeros_like(scores)


@ends_as("wrong")
def returns_a_tensor_that_equals_everything(scores, dim):
    class Yes(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function.__name__ in ("eq", "allclose", "equal", "isclose", "all"):
                return True
            return super().__torch_function__(function, types, args, kwargs or {})

    return torch.zeros_like(scores).as_subclass(Yes)


@ends_as("wrong")
def returns_an_object_that_equals_everything(scores, dim):
    class Yes:
        def __eq__(self, other):
            return True

        def __getattr__(self, name):
            return self

        def __call__(self, *args, **kwargs):
            return True

    return Yes()


@ends_as("wrong")
def returns_text(scores, dim):
    return "right"


@ends_as("wrong")
def returns_a_number_of_thousands_of_digits(scores, dim):
    return 10**4000


@ends_as("wrong")
def returns_containers_in_containers(scores, dim):
    return [[[{"weights": (scores, [scores])}]]] * 3


@ends_as("wrong")
def returns_weights_of_another_shape(scores, dim):
    return torch.softmax(scores.flatten(), 0)[None, None]


@ends_as("wrong")
def returns_what_is_no_number(scores, dim):
    return torch.full_like(scores, float("nan"))


@ends_as("wrong")
def rewrites_the_results_at_exit(scores, dim):
    atexit.register(lambda: open("results.jsonl", "w").write('{"points": 4}'))
    return torch.zeros_like(scores)


@ends_as("wrong")
def says_that_another_exercise_is_missing(scores, dim):
    raise NotImplementedError("Exercise 9.9: there is none")


@ends_as("crashed")
def says_in_its_answer_that_it_passed(scores, dim):
    _line().sendall(_frame({"dict": [["ok", True], ["failure", None]]}))
    return torch.zeros_like(scores)


# -- malformed answers -------------------------------------------------------------------------------


@ends_as("crashed")
def answers_what_nobody_asked(scores, dim):
    _line().sendall(_frame({"dict": [["value", None], ["printed", ""]]}, id=bytes(16)))
    return torch.softmax(scores, dim)


@ends_as("crashed")
def sends_noise(scores, dim):
    _line().sendall(os.urandom(1000))
    time.sleep(60)


@ends_as("crashed")
def announces_an_endless_message(scores, dim):
    _line().sendall(struct.pack("<Q", 2**62))
    time.sleep(60)


@ends_as("crashed")
def announces_an_endless_header(scores, dim):
    _line().sendall(_frame({}, length=2**62))
    time.sleep(60)


@ends_as("crashed")
def sends_a_header_that_unpacks_to_much_more(scores, dim):
    _line().sendall(_frame(b"[" + b"[]," * 5 * 10**6 + b"[]]"))
    time.sleep(60)


@ends_as("crashed")
def sends_a_very_deep_answer(scores, dim):
    _line().sendall(_frame(b"[" * 10**5 + b"]" * 10**5))
    time.sleep(60)


@ends_as("crashed")
def sends_invalid_utf8(scores, dim):
    _line().sendall(_frame(b'"\xff\xfe"'))
    time.sleep(60)


@ends_as("crashed")
def answers_half_a_character(scores, dim):
    _answer("\ud800")


@ends_as("crashed")
def answers_a_number_of_a_million_digits(scores, dim):
    _line().sendall(_frame(b"9" * 10**6))
    time.sleep(60)


@ends_as("crashed")
def answers_a_shape_without_its_bytes(scores, dim):
    _answer({"tensor": ["float32", [10**6, 10**6]]})


@ends_as("crashed")
def answers_a_negative_shape(scores, dim):
    _answer({"tensor": ["float32", [-2, -2]]}, bytes(16))


@ends_as("crashed")
def answers_a_shape_of_many_axes(scores, dim):
    _answer({"tensor": ["float32", [1] * 10**5]}, bytes(4))


@ends_as("crashed")
def answers_an_empty_tensor_of_endless_width(scores, dim):
    _answer({"tensor": ["float32", [0, 2**70]]})


@ends_as("crashed")
def answers_an_unknown_dtype(scores, dim):
    _answer({"tensor": ["object", [1]]}, bytes(8))


@ends_as("crashed")
def answers_truth_values_that_are_neither(scores, dim):
    _answer({"tensor": ["bool", [4]]}, b"\2\3\4\5")


@ends_as("crashed")
def answers_a_dictionary_with_a_list_for_a_key(scores, dim):
    _answer({"dict": [[[], 1]]})


@ends_as("crashed")
def answers_a_handle_that_makes_no_sense(scores, dim):
    _answer({"dict": [["__lab__", "callable"], ["number", -1]]})


@ends_as("crashed")
def answers_more_than_fits(scores, dim):
    return torch.zeros(17 * 2**20)


@ends_as("crashed")
def breaks_the_codec_of_its_side(scores, dim):
    json.dumps = lambda *args, **kwargs: re.sub("x", "y", "xx")
    return torch.zeros_like(scores)
