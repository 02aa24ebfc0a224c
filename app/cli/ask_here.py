"""A question asked in this process, on the configured or the embedded database, without a server."""

import asyncio
import json
from collections.abc import AsyncGenerator

from pydantic import ValidationError
from sqlalchemy import URL

from app.api import chat, principal
from app.api.chat import ChatConfig, ChatRequest
from app.cli.ask_frames import Lost, Question, Shown
from app.errors import AppError, StartError
from app.live.frames import sent
from app.live.log import LogUnavailable, Position
from app.main import Application, create_app
from app.parts import unconfigured
from app.settings import Settings

_WAIT_S = 60.0


class Here:
    """The application of this process for one turn, without what serves or works in the background.

    Implements Conduit. A turn that is left before its end is stopped: nobody else would go on with it.
    """

    def __init__(self, settings: Settings, database_url: URL, question: Question) -> None:
        self._app: Application = create_app(settings, database_url)
        self._question = question
        self._turn_id = ""
        self._known = asyncio.Event()

    async def frames(self) -> AsyncGenerator[Shown, None]:
        app = self._app
        try:
            async with app.live.running(), app.supervisor.active(drain_s=0):
                turn_id = self._turn_id = await self._start()
                self._known.set()
                reader = await app.live.attach(turn_id, Position(turn_id, 0), running=True)
                try:
                    while reader is not None and (data := await reader.read(_WAIT_S)) is not None:
                        for frame in sent(data):
                            yield Shown(frame.id.decode(), frame.event.decode(), json.loads(frame.data))
                finally:
                    if reader is not None:
                        reader.close()
                    app.supervisor.stop_here(turn_id)
                    await app.supervisor.wait_for(turn_id)
            if reader is None or not reader.finished:
                raise Lost("The turn was given up without an end.")
        except LogUnavailable as error:
            raise StartError(error.message) from error
        finally:
            await app.aclose()

    async def stop(self) -> None:
        await self._known.wait()
        self._app.supervisor.stop_here(self._turn_id)

    async def _start(self) -> str:
        """Have the turn begin; its id. Raises StartError where it is refused."""
        settings = self._app.settings
        config = ChatConfig(self._app.replica, settings.heartbeat_s, settings.message_max_chars, unconfigured(settings))
        try:
            body = ChatRequest.model_validate(self._question.body())
            chat.check(body, config)
            # the caller is whoever started the process, with the rights that the server gives on this machine
            new = chat.new_turn(body, principal.LOCAL, config)
            return (await self._app.supervisor.start(new, retry=False)).turn_id
        except ValidationError as error:
            fault = error.errors()[0]
            raise StartError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error
        except AppError as refusal:
            raise StartError(refusal.message) from refusal
