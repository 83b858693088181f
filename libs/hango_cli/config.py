"""A service's settings, as its own code reads them."""

from importlib import import_module

from hango_platform.settings import ServiceSettings
from pydantic import SecretStr, ValidationError


def problems(service: str) -> list[tuple[str, str]]:
    """Each wrong variable, and what is wrong with it. Values are never shown."""
    kind = _settings(service)
    try:
        kind()
    except ValidationError as error:
        return [
            (_variable(str(fault["loc"][0])) if fault["loc"] else service, fault["msg"])
            for fault in error.errors(include_input=False, include_url=False)
        ]
    return []


def values(service: str) -> list[tuple[str, str]]:
    """Each variable and the value that holds; secrets are hidden. Raises ValidationError."""
    found = _settings(service)()
    shown = found.model_dump(mode="json")
    return [
        (
            _variable(name),
            "**********" if isinstance(getattr(found, name), SecretStr) else str(shown[name]),
        )
        for name in type(found).model_fields
    ]


def _settings(service: str) -> type[ServiceSettings]:
    module = import_module(f"hango_{service}.settings")
    return next(
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, ServiceSettings)
        and kind.__module__ == module.__name__
    )


def _variable(field: str) -> str:
    return f"HANGO_{field.upper()}"
