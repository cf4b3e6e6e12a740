"""The steps that take everything away from a process before it runs a stranger's code.

Plain system calls, by ctypes. Every step that fails raises a ConfinementError that names it: nobody
goes on with less.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
from pathlib import Path

NOBODY = 65534

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_PID, _NEW_NET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
_CLONE_THREAD = 0x00010000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _RECURSIVE, _UNSHARED = 1, 2, 4, 8, 0x4000, 1 << 18
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
_MADV_COLLAPSE = 25
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

_libc = ctypes.CDLL(None, use_errno=True)


class ConfinementError(Exception):
    """A step of the confinement that could not be taken."""


def _must(step: str, result: int) -> int:
    if result < 0:
        raise ConfinementError(f"{step}: {os.strerror(ctypes.get_errno())}")
    return result


def become_nobody() -> None:
    """Stop being root, for good."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        # Its own files below /proc still belong to root, until it says that it has nothing to hide.
        _must("becoming nobody", _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0))


def enter_namespaces() -> None:
    """Enter a user namespace, and let the next child be the first process of one for processes."""
    _unshare(_NEW_USER | _NEW_PID)


def leave_namespaces() -> None:
    """Leave all namespaces but that of processes, which a process cannot leave, for new ones."""
    _unshare(_NEW_USER | _NEW_MOUNTS | _NEW_NET | _NEW_IPC | _NEW_UTS)


def _unshare(flags: int) -> None:
    uid, gid = os.getuid(), os.getgid()
    _must("new namespaces", _libc.unshare(flags))
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    except OSError as error:
        raise ConfinementError(f"mapping of users: {error.strerror}") from error


def use_large_pages() -> None:
    """Gather this process's memory in large pages where the kernel can: forks have less to copy."""
    size = 2 * 2**20
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, access, _, _, file, *_ = line.split()
        if access == "rw-p" and file == "0":
            start, end = (int(number, 16) for number in place.split("-"))
            start, end = -(-start // size) * size, end // size * size
            if start < end:
                _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_COLLAPSE)


def fork_apart() -> int:
    """Fork a child that is the first process of a namespace of its own."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _must("new namespace for processes", _libc.unshare(_NEW_PID))
        child = os.fork()
        if child:
            _must("back to the own namespace", _libc.setns(own, _NEW_PID))
        return child
    finally:
        os.close(own)


def mount_private(folders: tuple[str, ...]) -> None:
    """Put an empty file system of its own on every folder, and nothing at all on /proc."""
    _must("private mounts", _libc.mount(b"none", b"/", None, _RECURSIVE | _UNSHARED, None))
    flags = _NOSUID | _NODEV | _NOEXEC
    sizes = dict.fromkeys(folders, (flags, b"size=64m,nr_inodes=4096,mode=700"))
    for folder, (how, size) in (sizes | {"/proc": (flags | _RDONLY, b"size=4k,mode=555")}).items():
        _must(f"mounting {folder}", _libc.mount(b"tmpfs", folder.encode(), b"tmpfs", how, size))


def restrict_files(readable: list[str], writable: str) -> None:
    """Let this process read some files and folders, write in one, and reach no others (Landlock)."""
    version = _libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    if version < 3:
        raise ConfinementError("Landlock: needs Linux 6.2 or newer, with Landlock switched on")
    everything = (1 << 15) - 1
    read_file, read_folder = 1 << 2, 1 << 3
    rules = struct.pack("<Q", everything)
    ruleset = _must("Landlock", _libc.syscall(_LANDLOCK_CREATE, rules, ctypes.c_size_t(8), 0))
    allowed = {path: read_file | (read_folder if Path(path).is_dir() else 0) for path in readable}
    # In its own folder everything but running programs and making devices, sockets, pipes and links.
    no = 1 | 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12
    for path, access in (allowed | {writable: everything & ~no}).items():
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("<Qi", access, folder)
        _must("Landlock", _libc.syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0))
        os.close(folder)
    _must("no new privileges", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _must("Landlock", _libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0))
    os.close(ruleset)


def drop_privileges() -> None:
    """Give up all capabilities, for good, and hide from others of the same user."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # past the last one that this kernel knows, or there never were any
    _must("dropping capabilities", _libc.capset(struct.pack("<Ii", 0x20080522, 0), bytes(24)))
    _must("no new privileges", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _must("hiding from debuggers", _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))


def mapped() -> int:
    """Tell how much address space this process has: gigabytes, where PyTorch is built for CUDA."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def limit(memory: int, files: int = 64) -> None:
    """Bound what a worker can use up; how long it may take is measured from outside."""
    for name, bound in {
        "RLIMIT_AS": memory,
        "RLIMIT_FSIZE": 16 * 2**20,
        "RLIMIT_NOFILE": files,
        "RLIMIT_NPROC": 64,  # threads: a filter refuses processes
        "RLIMIT_CPU": 3600,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
    }.items():
        try:
            resource.setrlimit(getattr(resource, name), (bound, bound))
        except (OSError, ValueError) as error:
            raise ConfinementError(f"{name}: {error}") from error


# The numbers of the system calls that are refused, on x86_64 and on aarch64.
_REFUSED = {
    # other processes and programs
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272),
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
    # talking to anybody but the judge
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242), "mq_open": (240, 180),
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "memfd_create": (319, 279),
    # other file systems, and what Landlock does not watch
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsmount": (432, 432), "open_tree": (428, 428),
    "mount_setattr": (442, 442), "mknod": (133, None), "mknodat": (259, 33),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "fsconfig": (431, 431), "fspick": (433, 433),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "inotify_init": (253, None), "inotify_init1": (294, 26), "fanotify_init": (300, 262),
    # signs on files that several can read: locks, and what of them is in memory
    "flock": (73, 32), "mincore": (27, 232), "fadvise64": (221, 223), "readahead": (187, 213),
    # being somebody or somewhere else
    "unshare": (272, 97), "setns": (308, 268), "setuid": (105, 146), "setgid": (106, 144),
    "setgroups": (116, 159), "personality": (135, 92),
    # parts of the kernel that no submission needs
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_setup": (206, 0),  # a machine has so many for all
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "seccomp": (317, 277),
    "kexec_load": (246, 104), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "acct": (163, 89),
    "syslog": (103, 116), "memfd_secret": (447, 447),
}  # fmt: skip
# What says that it is this machine, and the numbers of clone, clone3, kill, tgkill and prlimit64.
_MACHINES = {
    "x86_64": (0xC000003E, 0, (56, 435, 62, 234, 302)),
    "aarch64": (0xC00000B7, 1, (220, 435, 129, 131, 261)),
}
# From this one on (cachestat, statmount, listmount and all that are yet to come) calls are unknown.
_NEWER = 451
# Calls that send or receive, and which of their arguments are flags: none may be out of band.
_FLAGGED = {
    "sendto": (44, 206, 3), "recvfrom": (45, 207, 3), "sendmsg": (46, 211, 2), "recvmsg": (47, 212, 2),
    "sendmmsg": (307, 269, 3), "recvmmsg": (299, 243, 3),
}  # fmt: skip
_MSG_OOB = 1
# What of ioctl is refused: all that is asked of sockets, and so of the network in which they were made;
# for the line to the judge, that is the machine's.
_IOCTL, _OF_SOCKETS = (16, 29), range(0x8900, 0x8A00)
# What of options of sockets: handles of whoever is at the other end.
_OPTIONS = {"getsockopt": (55, 209, 77), "setsockopt": (54, 208, 76)}
# What of futex: to wake others than this process's own threads. Whoever waits at a place in a file that
# all have would hear it; to wait there tells nobody anything.
_FUTEX, _PRIVATE, _WAITS = (202, 98), 128, (0, 9, 256, 265)
# What of fcntl is refused: locks and leases, notices, and signals to others.
_FCNTL = (72, 25)
_COMMANDS = (5, 6, 7, 8, 10, 15, 36, 37, 38, 1024, 1025, 1026)
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_NOTHING, _EPERM, _ENOSYS = 0x00050000, 0x00050000 | 1, 0x00050000 | 38
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16


def refuse_system_calls(but: tuple[str, ...] = (), ignored: tuple[str, ...] = ()) -> None:
    """Refuse to start processes, to open sockets, to mount, to signal others or look into them.

    Calls that are ignored do nothing and say that all went well: libraries may insist on them.
    """
    try:
        machine, column, (clone, clone3, kill, tgkill, prlimit) = _MACHINES[platform.machine()]
    except KeyError:
        raise ConfinementError(f"no filter of system calls for {platform.machine()}") from None

    def only_if(number: int, test: int, value: int) -> list[tuple[int, int, int, int]]:
        """Allow a call if its first argument passes a test."""
        return [
            (_IF_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, _ARGUMENT),
            (test, 0, 1, value),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _EPERM),
        ]

    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        # The calls of x32 have numbers of their own.
        (_IF_AT_LEAST, 0, 1, 0x40000000),
        (_RETURN, 0, 0, _EPERM),
        # A filter cannot see the flags of clone3; glibc falls back to clone.
        (_IF_EQUAL, 0, 1, clone3),
        (_RETURN, 0, 0, _ENOSYS),
        *only_if(clone, _IF_SET, _CLONE_THREAD),
        *only_if(kill, _IF_EQUAL, os.getpid()),
        *only_if(tgkill, _IF_EQUAL, os.getpid()),
        *only_if(prlimit, _IF_EQUAL, 0),
        (_IF_AT_LEAST, 0, 1, _NEWER),
        (_RETURN, 0, 0, _ENOSYS),
        (_IF_EQUAL, 0, len(_COMMANDS) + 3, _FCNTL[column]),
        (_LOAD, 0, 0, _ARGUMENT + 8),
        *((_IF_EQUAL, len(_COMMANDS) - i, 0, command) for i, command in enumerate(_COMMANDS)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    for *own, place in _FLAGGED.values():
        program += [
            (_IF_EQUAL, 0, 4, own[column]),
            (_LOAD, 0, 0, _ARGUMENT + 8 * place),
            (_IF_SET, 0, 1, _MSG_OOB),
            (_RETURN, 0, 0, _EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    second = _ARGUMENT + 8
    program += [
        (_IF_EQUAL, 0, 5, _IOCTL[column]),
        (_LOAD, 0, 0, second),
        (_IF_AT_LEAST, 0, 2, _OF_SOCKETS.start),
        (_IF_AT_LEAST, 1, 0, _OF_SOCKETS.stop),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
        (_IF_EQUAL, 0, len(_WAITS) + 4, _FUTEX[column]),
        (_LOAD, 0, 0, second),
        (_IF_SET, len(_WAITS) + 1, 0, _PRIVATE),
        *((_IF_EQUAL, len(_WAITS) - i, 0, wait) for i, wait in enumerate(_WAITS)),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    for *own, option in _OPTIONS.values():
        program += [
            (_IF_EQUAL, 0, 4, own[column]),
            (_LOAD, 0, 0, _ARGUMENT + 16),
            (_IF_EQUAL, 0, 1, option),
            (_RETURN, 0, 0, _EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    for name, numbers in _REFUSED.items():
        if name not in but and (number := numbers[column]) is not None:
            answer = _NOTHING if name in ignored else _EPERM
            program += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, answer)]
    program.append((_RETURN, 0, 0, _ALLOW))
    code = b"".join(struct.pack("<HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    _must("filter of system calls", _libc.prctl(_PR_SET_SECCOMP, 2, header, 0, 0))
