"""A tool server over stdio that misbehaves on request. Standard library only, so that it starts at once."""

import json
import os
import signal
import sys
import threading
import time

OPTIONS = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
LOG = OPTIONS.get("log")
WRITE = threading.Lock()


def tool(name, properties=None, read_only=False, description="A tool."):
    schema = {"type": "object", "properties": properties or {}}
    found = {"name": name, "description": description, "inputSchema": schema}
    if read_only:
        found["annotations"] = {"readOnlyHint": True}
    return found


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
TOOLS = [
    tool("echo", {"request": {"type": "object", "properties": {"text": TEXT}, "required": ["text"]}}),
    tool("note", {"text": TEXT}),
    tool("peek", {"after_kill": TEXT}, read_only=True),
    tool("pid", read_only=True),
    tool("code_exec", {"code": TEXT}),
    *(tool(name, {"n": NUMBER}) for name in ("sleep", "big", "kill", "exit")),
    *(tool(name) for name in ("mute", "half", "deaf", "garbage", "nonsense", "fail", "image", "empty", "surrogate")),
]


def send(message):
    with WRITE:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def log(line):
    if LOG:
        with open(LOG, "a") as sink:
            sink.write(line + "\n")


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def answer(id, name, arguments):
    log(f"call {name}")
    if name == "echo":
        result = text(arguments["request"]["text"])
    elif name == "note":
        log("noted " + arguments["text"])
        result = text("noted")
    elif name == "peek":
        marker = arguments.get("after_kill")
        if marker and not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        result = text("peeked")
    elif name == "pid":
        result = text(str(os.getpid()))
    elif name == "code_exec":
        result = text("ran " + arguments["code"])
        if arguments["code"].startswith("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
    elif name == "sleep":
        time.sleep(arguments["n"])
        result = text("slept")
    elif name == "big":
        result = text("x" * (int(arguments["n"]) << 20) + "END")
    elif name == "kill":
        os.kill(os.getpid(), int(arguments["n"]))
        time.sleep(5)
    elif name == "exit":
        print("a bug", file=sys.stderr, flush=True)
        os._exit(int(arguments["n"]))
    elif name == "mute":
        return
    elif name == "half":
        sys.stdout.flush()
        os.close(1)
        time.sleep(60)
    elif name == "deaf":
        global deaf
        deaf = True
        return
    elif name == "garbage":
        with WRITE:
            sys.stdout.buffer.write(b"\xff\xfe not json\n{}\n[1,2]\n" + b'{"half": ')
            sys.stdout.buffer.write(b"\n")
            sys.stdout.flush()
        result = text("after the noise")
    elif name == "nonsense":
        with WRITE:
            sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {json.dumps(id)}, "what": 1}}\n')
            sys.stdout.flush()
        return
    elif name == "fail":
        result = text("no such file", isError=True)
    elif name == "image":
        png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        result = {"content": [{"type": "image", "data": png, "mimeType": "image/png"}]}
    elif name == "surrogate":
        with WRITE:
            content = '{"content": [{"type": "text", "text": "half \\ud83d pair"}]}'
            sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {json.dumps(id)}, "result": {content}}}\n')
            sys.stdout.flush()
        return
    else:
        result = {"content": []}
    send({"id": id, "result": result})


deaf = False
if OPTIONS.get("die"):
    print("can't find the data", file=sys.stderr, flush=True)
    sys.exit(3)
if OPTIONS.get("die_when") and os.path.exists(OPTIONS["die_when"]):
    sys.exit(4)
time.sleep(OPTIONS.get("slow", 0))
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if deaf:
        continue
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "odd", "version": "1"}
        send({"id": id, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/list":
        listed = [] if OPTIONS.get("empty") else TOOLS
        if OPTIONS.get("extra"):
            listed = OPTIONS["extra"]
        send({"id": id, "result": {"tools": listed}})
    elif method == "tools/call":
        args = (id, message["params"]["name"], message["params"].get("arguments") or {})
        threading.Thread(target=answer, args=args, daemon=True).start()
    elif method == "notifications/cancelled":
        log(f"cancelled {message['params']['requestId']}")
    elif method == "ping":
        send({"id": id, "result": {}})
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "unknown method"}})
