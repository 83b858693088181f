"""What the guides show works as it stands there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hango_cli.main import app
from hango_policy.when import evaluate, parse_when
from hango_runner.models import endpoints
from typer.main import get_command

from tests.support.stack import running_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.stack import Stack

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs/guides"
DEVELOPERS = (GUIDES / "developers.md").read_text()
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
FILES = dict(FILE.findall(DEVELOPERS))
COMMANDS = re.compile(r"^(?:hango|  hango|.*exec \w+ hango) ([^#|\n]+)", re.MULTILINE)
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the developers' guide."""
    made = tmp_path_factory.mktemp("guide")
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


@pytest.fixture(scope="module")
async def stack(
    postgres_server: PostgresServer, nats_server: NatsServer, folder: Path
) -> AsyncIterator[Stack]:
    async with running_stack(
        postgres_server, nats_server, tool_servers=folder / "tools.toml"
    ) as running:
        await running.start_gateway()
        yield running


def test_the_files_are_found() -> None:
    assert set(FILES) == {"till.py", "tools.toml", "clerk.yaml", "pay.py"}
    assert len(FILES["till.py"].splitlines()) <= 32


async def test_the_developers_guide_runs(stack: Stack, folder: Path) -> None:
    """Its server, its agent and its program: a payment that waits, is approved, and is made."""
    admin = stack.users["admin"]

    async def listed() -> bool:
        return "till__pay" in await admin.tools()

    await eventually(listed, what="the till lists its tools")
    tools = await admin.tools()
    assert (tools["till__pay"].effect, tools["till__paid"].effect) == ("keyed", "read")
    saved = await admin.save_agent(yaml.safe_load(FILES["clerk.yaml"]))
    assert not saved.warnings
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        folder / "pay.py",
        env={**os.environ, "HANGO_URL": stack.http, "HANGO_API_KEY": admin.key},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, _ = await program.communicate()
    waits, ended = out.decode().splitlines()
    assert waits.startswith("waits: till__pay {")
    assert ended == "succeeded Paid."
    (entry,) = map(json.loads, (folder / "paid.jsonl").read_text().splitlines())
    assert (entry["to"], entry["amount"]) == ("ACME", 250)
    assert entry["key"]


def test_the_clauses_are_clauses() -> None:
    (text,) = re.findall(r"<!-- clauses -->\n```yaml\n(.*?)```", DEVELOPERS, re.DOTALL)
    clauses = yaml.safe_load(text)
    assert len(clauses) == 8
    for clause in clauses:
        parse_when(clause)


@pytest.mark.parametrize(
    ("to", "amount", "waits"),
    [("ACME", 250, True), ("ACME", 50, False), ("somebody", 50, True), ("ACME", "250", None)],
)
def test_the_clerks_rule_says_what_the_text_says(
    to: str, amount: int | str, waits: bool | None
) -> None:
    clause = yaml.safe_load(FILES["clerk.yaml"])["interrupt_on"]["till__pay"]["when"]
    assert evaluate(parse_when(clause), {"to": to, "amount": amount}) is waits


def test_the_operators_file_of_endpoints_is_one(tmp_path: Path) -> None:
    ((name, text),) = FILE.findall((GUIDES / "operators.md").read_text())
    (tmp_path / name).write_text(text)
    assert set(endpoints.load(tmp_path / name)) == {"openai", "anthropic", "local"}


@pytest.mark.parametrize(
    "page",
    [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "deploy/compose.yaml"],
    ids=lambda page: page.name,
)
def test_the_commands_exist(page: Path) -> None:
    """Every `hango …` line: its subcommand and its options are the command's."""
    text = page.read_text()
    blocks = SHELL.findall(text) if page.suffix == ".md" else [text]
    for line in (line for block in blocks for line in COMMANDS.findall(block)):
        check_command(line.split())


def check_command(words: list[str]) -> None:
    """Walk down the groups, then look for each option."""
    command = get_command(app)
    while words and words[0] in (inner := getattr(command, "commands", {})):
        command = inner[words.pop(0)]
    assert not hasattr(command, "commands"), f"no such command: {words}"
    known = {name for parameter in command.params for name in parameter.opts}
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"{command.name} has no {word}"


def test_a_wrong_command_is_found() -> None:
    with pytest.raises(AssertionError):
        check_command(["runs", "begin"])
    with pytest.raises(AssertionError):
        check_command(["runs", "start", "clerk", "--colour"])
