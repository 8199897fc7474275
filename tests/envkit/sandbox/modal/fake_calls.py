"""The calls of the fake control plane and of its command router, as `fake_modal` serves them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import time
import uuid
from typing import TYPE_CHECKING, Any

from grpclib import GRPCError, Status
from modal_proto import api_pb2
from modal_proto import task_command_router_pb2 as sr

if TYPE_CHECKING:
    from envkit_tests.fake_modal import Box, Exec, FakeModal

__all__ = ["ControlPlane", "Router"]

Result = api_pb2.GenericResult
_HOLD_S = 10.0


def _jwt() -> str:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none'})}.{part({'exp': time.time() + 3600})}.x"


def _missing(what: str) -> GRPCError:
    return GRPCError(Status.NOT_FOUND, f"{what} not found")


class ControlPlane:
    def __init__(self, fake: FakeModal) -> None:
        self.fake = fake

    async def ClientHello(self, request: Any) -> Any:
        return api_pb2.ClientHelloResponse()

    async def AuthTokenGet(self, request: Any) -> Any:
        return api_pb2.AuthTokenGetResponse(token=_jwt())

    async def EnvironmentGetOrCreate(self, request: Any) -> Any:
        settings = api_pb2.EnvironmentSettings(image_builder_version="2025.06")
        return api_pb2.EnvironmentGetOrCreateResponse(
            environment_id="en-1", metadata=api_pb2.EnvironmentMetadata(name="main", settings=settings)
        )

    async def AppGetOrCreate(self, request: Any) -> Any:
        known = self.fake.apps.get(request.app_name)
        if known is None:
            if request.object_creation_type != api_pb2.OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
                raise _missing(f"app {request.app_name}")
            known = self.fake.apps[request.app_name] = f"ap-{uuid.uuid4().hex[:22]}"
        return api_pb2.AppGetOrCreateResponse(app_id=known)

    # -- images

    async def SecretGetOrCreate(self, request: Any) -> Any:
        identity = f"st-{request.deployment_name or uuid.uuid4().hex[:22]}"
        if request.deployment_name and not request.env_dict and identity not in self.fake.secrets:
            raise _missing(f"secret {request.deployment_name}")
        self.fake.secrets.setdefault(identity, dict(request.env_dict))
        return api_pb2.SecretGetOrCreateResponse(secret_id=identity, metadata=self._metadata(identity))

    def _metadata(self, identity: str) -> Any:
        return api_pb2.SecretMetadata(name=identity, keys=sorted(self.fake.secrets[identity]))

    async def SecretGetInfo(self, request: Any) -> Any:
        return api_pb2.SecretGetInfoResponse(metadata=self._metadata(request.secret_id))

    async def MountBatchedCheckExistence(self, request: Any) -> Any:
        missing = [name for name in request.sha256_hex_hashes if name not in self.fake.files]
        return api_pb2.MountBatchedCheckExistenceResponse(missing_sha256_hex_hashes=missing)

    async def MountPutFile(self, request: Any) -> Any:
        if request.data and hashlib.sha256(request.data).hexdigest() != request.sha256_hex:
            raise GRPCError(Status.INVALID_ARGUMENT, "hash mismatch")
        if request.data or request.sha256_hex == hashlib.sha256(b"").hexdigest():
            self.fake.files[request.sha256_hex] = request.data
        return api_pb2.MountPutFileResponse(exists=request.sha256_hex in self.fake.files)

    async def MountGetOrCreate(self, request: Any) -> Any:
        identity = f"mo-{uuid.uuid4().hex[:22]}"
        self.fake.mounts[identity] = list(request.files)
        return api_pb2.MountGetOrCreateResponse(mount_id=identity)

    async def ImageGetOrCreate(self, request: Any) -> Any:
        digest = hashlib.sha256(request.image.SerializeToString(deterministic=True)).hexdigest()
        identity = f"im-{digest[:22]}"
        self.fake.images[identity] = request.image
        return api_pb2.ImageGetOrCreateResponse(image_id=identity)

    async def ImageJoinStreaming(self, request: Any, stream: Any) -> None:
        result = Result(status=Result.GENERIC_STATUS_SUCCESS)
        if self.fake.build_error is not None:
            result = Result(status=Result.GENERIC_STATUS_FAILURE, exception=self.fake.build_error)
        await stream.send_message(api_pb2.ImageJoinStreamingResponse(result=result, entry_id="1", eof=True))

    async def ImageFromId(self, request: Any) -> Any:
        if request.image_id not in self.fake.images:
            raise _missing(f"image {request.image_id}")
        return api_pb2.ImageFromIdResponse(image_id=request.image_id)

    # -- sandboxes

    async def SandboxCreateV2(self, request: Any) -> Any:
        fake = self.fake
        if request.definition.image_id not in fake.images:
            raise _missing(f"image {request.definition.image_id}")
        name = request.definition.name
        if name and any(box.definition.name == name and box.result is None for box in fake.boxes.values()):
            raise GRPCError(Status.ALREADY_EXISTS, f"sandbox {name} exists")
        tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        number = uuid.uuid4().hex
        box = fake.new_box(f"sb-{number}-v2", f"ta-{number}V", request, tags)
        try:
            await fake.start(box)
        except BaseException:
            box.result = Result(status=Result.GENERIC_STATUS_INIT_FAILURE)
            raise
        return api_pb2.SandboxCreateV2Response(sandbox_id=box.id, task_id=box.task_id)

    def _box(self, identity: str) -> Box:
        box = self.fake.boxes.get(identity)
        if box is None:
            raise _missing(f"sandbox {identity}")
        return box

    async def SandboxGetTaskIdV2(self, request: Any) -> Any:
        return api_pb2.SandboxGetTaskIdResponse(task_id=self._box(request.sandbox_id).task_id)

    async def SandboxGetCommandRouterAccess(self, request: Any) -> Any:
        box = self._box(request.sandbox_id)
        if box.result is not None:
            raise GRPCError(Status.FAILED_PRECONDITION, "the sandbox has ended")
        return api_pb2.SandboxGetCommandRouterAccessResponse(jwt=_jwt(), url=self.fake.url)

    async def SandboxWaitV2(self, request: Any) -> Any:
        box = self._box(request.sandbox_id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(box.ended.wait(), min(request.timeout, _HOLD_S) or 0.001)
        return api_pb2.SandboxWaitResponse(result=box.result)

    async def SandboxTerminateV2(self, request: Any) -> Any:
        await self.fake._end(self._box(request.sandbox_id), Result.GENERIC_STATUS_TERMINATED)
        return api_pb2.SandboxTerminateResponse()

    async def SandboxTagsGetV2(self, request: Any) -> Any:
        tags = self._box(request.sandbox_id).tags
        return api_pb2.SandboxTagsGetResponse(
            tags=[api_pb2.SandboxTag(tag_name=key, tag_value=value) for key, value in tags.items()]
        )

    async def SandboxListV2(self, request: Any) -> Any:
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        found = [
            box
            for box in sorted(self.fake.boxes.values(), key=lambda box: -box.created_s)
            if box.result is None
            and box.request.app_id == request.app_id
            and all(box.tags.get(key) == value for key, value in wanted.items())
            and (not request.before_timestamp or box.created_s < request.before_timestamp)
        ]
        return api_pb2.SandboxListResponse(
            sandboxes=[api_pb2.SandboxInfo(id=box.id, created_at=box.created_s) for box in found[:3]]
        )

    async def SandboxGetFromNameV2(self, request: Any) -> Any:
        for box in self.fake.boxes.values():
            if box.definition.name == request.sandbox_name and box.result is None:
                return api_pb2.SandboxGetFromNameResponse(sandbox_id=box.id)
        raise _missing(f"sandbox {request.sandbox_name}")


class Router:
    """What runs beside the sandboxes: their processes."""

    def __init__(self, fake: FakeModal) -> None:
        self.fake = fake

    def _box(self, task_id: str) -> Box:
        for box in self.fake.boxes.values():
            if box.task_id == task_id:
                if box.result is not None:
                    raise _missing(f"task {task_id}")
                return box
        raise _missing(f"task {task_id}")

    def _exec(self, request: Any) -> tuple[Box, Exec]:
        box = self._box(request.task_id)
        if request.exec_id not in box.execs:
            raise _missing(f"exec {request.exec_id}")
        return box, box.execs[request.exec_id]

    async def TaskExecStart(self, request: Any) -> Any:
        box = self._box(request.task_id)
        if request.exec_id not in box.execs:  # the same request again, after a lost answer, starts nothing
            await self.fake.exec(box, request)
        return sr.TaskExecStartResponse()

    async def TaskExecStdinWrite(self, request: Any) -> Any:
        box, run = self._exec(request)
        while box.mute:
            await asyncio.sleep(0.1)
        data = request.data[max(0, run.taken - request.offset) :]
        stdin = run.process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):
            run.taken += len(data)
            stdin.write(data)
            if request.eof:
                stdin.close()
            else:
                await stdin.drain()
        return sr.TaskExecStdinWriteResponse()

    async def TaskExecStdioRead(self, request: Any, stream: Any) -> None:
        box, run = self._exec(request)
        kept = run.out if request.file_descriptor == sr.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT else run.err
        at = request.offset
        while True:
            async with run.changed:
                while (at >= len(kept) and run.code is None and box.result is None) or box.mute:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(run.changed.wait(), 0.5)
            if at < len(kept):
                data = bytes(kept[at : at + (1 << 18)])
                at += len(data)
                await stream.send_message(sr.TaskExecStdioReadResponse(data=data))
                if box.cuts > 0 and kept is run.out:
                    box.cuts -= 1
                    raise GRPCError(Status.UNAVAILABLE, "the connection broke")
            elif run.code is not None:
                return
            elif box.result is not None:
                raise _missing(f"task {request.task_id}")

    async def _ended(self, request: Any, hold_s: float) -> dict[str, int]:
        _, run = self._exec(request)
        async with run.changed:
            if run.code is None and hold_s:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(run.changed.wait_for(lambda: run.code is not None), hold_s)
        if run.code is None:
            return {}
        return {"code": run.code} if run.code >= 0 else {"signal": -run.code}

    async def TaskExecWait(self, request: Any) -> Any:
        found = await self._ended(request, 50.0)
        if not found:
            raise GRPCError(Status.DEADLINE_EXCEEDED, "still running")
        return sr.TaskExecWaitResponse(**found)

    async def TaskExecPoll(self, request: Any) -> Any:
        return sr.TaskExecPollResponse(**(await self._ended(request, 0.0)))
