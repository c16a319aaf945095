"""`tenter loop preflight`: whether a loop could start here, check by check (D§13). It starts nothing."""

from typing import TYPE_CHECKING

import click

from tenter.cli.masking import Masking, mask_of, masked
from tenter.cli.texts import json_text, one_line

if TYPE_CHECKING:
    from tenter.loop import Finding

LONGEST = 1000
"""Characters of a finding's line."""


def preflight_verb(config: str, check: str | None, *, as_json: bool) -> int:
    """Prints what the checks found; the exit code is 2 when one failed. Raises TenterError for an unknown `check`."""
    from tenter.loop import LoopRequest, run_preflight

    findings = run_preflight(LoopRequest(config=config), only=check)
    failed = sum(one.level == "failed" for one in findings)
    masking = mask_of(config)
    if as_json:
        document = {"ok": not failed, "findings": [_as_json(one) for one in findings]}
        click.echo(json_text(masked(document, masking)))
        return 2 if failed else 0
    for one in findings:
        click.echo(_line(one, masking))
    if failed:
        click.echo(f"{failed} check{'s' if failed > 1 else ''} failed; a loop would not start", err=True)
    return 2 if failed else 0


def _as_json(finding: "Finding") -> dict[str, object]:
    return {"check": finding.check, "level": finding.level, "message": finding.message, "hint": finding.hint}


def _line(finding: "Finding", masking: Masking) -> str:
    hint = f"; {finding.hint}" if finding.hint else ""
    return one_line(f"{finding.check:8}  {finding.level:7}  {masking(finding.message + hint)}", LONGEST)
