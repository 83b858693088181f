"""A folder for a test, and one stack for the tests of a module."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.up import Up

# These tests end processes, never the machine: memory is as good as a disk, and saves a minute.
MEMORY = Path("/dev/shm")


@contextmanager
def fresh_folder() -> Iterator[Path]:
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="hango-e2e-", dir=place) as folder:
        yield Path(folder)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of this test's own."""
    with fresh_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """A stack that is not started yet."""
    with fresh_folder() as folder:
        stack = Up(folder)
        yield stack
        stack.close()
