"""What a verdict says to people and to their tools: one diagnostic for a mistake, and forms in which it is written."""

from __future__ import annotations

from harness.judging.diagnostics.details import details_of
from harness.judging.diagnostics.from_verdict import diagnostic_of
from harness.judging.diagnostics.protocol import Diagnostic, Label
from harness.judging.diagnostics.text import diagnostic_text, text_of

__all__ = ["Diagnostic", "Label", "details_of", "diagnostic_of", "diagnostic_text", "text_of"]
