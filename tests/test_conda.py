"""The conda recipe, as far as it can be checked without conda: it renders, and says what pyproject.toml says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2
import msgspec
import pytest

from _lockstep import __version__

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; make venv installs it")

ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "ci" / "conda" / "meta.yaml"


def _load_file_regex(load_file: str, regex_pattern: str, from_recipe_dir: bool) -> re.Match[str] | None:
    """conda-build's function of this name."""
    assert from_recipe_dir
    return re.search(regex_pattern, (RECIPE.parent / load_file).read_text())


def _rendered() -> dict[str, Any]:
    template = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False).from_string(RECIPE.read_text())
    text = template.render(load_file_regex=_load_file_regex, PYTHON="python")
    return dict(yaml.safe_load(text))


def _project() -> dict[str, Any]:
    return dict(msgspec.toml.decode((ROOT / "pyproject.toml").read_text())["project"])


def test_it_has_the_version_summary_license_and_command_of_the_project() -> None:
    """The version comes from its one place."""
    recipe, project = _rendered(), _project()
    assert recipe["package"] == {"name": project["name"], "version": __version__}
    assert recipe["about"]["summary"] == project["description"]
    assert recipe["about"]["license"] == project["license"]
    assert recipe["build"]["entry_points"] == [f"{name} = {goal}" for name, goal in project["scripts"].items()]
    assert (ROOT / recipe["about"]["license_file"]).exists()
    assert (RECIPE.parent / recipe["source"]["path"]).resolve() == ROOT


def test_it_needs_what_the_project_needs() -> None:
    """The same packages with the same bounds; conda's noarch packages have no markers, so tomli is there for all."""
    recipe, project = _rendered(), _project()
    wanted = {re.sub(r"(?<=\w)(?=[><=])", " ", line.partition(";")[0].strip()) for line in project["dependencies"]}
    upper = ",".join(sorted(project["requires-python"].split(","), reverse=True))
    assert set(recipe["requirements"]["run"]) == wanted | {f"python {upper}", "__linux"}
    backend = msgspec.toml.decode((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {line.replace(">=", " >=") for line in backend} <= set(recipe["requirements"]["host"])


def test_sections_are_those_of_conda_build() -> None:
    """A misspelt section would be passed over in silence."""
    assert set(_rendered()) == {"package", "source", "build", "requirements", "test", "about"}
    assert set(_rendered()["build"]) <= {"number", "noarch", "script", "entry_points"}
    assert set(_rendered()["test"]) <= {"requires", "imports", "commands"}
