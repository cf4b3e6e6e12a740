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


def _worker():
    """Find the object that speaks with the judge, and which knows the question that waits."""
    frame = sys._getframe()
    while not hasattr(frame.f_locals.get("self"), "_id"):
        frame = frame.f_back
    return frame.f_locals["self"]


def _instead(message):
    """Send a message in the place of the answer."""
    _line().sendall(message)
    worker = _worker()
    worker.say = lambda packed: worker.__dict__.pop("say")


def _frame(header, rest=b"", length=None, id=None):
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    length = len(header) if length is None else length
    body = (id or _worker()._id) + struct.pack("<Q", length) + header + rest
    return struct.pack("<Q", len(body)) + body


def _described(kind, *parts):
    return {"described": [kind, *parts]}


_NONE = {"dict": []}


def _answer(value, rest=b"", gradients=_NONE, after=_NONE):
    _instead(_frame(_described("Answer", value, gradients, after, ""), rest))


def _fail(*facts):
    _instead(_frame(_described("Failed", *facts, "")))


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
    while True:
        line.sendall(_frame(_described("Callback", 0, [], [])))
        line.recv(1 << 16)


@ends_as("timeout")
def counts_items_without_end(scores, dim):
    class Endless(dict):
        def items(self):
            return iter(lambda: ("a", 1), None)

    return Endless()


@ends_as("timeout")
def never_reads_what_is_asked(scores, dim):
    _line().shutdown(socket.SHUT_RD)
    while True:
        time.sleep(60)


@ends_as("timeout")
def is_watched_at_every_step(scores, dim):
    sys.setprofile(lambda *_: time.sleep(0.02))
    return torch.softmax(scores, dim)


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


@ends_as("error")
def raises_an_error_that_raises_itself_when_shown(scores, dim):
    class Itself(Exception):
        def __str__(self):
            raise self

        __repr__ = __str__

    raise Itself


@ends_as("error")
def raises_an_error_whose_kind_has_no_name(scores, dim):
    class Kind(type):
        @property
        def __name__(cls):
            raise SystemExit

    class Nameless(Exception, metaclass=Kind):
        pass

    raise Nameless


@ends_as("error")
def raises_a_stub_in_disguise(scores, dim):
    class Stub(Exception):
        __class__ = property(lambda self: NotImplementedError)

    raise Stub("Exercise 2.2: softmax")


@ends_as("error")
def raises_a_syntax_error_that_lies(scores, dim):
    error = SyntaxError("x")
    error.filename, error.lineno, error.msg = "../../" * 1000, 10**3000, ["\x1b[2J"]
    raise error


@ends_as("error")
def raises_many_errors_at_once(scores, dim):
    raise BaseExceptionGroup("many", [KeyboardInterrupt(), GeneratorExit(), StopIteration()])


@ends_as("error")
def raises_what_ends_a_generator(scores, dim):
    raise GeneratorExit


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
def returns_what_the_judge_writes_of_a_number(scores, dim):
    return [["number", "one"], ["value", "x", [], [], []], ["failure", [], "x", "y"]]


@ends_as("wrong")
def returns_a_tensor_without_numbers(scores, dim):
    return torch.empty_like(scores, device="meta")


@ends_as("wrong")
def returns_tensors_of_several_lengths(scores, dim):
    return torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])


@ends_as("wrong")
def returns_a_sparse_tensor(scores, dim):
    return torch.softmax(scores, dim).to_sparse()


@ends_as("wrong")
def returns_tensors_of_few_bits(scores, dim):
    return torch.softmax(scores, dim).to(torch.float8_e4m3fn)


@ends_as("crashed")
def returns_a_tensor_that_lies_about_its_shape(scores, dim):
    class Liar(torch.Tensor):
        shape = scores.shape

    return torch.zeros(1).as_subclass(Liar)


@ends_as("crashed")
def returns_a_tensor_whose_memory_is_gone(scores, dim):
    empty = torch.softmax(scores, dim)
    empty.untyped_storage().resize_(0)
    return empty


@ends_as("memory")
def returns_one_number_an_endless_number_of_times(scores, dim):
    return torch.zeros(()).expand(2**20, 2**20)


@ends_as("error")
def returns_a_list_that_holds_itself(scores, dim):
    itself = []
    itself.append(itself)
    return itself


@ends_as("wrong")
def returns_a_number_of_another_kind(scores, dim):
    class Odd(int):
        def __repr__(self):
            raise SystemExit

    return [Odd(5), signal.SIGKILL, True]


@ends_as("wrong")
def changes_all_that_torch_starts_with(scores, dim):
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(64)
    torch.inference_mode().__enter__()
    torch.set_default_device("meta")
    return torch.zeros(scores.shape, device="cpu")


@ends_as("crashed")
def replaces_what_python_is_built_of(scores, dim):
    import builtins

    zeros = torch.zeros_like(scores)
    builtins.isinstance = lambda *_: True
    builtins.open = builtins.__import__ = None
    return zeros


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
    _line().sendall(_frame(_described("Property", "", False, True)))
    return torch.zeros_like(scores)


# -- malformed answers -------------------------------------------------------------------------------


@ends_as("crashed")
def answers_what_nobody_asked(scores, dim):
    _line().sendall(_frame(_described("Answer", 0, _NONE, _NONE, ""), id=bytes(16)))
    return torch.softmax(scores, dim)


@ends_as("wrong")
def answers_the_next_questions_at_once(scores, dim):
    for _ in range(20):
        _line().sendall(_frame(_described("Answer", 1, _NONE, _NONE, "")))
    return torch.softmax(scores, dim)


@ends_as("crashed")
def speaks_with_many_voices(scores, dim):
    line = _line()

    def speak():
        while True:
            line.send(bytes(64))

    for _ in range(8):
        threading.Thread(target=speak, daemon=True).start()
    time.sleep(0.05)
    return torch.softmax(scores, dim)


@ends_as("crashed")
def sends_open_files(scores, dim):
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
    for _ in range(10):
        socket.send_fds(_line(), [bytes(8)], files)
    time.sleep(60)


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
    _answer(_described("KeptModule", -1))


@ends_as("crashed")
def answers_more_than_fits(scores, dim):
    return torch.zeros(17 * 2**20)


@ends_as("crashed")
def breaks_the_codec_of_its_side(scores, dim):
    json.dumps = lambda *args, **kwargs: re.sub("x", "y", "xx")
    return torch.zeros_like(scores)


# -- answers that are hard to judge ------------------------------------------------------------------


@ends_as("error")
def raises_an_error_without_a_word(scores, dim):
    raise ValueError("")


@ends_as("error")
def raises_an_error_of_empty_lines(scores, dim):
    raise ValueError("\n\x0b\x0c\x1c\x85\u2028\u2029")


@ends_as("error")
def raises_an_error_with_an_endless_name(scores, dim):
    raise type("E\ud800\n" * 10**5, (Exception,), {})("x" * 10**6)


@ends_as("error")
def raises_an_error_with_directions_in_it(scores, dim):
    raise ValueError("\u202e\u2066right\u2069 \u200f\ufeff\x00\x07\x9b2J")


@ends_as("error")
def answers_an_error_without_a_word(scores, dim):
    _fail("Raised", "", "")


@ends_as("wrong")
def answers_a_failure_without_a_word(scores, dim):
    _fail("WrongType", "", "")


@ends_as("wrong")
def claims_what_only_the_judge_can_see(scores, dim):
    _fail("ChangedInput", "nothing was changed", "")


@ends_as("crashed")
def answers_an_error_that_is_no_text(scores, dim):
    _fail("Raised", 5, [])


@ends_as("crashed")
def answers_half_an_error(scores, dim):
    _fail("Raised")


@ends_as("crashed")
def prints_what_is_no_text(scores, dim):
    _instead(_frame(_described("Answer", None, _NONE, _NONE, _NONE)))


@ends_as("wrong")
def prints_odd_characters(scores, dim):
    print("\ud800\x00\x1b[2J\u202e\u2028\x85" * 100)
    return torch.zeros_like(scores)


@ends_as("wrong")
def returns_a_set_that_cannot_be_sorted(scores, dim):
    return {1, "a", None, (2, "b"), float("nan")}


@ends_as("wrong")
def returns_a_dictionary_with_odd_keys(scores, dim):
    return {float("nan"): 1, None: 2, (): 3, True: 4, "": 5, 10**30: 6, float("-inf"): 7}


@ends_as("wrong")
def returns_a_number_beyond_all_floats(scores, dim):
    return -(10**400)


@ends_as("wrong")
def returns_a_very_long_text(scores, dim):
    return "right " * 50_000


@ends_as("crashed")
def returns_tensors_for_keys(scores, dim):
    return {scores: 1, torch.zeros(2): 2}


@ends_as("crashed")
def answers_keys_whose_hashes_collide(scores, dim):
    _answer({"dict": [[number * (2**61 - 1), 0] for number in range(9_000)]})


@ends_as("crashed")
def answers_a_set_whose_hashes_collide(scores, dim):
    _answer({"set": [number * (2**61 - 1) for number in range(9_000)]})


@ends_as("crashed")
def answers_an_empty_tensor_with_a_wide_axis(scores, dim):
    _answer({"tensor": ["float32", [0, 2**28]]})


@ends_as("crashed")
def answers_a_shape_of_thousands_of_digits(scores, dim):
    _answer({"tensor": ["float32", [10**4000]]})


@ends_as("crashed")
def answers_millions_of_truth_values(scores, dim):
    _answer({"tensor": ["bool", [2**22]]}, bytes(2**22))


@ends_as("crashed")
def answers_more_values_than_anybody_needs(scores, dim):
    _answer([0] * 100_000)


@ends_as("crashed")
def answers_tuples_within_tuples(scores, dim):
    value = 0
    for _ in range(50):
        value = {"tuple": [value]}
    _answer(value)


@ends_as("crashed")
def answers_a_tuple_of_a_text(scores, dim):
    _answer({"tuple": "abc"})


@ends_as("crashed")
def answers_many_tensors_without_an_axis(scores, dim):
    _answer([{"tensor": ["float32", []]}] * 30_000, bytes(4 * 30_000))


# -- claiming ----------------------------------------------------------------------------------------


@ends_as("wrong")
def returns_a_module(scores, dim):
    return torch.nn.Softmax(dim)


@ends_as("wrong")
def returns_a_module_that_acts_as_a_tensor(scores, dim):
    class Weights(torch.nn.Module):
        shape, dtype, ndim = scores.shape, scores.dtype, scores.ndim

        def sum(self, *args, **kwargs):
            return torch.ones(())

        def tolist(self):
            return torch.softmax(scores, dim).tolist()

    return Weights()


@ends_as("wrong")
def answers_a_module_that_was_never_made(scores, dim):
    _answer(_described("KeptModule", 10**9))


@ends_as("crashed")
def answers_gradients_that_nobody_asked_for(scores, dim):
    zeros = {"tensor": ["float32", list(scores.shape)]}
    _answer(0, bytes(4 * scores.numel()), gradients={"dict": [["0", zeros]]})


@ends_as("crashed")
def answers_arguments_that_are_none(scores, dim):
    _answer(0, after={"dict": [["0", "unchanged"]]})


@ends_as("wrong")
def calls_back_what_was_never_given(scores, dim):
    for question in (_described("Callback", 0, [], [0]), _described("Backward", 10**9, [])):
        _line().sendall(_frame(question))
        _line().recv(1 << 16)
    return torch.zeros_like(scores)


@ends_as("crashed")
def hangs_up_within_a_message(scores, dim):
    _line().sendall(_frame(_NONE)[:-3])
    _line().shutdown(socket.SHUT_RDWR)
    time.sleep(60)
