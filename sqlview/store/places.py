"""Where a store can be: a directory, or a URL of an object store."""

from __future__ import annotations

from operators.state import objects
from operators.state.files import read
from operators.state.objects import is_url
from planner.errors import StoreError


def check_place(path: str) -> None:
    """Raises: StoreError for a URL that no store can be at."""
    if not is_url(path):
        return
    if objects.scheme_of(path) not in objects.SCHEMES or not objects.is_whole(path):
        raise StoreError(
            f'a store cannot be at "{path}"',
            detail="Known are s3://bucket/names and gs://bucket/names, without options behind.",
            hint="Give one of those, or a directory.",
        )
    try:
        objects.check_installed()
    except ImportError as error:
        raise StoreError(
            f'the store "{path}" needs the package obstore',
            hint="Install it: pip install 'sqlview-spark[s3]', on Spark's executors too.",
        ) from error


def check_directory_name(path: str) -> None:
    """Raises: StoreError for a URL, as of an object store."""
    if is_url(path):
        raise StoreError(
            f'this is for stores in directories, and "{path}" is a URL',
            hint="Copy all objects below the URL with the tools of the object store, while no "
            "session writes them.",
        )


def hint_of(error: OSError, other: str) -> str:
    return error.hint if isinstance(error, objects.ObjectError) else other


def check_conditional(url: str) -> None:
    """Raises: StoreError for an object store that puts an object where there is one already though
    it is told not to: two writers would not know of each other."""
    path = f"{url}/store.json"
    if objects.put_new(path, read(path)):
        raise StoreError(
            f'cannot keep a store at "{url}"',
            detail="The object store does not refuse to put an object that is there already, as "
            "If-None-Match tells it to.",
            hint="Give a URL of one that has conditional writes, or a directory.",
        )
