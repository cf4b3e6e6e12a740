"""What a hostile submission tries. Each function gives something true if it got what it wanted.

The text of this file becomes part of a submission, with ROOT and JUDGE in it; a try that succeeds would
be rewarded with the right answer.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import gc
import glob
import hashlib
import hmac
import importlib
import inspect
import mmap
import multiprocessing
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import torch

ROOT, JUDGE, SEED = "", 0, ""
MARK = "lab-attack"
libc = ctypes.CDLL(None)


def reads_the_tests():
    return glob.glob(f"{ROOT}/tests/exercises/*.py")


def reads_the_bank():
    return Path(f"{ROOT}/lab_grader/bank/2.2/usual.py").read_text()


def imports_the_bank():
    return importlib.import_module("lab_grader.bank").spaces()


def imports_the_judge():
    return importlib.import_module("lab_grader.grading.judging.judge")


def reads_the_solutions():
    return Path(f"{ROOT}/lab_transformer/attention.py").read_text()


def reads_the_history_of_the_repo():
    return os.listdir(f"{ROOT}/.git")


def finds_answers_among_all_objects():
    names = {getattr(thing, "__name__", "") for thing in gc.get_objects() if inspect.isfunction(thing)}
    return {name for name in names if isinstance(name, str) and name.startswith("test_dim_")}


def finds_answers_in_the_frames():
    frame = sys._getframe()
    while frame is not None:
        if "expected" in frame.f_locals or "bench" in frame.f_locals:
            return True
        frame = frame.f_back
    return False


def reads_the_users_of_the_machine():
    return Path("/etc/passwd").read_text()


def reads_homes():
    return [name for home in glob.glob("/home/*") for name in os.listdir(home)]


def reads_secrets_of_the_environment():
    return "LAB_ATTACK_SECRET" in os.environ


def sees_other_processes():
    return [name for name in os.listdir("/proc") if name.isdigit()]


def reads_the_memory_of_the_judge():
    return Path(f"/proc/{JUDGE}/maps").read_text()


def copies_the_memory_of_the_judge():
    buffer = ctypes.create_string_buffer(8)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    return libc.process_vm_readv(JUDGE, vector, 1, vector, 1, 0) > 0


def traces_its_parent():
    return libc.ptrace(16, os.getppid() or JUDGE, None, None) == 0


def lets_itself_be_traced():
    return libc.ptrace(0, 0, None, None) == 0


def has_more_open_files_than_its_line():
    found = 0
    for descriptor in range(3, 256):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            found += 1
    return found > 1


def opens_a_network_socket():
    return socket.socket(socket.AF_INET)


def opens_an_abstract_socket():
    socket.socket(socket.AF_UNIX).bind(f"\0{MARK}")
    return True


def asks_the_kernel_by_netlink():
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)


def opens_a_pair_of_sockets():
    return socket.socketpair()


def forks():
    if os.fork() == 0:
        os._exit(0)
    return True


def leaves_a_daemon():
    if os.fork() == 0:
        os.setsid()
        signal.pause()
    return True


def starts_a_program():
    return subprocess.run([sys.executable, "-c", ""], check=True)


def becomes_another_program():
    os.execv(sys.executable, [sys.executable, "-c", ""])


def spawns_a_program():
    return os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {})


def starts_a_process_of_python():
    process = multiprocessing.get_context("fork").Process(target=print)
    process.start()
    return True


def signals_the_judge():
    os.kill(JUDGE, 0)
    return True


def signals_everybody():
    os.kill(-1, signal.SIGCONT)
    return True


def signals_its_group():
    os.kill(0, signal.SIGCONT)
    return True


def signals_its_parent():
    os.kill(os.getppid() or JUDGE, 0)
    return True


def is_root():
    return os.getuid() == 0 or os.geteuid() == 0


def becomes_root():
    os.setuid(0)
    return True


def has_capabilities():
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    return any(sets)


def makes_a_user_namespace():
    return libc.unshare(0x10000000) == 0


def joins_the_namespaces_of_another():
    return libc.setns(os.open("/proc/1/ns/net", os.O_RDONLY), 0) == 0


def mounts_a_file_system():
    return libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None) == 0


def uncovers_proc():
    return libc.umount2(b"/proc", 2) == 0


def changes_its_root():
    os.chroot("/tmp")
    return True


def makes_a_device():
    os.mknod(f"/tmp/{MARK}", 0o20666, os.makedev(1, 1))
    return True


def opens_devices():
    for name in ("mem", "kmsg", "tty", "ptmx", "fuse", "vda"):
        with contextlib.suppress(OSError):
            return os.open(f"/dev/{name}", os.O_RDWR)
    return False


def writes_outside():
    folders = [ROOT, sys.prefix, sys.base_prefix, os.path.dirname(torch.__file__), "/", "/lab", "/dev"]
    for folder in [*folders, "/etc", "/usr/lib", "/var/tmp", "/proc", "/root", "/home", "/run"]:
        with contextlib.suppress(OSError):
            Path(folder, MARK).write_text("I was here")
            return True
    return False


def changes_torch_on_disk():
    with open(torch.__file__, "a") as file:
        return file.write("") or True


def cuts_a_library():
    os.truncate(torch.__file__, os.path.getsize(torch.__file__))  # no harm, should it work
    return True


def renames_a_library():
    os.rename(torch.__file__, torch.__file__)
    return True


def changes_the_mode_of_a_file():
    os.chmod(torch.__file__, 0o644)
    return True


def follows_a_link_out():
    home = os.environ["HOME"]
    with contextlib.suppress(FileExistsError):
        os.symlink("/etc/passwd", f"{home}/{MARK}")
    return Path(f"{home}/{MARK}").read_text()


def links_a_file_into_its_folder():
    os.link(torch.__file__, f"{os.environ['HOME']}/{MARK}")
    return True


def raises_its_limits():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return True


def changes_the_limits_of_the_judge():
    return resource.prlimit(JUDGE, resource.RLIMIT_NOFILE)


def shares_memory_by_key():
    return libc.shmget(4711, 4096, 0o1666) >= 0


def keeps_a_secret_in_the_kernel():
    return libc.syscall(248, b"user", b"lab-attack", b"x", 1, -3) >= 0


def makes_a_file_in_memory():
    return os.memfd_create(MARK)


def asks_for_io_uring():
    return libc.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0


def takes_what_the_machine_has_once():
    context = ctypes.c_ulong(0)
    number = 206 if os.uname().machine == "x86_64" else 0
    return ctypes.CDLL(None).syscall(number, 1, ctypes.byref(context)) == 0


def loads_a_program_into_the_kernel():
    return libc.syscall(321, 0, ctypes.create_string_buffer(72), 72) >= 0


def watches_the_processor():
    return libc.syscall(298, ctypes.create_string_buffer(112), 0, -1, -1, 0) >= 0


def runs_code_from_a_file_of_its_own():
    path = Path(os.environ["HOME"], f"{MARK}.bin")
    path.write_bytes(b"\xc3" * 4096)
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)


# -- signs to a neighbour on files that both can read --------------------------------------------------


def locks_a_shared_file():
    fcntl.flock(open(torch.__file__), fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def locks_a_part_of_a_shared_file():
    fcntl.lockf(open(torch.__file__), fcntl.LOCK_SH | fcntl.LOCK_NB)
    return True


def locks_an_open_file():
    wanted = struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(open(torch.__file__), 37, wanted)
    return True


def asks_for_the_locks_of_others():
    wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    return fcntl.fcntl(open(torch.__file__), fcntl.F_GETLK, wanted)


def takes_a_lease():
    return _permitted(lambda: fcntl.fcntl(open(torch.__file__), fcntl.F_SETLEASE, fcntl.F_RDLCK))


def wants_to_be_told_of_changes():
    folder = os.open(os.path.dirname(torch.__file__), os.O_RDONLY)
    fcntl.fcntl(folder, fcntl.F_NOTIFY, 1)
    return True


def lets_its_line_signal_another():
    fcntl.fcntl(_line(), fcntl.F_SETOWN, 1)
    return True


def asks_which_pages_are_in_memory():
    with open(torch.__file__, "rb") as file:
        shared = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    place = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
    return libc.mincore(place, ctypes.c_size_t(4096), ctypes.create_string_buffer(1)) == 0


def asks_how_much_of_a_file_is_in_memory():
    return _is_known(451, os.open(torch.__file__, os.O_RDONLY), bytes(16), bytes(40), 0)


def drops_a_shared_file_from_memory():
    os.posix_fadvise(os.open(torch.__file__, os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def brings_a_shared_file_into_memory():
    return libc.readahead(os.open(torch.__file__, os.O_RDONLY), ctypes.c_int64(0), 4096) == 0


# -- newer system calls ------------------------------------------------------------------------------


def lists_mounts():
    everything = struct.pack("<IIQQ", 24, 0, 2**64 - 1, 0)
    return _is_known(458, everything, ctypes.create_string_buffer(800), 100, 0)


def reads_a_mount():
    return _is_known(457, struct.pack("<IIQQ", 24, 0, 1, 1), ctypes.create_string_buffer(800), 800, 0)


def changes_a_mode_by_a_newer_call():
    return _is_known(452, -100, torch.__file__.encode(), 0o644, 0)


def changes_attributes_by_a_newer_call():
    return _is_known(469, -100, torch.__file__.encode(), bytes(24), 24, 0)


def asks_who_guards_the_kernel():
    return _is_known(461, ctypes.create_string_buffer(800), struct.pack("<Q", 800), 0)


def sends_out_of_band():
    return _permitted(lambda: _line().send(b"!", socket.MSG_OOB))


def sends_out_of_band_by_another_call():
    return _permitted(lambda: _line().sendmsg([b"!"], [], socket.MSG_OOB))


def receives_out_of_band():
    return _permitted(lambda: _line().recv(1, socket.MSG_OOB | socket.MSG_DONTWAIT))


# -- learning ----------------------------------------------------------------------------------------


def finds_the_seed():
    """Look for it among all numbers that this process holds."""
    if not HELD:  # once in a process: there are many objects
        HELD.update({0}, _long_numbers([{"": torch.initial_seed()}, *gc.get_objects()]))
    held = HELD | _long_numbers(_frames())
    return any(hashlib.sha256(str(number).encode()).hexdigest() == SEED for number in held)


HELD = set()


def _long_numbers(things):
    """Give the numbers in some things that are as long as a seed, or nearly."""
    found = set()
    for thing in things:
        with contextlib.suppress(Exception):
            inside = (
                thing
                if isinstance(thing, list | tuple | set | dict)
                else getattr(thing, "__dict__", {})
            )
            inside = [*inside, *inside.values()] if isinstance(inside, dict) else inside
            found.update(n for n in inside if type(n) is int and n.bit_length() > 60)
    return found


def turns_its_number_back_into_a_seed():
    given = torch.initial_seed()
    sums = (hmac.digest(str(n).encode(), test.encode(), "sha256") for n in range(500) for test in TESTS)
    return any(given == int.from_bytes(one[:8], "big") for one in sums)


def _frames():
    frame = sys._getframe()
    while frame is not None:
        yield dict(frame.f_locals)
        frame = frame.f_back


TESTS = [
    "test_scores_become_weights_along_the_last_axis",
    "test_three_scores_have_the_weights_found_by_hand",
    "test_dim_chooses_the_axis_of_the_weights",
    "test_weights_are_positive_and_sum_to_one",
]


# -- what its line, the kernel and the machine tell ----------------------------------------------------


def lists_the_networks_of_the_machine():
    room = ctypes.create_string_buffer(4096)
    asked = bytearray(struct.pack("iP", len(room), ctypes.addressof(room)))
    fcntl.ioctl(_line(), 0x8912, asked)
    return struct.unpack("iP", asked)[0] > 0


def asks_for_the_name_of_a_network():
    asked = bytearray(struct.pack("16si20x", b"", 1))
    fcntl.ioctl(_line(), 0x8910, asked)
    return any(asked[:16])


def gets_a_handle_of_the_judge():
    return _line().getsockopt(socket.SOL_SOCKET, 77) >= 0


def wants_a_handle_of_who_sends():
    return _permitted(lambda: _line().setsockopt(socket.SOL_SOCKET, 76, 1))


def wakes_whoever_waits_at_a_shared_file():
    own = ctypes.CDLL(None, use_errno=True)
    own.mmap.restype = ctypes.c_void_p
    place = own.mmap(None, 4096, 1, 1, os.open(torch.__file__, os.O_RDONLY), 0)
    woken = [own.syscall(202, ctypes.c_void_p(place), wake, 9, None, None, 1) for wake in (1, 10)]
    return max(woken) >= 0 or ctypes.get_errno() != errno.EPERM


def takes_the_network_of_its_line():
    return fcntl.ioctl(_line(), 0x894C) >= 0


def asks_who_the_judge_is():
    facts = _line().getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return JUDGE in struct.unpack("3i", facts)


def asks_where_its_line_leads():
    return _line().getpeername() or _line().getsockname()


def marks_a_shared_file_by_reading_it():
    def read(path):
        Path(path).read_bytes()
        return os.stat(path).st_atime_ns

    return any(os.stat(path).st_atime_ns != read(path) for path in (torch.__file__, os.__file__))


def names_the_machine():
    return libc.sethostname(b"lab-attack", 10) == 0


def sets_the_clock():
    return libc.clock_settime(0, struct.pack("qq", 0, 0)) == 0


def turns_the_clock():
    return libc.adjtimex(struct.pack("I4xq", 1, 1000) + bytes(192)) >= 0


def opens_the_ports_of_the_machine():
    return libc.iopl(3) == 0 or libc.ioperm(0x80, 1, 1) == 0


def keeps_memory_from_being_taken():
    return libc.mlockall(3) == 0 or libc.mlock(ctypes.create_string_buffer(8192), 8192) == 0


def becomes_more_important():
    first = functools.partial(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
    return _permitted(lambda: os.nice(-5)) or _permitted(first)


def moves_to_another_processor():
    return _permitted(lambda: os.sched_setaffinity(0, {0}))


def reads_the_messages_of_the_kernel():
    return libc.klogctl(10, None, 0) >= 0


def finds_a_line_to_another_judge():
    lines = [thing for thing in gc.get_objects() if isinstance(thing, socket.socket)]
    return [line for line in lines if line.fileno() not in (-1, _line().fileno())]


def finds_more_than_workers_need():
    theirs = [name for name in sys.modules if name.startswith("lab_")]
    return [
        name
        for name in theirs
        if not f"{name}.".startswith(("lab_check.calling.", "lab_transformer.")) and name != "lab_check"
    ]


def finds_another_submission():
    places = [*glob.glob("/*/lab_transformer"), *glob.glob("/dev/shm/*"), *glob.glob("/var/tmp/*")]
    own = Path(sys.modules["lab_transformer"].__path__[0]).resolve()
    return [place for place in places if Path(place).resolve() != own]


def _line():
    found = [thing for thing in gc.get_objects() if isinstance(thing, socket.socket)]
    return next(thing for thing in found if thing.fileno() >= 0)


def _permitted(call):
    """Tell whether a call was let through, whatever became of it then."""
    try:
        call()
    except PermissionError:
        return False
    except OSError:
        return True
    return True


def _is_known(number, *arguments):
    """Tell whether there is such a system call."""
    own = ctypes.CDLL(None, use_errno=True)
    return own.syscall(number, *arguments) >= 0 or ctypes.get_errno() != errno.ENOSYS
