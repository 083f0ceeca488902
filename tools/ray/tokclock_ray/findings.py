"""What `tokclock doctor` found on each node, as lines for a person."""

import json
from dataclasses import dataclass, field


@dataclass
class Finding:
    """One thing that was looked at."""

    title: str
    state: str
    value: str
    advice: str | None


@dataclass
class Findings:
    """One node's answer, or why there is none."""

    host: str
    version: str = "?"
    cpus: int | None = None
    findings: list[Finding] = field(default_factory=list)
    trouble: str | None = None
    report: dict | None = None

    def of_state(self, state: str) -> list[Finding]:
        """Those of one state: ok, note or warn."""
        return [one for one in self.findings if one.state == state]


def read(host: str, code: int, out: str, err: str) -> Findings:
    """Takes the JSON report apart; anything else is trouble, said in a line."""
    if code != 0:
        said = (err.strip().splitlines() or [f"exit code {code}"])[-1]
        return Findings(host, trouble=said)
    try:
        report = json.loads(out)
        found = [
            Finding(one["title"], one["state"], one["value"], one.get("advice"))
            for one in report["findings"]
        ]
        return Findings(
            host,
            report["version"],
            report["host"].get("cpus_online"),
            found,
            report=report,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return Findings(host, trouble=f"a report that is not understood: {error!r}")


def warnings(all_found: list[Findings]) -> list[str]:
    """A line for each node that warns, before a load."""
    lines = []
    for found in all_found:
        if found.trouble:
            lines.append(f"{found.host}: doctor: {found.trouble}")
        elif warned := found.of_state("warn"):
            titles = ", ".join(one.title for one in warned)
            lines.append(f"{found.host}: doctor warns of {titles}")
    return lines


def table(all_found: list[Findings]) -> str:
    """A row for each node, then what each warning says and advises."""
    head = ("host", "version", "CPUs", "ok", "notes", "warnings")
    rows = [head]
    for found in all_found:
        if found.trouble:
            rows.append((found.host, "-", "-", "-", "-", found.trouble))
            continue
        warned = ", ".join(one.title for one in found.of_state("warn")) or "none"
        count = [str(len(found.of_state(state))) for state in ("ok", "note")]
        rows.append((found.host, found.version, str(found.cpus), *count, warned))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in rows
    ]
    for found in all_found:
        for one in found.of_state("warn"):
            lines.append(f"\n{found.host}: {one.title}: {one.value}")
            if one.advice:
                lines.append(f"  {one.advice}")
    return "\n".join(lines)
