"""`orbiter task run` without its worker: attempts end as they are told to, and no time passes."""

from orbiter.cli.task.run import LocalStatus, run_task
from orbiter_contracts.retry import RetryPolicy


class Run:
    """A task whose attempts end as they are told to."""

    def __init__(self, *outputs, answers=(), limit=0, retry=None):
        self.outputs, self.answers = list(outputs), list(answers)
        self.retry = retry or RetryPolicy(limit=limit)
        self.prompts, self.pauses, self.shown, self.answered = [], [], [], []
        self.status = LocalStatus()

    async def attempt(self, number, prompt, answered):
        self.prompts.append(prompt)
        self.answered.append(tuple(answered))
        return self.outputs.pop(0)

    async def ask(self, question):
        return self.answers.pop(0) if self.answers else None

    async def pause(self, seconds):
        self.pauses.append(seconds)

    async def go(self):
        await run_task(
            self,
            "do it",
            self.retry,
            self.ask,
            lambda status: self.shown.append(status.phase),
            self.status,
            sleep=self.pause,
        )
        return self.status
