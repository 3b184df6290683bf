"""Between the two lives of a task: the protocol's, and the one the TaskBroker gives it.

Both have the same id. The text of the step at work is the artifact `answer`; the next step begins
it anew, so that in the end it is the answer and nothing else.
"""

import asyncio
import json
from collections import OrderedDict
from typing import Any

from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Message
from a2a.types.a2a_pb2 import TaskState as RemoteState
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError
from orbiter.errors import InputAnswerError
from orbiter.tasks import Task, TaskBroker, TaskState, TransitionError
from orbiter.types import StreamEvent

ANSWER = "answer"
MOST_CONTEXTS = 1000
Heard = asyncio.Queue[StreamEvent | None]


class Executor(AgentExecutor):
    """Runs A2A requests as tasks of a broker."""

    def __init__(self, agent_name: str) -> None:
        """Name the agent; `broker` is set before the first request."""
        self.broker: TaskBroker
        self._agent_name = agent_name
        self._heard: dict[str, Heard] = {}
        # what was said in each context, oldest out first: a new task of a context goes on from it
        self._said: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()

    def hear(self, task_id: str, event: StreamEvent) -> None:
        """Take an event of a running task; the broker's listener."""
        heard = self._heard.get(task_id)
        if heard is not None:
            heard.put_nowait(event)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do what a message asks for, or give an answer to the task that asked for one."""
        task_id, context_id, message = context.task_id, context.context_id, context.message
        if task_id is None or context_id is None or message is None:
            raise InvalidParamsError(message="a message with a task and a context is needed")
        text = _text(message)
        updater = TaskUpdater(event_queue, task_id, context_id)
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        heard: Heard = asyncio.Queue()
        self._heard[task_id] = heard
        ending: asyncio.Task[Task] | None = None
        try:
            if why := await self._begin(task_id, context_id, text):
                await updater.requires_input(_message(updater, why))
                return
            await updater.start_work()
            ending = asyncio.create_task(self.broker.wait(task_id))
            ending.add_done_callback(lambda _: heard.put_nowait(None))
            streamed = await self._tell(heard, updater)
            await self._end(await ending, streamed, updater)
        finally:
            del self._heard[task_id]
            if ending is not None:
                ending.cancel()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancel the task in both its lives."""
        if context.task_id is None or context.context_id is None:
            raise InvalidParamsError(message="a task is needed")
        await self.broker.cancel(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    async def _begin(self, task_id: str, context_id: str, text: str) -> str | None:
        """Hand the text to the task; return what to ask again where it is no answer."""
        known = await self.broker.poll(task_id)
        if known is None:
            metadata = {
                "config_name": self._agent_name,
                "context_id": context_id,
                "messages": self._said.get(context_id, []),
            }
            await self.broker.store.create(Task(id=task_id, input=text, metadata=metadata))
            return None
        try:
            await self.broker.answer(task_id, text)
        except InputAnswerError as error:
            # an error would end the task for its client, and it waits for a better answer
            return f"{error}\n{_question(known)}"
        except TransitionError as error:
            raise InvalidParamsError(message=str(error)) from error
        return None

    async def _tell(self, heard: Heard, updater: TaskUpdater) -> str:
        """Pass on what happens until the task rests, and return the last step's text."""
        streamed = ""
        while (event := await heard.get()) is not None:
            match event.type:
                case "step":
                    streamed = ""
                case "text":
                    await updater.add_artifact(
                        [new_text_part(event.text)], ANSWER, "answer", append=bool(streamed)
                    )
                    streamed += event.text
                case "tool_call":
                    await updater.update_status(
                        RemoteState.TASK_STATE_WORKING, metadata={"tool": event.tool_name}
                    )
        return streamed

    async def _end(self, task: Task, streamed: str, updater: TaskUpdater) -> None:
        match task.state:
            case TaskState.COMPLETED:
                result = task.result or ""
                if result != streamed:
                    part = new_text_part(result)
                    await updater.add_artifact([part], ANSWER, "answer", last_chunk=True)
                self._remember(task, result)
                await updater.complete()
            case TaskState.INPUT_REQUIRED:
                await updater.requires_input(_message(updater, _question(task)))
            case TaskState.CANCELLED:
                await updater.cancel()
            case _:
                await updater.failed(_message(updater, task.error or "no reason given"))

    def _remember(self, task: Task, result: str) -> None:
        key = task.metadata["context_id"]
        said = self._said.pop(key, [])
        self._said[key] = [
            *said,
            {"role": "user", "content": task.input},
            {"role": "assistant", "content": result},
        ]
        while len(self._said) > MOST_CONTEXTS:
            self._said.popitem(last=False)


def _question(task: Task) -> str:
    """Return what is asked; of an approval with the form of an answer that names it."""
    asked, request = task.question or "", task.input_request
    if request is None or request.kind == "question":
        return asked
    form = json.dumps({"id": request.id, "decision": "approve"})
    return f"{asked}\nOr as JSON, which every request of a task but its first wants: {form}"


def _text(message: Message) -> str:
    texts = [part.text for part in message.parts if part.WhichOneof("content") == "text"]
    text = "\n".join(texts)
    if len(texts) != len(message.parts) or not text:
        raise ContentTypeNotSupportedError(message="this agent takes messages of text only")
    return text


def _message(updater: TaskUpdater, text: str) -> Message:
    return updater.new_agent_message([new_text_part(text)])
