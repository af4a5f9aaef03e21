"""Runs a program as another user, in a user namespace where that user is root and its subordinate ids are 1, 2, and so
on.

  python subordinate_ids.py USER FIRST COUNT PROGRAM ARGUMENT...

Does as root the work of `unshare --map-root-user --map-auto` for a user with FIRST and COUNT in /etc/subuid and
/etc/subgid.
"""

import ctypes
import os
import sys

CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4


def main():
    user, first, count = map(int, sys.argv[1:4])
    own = os.getpid()
    ready, tell_ready = os.pipe()
    mapper = os.fork()
    if mapper == 0:
        os.close(tell_ready)
        if os.read(ready, 1):
            for name in ("uid_map", "gid_map"):
                with open(f"/proc/{own}/{name}", "w") as file:
                    file.write(f"0 {user} 1\n1 {first} {count}\n")
        os._exit(0)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    libc = ctypes.CDLL(None, use_errno=True)
    # The change of user cleared it, and another process could not open the maps.
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    if libc.unshare(CLONE_NEWUSER) != 0:
        sys.exit(f"a user namespace: {os.strerror(ctypes.get_errno())}")
    os.write(tell_ready, b"x")
    os.waitpid(mapper, 0)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    os.execv(sys.argv[4], sys.argv[4:])


if __name__ == "__main__":
    main()
