"""The client of Anthropic's SDK that speaks to Amazon Bedrock and signs its requests."""

import os
from typing import Any

from orbiter.config import ModelConfig
from orbiter.models._internal.clock import Clock
from orbiter.models._internal.sdk import SdkClient
from orbiter.models.types import ModelError

KEY = "AWS_BEARER_TOKEN_BEDROCK"
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_NEXT = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or " + KEY


class BedrockClient(SdkClient):
    """Has an API key of Bedrock's, or AWS credentials from where boto3 finds them."""

    def __init__(self, config: ModelConfig, *, clock: Clock) -> None:
        """Check the settings; nothing is imported or sent.

        Args:
            config: Model, key, address and limits.
            clock: Time and chance.

        Raises:
            ModelError: The address is no URL.
        """
        super().__init__(
            config,
            sdk="anthropic",
            client_class="AsyncAnthropicBedrock",
            key_variables={KEY: "api_key"},
            url_variable="ANTHROPIC_BEDROCK_BASE_URL",
            public_url="https://bedrock-runtime.us-east-1.amazonaws.com",
            clock=clock,
            needs_key=False,
        )
        self._region = next(filter(None, map(os.environ.get, _REGIONS)), None)

    def _load(self) -> None:
        boto3 = self._import("boto3", extra="bedrock")
        errors = self._import("botocore.exceptions", extra="bedrock")
        # the SDK reads them at the first answer
        self._import("botocore.parsers", extra="bedrock")
        self._import("botocore.eventstream", extra="bedrock")
        try:
            session = boto3.Session(region_name=self._region)
            found = self._key or session.get_credentials()
        except errors.BotoCoreError as failure:
            raise self.error(f"bedrock: {failure}; {_NEXT}") from failure
        if not session.region_name:
            raise self.error("no region: set AWS_REGION, or one in the profile")
        if not found:
            raise self.error(f"no credentials of AWS: {_NEXT}")
        self._region = session.region_name
        self._aws: tuple[type[Exception], ...] = (errors.BotoCoreError, errors.ClientError)
        super()._load()

    def _arguments(self) -> dict[str, Any]:
        return {**(self._key or {}), "aws_region": self._region, "base_url": self.base_url}

    def _failures(self) -> tuple[type[Exception], ...]:
        return (*super()._failures(), *self._aws)

    def _translate(self, failure: Any) -> ModelError:
        if isinstance(failure, self._aws):
            return self.error(f"bedrock: the credentials of AWS: {failure}; {_NEXT}")
        return super()._translate(failure)
