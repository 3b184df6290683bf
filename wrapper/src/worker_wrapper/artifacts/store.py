"""The store of an installation: objects are put and read, and what goes wrong has a word for it.

The one module that knows the client; it is imported when the first object is put.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from orbiter_contracts.object_store import StoreAddress

if TYPE_CHECKING:
    from obstore.store import S3Store

_CONNECT: Final = timedelta(seconds=5)
_REQUEST: Final = timedelta(seconds=30)
"""For a request, and a part of a large object is one."""
_TRIES_AGAIN: Final = 2
_TRYING: Final = timedelta(seconds=30)
_CHUNK: Final = 5 * 1024 * 1024
"""A part of a large object, the smallest there may be: two of them are in memory."""
_CODE: Final = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_STATUS: Final = re.compile(r"status code: ([0-9]{3})")
_REFUSALS: Final = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"})
_REFUSED: Final = re.compile("UserNotFound|InvalidToken|Expired|Unauthorized|Authorization")
_FULL: Final = re.compile("Quota|StorageFull|InsufficientStorage|NoSpace|SlowDownWrite")


class StoreError(Exception):
    """The store has not done it.

    Attributes:
        reason: Why, in one CamelCase word.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class ObjectStore:
    """A bucket.

    Args:
        address: Where it is.
        access_key_id: Who we are there.
        secret_access_key: What proves it.
    """

    def __init__(self, address: StoreAddress, access_key_id: str, secret_access_key: str) -> None:
        self.address = address
        # Nothing of it from AWS_* variables, which are the agent's.
        self._credentials = {
            "access_key_id": access_key_id,
            "secret_access_key": secret_access_key,
            "token": None,
            "expires_at": None,
        }
        self._client: S3Store | None = None

    async def put(self, key: str, data: bytes | Iterator[bytes]) -> None:
        """Store an object; whole, or not at all.

        Raises:
            StoreError: It could not be stored.
            OSError: Its data could not be read.
        """
        import obstore
        from obstore.exceptions import BaseError

        large = not isinstance(data, bytes)
        try:
            await obstore.put_async(
                *(self._opened(), key, data),
                use_multipart=large,
                chunk_size=_CHUNK,
                max_concurrency=1,
            )
        except (BaseError, FileNotFoundError, ValueError) as error:
            raise self._explained(error) from None

    async def get(self, key: str, limit: int) -> bytes:
        """Read an object.

        Raises:
            StoreError: It cannot be had, or is larger than `limit` bytes.
        """
        import obstore
        from obstore.exceptions import BaseError

        try:
            found = await obstore.get_async(self._opened(), key)
            if found.meta["size"] > limit:
                raise StoreError("TooLarge", f"object {key} is larger than {limit} bytes")
            return bytes(await found.bytes_async())
        except (BaseError, FileNotFoundError, ValueError) as error:
            raise self._explained(error) from None

    def _opened(self) -> "S3Store":
        if self._client is None:
            from obstore.store import S3Store

            self._client = S3Store(
                self.address.bucket,
                endpoint=self.address.endpoint,
                region=self.address.region,
                virtual_hosted_style_request=False,
                credential_provider=self._provide,
                client_options={
                    "allow_http": self.address.insecure,
                    "connect_timeout": _CONNECT,
                    "timeout": _REQUEST,
                },
                retry_config={"max_retries": _TRIES_AGAIN, "retry_timeout": _TRYING},
            )
        return self._client

    def _provide(self) -> Any:
        return self._credentials

    def _explained(self, error: Exception) -> StoreError:
        """What went wrong, in our words: of what the store says, only its code is repeated."""
        said = str(error).partition("Debug source")[0]
        code, status = _CODE.search(said), _STATUS.search(said)
        word = code[1] if code else f"status {status[1]}" if status else ""
        where = f"the store {self.address.shown}"
        if word == "NoSuchBucket":
            return StoreError("BucketMissing", f"{where} has no such bucket: make it")
        if word == "NoSuchKey":
            return StoreError("ObjectMissing", f"{where} has no such object")
        if _FULL.search(word) or word == "status 507":
            return StoreError("StoreFull", f"{where} is full: {word}")
        refused = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
        if word in _REFUSALS or _REFUSED.search(word) or refused:
            hint = "look at the keys of the Secret with its credentials"
            return StoreError("StoreRefused", f"{where} refuses: {word or 'not allowed'}; {hint}")
        why = word or ("it does not answer" if "HTTP error" in said else type(error).__name__)
        return StoreError("StoreUnavailable", f"{where} cannot be used: {why}")
