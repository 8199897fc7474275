"""The supervisor: the only process of ours inside a sandbox.

Standard library only, Python 3.8 or newer, one thread, one epoll loop. It runs as PID 1 of the sandbox, so nothing
inside can kill it; it is not dumpable, so nothing inside can read its memory or its descriptors. It starts commands,
kills whole process trees, and runs file work in forked children that have the agent's rights and limits, never with
more. Its modules:

    wire      frames and values, spoken by both sides
    loop      the epoll loop and its timers
    tree      finding and killing process trees through /proc
    child     what happens between fork and exec
    jobs      one running command or function, and its streams
    unpack    a tar into a folder, following nothing
    pack      folders into a tar, complete or an error
    main      requests in, responses out

`envkit.sandbox.bundle` turns them into the one file that is started inside.
"""
