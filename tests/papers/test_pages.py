"""The papers' pages: their Python prints what they show, and each paper's package points to its page."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.test_docs import DOCS, PAPERS, outputs, pages, rewritten

#: The page of each package.
PACKAGES = {
    "topk_paint": "topk-paint.md",
    "sliding_windows": "sliding-windows.md",
    "thresholding": "thresholding.md",
    "be_star_tree": "be-star-tree.md",
    "network": "network.md",
}


def test_every_paper_has_a_page() -> None:
    assert {f"papers/{page}" for page in ("index.md", *PACKAGES.values())} == set(PAPERS)
    assert {page for page in pages() if page.startswith("papers/")} == set(PAPERS)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_cites_its_paper_and_points_to_its_page(package: str) -> None:
    docstring = import_module(f"tocsin.papers.{package}").__doc__ or ""
    assert f"`docs/papers/{PACKAGES[package]}`" in docstring
    venue = re.search(r"(SIGMOD|ICDE) \d{4}", docstring)
    assert venue is not None
    assert venue[0] in (DOCS / "papers" / PACKAGES[package]).read_text().split("**Question.**")[0]


@pytest.mark.parametrize("page", PAPERS)
def test_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = list(outputs(page))
    assert found
    if os.environ.get("TOCSIN_WRITE_OUTPUT"):
        path = DOCS / page
        path.write_text(rewritten(path.read_text(), found))
        return
    for _, shown, printed in found:
        assert printed == shown
