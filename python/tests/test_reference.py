"""The Python reference of the documentation site has everything that the package offers."""

import importlib
import pathlib
import re
import subprocess
import sys

import pytest

import extensor as ex

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(ex.__file__).parent


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    directory = tmp_path_factory.mktemp("reference")
    command = [SOURCE / "python/write_reference.py", PACKAGE, SOURCE / "docs/ops.md", directory]
    subprocess.run([sys.executable, *map(str, command)], check=True)
    return {path.stem: path.read_text("utf-8") for path in directory.glob("*.md")}


def described(page):
    """The names with a signature or a heading."""
    return set(re.findall(r"^(?:#+ )?(\w+)", page, re.M))


@pytest.mark.parametrize(
    "module", sorted(p.stem for p in PACKAGE.glob("*.py") if not p.stem.startswith("_"))
)
def test_every_name_of_a_module(pages, module):
    names = importlib.import_module(f"extensor.{module}").__all__
    assert set(names) - described(pages[module]) == set()


def test_every_function_and_class(pages):
    kinds = ("Function", "builtin_function_or_method", "type")
    names = {n for n, v in vars(ex).items() if not n.startswith("_") and type(v).__name__ in kinds}
    assert len(names) > 600
    assert names - described(pages["functions"] + pages["classes"] + pages["autograd"]) == set()


def test_members_of_tensor(pages):
    members = {n for n in vars(ex.Tensor) if not n.startswith("_")}
    page = pages["classes"]
    tensor = page[page.index("## Tensor") : page.index("\n## ", page.index("## Tensor") + 5)]
    assert members - described(tensor) - set(re.findall(r"`(\w+)`", tensor)) == set()
