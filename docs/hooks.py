"""What `mkdocs build` adds to the pages of this folder: references made from the code, and pages that stand elsewhere."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
OUTSIDE = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def places() -> dict[str, str]:
    """Return {file of the repository: page of the site} of pages outside this folder."""
    pages = sorted((ROOT / "benchmarks").glob("*.md"))
    return OUTSIDE | {f"benchmarks/{p.name}": f"benchmarks/{p.name}" for p in pages}


def moved(text: str, source: str, page: str) -> str:
    """Return Markdown whose links lead to pages of the site; a link to a file that is none is its words alone. `source`: the
    file of the repository that it is from; `page`: where it stands in the site."""
    known = places()

    def link(found: re.Match) -> str:
        target = os.path.normpath(Path(source).parent / found[3])
        if target.startswith("docs/"):
            there = target.removeprefix("docs/")
        elif target in known:
            there = known[target]
        else:
            return found[2]
        where = os.path.relpath(there, Path(page).parent)
        return f"{found[1]}[{found[2]}]({where}{found[4] or ''})"

    return LINK.sub(link, text)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that stand elsewhere, the commands and the public names."""
    for source, page in places().items():
        files.append(File.generated(config, page, content=moved((ROOT / source).read_text(), source, page)))
    for page, text in {**commands(), **names()}.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links of the pages of this folder lead to pages of the site."""
    inside = page.file.src_uri not in {*places().values()}
    return moved(markdown, f"docs/{page.file.src_uri}", page.file.src_uri) if inside else markdown


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Name the search of the theme for those who do not see it."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def on_config(config: Any) -> Any:
    """Put the pages that are made here into the navigation."""
    benchmarks = [page for page in places().values() if page.startswith("benchmarks/")]
    made = {"Commands": sorted(commands()), "Python": sorted(names()), "Benchmarks": benchmarks}
    for entry in config["nav"]:
        for title, pages in entry.items():
            pages.extend(made.get(title, []))
    return config


def commands() -> dict[str, str]:
    """Return {page: text} of the commands, a page for each, a group with its own."""
    from jobwise.cli.main import app

    pages = {}
    for name, command in sorted(app.commands.items()):
        parts = getattr(command, "commands", None)
        text = [f"# jobwise {name}", "", command.help or ""]
        for own, part in sorted(parts.items()) if parts else [("", command)]:
            if own:
                text += ["", f"## jobwise {name} {own}", "", part.help or ""]
            text += ["", *_parameters(part)]
        pages[f"commands/{name}.md"] = "\n".join(text) + "\n"
    return pages


def _parameters(command: Any) -> list[str]:
    """A table of what a command takes."""
    rows = ["| argument or option | | meaning |", "|---|---|---|"]
    for p in command.params:
        words = (p.metavar or p.name).upper() if p.param_type_name == "argument" else ", ".join(p.opts + p.secondary_opts)
        usual = f" Default: {p.default}." if p.default not in (None, False, "", [], ()) and not callable(p.default) else ""
        text = ((getattr(p, "help", "") or "") + usual).replace("|", "\\|").replace("[", "\\[").replace("\n", " ")
        rows.append(f"| `{words}` | {'needed' if p.required else ''} | {text} |".replace("<", "&lt;"))
    return rows


def names() -> dict[str, str]:
    """Return {page: text} of the public names, by the package that they are in."""
    import jobwise

    pages: dict[str, list[str]] = {}
    for name in jobwise.__all__:
        where, called = jobwise._WHERE[name], jobwise._CALLED.get(name, name)
        page = pages.setdefault(f"python/{where.split('.')[0]}.md", [f"# jobwise: {where.split('.')[0]}", ""])
        own = f"`jobwise.{name}`" + (f", which is `{called}` of `jobwise.{where}`" if called != name else "")
        page += [f"## {name}", "", own, "", f"::: jobwise.{where}.{called}", ""]
    return {page: "\n".join(text) for page, text in pages.items()}
