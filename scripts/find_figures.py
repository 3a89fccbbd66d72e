"""Finds what looks like a measurement in Markdown: a number with a unit, a ratio, a rate, a count.

Pure. It would rather report a number too many than let one through: what is no measurement goes
into a command, or gets an entry with its reason in ALLOWED of `check_figures.py`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["Figure", "fenced", "figures"]


class Figure(NamedTuple):
    """A figure as it stands in the text, and the number of its line, from 1."""

    line: int
    text: str


def figures(markdown: str, *, allowed: Iterable[str] = ()) -> list[Figure]:
    """Return every figure outside commands, link targets and comments, in the order of the text.

    `allowed` are regular expressions of phrases that are no figures. Inside commands and inline
    code only what can be nothing but a result is found: `--timeout 60` is not, `37/37` is.
    """
    prose, code = _split(markdown)
    for pattern in (*NO_FIGURE, *allowed):
        prose = _blanked(pattern, prose)
    spans = [match.span() for pattern in FIGURE for match in re.finditer(pattern, prose)]
    spans += [match.span() for pattern in RESULT for match in re.finditer(pattern, code)]
    return [
        Figure(markdown.count("\n", 0, start) + 1, " ".join(markdown[start:end].split()))
        for start, end in _merged(spans)
    ]


def fenced(markdown: str) -> Iterator[tuple[str, bool, str]]:
    """Yield (line with its break, whether it lies in a fence or is one, the fence's language)."""
    fence = language = ""
    for line in markdown.splitlines(keepends=True):
        mark = re.match(r"[ \t>]*(`{3,}|~{3,})([^`\n]*)$", line)
        if fence:
            yield line, True, language
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark:
            fence = mark[1]
            language = (mark[2].split() or [""])[0].lower()
            yield line, True, language
        else:
            yield line, False, ""


NUMBER = r"(?<![\w.#/-])(?:\d[\d,]*(?:\.\d+)?|\.\d+)[kM]?"
GAP = r"[ \t\xa0\u202f]*(?:\n[ \t>]*)?"
RANGE = rf"{NUMBER}(?:{GAP}(?:-|\u2013|to|and|or|\.\.+){GAP}\d[\d,]*(?:\.\d+)?)?"
TIME = (
    r"(?:ns|us|\u00b5s|\u03bcs|ms|s|secs?|seconds?|milliseconds?|microseconds?|mins?|minutes?|h|hours?"
    r"|days?)"
)
THING = (
    r"(?i:trials?|disagreements?|voids?|runs|cells?|samples?|crash(?:es)?|kills?|attempts?|effects?"
    r"|duplicates?|recover(?:y|ies)|failures?|errors?|passe[sd]|tests?|mutants?|records?)"
)
WORD = (
    r"(?i:zero|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty"
    r"|sixty|seventy|eighty|ninety|hundreds?|thousands?)"
)
BETWEEN = rf"(?:{GAP}[A-Za-z+-]+)??"

RESULT = (
    rf"{NUMBER}{GAP}(?i:trials?|disagreements?|voids?)\b",
    rf"{NUMBER}(?:{GAP}/{GAP}\d[\d,]*)+(?!\w|[/.]\w)",
    rf"{NUMBER}{GAP}(?:trials)?/{GAP}(?:s|sec|second|min|minute)\b",
    rf"{NUMBER}[x\u00d7](?![\w\u00d7])",
)
"""What is a result even inside inline code and commands."""

FIGURE = (
    *RESULT,
    rf"{RANGE}{GAP}{TIME}\b",
    rf"{RANGE}{GAP}(?:%|\u2030|percent\b|per{GAP}cent\b)",
    rf"{RANGE}{GAP}(?:[kKMGT]i?B|bytes?|[kMG]?Hz)\b",
    rf"{NUMBER}{GAP}(?:out{GAP})?of{GAP}(?:the{GAP})?\d[\d,]*",
    rf"{RANGE}{GAP}[x\u00d7](?!\w|{GAP}\d)",
    rf"{RANGE}{GAP}(?:times|-?fold)\b",
    rf"{NUMBER}{BETWEEN}{GAP}{THING}\b",
    rf"{NUMBER}{BETWEEN}{GAP}(?:per|an?|each|every){GAP}(?:s|sec|second|min|minute|hour|trial)\b",
    rf"\b[kn]{GAP}[=~\u2248]{GAP}\d+",
    rf"\b[pP]\d\d(?:\.\d+)?{GAP}(?:of|is|was|=|:|<|\u2264)?{GAP}\d[\d,.]*",
    r"(?<![\w.#/-])\d*\.\d+(?!\w|\.\d)",
    r"(?<![\w.#/-])\d{1,3}(?:,\d{3})+(?!\w)",
    r"(?m)(?<=\|)[ \t]*[-+~<>=\u2264\u2265]*[ \t]*\d[\d,.]*[ \t]*(?=\|)",
    rf"\b{WORD}{GAP}(?i:trials|disagreements|voids?|seconds|milliseconds|minutes|hours|per{GAP}?cent)\b",
    rf"\b(?i:twice|half|thrice){GAP}as\b",
)
"""What is a figure in prose."""

PRODUCT = (
    r"(?i:c?python|linux|kernel|debian|ubuntu|apache|langgraph|sqlite|postgresql|node|uv|pip|versions?"
    r"|before|pre|v)"
)
NO_FIGURE = (
    rf"\b{PRODUCT}[ -]?(?:>=|<=|==|~=|<|>|\u2265)?{GAP}\d+(?:\.\d+)*\+?",
    r"(?m)^[ \t>]*#+[ \t]+\d+(?:\.|(?:\.\d+)+\.?)(?=[ \t]+[A-Z])",
)
"""Versions, and the numbers of headings."""

HIDDEN = (
    r"(?s)<!--.*?-->",
    r"(?<=\])\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*",
    r"(?m)^[ \t]*\[[^\]\n]+\]:[ \t]*\S+",
    r"<?\bhttps?://[^\s>)]+>?",
    r"</?[A-Za-z][^<>]*>",
    r"\*+|__|~~|(?<!\w)_|_(?!\w)",
    r"&nbsp;|&#160;|&thinsp;",
)
"""What a reader of the page does not see as text."""

COMMENT = {
    **dict.fromkeys(("sh", "bash", "shell", "zsh", "console"), "#"),
    **dict.fromkeys(("python", "py", "toml", "yaml", "make", "makefile"), "#"),
    **dict.fromkeys(("js", "javascript", "ts", "typescript"), "//"),
}
"""Language of a fence that holds commands or code -> what begins a comment in it."""

INLINE_CODE = r"(?s)(?<!`)(`+)(?!`)((?:(?!\n[ \t]*\n).)+?)(?<!`)\1(?!`)"


def _split(markdown: str) -> tuple[str, str]:
    """The text as prose and as code, each with the other blanked, so that positions stay."""
    prose, code = [], []
    for line, inside, language in fenced(markdown):
        command = _command_part(line, language) if inside else ""
        code.append(command + _spaces(line[len(command) :]))
        prose.append(_spaces(command) + line[len(command) :])
    text, commands = "".join(prose), "".join(code)
    for match in list(re.finditer(INLINE_CODE, text)):
        start, end = match.span()
        commands = commands[:start] + text[start:end].replace("`", " ") + commands[end:]
        text = text[:start] + _spaces(text[start:end]) + text[end:]
    for pattern in HIDDEN:
        text = _blanked(pattern, text)
    return text, commands


def _command_part(line: str, language: str) -> str:
    """How much of a fenced line is a command or code: a comment and a program's output are not."""
    if line.lstrip(" \t>").startswith(("```", "~~~")):
        return line
    if language not in COMMENT:
        return ""
    if language == "console" and not line.lstrip().startswith("$ "):
        return ""
    return re.split(rf"(?:^|(?<=\s)){COMMENT[language]}", line, maxsplit=1)[0]


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping spans as one, in order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _blanked(pattern: str, text: str) -> str:
    return re.sub(pattern, lambda match: _spaces(match[0]), text)


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
