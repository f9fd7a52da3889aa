"""Manifests and compose file: whole YAML, only settings that exist, and nothing that runs as root."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from pipeline.delivery.secret_store import ENVIRONMENT_VARIABLE
from pipeline.settings import Settings
from pipeline.topics import LANES

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "ops" / "kubernetes" / "base"
FILES = sorted(
    [ROOT / "docker-compose.yml", *ROOT.glob("ops/docker/*.yml"), *ROOT.glob("ops/kubernetes/*/*.yaml")]
)


def documents(path: Path) -> list[Any]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def objects() -> Iterator[dict[str, Any]]:
    for name in yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]:
        yield from documents(BASE / name)


def pods() -> Iterator[dict[str, Any]]:
    for each in objects():
        if each["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield each["spec"]["template"]["spec"]


def known(name: str) -> bool:
    """Whether the settings have a variable of this name."""
    if name == ENVIRONMENT_VARIABLE:
        return True
    model: type[BaseModel] = Settings
    *sections, last = name.removeprefix("TALLYSTREAM_").lower().split("__")
    for section in sections:
        found = model.model_fields.get(section)
        if (
            found is None
            or not isinstance(found.annotation, type)
            or not issubclass(found.annotation, BaseModel)
        ):
            return False
        model = found.annotation
    return last in model.model_fields


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_variable_is_one_of_the_settings(path: Path) -> None:
    assert documents(path)
    names = set(re.findall(r"\bTALLYSTREAM_[A-Z_]+\b", path.read_text()))
    assert {name for name in names if not known(name)} == set()


def test_every_file_of_the_base_is_applied() -> None:
    listed = set(yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"])
    assert listed == {path.name for path in BASE.glob("*.yaml")} - {"kustomization.yaml"}


def test_no_pod_runs_as_root_or_writes_where_it_need_not() -> None:
    found = list(pods())
    assert len(found) == 6
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"]
            assert not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert {volume["name"] for volume in pod["volumes"]} <= mounted


def test_workers_scale_on_every_lane_and_never_beyond_the_shards() -> None:
    every = list(objects())
    scaled = next(each for each in every if each["kind"] == "ScaledObject")["spec"]
    assert tuple(trigger["metadata"]["topic"] for trigger in scaled["triggers"]) == LANES
    told = next(each for each in every if each["kind"] == "ConfigMap")["data"]
    assert scaled["maxReplicaCount"] == int(told["TALLYSTREAM_SHARDS"])


def test_containers_of_compose_are_hardened() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name, service in services.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert "mem_limit" in service or name == "topics", name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
