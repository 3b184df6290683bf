"""Whether a trainer takes what it was given."""

from orbiter.train.dataset import DatasetFile, Format
from orbiter.train.trajectory import TrainingError


def check_files(data: object, validation: object, format: Format, taker: str) -> None:
    """Refuse what a trainer does not take.

    Raises:
        TrainingError: It is no DatasetFile, of another format, or the two are of two kinds.
    """
    kinds = set()
    for file in (data,) if validation is None else (data, validation):
        if not isinstance(file, DatasetFile):
            raise TrainingError(
                f"{file!r:.80} is no DatasetFile: give what write_sft(...) or "
                "write_preferences(...) returned"
            )
        kinds.add(file.kind)
        if file.format != format or len(kinds) > 1:
            raise TrainingError(
                f"{file.path} has {file.kind} examples for {file.format}: {taker} takes "
                f'format="{format}", and both files have to be of one kind'
            )
