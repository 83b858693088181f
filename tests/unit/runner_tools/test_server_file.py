"""The operator's file of tool servers."""

import sys
from pathlib import Path

import pytest
from hango_runner.agent.tools import Effect
from hango_runner.tools.server_file import ServerConfig, ServerFileInvalid, Transport, load

EXAMPLE = Path(__file__).parents[3] / "examples" / "bank" / "tools.toml"


def written(folder: Path, text: str) -> Path:
    path = folder / "tools.toml"
    path.write_text(text)
    return path


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(ServerFileInvalid) as caught:
        load(written(folder, text))
    return caught.value.faults


def test_the_example_is_valid() -> None:
    (bank,) = load(EXAMPLE)
    assert (bank.name, bank.transport, bank.folder) == ("bank", Transport.MCP_STDIO, EXAMPLE.parent)
    assert bank.argv() == (sys.executable, "bank.py")
    assert bank.effect_of("balance") is Effect.READ
    assert bank.effect_of("no such tool") is Effect.ONCE
    assert bank.timeout == 30
    assert bank.serves("any")


def test_left_out_means_every_tenant_and_no_variable(tmp_path: Path) -> None:
    (config,) = load(written(tmp_path, '[x]\ntransport = "mcp-stdio"\ncommand = ["a"]\n'))
    assert config.serves("demo")
    assert config.env == {}
    assert config.timeout is None


def test_tenants_are_exact(tmp_path: Path) -> None:
    text = '[x]\ntransport = "grpc"\naddress = "h:1"\ntenants = ["demo"]\n'
    (config,) = load(written(tmp_path, text))
    assert config.serves("demo")
    assert not config.serves("demo-b")


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        """
        [a__b]
        transport = "telnet"
        timeout = 5
        [b]
        transport = "mcp-stdio"
        command = "python bank.py"
        url = "http://x"
        tenant = ["x"]
        [c]
        transport = "mcp-http"
        tenants = ["Demo"]
        env = { "A-B" = "x", B = 1 }
        effects = { pay = "sometimes", get = "transactional" }
        """,
    )
    assert [fault.partition(": ")[0] for fault in found] == [
        "[a__b] the name must be 1 to 32 of a-z, 0-9, _ and -, without a double underscore and "
        "not ending in an underscore",
        "[a__b] transport",
        "[a__b] timeout",
        "[b] tenant",
        "[b] url",
        "[b] command",
        "[c] url",
        "[c] env",
        "[c] tenants",
        "[c] env.A-B",
        "[c] env.B",
        "[c] effects.pay",
        "[c] effects.get",
    ]


@pytest.mark.parametrize("timeout", ['"0s"', '"soon"', "true", '""'])
def test_a_timeout_is_a_duration(tmp_path: Path, timeout: str) -> None:
    text = f'[x]\ntransport = "grpc"\naddress = "h:1"\ntimeout = {timeout}\n'
    assert faults(tmp_path, text) == [
        "[x] timeout: must be a duration above 0 in quotes, such as 30s"
    ]


def test_a_file_that_is_not_there_or_not_toml(tmp_path: Path) -> None:
    assert "cannot be read" in faults(tmp_path, "= x")[0]
    with pytest.raises(ServerFileInvalid, match="cannot be read"):
        load(tmp_path / "nowhere.toml")
    assert faults(tmp_path, 'x = "y"') == ["[x] must be a section"]


def test_env_is_not_shown(tmp_path: Path) -> None:
    config = ServerConfig("x", Transport.MCP_STDIO, tmp_path, ("a",), env={"TOKEN": "s3cret"})
    assert "s3cret" not in repr(config)


def test_a_program_beside_the_file_comes_first(tmp_path: Path) -> None:
    (tmp_path / "sh").write_text("")
    config = ServerConfig("x", Transport.MCP_STDIO, tmp_path, ("sh", "-c"))
    assert config.argv() == (str(tmp_path / "sh"), "-c")
    elsewhere = ServerConfig("x", Transport.MCP_STDIO, tmp_path / "none", ("sh",))
    assert elsewhere.argv()[0].endswith("/sh")
    with pytest.raises(FileNotFoundError):
        ServerConfig("x", Transport.MCP_STDIO, tmp_path, ("no-such-program-x",)).argv()


def test_headers_and_limits_by_tool(tmp_path: Path) -> None:
    text = """
        [x]
        transport = "mcp-http"
        url = "http://h/mcp"
        headers = { Authorization = "Bearer s3cret" }
        timeout = "30s"
        timeouts = { ship = "5m" }
    """
    (config,) = load(written(tmp_path, text))
    assert config.headers == {"Authorization": "Bearer s3cret"}
    assert "s3cret" not in repr(config)
    assert (config.timeout_of("ship"), config.timeout_of("other")) == (300, 30)


def test_faults_of_headers_and_limits(tmp_path: Path) -> None:
    text = """
        [x]
        transport = "mcp-stdio"
        command = ["a"]
        headers = { "a b" = "x", c = "line\\nbreak" }
        timeouts = { ship = "soon", other = 5 }
        [y]
        transport = "grpc"
        address = "h:1"
        headers = "x"
        timeouts = "5s"
    """
    assert [fault.partition(": ")[0] for fault in faults(tmp_path, text)] == [
        "[x] headers.a b",
        "[x] headers.c",
        "[x] headers",
        "[x] timeouts.ship",
        "[x] timeouts.other",
        "[y] headers",
        "[y] timeouts",
    ]
