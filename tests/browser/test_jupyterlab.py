"""A learner in JupyterLab, in a real browser: a mistake, its name, a hint, and green."""

import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from learner import EXERCISES, Learner
from playwright.sync_api import Browser, Locator, Page, expect

ATTENTION = """%%exercise 3.2
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.mT / {scale}
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
    return weights @ v, weights
"""
PATIENCE = 120_000  # milliseconds: a busy machine starts a kernel slowly


@pytest.fixture
def address(learner: Learner, tmp_path: Path) -> Iterator[str]:
    """JupyterLab in the workspace, with a notebook that asks for two exercises."""
    cells = ["%load_ext lab_check", *(f"%%exercise {i}\n{EXERCISES[i].stub}" for i in ("3.2", "2.1"))]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell.rstrip()) for cell in cells],
        metadata={"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    )
    nbformat.write(notebook, learner.root / "notebooks" / "tried.ipynb")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(8)
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
        f"--port={port}", f"--IdentityProvider.token={token}", "--ServerApp.port_retries=0",
        "--expose-app-in-browser",
    ]  # fmt: skip
    homes = {f"JUPYTER_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    homes |= {"JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "s"), "IPYTHONDIR": str(tmp_path / "i")}
    homes |= {"JUPYTERLAB_WORKSPACES_DIR": str(tmp_path / "w")}
    log = (tmp_path / "log").open("wb")
    server = subprocess.Popen(
        command, cwd=learner.root, env=os.environ | homes, stdout=log, stderr=subprocess.STDOUT
    )
    try:
        root = f"http://127.0.0.1:{port}"
        _wait_for(f"{root}/api/status?token={token}", server)
        yield f"{root}/lab/tree/notebooks/tried.ipynb?token={token}"
    finally:
        server.terminate()
        server.wait()
        log.close()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(PATIENCE // 250):
        try:
            urllib.request.urlopen(address).close()
            return
        except (urllib.error.URLError, ConnectionError):
            assert server.poll() is None, "JupyterLab ended before it answered"
            time.sleep(0.25)
    raise TimeoutError(address)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1200, "height": 1500})
    page.set_default_timeout(PATIENCE)
    yield page
    page.close()


def type_and_run(page: Page, cell: int, code: str) -> None:
    page.locator(".jp-CodeCell").nth(cell).locator(".cm-content").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(code)
    page.keyboard.press("Shift+Enter")


CONTRAST = """card => {
    const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = colour => {
        const part = n => (n /= 255) <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = numbers(colour).map(part);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    let behind = card;
    while (numbers(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
    const [a, b] = [light(getComputedStyle(card).color),
                    light(getComputedStyle(behind).backgroundColor)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
}"""


def look(page: Page, card: Locator, name: str) -> None:
    """Require a readable card in light and dark, and leave pictures of both."""
    for theme in ("Dark", "Light"):
        page.evaluate(
            "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})",
            f"JupyterLab {theme}",
        )
        bright = "true" if theme == "Light" else "false"
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", bright)
        expect(page.locator("#jupyterlab-splash")).to_have_count(0)
        assert card.evaluate(CONTRAST) >= 4.5
        page.screenshot(path=f"{name}-{theme.lower()}.png")


def test_a_mistake_is_named_a_hint_helps_and_the_card_turns_green(
    learner: Learner, address: str, page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    expect.set_options(timeout=PATIENCE)
    page.goto(address)
    exercise = page.locator(".jp-CodeCell").nth(1)
    card = exercise.locator(".lab-card")
    expect(exercise).to_contain_text("def scaled_dot_product_attention")
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible()
    type_and_run(page, 0, "%load_ext lab_check\nimport math, torch")
    expect(page.locator(".jp-CodeCell").first).to_contain_text("[1]")
    type_and_run(page, 1, ATTENTION.format(scale="q.shape[-1]"))
    expect(card).to_contain_text("What happened: You divide the scores by the width of the keys")
    picture = card.locator("figure")
    expect(picture.locator("svg").first).to_be_visible()
    expect(picture.locator("figcaption")).to_contain_text("Marked: ")
    hint = card.get_by_text("Over which axis")
    expect(hint).to_be_hidden()
    card.get_by_text("Give me a hint (1 of 3)").click()
    expect(hint).to_be_visible()
    look(page, card, "wrong")

    # The same hints are open when the cell runs again, and when the notebook is opened again.
    type_and_run(page, 1, ATTENTION.format(scale="(q.shape[-1])"))
    expect(exercise).to_contain_text("[3]")
    expect(hint).to_be_visible()
    page.keyboard.press("ControlOrMeta+s")
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    page.reload()
    expect(hint).to_be_visible()
    expect(page.get_by_text("Error displaying widget")).to_have_count(0)
    page.set_viewport_size({"width": 480, "height": 1500})
    page.screenshot(path="narrow.png")
    page.set_viewport_size({"width": 1200, "height": 1500})

    type_and_run(page, 1, ATTENTION.format(scale="math.sqrt(q.shape[-1])"))
    expect(card).to_contain_text("properties hold, 6 points")
    look(page, card, "right")
    assert "math.sqrt(q.shape[-1])" in learner.file("3.2").read_text()

    page.locator(".jp-CodeCell").nth(2).locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    stub = page.locator(".jp-CodeCell").nth(2).locator(".lab-card")
    expect(stub).to_contain_text("not started")
    expect(stub.get_by_text("Give me a hint (1 of 3)")).to_be_visible()
    type_and_run(page, 2, "%%exercise 2.1\ndef similarity_scores(x):\n    return x @@ x")
    expect(page.locator(".jp-CodeCell").nth(2)).to_contain_text("SyntaxError: invalid syntax")
    page.screenshot(path="syntax.png")
