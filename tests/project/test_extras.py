"""Every missing extra gives the line that installs it, published or not. Each package is hidden in turn."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import veilnet as vn
from veilnet._core.extras import EXTRAS
from veilnet.cli import run
from veilnet.io.template import house

ROOT = Path(__file__).resolve().parents[2]
NOT_CALLED_SO = {"scikit-learn": "sklearn", "paho-mqtt": "paho"}


def requirements() -> dict[str, list[str]]:
    """Extra -> modules, by the names of their packages in pyproject.toml; not what the project is worked on with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {
        extra: [re.split(r"[<>=!~\[; ]", each)[0] for each in packages]
        for extra, packages in project["optional-dependencies"].items()
    }
    return {
        extra: [NOT_CALLED_SO.get(name, name) for name in names]
        for extra, names in named.items()
        if extra not in ("dev", "docs")
    }


def test_extras_are_those_of_pyproject() -> None:
    assert {extra: sorted(each.modules) for extra, each in EXTRAS.items()} == {
        extra: sorted(names) for extra, names in requirements().items()
    }


def test_dev_has_every_extra() -> None:
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]["dev"]
    own = next(each for each in dev if each.startswith("veilnet["))
    assert set(own.removeprefix("veilnet[").removesuffix("]").split(",")) - {"docs"} == set(EXTRAS)


def hide(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """As if the package were not installed."""
    for name in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)


def imported(module: str) -> Callable[[Path], Any]:
    def use(_: Path) -> Any:
        kept = {name: sys.modules.pop(name) for name in [module] if name in sys.modules}
        try:
            return importlib.import_module(module)
        finally:
            sys.modules.update(kept)

    return use


def called(place: str, *arguments: Any, **options: Any) -> Callable[[Path], Any]:
    module, _, name = place.partition(":")
    return lambda _: getattr(importlib.import_module(module), name)(*arguments, **options)


def table(suffix: str) -> Callable[[Path], Any]:
    return lambda folder: vn.fit(folder / f"t{suffix}", {"a": ["x"]}, ["u"], ["g"])


def estimates(kind: str) -> Callable[[Path], Any]:
    def use(_: Path) -> Any:
        from veilnet.adapters.frames import estimate_frame

        plan = vn.design(house())
        return estimate_frame(vn.Fusion(plan).estimate({}), kind)  # type: ignore[arg-type]

    return use


# (extra, the package that is hidden, what then asks for it)
USES: list[tuple[str, str, Callable[[Path], Any]]] = [
    ("plot", "matplotlib", lambda _: vn.Frontier.plot(SimpleNamespace())),  # type: ignore[arg-type]
    ("tables", "pyarrow", table(".parquet")),
    ("tables", "pyarrow", table(".feather")),
    ("tables", "openpyxl", table(".xlsx")),
    ("tables", "pandas", estimates("pandas")),
    ("sklearn", "sklearn", imported("veilnet.learn")),
    ("sklearn", "sklearn", called("veilnet.auditing.attack.learners:choose_attackers", ["boosting"], False)),
    ("paper", "joblib", called("veilnet.paper.runs:need_extras")),
    ("paper", "threadpoolctl", called("veilnet.paper.runs:need_extras")),
    ("paper", "matplotlib", called("veilnet.paper.runs:need_extras")),
    ("sign", "securesystemslib", imported("veilnet.io.signing")),
    ("sign", "cryptography", imported("veilnet.io.signing")),
    ("cluster", "distributed", called("veilnet.cluster.running:_distributed")),
    ("live", "paho", imported("veilnet.live.connecting")),
    ("live", "cryptography", imported("veilnet.live.keys")),
    ("studio", "uvicorn", called("veilnet.studio.loopback:serve", None, started=print)),
    ("stonesoup", "stonesoup", imported("veilnet.adapters.stone_soup")),
]


@pytest.mark.parametrize(
    ("extra", "package", "use"), USES, ids=[f"{extra}-{hidden}" for extra, hidden, _ in USES]
)
def test_a_missing_package_gives_its_line(
    extra: str, package: str, use: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hide(monkeypatch, package)
    with pytest.raises(vn.MissingExtra) as caught:
        use(tmp_path)
    assert f'pip install "veilnet[{extra}]" (in the folder of its source: pip install ".[{extra}]")' in str(
        caught.value
    )
    assert isinstance(caught.value, ImportError)


def test_every_extra_is_tried() -> None:
    assert {extra for extra, _, _ in USES} == set(EXTRAS)


def test_the_command_says_it_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, "uvicorn")
    monkeypatch.chdir(tmp_path)
    assert run(["studio"]) == 2
    assert 'pip install ".[studio]"' in capsys.readouterr().err


def test_pages_say_it_both_ways() -> None:
    """Whoever reads how to install an extra by its published name also reads how to do it before."""
    pages = [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    for page in [*pages, *sources]:
        text = page.read_text(encoding="utf-8")
        for extras in re.findall(r'pip install "veilnet\[([\w,{}]+)\]"', text):
            assert f'pip install ".[{extras}]"' in text, f"{page}: {extras}"
