"""The memory of a server's process."""


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def assert_memory_settles(pid, ask_all, grown_kib=2048, rounds=8):
    """Repeats a round of requests until one makes the process grow by less than `grown_kib`.

    The allocator's arenas of several threads fill up slowly, up to a limit. A leak makes every round grow.
    """
    growth = []
    for _ in range(rounds):
        before = resident_kib(pid)
        ask_all()
        growth.append(resident_kib(pid) - before)
        if growth[-1] < grown_kib:
            return
    raise AssertionError(f"the process grew in each round of requests, by {growth} KiB")
