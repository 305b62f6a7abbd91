"""What the repository's own files promise each other."""

import json
import re
import tomllib

from packaging.requirements import Requirement

from tests.programs import ROOT


def read(name):
    return (ROOT / name).read_text()


def declared():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    named = {Requirement(line).name for group in groups for line in group}
    return named - {"django-sagents"}


def test_the_python_lock_pins_each_package_by_hash_and_names_no_address():
    lock = read("requirements.lock")
    pins = re.findall(
        r"^([a-z0-9.-]+)(?:\[[a-z0-9, -]+\])?==(?:.*\\\n    --hash=sha256:[0-9a-f]{64})", lock, re.M
    )
    assert len(pins) == len(re.findall(r"^[a-z]", lock, re.M))
    assert declared() <= {pin.lower() for pin in pins}
    assert "://" not in lock
    assert "--index" not in lock
    assert "--find-links" not in lock


def test_the_npm_lock_pins_each_package_by_hash_and_names_no_address():
    packages = json.loads(read("package-lock.json"))["packages"]
    del packages[""]
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package for package in packages.values())


def test_npm_parts_have_exact_versions():
    wanted = json.loads(read("package.json"))["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())


def test_each_dependency_says_why():
    explained = set(re.findall(r"^\| ([@a-z0-9/-]+)", read("docs/dependencies.md"), re.M))
    npm = set(json.loads(read("package.json"))["devDependencies"])
    assert (declared() | npm) - explained == set()
