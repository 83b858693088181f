"""The operator's file of model endpoints."""

from pathlib import Path

import pytest
from hango_runner.models.endpoints import Endpoint, EndpointFileInvalid, Protocol, load


def written(folder: Path, text: str) -> Path:
    path = folder / "models.toml"
    path.write_text(text)
    return path


def test_without_a_file_there_are_the_two_providers() -> None:
    found = load(None)
    assert {e.name: (e.protocol, e.key) for e in found.values()} == {
        "openai": (Protocol.OPENAI, "OPENAI_API_KEY"),
        "anthropic": (Protocol.ANTHROPIC, "ANTHROPIC_API_KEY"),
    }


def test_a_section_adds_one_or_takes_the_place_of_one(tmp_path: Path) -> None:
    text = """
        [openai]
        base_url = "https://proxy.example/v1"
        key = "PROXY_KEY"
        [local]
        protocol = "anthropic"
        base_url = "http://127.0.0.1:8000"
        models = ["small"]
        timeout = "90s"
        max_output_tokens = 4096
    """
    found = load(written(tmp_path, text))
    assert set(found) == {"openai", "anthropic", "local"}
    assert (found["openai"].base_url, found["openai"].key) == (
        "https://proxy.example/v1",
        "PROXY_KEY",
    )
    assert found["local"] == Endpoint(
        "local", Protocol.ANTHROPIC, "http://127.0.0.1:8000", "", ("small",), 90.0, 4096
    )


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    text = """
        x = 1
        [scripted]
        base_url = "http://h"
        [a]
        protocol = "telepathy"
        base_url = "ftp://h"
        key = "sk-the-key-itself"
        models = "m"
        timeout = 5
        max_output_tokens = true
        api_key = "x"
    """
    with pytest.raises(EndpointFileInvalid) as caught:
        load(written(tmp_path, text))
    assert [fault.partition(":")[0] for fault in caught.value.faults] == [
        "[x] must be a section",
        "[scripted] the name must be 1 to 32 of a-z, 0-9, _ and -, and not scripted",
        "[a] api_key",
        "[a] protocol",
        "[a] base_url",
        "[a] key",
        "[a] models",
        "[a] max_output_tokens",
        "[a] timeout",
    ]
    assert "sk-the-key-itself" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EndpointFileInvalid, match="cannot be read"):
        load(tmp_path / "nowhere.toml")
